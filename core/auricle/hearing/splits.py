"""Who trains, who validates, who judges: read by all that trains or measures, so that nobody is in two parts.

The part of a speaker, a reader or a noise depends on its name alone: the first eight bytes of the SHA-256 of the name,
as a share of 2^64, fall into the first 80 % (train), the next 10 % (validation) or the last 10 % (test); for noises it
is 60, 15 and 25 %. A recording that occurs under several names goes by the name of its group.
"""

from __future__ import annotations

import csv
import hashlib
from collections.abc import Collection, Iterable, Mapping
from pathlib import Path
from typing import Literal

from auricle.errors import DataError
from auricle.files import read_lines
from auricle.speech.clip_folder import ClipFile
from auricle.speech.list_rows import SPEAKER_MARK

Part = Literal["train", "validation", "test"]
PARTS: tuple[Part, ...] = ("train", "validation", "test")

SPEAKER_SHARES = (0.8, 0.1)
"""Of speakers, readers and groups of recordings: train and validation; the rest is test."""
NOISE_SHARES = (0.6, 0.15)
"""The same of background noises, of which there are few."""
TWINS = "twins.csv"
"""In a speech folder: `path,recording`, files that hold the same recording under several names."""


def share_of(identity: str) -> float:
    """Where a name falls between 0 and 1, the same on every machine."""
    return int.from_bytes(hashlib.sha256(identity.encode()).digest()[:8], "big") / 2**64


def part_of(identity: str, shares: tuple[float, float] = SPEAKER_SHARES) -> Part:
    """The part of a speaker, a reader or a group of recordings."""
    place, (train, validation) = share_of(identity), shares
    if place < train:
        return "train"
    return "validation" if place < train + validation else "test"


def noise_part(name: str) -> Part:
    """The part of a background noise, by the name of its file."""
    return part_of(name, NOISE_SHARES)


def noises_of(paths: Iterable[Path], *parts: Part) -> list[Path]:
    """The background noises of these parts, in order; all of them where no part is named."""
    return [path for path in paths if not parts or noise_part(path.name) in parts]


def reader_of(path: Path) -> str:
    """Who reads in a file of running speech: what its name says before `_nohash_` or, without, the first hyphen."""
    speaker, mark, _ = path.stem.partition(SPEAKER_MARK)
    return speaker if mark else path.stem.partition("-")[0]


def readings_of(paths: Iterable[Path], *parts: Part) -> list[Path]:
    """The readings of the readers of these parts, in order; all of them where no part is named."""
    return [path for path in paths if not parts or part_of(reader_of(path)) in parts]


def clips_of(
    clips: Iterable[ClipFile], *parts: Part, leave_out: Collection[str] = (), groups: Mapping[Path, str] | None = None
) -> list[ClipFile]:
    """The clips whose speakers are of these parts, in order; of all parts where none is named.

    Parameters
    ----------
    clips
        As `auricle.speech.clip_folder.scan_folder` lists them.
    leave_out
        Speakers of another folder, whose clips are left out: those of `gsc` when the clips are of `gsc-more`.
    groups
        Group of recordings by path, as `twin_groups` gives them; it stands for the speaker.
    """
    known = groups or {}
    return [
        clip
        for clip in clips
        if clip.speaker not in leave_out and (not parts or part_of(known.get(clip.path, clip.speaker)) in parts)
    ]


def twin_groups(root: Path) -> dict[Path, str]:
    """The group of each file that `twins.csv` of a speech folder names; empty where there is no such file.

    Raises
    ------
    DataError
        It cannot be read, or lacks one of its two columns.
    """
    file = root / TWINS
    if not file.is_file():
        return {}
    try:
        rows = list(csv.DictReader(read_lines(file, refusal=DataError), strict=True))
        return {root / Path(row["path"]).relative_to(root.name): row["recording"] for row in rows}
    except (csv.Error, KeyError, TypeError, ValueError) as error:
        raise DataError(
            f"{file} cannot be read: it takes the columns path and recording, paths as {root.name}/<word>/<file>."
        ) from error
