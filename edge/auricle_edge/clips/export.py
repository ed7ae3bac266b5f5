"""Clips out of the store into a folder that other tools read, by the command of whoever owns the device."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import msgspec

from auricle.errors import DataError, StorageError
from auricle.files import describe, write_durably
from auricle.speech.audio import SPEAKER_MARK
from auricle_edge.clips.coding import AUDIO, FEATURES, encode_again
from auricle_edge.clips.record import Clip, row
from auricle_edge.clips.store import ClipStore

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
        place = folder / (clip.record.word or UNLABELLED) / f"device{SPEAKER_MARK}{clip.id}{suffix}"
        write_durably(place, encode_again(content, clip.record), mode=0o600, settle=False)
        written.append(row(clip))
    lines = b"".join(msgspec.json.encode(each) + b"\n" for each in written)
    write_durably(folder / TABLE, lines, mode=0o600)
    return Exported(folder=str(folder), clips=len(written), damaged=len(clips) - len(written))
