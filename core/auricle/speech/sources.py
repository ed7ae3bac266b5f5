"""What `--data` names, once or several times: synthetic speech, Speech Commands as downloaded, or folders."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from auricle.errors import SettingsError
from auricle.speech.corpora import folder_of
from auricle.speech.download import SPEECH_COMMANDS, Archive, cache_folder, fetch
from auricle.speech.folder import load_folders
from auricle.speech.row_store import Spill
from auricle.speech.speech_set import Progress, SpeechSet
from auricle.speech.synthesis import SynthesisSettings, synthesise
from auricle.speech.words import MIN_WORD_CLIPS

SYNTHETIC = "synthetic"
"""Speech by espeak-ng."""

DOWNLOADED = "speech-commands"
"""The whole of Speech Commands 0.02, downloaded when it is not in the cache."""

Steps = Callable[[str, int, int], None]
"""What is being done, how much of it is done, of how much."""

_SPEECH_COMMANDS = "Speech Commands 0.02"
_LONGEST_NAME = 100


@dataclass(frozen=True, slots=True)
class Place:
    """Where downloads and large arrays go."""

    archive: Archive = SPEECH_COMMANDS
    """What `speech-commands` means."""

    cache: Path | None = None
    """A folder on a disk; None for `cache_folder()`."""

    def folder(self) -> Path:
        """Give the folder."""
        return self.cache or cache_folder()


def read_sources(
    data: Sequence[str],
    spoken: SynthesisSettings,
    *,
    every_other: bool = True,
    min_word_clips: int = MIN_WORD_CLIPS,
    leave_out: Sequence[Path] = (),
    place: Place | None = None,
    progress: Steps = lambda *_: None,
) -> SpeechSet:
    """Read everything that a training is to hear.

    More clips than 20,000 lie in a file without a name in the cache folder and not in memory.

    Parameters
    ----------
    data
        `synthetic` alone; or folders in Speech Commands layout, `speech-commands` among them.
    spoken
        The words, the seed and the length of a clip; for synthetic speech everything else, too.
    every_other
        Give `_unknown_` every clip of a word not chosen, as in `load_folders`.
    min_word_clips
        The least number of clips that a chosen word needs in all folders together.
    leave_out
        Folders whose speakers are left out of all the others.
    place
        Where the download and the file of clips go.
    progress
        Called with what is done.

    Raises
    ------
    SettingsError
        Nothing is named, a folder twice, `synthetic` beside something else, or words that are not there.
    DataError
        No such folder, no usable audio, not enough of a word, or a download that fails.
    StorageError
        The cache cannot take the download or the clips.
    """
    place = place or Place()
    if SYNTHETIC in data:
        if len(data) > 1 or leave_out:
            raise SettingsError(f"--data {SYNTHETIC} stands alone: leave out it or the other folders.")
        return synthesise(spoken, _step(progress, "synthesising speakers"))
    roots = source_folders(data, place, progress)
    return load_folders(
        roots,
        spoken.words,
        min_word_clips=min_word_clips,
        seed=spoken.seed,
        every_other=every_other,
        leave_out=leave_out,
        clip_samples=spoken.clip_samples,
        spill=Spill(place.folder()),
        progress=_step(progress, "reading clips"),
    )


def source_folders(data: Sequence[str], place: Place, progress: Steps = lambda *_: None) -> list[Path]:
    """Give the folder of every name, downloading Speech Commands where it is named and not there.

    Raises
    ------
    DataError, StorageError
        As `download.fetch`.
    """
    downloading, unpacking = (f"{what} Speech Commands" for what in ("downloading", "unpacking"))
    return [
        fetch(place.archive, place.cache, progress=_step(progress, downloading), unpacking=_step(progress, unpacking))
        if name == DOWNLOADED
        else Path(name)
        for name in data
    ]


def describe_sources(data: Sequence[str], labels: int) -> str:
    """What a manifest says that a model was trained on: no path, only the folders' own names."""
    if list(data) == [SYNTHETIC]:
        return f"synthetic speech (espeak-ng), {labels} words"
    names = [_SPEECH_COMMANDS if name == DOWNLOADED else folder_of(name).resolve().name for name in data]
    listed = ", ".join(names)[:_LONGEST_NAME]
    if len(names) > 1:
        return f"recordings in the folders {listed}, {labels} words"
    return f"recordings {'of' if DOWNLOADED in data else 'in the folder'} {listed}, {labels} words"


def _step(progress: Steps, what: str) -> Progress:
    return lambda done, total: progress(what, done, total)
