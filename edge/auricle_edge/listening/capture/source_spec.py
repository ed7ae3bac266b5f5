"""A source as it is written in settings: `kind:target?option=value`."""

from __future__ import annotations

import os
import re
import shutil
import stat
import sys
from importlib.util import find_spec
from pathlib import Path
from typing import Literal
from urllib.parse import parse_qsl

import msgspec

from auricle.errors import DataError, SettingsError, nearest
from auricle.settings import from_mapping
from auricle_edge.listening.capture.settings import CaptureSettings

Kind = Literal["mic", "alsa", "arecord", "file", "folder", "fifo"]
_KINDS = Kind.__args__  # type: ignore[attr-defined]
_BY_INDEX = re.compile(r"\d+|(plug)?hw(:\d.*|:CARD=\d+(,.*)?)|CARD=\d+(,.*)?")
_STABLE = re.compile(r"CARD=[A-Za-z0-9_-]+(,DEV=\d+)?|usb=[0-9A-Fa-f]{4}:[0-9A-Fa-f]{4}(,DEV=\d+)?")


class _Options(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """What may follow the question mark of a recording."""

    pace: Literal["real", "fast"] = "real"
    loop: Literal["0", "1"] = "0"


class Source(msgspec.Struct, frozen=True, kw_only=True):
    """What the child is told, as JSON."""

    kind: Kind
    target: str
    fast: bool = False
    """A recording that is read as fast as the listener takes it."""
    loop: bool = False
    rate: int | None
    channels: int | None
    block: float

    @property
    def recorded(self) -> bool:
        """It has an end, and loses nothing while the child is restarted."""
        return self.kind in ("file", "folder")


def parse_source(settings: CaptureSettings) -> Source:
    """Read `CaptureSettings.source`.

    Raises
    ------
    SettingsError
        No such source, a device by its index, or an option that does not exist.
    """
    kind, _, target = settings.source.partition(":")
    if kind not in _KINDS:
        raise SettingsError(f'There is no source "{kind}": {nearest(kind, _KINDS)}')
    options = _Options()
    if kind in ("file", "folder"):
        target, _, query = target.partition("?")
        options = from_mapping(_Options, dict(parse_qsl(query, keep_blank_values=True)), f"source {settings.source}")
    if kind in ("file", "folder", "fifo") and not target:
        raise SettingsError(f"source = {kind}:PATH needs the path.")
    if kind in ("mic", "alsa", "arecord") and _BY_INDEX.fullmatch(target):
        raise SettingsError(
            f"source {settings.source} names a device by its index, which changes from start to start: use its name or "
            "its card id, which `auricle edge devices` lists."
        )
    if kind == "alsa" and not _STABLE.fullmatch(target):
        raise SettingsError(f"source {settings.source}: write alsa:CARD=ID, alsa:CARD=ID,DEV=0 or alsa:usb=0d8c:0014.")
    return Source(
        kind=kind,  # type: ignore[arg-type]
        target=target,
        fast=options.pace == "fast",
        loop=options.loop == "1",
        rate=settings.rate,
        channels=settings.channels,
        block=settings.block,
    )


def check_source(source: Source) -> None:
    """Refuse what a restart cannot mend: a package or program that is not there, a recording that does not exist.

    A FIFO that does not exist is made, readable for this user only.

    Raises
    ------
    SettingsError
        sounddevice, soundfile or arecord is missing.
    DataError
        The recording, folder or FIFO is not one.
    """
    if source.kind in ("alsa", "arecord") and not sys.platform.startswith("linux"):
        raise SettingsError(
            f'The source {source.kind} is for Linux: take "mic", or mic:NAME of a microphone in `auricle edge devices`.'
        )
    if source.kind in ("mic", "alsa") and find_spec("sounddevice") is None:
        raise SettingsError('A microphone needs sounddevice: pip install "auricle[mic]", or use source = "arecord".')
    if source.kind in ("mic", "alsa", "arecord") and find_spec("soxr") is None:
        raise SettingsError('A microphone needs soxr: pip install "auricle[mic]".')
    if source.kind == "arecord" and shutil.which("arecord") is None:
        raise SettingsError("arecord is not installed: apt install alsa-utils.")
    if source.recorded and find_spec("soundfile") is None:
        raise SettingsError('A recording as a source needs soundfile: pip install "auricle[edge]".')
    path = Path(source.target)
    if source.kind == "file" and not path.is_file():
        raise DataError(f"{path} is not a file: give source = file:PATH a wav or FLAC file.")
    if source.kind == "folder" and not path.is_dir():
        raise DataError(f"{path} is not a folder: give source = folder:PATH one with wav or FLAC files.")
    if source.kind == "fifo":
        _make_fifo(path)


def _make_fifo(path: Path) -> None:
    try:
        if not path.exists():
            os.mkfifo(path, 0o600)
        found = path.stat().st_mode
    except OSError as error:
        raise DataError(f"{path} cannot be made a FIFO ({error.strerror}).") from error
    if not stat.S_ISFIFO(found):
        raise DataError(f"{path} is not a FIFO: remove it, and it will be made, or use mkfifo.")
