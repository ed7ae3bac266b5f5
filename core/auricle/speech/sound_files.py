"""Which files of a folder are files of sound: one listing for everything that reads folders; nothing is opened."""

from __future__ import annotations

import os
from pathlib import Path
from shlex import quote

from auricle.errors import DataError, because

SOUND_SUFFIXES = frozenset(
    {
        ".wav",
        ".wave",
        ".flac",
        ".ogg",
        ".oga",
        ".opus",
        ".mp3",
        ".aif",
        ".aiff",
        ".aifc",
        ".caf",
        ".au",
        ".w64",
        ".rf64",
    }
)
"""What files that are decoded end with, in any case."""

OTHER_SUFFIXES = frozenset(
    {".m4a", ".mp4", ".aac", ".webm", ".mka", ".mkv", ".mov", ".wma", ".amr", ".3gp", ".ape", ".wv"}
)
"""What files of sound end with that are not decoded: listed, so that they are counted with what converts them."""


RAW = {
    **dict.fromkeys((".raw", ".pcm", ".s16", ".s16le", ".sw"), ("s16le", 16_000)),
    **{f".sln{kilo}": ("s16le", hertz) for kilo, hertz in (("", 8_000), (12, 12_000), (16, 16_000), (24, 24_000))},
    **{f".sln{kilo}": ("s16le", hertz) for kilo, hertz in ((32, 32_000), (44, 44_100), (48, 48_000))},
    **dict.fromkeys((".ul", ".ulaw", ".mulaw"), ("mulaw", 8_000)),
    **dict.fromkeys((".al", ".alaw"), ("alaw", 8_000)),
}
"""What files of raw samples end with: what ffmpeg calls the samples, and how many a second there usually are."""


def is_sound_file(name: str) -> bool:
    """Whether a file's name says that it is sound. Hidden files are not, nor what a Mac puts beside (`._x.wav`)."""
    suffix = os.path.splitext(name)[1].lower()  # noqa: PTH122 - a path for each of 100,000 names takes seconds
    return not name.startswith(".") and (suffix in SOUND_SUFFIXES or suffix in OTHER_SUFFIXES)


def folder_names(folder: Path) -> list[str]:
    """The names in a folder, sorted, without hidden ones.

    Raises
    ------
    DataError
        It cannot be listed.
    """
    try:
        return sorted(name for name in os.listdir(folder) if not name.startswith("."))  # noqa: PTH208
    except OSError as error:
        raise DataError(f"The folder {folder} cannot be listed ({because(error)}): check its permissions.") from error


def is_raw(path: Path) -> bool:
    """Whether a file's name says that it holds samples and nothing that describes them."""
    return path.suffix.lower() in RAW


def raw_files(folder: Path) -> list[Path]:
    """The files of raw samples in a folder; errors as of `folder_names`."""
    return [folder / name for name in folder_names(folder) if is_raw(Path(name))]


def raw_conversion(path: Path) -> str:
    """What raw samples are and the command that converts them, as the end of a sentence that names the file."""
    samples, rate = RAW[path.suffix.lower()]
    return (
        f"holds raw samples, and nothing says their rate and size: where they are {samples} at {rate} a second, ffmpeg "
        f"-f {samples} -ar {rate} -ac 1 -i {quote(path.name)} {quote(f'{path.stem}.wav')} converts it."
    )


def sound_files(folder: Path, *, deep: bool = False) -> list[Path]:
    """The files of sound in a folder, sorted by path; what is named so and is no file is among them, for its reader.

    Links to files are followed, wherever they lead; links to folders inside are not, so that no link leads in a
    circle or through another disk. Hidden files and folders are passed over.

    Parameters
    ----------
    folder
        The folder; it may be a link itself.
    deep
        Look into its folders, too.

    Raises
    ------
    DataError
        A folder cannot be listed.
    """
    found: list[Path] = []
    inside: list[Path] = []
    for name in folder_names(folder):
        path = folder / name
        if is_sound_file(name):
            found.append(path)
        elif deep and path.is_dir() and not path.is_symlink():
            inside.append(path)
    for path in inside:
        found += sound_files(path, deep=True)
    return sorted(found) if inside else found
