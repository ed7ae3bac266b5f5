"""Speech from a folder in Speech Commands layout, wav or FLAC."""

from __future__ import annotations

from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from auricle.errors import DataError
from auricle.speech.audio import CLIP_SAMPLES, ClipFile, ClipFolder, read_audio, read_clip, scan_folder
from auricle.speech.speech_set import Progress, SpeechSet, build_speech_set, mean_word_clips, silence_clips, to_int16
from auricle.speech.words import MIN_WORD_CLIPS, SILENCE, SPECIAL_LABELS, UNKNOWN, select_words

_READERS = 4


def load_folder(
    root: Path,
    words: str = "gsc35",
    *,
    min_word_clips: int = MIN_WORD_CLIPS,
    seed: int = 0,
    progress: Progress | None = None,
) -> SpeechSet:
    """Read the clips of the chosen words into memory, 32 kB a clip.

    A file that cannot be read is left out and named in `skipped`. The clips of `_unknown_` are drawn by `seed` from
    the words not chosen, those of `_silence_` from the background noise, as many as a word has on average; a silent
    clip is given to a speaker in proportion to the speaker's clips.

    Parameters
    ----------
    root
        The folder.
    words
        As `select_words` takes it.
    min_word_clips
        The least number of clips that a chosen word needs.
    seed
        Decides what stands for `_unknown_` and `_silence_`.
    progress
        Called after every file with the files read and the files to read.

    Raises
    ------
    SettingsError
        The choice of words cannot be understood or is not in the folder.
    DataError
        There is no such folder, no usable audio, or not enough of a word.
    """
    folder = scan_folder(root)
    labels = select_words(words, folder.counts(), where=str(root), min_clips=min_word_clips)
    rng = np.random.default_rng(seed)
    files, clip_labels = _choose_files(folder, labels, rng)
    audio, usable, skipped = _read_all(files, progress)
    noise, noise_skipped = _read_noise(folder.noise)
    kept = np.flatnonzero(usable)
    clip_labels = [clip_labels[place] for place in kept]
    clip_speakers = [files[place].speaker for place in kept]
    audio = audio if len(kept) == len(files) else audio[kept]
    if SILENCE in labels and clip_speakers:
        count = _special_count(clip_labels, labels)
        audio = np.concatenate((audio, silence_clips(noise, count, rng)))
        clip_speakers += [clip_speakers[place] for place in rng.integers(len(clip_speakers), size=count)]
        clip_labels += [SILENCE] * count
    every_skip = (*folder.skipped, *skipped, *noise_skipped)
    return build_speech_set(labels, audio, clip_labels, clip_speakers, noise=noise, skipped=every_skip)


def _choose_files(
    folder: ClipFolder, labels: tuple[str, ...], rng: np.random.Generator
) -> tuple[list[ClipFile], list[str]]:
    """Give the files to read and the label of each."""
    files = [clip for clip in folder.clips if clip.word in labels]
    clip_labels = [clip.word for clip in files]
    if UNKNOWN in labels:
        others = [clip for clip in folder.clips if clip.word not in labels]
        if not others:
            raise DataError(f"{folder.root} has no word left for {UNKNOWN}: take it out of --words or add recordings.")
        count = min(len(others), _special_count(clip_labels, labels))
        files += [others[place] for place in np.sort(rng.choice(len(others), size=count, replace=False))]
        clip_labels += [UNKNOWN] * count
    return files, clip_labels


def _special_count(clip_labels: Sequence[str], labels: tuple[str, ...]) -> int:
    word_clips = sum(label not in SPECIAL_LABELS for label in clip_labels)
    return mean_word_clips(word_clips, len(set(labels) - SPECIAL_LABELS))


def _read_all(
    files: Sequence[ClipFile], progress: Progress | None
) -> tuple[NDArray[np.int16], NDArray[np.bool_], list[str]]:
    """Read every file into its row; a row that could not be read is marked as not usable."""
    audio = np.zeros((len(files), CLIP_SAMPLES), dtype=np.int16)
    usable = np.zeros(len(files), dtype=np.bool_)
    skipped: list[str] = []

    def read(place: int) -> str | None:
        try:
            audio[place] = to_int16(read_clip(files[place].path))
        except DataError as error:
            return str(error)
        return None

    with ThreadPoolExecutor(_READERS) as readers:
        for place, problem in enumerate(readers.map(read, range(len(files)))):
            usable[place] = problem is None
            if problem:
                skipped.append(problem)
            if progress:
                progress(place + 1, len(files))
    return audio, usable, skipped


def _read_noise(paths: Sequence[Path]) -> tuple[list[NDArray[np.float32]], list[str]]:
    noise: list[NDArray[np.float32]] = []
    skipped: list[str] = []
    for path in paths:
        try:
            noise.append(read_audio(path))
        except DataError as error:
            skipped.append(str(error))
    return noise, skipped
