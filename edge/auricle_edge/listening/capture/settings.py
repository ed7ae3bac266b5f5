"""What the table `[capture]` of a device's settings may say, and the source that it names."""

from __future__ import annotations

import os
import re
import shutil
import stat
import sys
from importlib.util import find_spec
from pathlib import Path
from typing import Annotated, Literal
from urllib.parse import parse_qsl

import msgspec

from auricle.errors import DataError, SettingsError, extra_command, nearest
from auricle.settings import from_mapping

Seconds = Annotated[float, msgspec.Meta(ge=0.5, le=3600)]


class CaptureSettings(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """Where the sound comes from, and when it counts as gone."""

    source: str = "mic"
    """`mic`, `mic:NAME`, `alsa:CARD=ID`, `alsa:usb=VVVV:PPPP`, `arecord:PCM`, `file:`, `folder:` or `fifo:PATH`."""
    rate: Annotated[int, msgspec.Meta(ge=4000, le=192_000)] | None = None
    """Hz at which the device is opened first; None takes the device's own. A FIFO's rate [16,000]."""
    channels: Annotated[int, msgspec.Meta(ge=1, le=32)] | None = None
    """How many are opened; None takes two or one, or what an array has. A FIFO's channels [1]."""
    channel: Annotated[int, msgspec.Meta(ge=0, le=31)] | None = None
    """Number of the one to listen to, from 0; None: the mean of two, the first of more (`channels.Downmix`)."""
    reference: Annotated[int, msgspec.Meta(ge=0, le=31)] | None = None
    """Number of the channel on which the card gives back what its loudspeaker plays: its echo is taken out."""
    high_pass: Annotated[float, msgspec.Meta(ge=0, le=200)] = 20.0
    """Hz below which sound is taken out, an offset with it; 0 takes out nothing. 80 also helps against hum."""
    block: Annotated[float, msgspec.Meta(ge=0.01, le=0.5)] = 0.05
    """Seconds of sound in a block."""
    open_within: Seconds = 3.0
    """Seconds within which a started child must give its first sound; doubled, up to a minute, while it does not."""
    stall_after: Seconds = 1.5
    """Seconds without sound after which the child is restarted."""
    silence_after: Annotated[float, msgspec.Meta(ge=0, le=3600)] = 3.0
    """Seconds of nothing but zeros, or of a repeated block, after which the child is restarted; 0 never."""
    mute_switch: str = ""
    """File that mutes while it exists and does not say 0, or `gpio:CHIP:LINE`; `gpio:CHIP:LINE:low` is active low."""

    @property
    def microphone(self) -> int | None:
        """Number of the channel to listen to: `channel`, or beside a reference the first other one."""
        if self.channel is not None or self.reference is None:
            return self.channel
        return int(self.reference == 0)


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
    least: int = 1
    """Channels that have to be opened for the chosen one to be among them."""
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
        No such source, a device by its index, a channel that is not among the channels, or an option that does not
        exist.
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
        least=_least_channels(settings, settings.channels or (1 if kind == "fifo" else None)),
        block=settings.block,
    )


def _least_channels(settings: CaptureSettings, most: int | None) -> int:
    """How many channels have to be opened; SettingsError where the source has `most`, which are fewer."""
    if settings.reference is not None and settings.reference == settings.channel:
        raise SettingsError(
            f"reference = {settings.reference} is the channel that is listened to: write the number of the one on "
            "which the card gives back what it plays."
        )
    least = 1
    for name, channel in (("channel", settings.channel), ("reference", settings.reference)):
        if channel is not None and most is not None and channel >= most:
            has = "channel 0 alone" if most == 1 else f"channels 0 to {most - 1}"
            raise SettingsError(
                f"{name} = {channel} is not one of the source's: channels = {most} has {has}. Write the number "
                "of channels that it really has as channels in [capture]."
            )
        least = max(least, 1 if channel is None else channel + 1)
    least = max(least, 1 if settings.microphone is None else settings.microphone + 1)
    if most is not None and least > most:
        raise SettingsError(f"reference = {settings.reference} leaves no channel to listen to: channels = {most}.")
    return least


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
        raise SettingsError(f'A microphone needs sounddevice: {extra_command("mic")}, or use source = "arecord".')
    if source.kind in ("mic", "alsa", "arecord") and find_spec("soxr") is None:
        raise SettingsError(f"A microphone needs soxr: {extra_command('mic')}.")
    if source.kind == "arecord" and shutil.which("arecord") is None:
        raise SettingsError("arecord is not installed: apt install alsa-utils.")
    if source.recorded and find_spec("soundfile") is None:
        raise SettingsError(f"A recording as a source needs soundfile: {extra_command('edge')}.")
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
