"""The recordings that scenes are composed of, from folders, of one part of the speakers."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from auricle.errors import DataError
from auricle.hearing.sounds import Sound, Take, fingerprint
from auricle.hearing.splits import Part, clips_of, noises_of, readings_of, twin_groups
from auricle.speech.audio import CLIP_SAMPLES, ClipFile, ClipFolder, fit_clip, read_audio, scan_folder

RECORDINGS = (".wav", ".flac")


@dataclass(frozen=True)
class Folders:
    """Where the recordings are."""

    keywords: tuple[Path, ...] = ()
    """`<word>/<speaker>_nohash_<n>.(wav|flac)`."""
    noise: tuple[Path, ...] = ()
    speech: tuple[Path, ...] = ()
    """Running speech, one recording a file, with the reader's name before the first hyphen."""
    words: tuple[Path, ...] = ()
    """As `keywords`: what is not a keyword there is another word."""
    languages: tuple[Path, ...] = ()
    """As `words`, in other languages."""
    left_out: tuple[Path, ...] = ()
    """As `keywords`: speakers in these folders are left out of all."""


@dataclass(frozen=True, eq=False)
class Sources:
    """Recordings in memory."""

    keywords: tuple[Take, ...]
    words: tuple[Take, ...]
    languages: tuple[Take, ...]
    speech: tuple[Sound, ...]
    noise: tuple[Sound, ...]
    names: Mapping[str, str] = field(default_factory=dict)
    """Where each recording lies in its folder, by its `fingerprint`."""

    def missing(self, folders: Folders) -> list[str]:
        """Kinds of recordings of which a folder was named and nobody there is of the part."""
        kinds = ("keywords", "words", "languages", "speech", "noise")
        return [kind for kind in kinds if getattr(folders, kind) and not getattr(self, kind)]

    @property
    def speakers(self) -> int:
        """How many people say the keywords."""
        return len({take.speaker for take in self.keywords})


def read_sources(folders: Folders, keywords: Sequence[str], parts: Sequence[Part]) -> Sources:
    """Read what belongs to these parts of the speakers, readers and noises; to all of them where none is named.

    Without a folder of noise, it is `_background_noise_` of the folders with keywords; without one of other words, it
    is what is not a keyword in these.

    Raises
    ------
    DataError
        A folder is missing or holds nothing of what it should.
    """
    left_out = {clip.speaker for folder in folders.left_out for clip in scan_folder(folder).clips}
    of_words = [_Scanned(folder, parts, left_out) for folder in folders.keywords]
    others = [_Scanned(folder, parts, left_out) for folder in folders.words] or of_words
    foreign = [_Scanned(folder, parts, left_out) for folder in folders.languages]
    noise = list(_files(folders.noise)) or [path for scanned in of_words for path in scanned.folder.noise]
    names: dict[str, str] = {}
    return Sources(
        keywords=_takes(of_words, lambda word: word in keywords, names),
        words=_takes(others, lambda word: word not in keywords, names),
        languages=_takes(foreign, lambda word: word not in keywords, names),
        speech=_whole(readings_of(_files(folders.speech), *parts), names),
        noise=_whole(noises_of(noise, *parts), names),
        names=names,
    )


class _Scanned:
    """A folder of words, and its clips of the parts."""

    def __init__(self, root: Path, parts: Sequence[Part], left_out: set[str]) -> None:
        self.folder: ClipFolder = scan_folder(root)
        self.clips: list[ClipFile] = clips_of(self.folder.clips, *parts, leave_out=left_out, groups=twin_groups(root))


def _takes(folders: Sequence[_Scanned], wanted: Callable[[str], bool], names: dict[str, str]) -> tuple[Take, ...]:
    """The recordings of the wanted words, each a second."""
    clips = [clip for scanned in folders for clip in scanned.clips if wanted(clip.word)]
    takes = [Take(clip.word, clip.speaker, fit_clip(read_audio(clip.path), CLIP_SAMPLES)) for clip in clips]
    for clip, take in zip(clips, takes, strict=True):
        _call(take.sound, clip.path, names)
    return tuple(takes)


def _whole(paths: Iterable[Path], names: dict[str, str]) -> tuple[Sound, ...]:
    sounds = {path: read_audio(path) for path in paths}
    for path, sound in sounds.items():
        _call(sound, path, names)
    return tuple(sounds.values())


def _call(sound: Sound, path: Path, names: dict[str, str]) -> None:
    """Name a recording by the end of its path, as long as it takes for no other to have the same."""
    taken, parts = set(names.values()), path.parts
    short = ("/".join(parts[-length:]) for length in range(2, len(parts) + 1))
    names.setdefault(fingerprint(sound), next((name for name in short if name not in taken), str(path)))


def _files(folders: Sequence[Path]) -> list[Path]:
    """The recordings in folders and in folders of these, by name."""
    found: list[Path] = []
    for folder in folders:
        inside = sorted(path for path in folder.rglob("*") if path.suffix.lower() in RECORDINGS)
        if not inside:
            raise DataError(f"There is no wav or FLAC file in {folder}: name a folder of recordings.")
        found += inside
    return found
