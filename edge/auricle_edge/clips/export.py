"""Clips for whoever owns the device: written to a folder that other tools read, or played on its loudspeaker."""

from __future__ import annotations

import importlib.util
import shutil
import subprocess
from collections.abc import Sequence
from pathlib import Path

import msgspec
import numpy as np
from numpy.typing import NDArray

from auricle.errors import DataError, StorageError, extra_command
from auricle.files import describe, write_durably
from auricle.packs.manifest import is_label
from auricle.speech.list_rows import SPEAKER_MARK
from auricle_edge.clips.coding import AUDIO, FEATURES, encode_again
from auricle_edge.clips.record import Clip, row
from auricle_edge.clips.store import ClipStore
from auricle_edge.listening.sound import RATE

UNLABELLED = "_unlabelled_"
TABLE = "clips.jsonl"


class Exported(msgspec.Struct, frozen=True, kw_only=True):
    """What was written."""

    folder: str
    clips: int
    damaged: int
    """Clips that could not be read."""


def export(store: ClipStore, clips: Sequence[Clip], folder: Path) -> Exported:
    """Write clips, not encrypted, as `<word>/device_nohash_<id>.flac` and what is known of them as `clips.jsonl`.

    A word that is no label, which only a file that another program changed can have, names no folder.

    Raises
    ------
    DataError
        The folder is there and not empty.
    StorageError
        It cannot be written.
    """
    try:
        folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        if any(folder.iterdir()):
            raise DataError(f"{folder} is not empty: name a new folder.")
    except OSError as error:
        raise StorageError(describe(error, folder)) from error
    written = []
    for clip in clips:
        try:
            content = store.content(clip)
        except DataError:
            continue
        suffix = AUDIO if content.samples is not None else FEATURES
        word = clip.record.word or ""
        place = folder / (word if is_label(word) else UNLABELLED) / f"device{SPEAKER_MARK}{clip.id}{suffix}"
        write_durably(place, encode_again(content, clip.record), mode=0o600, settle=False)
        written.append(row(clip))
    lines = b"".join(msgspec.json.encode(each) + b"\n" for each in written)
    write_durably(folder / TABLE, lines, mode=0o600)
    return Exported(folder=str(folder), clips=len(written), damaged=len(clips) - len(written))


_RAW = {
    "aplay": ["-q", "-t", "raw", "-f", "S16_LE", "-r", str(RATE), "-c", "1", "-"],
    "paplay": ["--raw", "--format=s16le", f"--rate={RATE}", "--channels=1"],
}
"""Players that take raw samples on standard input."""
LONGEST_SECONDS = 60.0
"""Seconds after which a player is given up."""


def play(samples: NDArray[np.int16], path: str | None = None) -> str:
    """Play (n,) samples; returns what played them.

    Parameters
    ----------
    path
        Where programs are looked for, as in `PATH`.

    Raises
    ------
    DataError
        There is no player, or none of them can play.
    """
    said = []
    for name, options in _RAW.items():
        program = shutil.which(name, path=path)
        if program is None:
            continue
        failure = _pipe([program, *options], samples)
        if failure is None:
            return name
        said.append(f"{name}: {failure}")
    if importlib.util.find_spec("sounddevice") is not None:
        failure = _by_sounddevice(samples)
        if failure is None:
            return "sounddevice"
        said.append(f"sounddevice: {failure}")
    if said:
        raise DataError(f"The clip cannot be played ({'; '.join(said)}): check the loudspeaker, or export the clip.")
    raise DataError(f"Playing needs aplay (package alsa-utils), paplay, or: {extra_command('mic')}")


def _pipe(command: list[str], samples: NDArray[np.int16]) -> str | None:
    """What went wrong; None: nothing."""
    sound = samples.astype("<i2").tobytes()
    try:
        done = subprocess.run(command, input=sound, capture_output=True, timeout=LONGEST_SECONDS, check=False)
    except subprocess.TimeoutExpired:
        return "it did not end"
    except OSError as error:
        return error.strerror or str(error)
    if done.returncode == 0:
        return None
    lines = done.stderr.decode(errors="replace").strip().splitlines()
    return (lines[-1] if lines else f"exit code {done.returncode}").rstrip(".")


def _by_sounddevice(samples: NDArray[np.int16]) -> str | None:
    try:
        import sounddevice
    except OSError as error:
        return str(error)
    try:
        sounddevice.play(samples, RATE, blocking=True)
    except sounddevice.PortAudioError as error:
        return str(error)
    return None
