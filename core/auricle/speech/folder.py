"""Speech from one or several folders in Speech Commands layout."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import zip_longest
from pathlib import Path

import numpy as np

from auricle.errors import DataError, SettingsError
from auricle.packs.manifest import SILENCE, SPECIAL_LABELS, UNKNOWN
from auricle.speech.audio import CLIP_SAMPLES
from auricle.speech.clip_folder import ClipFile, ClipFolder, scan_folder
from auricle.speech.clip_reader import read_all, read_each
from auricle.speech.row_store import RowStore, Spill
from auricle.speech.sound_faults import Finding, SoundFault
from auricle.speech.speech_set import (
    Progress,
    SpeechSet,
    build_speech_set,
    mean_word_clips,
    set_without_sound,
    silence_clips,
)
from auricle.speech.words import MIN_WORD_CLIPS, phrases_of, select_words


def load_folder(
    root: Path,
    words: str = "gsc35",
    *,
    min_word_clips: int = MIN_WORD_CLIPS,
    seed: int = 0,
    every_other: bool = False,
    clip_samples: int = CLIP_SAMPLES,
    progress: Progress | None = None,
) -> SpeechSet:
    """Read the clips of the chosen words of one folder: `load_folders` of it alone."""
    return load_folders(
        [root],
        words,
        min_word_clips=min_word_clips,
        seed=seed,
        every_other=every_other,
        clip_samples=clip_samples,
        progress=progress,
    )


def load_folders(
    roots: Sequence[Path],
    words: str = "gsc35",
    *,
    min_word_clips: int = MIN_WORD_CLIPS,
    seed: int = 0,
    every_other: bool = False,
    leave_out: Sequence[Path] = (),
    clip_samples: int = CLIP_SAMPLES,
    spill: Spill | None = None,
    progress: Progress | None = None,
) -> SpeechSet:
    """Read the clips of the chosen words of several folders, 32 kB a second.

    What the folders hold counts as if it lay in one: a speaker of the same name is the same person, a word that only
    one folder has is a word, and the background noise of all is used. A recording that a folder before holds already
    counts once. A folder may hold nothing but words that are not chosen, which stand for `_unknown_`, or nothing but
    noise.

    A file that cannot be read is left out; `findings` says why. The clips of `_unknown_` come from the words not
    chosen, those of `_silence_` from the background noise, as many as a word has on average; a silent clip is given
    to a speaker in proportion to the speaker's clips.

    Parameters
    ----------
    roots
        The folders; their order decides the order of the clips.
    words
        As `select_words` takes it.
    min_word_clips
        The least number of clips that a chosen word needs in all folders together.
    seed
        Decides what stands for `_unknown_` and `_silence_`.
    every_other
        Give `_unknown_` every clip of a word not chosen. Without, it gets as many as a word has on average, drawn by
        `seed`, which suits a fleet whose devices learn from few clips; `other_clips_left_out` says how many are not
        used.
    leave_out
        Folders whose speakers are left out of all the others.
    clip_samples
        Samples of a clip at 16 kHz, as many as the pack takes: of a longer recording the loudest part is kept
        (`fit_clip`), and `cut` counts those that lose something by it.
    spill
        Where many clips go instead of into memory; None keeps all in memory.
    progress
        Called after every file with the files read and the files to read.

    Raises
    ------
    SettingsError
        The choice of words cannot be understood or is not in the folders, or a folder is named twice.
    DataError
        There is no such folder, no usable audio, or not enough of a word.
    StorageError
        There is no room for the clips where `spill` puts them.
    """
    found, where = _scan(roots, leave_out, words), _where(roots)
    labels = select_words(words, found.counts(), where=where, min_clips=min_word_clips)
    rng = np.random.default_rng(seed)
    chosen = _choose_files(found, labels, rng, every_other)
    if UNKNOWN in labels and UNKNOWN not in chosen.labels:
        raise DataError(f"There is no word left for {UNKNOWN} in {where}: take it out of --words or add recordings.")
    silent = _missing_silence(chosen.labels, labels)
    rows = RowStore(len(chosen.files) + silent, (clip_samples,), np.int16, spill)
    kept, of_clips, cut = read_all(chosen.files, rows, clip_samples, progress)
    noise, of_noise = read_each(found.noise)
    clip_labels = [chosen.labels[place] for place in kept]
    clip_speakers = [chosen.files[place].speaker for place in kept]
    if clip_speakers and (count := _missing_silence(clip_labels, labels)):
        rows.put(silence_clips(noise, count, rng, clip_samples))
        clip_labels += [SILENCE] * count
    clip_speakers = _with_silence(clip_speakers, clip_labels, rng)
    return build_speech_set(
        labels,
        rows.finish(),
        clip_labels,
        clip_speakers,
        noise=noise,
        findings=(*found.findings, *_not_chosen(found, labels), *of_clips, *of_noise),
        other_clips_left_out=chosen.left_out,
        cut=Counter(chosen.labels[place] for place in cut if chosen.labels[place] != UNKNOWN),
    )


def list_folder(root: Path, words: str = "gsc35", *, seed: int = 0) -> SpeechSet:
    """Whose clips of what `load_folder` would read, by the names of files alone; errors as of that.

    A file that cannot be read counts, since nothing is opened, and silent clips are given to other speakers.
    """
    found, where = _scan([root], (), words), str(root)
    labels = select_words(words, found.counts(), where=where)
    rng = np.random.default_rng(seed)
    chosen = _choose_files(found, labels, rng, every_other=False)
    clip_labels, speakers = chosen.labels, [clip.speaker for clip in chosen.files]
    if speakers:
        clip_labels += [SILENCE] * _missing_silence(clip_labels, labels)
    return set_without_sound(labels, clip_labels, _with_silence(speakers, clip_labels, rng))


@dataclass(frozen=True, slots=True)
class _Chosen:
    """The files to read, the label of each, and how many clips of other words are left out."""

    files: list[ClipFile]
    labels: list[str]
    left_out: int


def _scan(roots: Sequence[Path], leave_out: Sequence[Path], words: str) -> ClipFolder:
    """List several folders as one, under the name of the first, without the speakers of others."""
    if not roots:
        raise SettingsError("No speech folder is named: name at least one.")
    resolved = [root.resolve() for root in roots]
    for place, root in enumerate(resolved):
        if root in resolved[:place]:
            raise SettingsError(f"The speech folder {roots[place]} is named twice: name it once.")
    phrases = phrases_of(words)
    folders = [scan_folder(root, noise_is_enough=len(roots) > 1, phrases=phrases) for root in roots]
    strangers = {clip.speaker for root in leave_out for clip in scan_folder(root, phrases=phrases).clips}
    every = [clip for folder in folders for clip in folder.clips]
    clips = tuple(clip for clip in every if clip.speaker not in strangers)
    if every and not clips:
        raise DataError(f"All speakers of {_where(roots)} are in {_where(leave_out)}, which is left out.")
    if not clips:
        raise DataError(f"{_where(roots)} hold noise and no word: name a folder that has one sub-folder a word.")
    return ClipFolder(
        roots[0],
        clips,
        tuple(path for folder in folders for path in folder.noise),
        tuple(finding for folder in folders for finding in folder.findings),
    )


def _where(roots: Sequence[Path]) -> str:
    return " and ".join(str(root) for root in roots)


def _missing_silence(clip_labels: Sequence[str], labels: Sequence[str]) -> int:
    """Clips of silence that are made of noise beside those that there are."""
    if SILENCE not in labels:
        return 0
    return max(0, _special_count(clip_labels, tuple(labels)) - clip_labels.count(SILENCE))


def _with_silence(speakers: Sequence[str], clip_labels: Sequence[str], rng: np.random.Generator) -> list[str]:
    """A speaker for each clip: nobody speaks in those of silence, which are given to others in proportion."""
    of_words = [who for who, label in zip(speakers, clip_labels, strict=False) if label != SILENCE]
    if not of_words:
        return list(speakers)
    given = iter([of_words[place] for place in rng.integers(len(of_words), size=clip_labels.count(SILENCE))])
    return [next(given) if label == SILENCE else who for who, label in zip_longest(speakers, clip_labels)]


def _not_chosen(found: ClipFolder, labels: Sequence[str]) -> list[Finding]:
    """Clips of `_unknown_` and `_silence_` that nothing is learnt from, since these are no labels."""
    return [
        SoundFault.NOT_CHOSEN.finding(f"{clip.path} is of {clip.word}, which --words does not name: add it there.")
        for clip in found.clips
        if clip.word in SPECIAL_LABELS and clip.word not in labels
    ]


def _choose_files(found: ClipFolder, labels: tuple[str, ...], rng: np.random.Generator, every_other: bool) -> _Chosen:
    files = [clip for clip in found.clips if clip.word in labels]
    clip_labels = [clip.word for clip in files]
    if UNKNOWN not in labels:
        return _Chosen(files, clip_labels, 0)
    others = [clip for clip in found.spoken if clip.word not in labels]
    there = len(others)
    if not every_other:
        count = min(there, max(0, _special_count(clip_labels, labels) - clip_labels.count(UNKNOWN)))
        others = [others[place] for place in np.sort(rng.choice(there, size=count, replace=False))]
    return _Chosen(files + others, clip_labels + [UNKNOWN] * len(others), there - len(others))


def _special_count(clip_labels: Sequence[str], labels: tuple[str, ...]) -> int:
    word_clips = sum(label not in SPECIAL_LABELS for label in clip_labels)
    return mean_word_clips(word_clips, len(set(labels) - SPECIAL_LABELS))
