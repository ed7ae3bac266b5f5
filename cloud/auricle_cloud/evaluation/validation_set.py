"""An operator's labelled clips, on which models are judged: features and targets for the labels of a pack.

They are validation data: what results are reported on must be other clips, of other speakers (A40).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from auricle.checks.onnx_network import frontend_of
from auricle.errors import DataError
from auricle.packs.manifest import SILENCE, SPECIAL_LABELS, UNKNOWN
from auricle.packs.pack import Pack
from auricle.speech.audio import fit_clip
from auricle.speech.clip_folder import ClipFile, ClipFolder, scan_folder
from auricle.speech.clip_reader import read_each, read_labelled
from auricle.speech.features import Energies, LogMel
from auricle.speech.sound_faults import Finding, SoundError, nothing_usable, sentences_of
from auricle.speech.speech_set import mean_word_clips, silence_clips, to_float
from auricle_cloud.evaluation.feature_cache import Clip, FeatureCache, Features

MOST_CLIPS = 1_000
"""Enough to tell accuracies 0.01 apart; 16 MB of features."""
_READERS = 4
_CHUNK = 256
"""Clips whose audio is held at once."""


@dataclass(frozen=True, eq=False)
class ValidationSet:
    """Clips as the models take them."""

    features: NDArray[np.float32]
    """(N, frames, mels) log-mels."""
    targets: NDArray[np.int64]
    """(N,) places in the pack's labels."""
    sentence: str = ""
    """What it holds, for the log."""
    skipped: tuple[str, ...] = ()
    """Files that could not be used, each as a sentence."""

    def __post_init__(self) -> None:
        if not len(self.features) or self.features.shape[:1] != self.targets.shape:
            raise DataError("A validation set needs clips, and a label for each.")

    def __len__(self) -> int:
        """Count the clips."""
        return len(self.targets)

    def batches(self, size: int) -> Iterator[tuple[NDArray[np.float32], NDArray[np.int64]]]:
        """Give features and targets of up to `size` clips at a time, in order."""
        for start in range(0, len(self), size):
            yield self.features[start : start + size], self.targets[start : start + size]


def load_validation(
    folder: Path, pack: Pack, *, most: int = MOST_CLIPS, seed: int = 0, cache: Path | None = None
) -> ValidationSet:
    """Read labelled clips, `<word>/<speaker>_nohash_<n>.(wav|flac)`, for the labels of a pack.

    `_unknown_` and `_silence_` have the clips of their folders; where these are fewer than a word has on average, the
    others are drawn from the folder's other words and from its background noise. Where there are more clips than
    `most`, every label gives equally many as far as it has them.

    Parameters
    ----------
    folder
        The operator's folder. Not every word of the pack has to be in it.
    pack
        Gives the labels and the front-end.
    most
        Clips to keep, at least 1.
    seed
        Decides which.
    cache
        Where features are kept for the next time, by the content of the clips. What is there is not trusted to be
        whole.

    Raises
    ------
    DataError
        There is no such folder, no word of the pack is in it, or no clip of these can be read; or soundfile is not
        installed.
    StorageError
        The cache cannot be written.
    """
    found = scan_folder(folder, phrases=pack.labels)
    rng = np.random.default_rng(seed)
    by_label = _by_label(found, pack, rng)
    clips = _draw_in_turns(by_label, most, rng)
    noise = found.noise if any(path is None for _, path in clips) else ()
    kept = None if cache is None else FeatureCache(cache, pack.manifest.task, seed, clips, noise)
    known = None if kept is None else kept.read()
    if known is None:
        known = _compute(found, clips, pack, rng, frontend_of(pack))
        if kept is not None:
            kept.write(known)
    features, targets, unread = known
    cut = _cut(folder, sum(map(len, by_label)), most)
    sentence = f"{_sentence(folder, pack, targets)} {cut}".rstrip()
    return ValidationSet(features, targets, sentence, (*found.skipped, *unread))


def describe_cut(folder: Path, pack: Pack, *, most: int = MOST_CLIPS) -> str:
    """Say that a folder has more clips than `load_validation` takes, a sentence; empty where it takes all of them.

    Raises
    ------
    DataError
        There is no such folder, or no word of the pack is in it.
    """
    by_label = _by_label(scan_folder(folder, phrases=pack.labels), pack, np.random.default_rng(0))
    return _cut(folder, sum(map(len, by_label)), most)


def _cut(folder: Path, clips: int, most: int) -> str:
    if clips <= most:
        return ""
    return f"Of the {clips:,} clips of {folder} {most:,} are taken: of each label equally many, as far as it has them."


def load_energies(
    folder: Path, pack: Pack, *, most: int = MOST_CLIPS, seed: int = 0
) -> tuple[Energies, NDArray[np.int64]]:
    """Read the clips of `load_validation` as mel energies (N, frames, mels) and targets (N,), to train on.

    Raises
    ------
    DataError
        As of `load_validation`.
    """
    found = scan_folder(folder, phrases=pack.labels)
    rng = np.random.default_rng(seed)
    clips = _draw_in_turns(_by_label(found, pack, rng), most, rng)
    energies, targets, _ = _compute(found, clips, pack, rng, LogMel(pack.manifest.task).energies)
    return energies, targets


def _compute(
    found: ClipFolder,
    clips: Sequence[Clip],
    pack: Pack,
    rng: np.random.Generator,
    frontend: Callable[[NDArray[np.float32]], NDArray[np.float32]],
) -> Features:
    """Features, targets, and what could not be read."""
    length = pack.manifest.task.clip_samples
    features, targets = [], []
    unread: list[Finding] = []
    files = [(target, path) for target, path in clips if path is not None]
    for start in range(0, len(files), _CHUNK):
        some = [ClipFile(path, pack.labels[target], "") for target, path in files[start : start + _CHUNK]]
        audio = _read_chunk(some, length, unread)
        targets += [files[start + place][0] for place in audio]
        if audio:
            features.append(frontend(np.stack(list(audio.values()))))
    if not features:
        raise DataError(nothing_usable(found.root, unread, f"clip of a word of the pack {pack.manifest.name}"))
    silent = len(clips) - len(files)
    if silent:
        noise, of_noise = read_each(found.noise)
        unread += of_noise
        features.append(frontend(to_float(silence_clips(noise, silent, rng, length))))
        targets += [pack.labels.index(SILENCE)] * silent
    return np.concatenate(features), np.array(targets, np.int64), sentences_of(unread)


def _by_label(found: ClipFolder, pack: Pack, rng: np.random.Generator) -> list[list[Path | None]]:
    """Give the files of every label, in its order; None stands for a clip of silence that is yet to be made."""
    files: dict[str, list[Path | None]] = {label: [] for label in pack.labels}
    others: list[Path] = []
    for clip in found.clips:
        if clip.word in files:
            files[clip.word].append(clip.path)
        elif clip.word != SILENCE:
            others.append(clip.path)
    words = [len(paths) for label, paths in files.items() if paths and label not in SPECIAL_LABELS]
    if not words:
        raise DataError(
            f"{found.root} has no word of the pack {pack.manifest.name}: it takes one sub-folder for each of "
            f"{', '.join(label for label in pack.labels if label not in SPECIAL_LABELS)}."
        )
    special = mean_word_clips(sum(words), len(words))
    if UNKNOWN in files:
        size = min(len(others), max(0, special - len(files[UNKNOWN])))
        files[UNKNOWN] += [others[place] for place in np.sort(rng.choice(len(others), size=size, replace=False))]
    if SILENCE in files:
        files[SILENCE] += [None] * (special - len(files[SILENCE]))
    return list(files.values())


def _draw_in_turns(files: list[list[Path | None]], most: int, rng: np.random.Generator) -> list[Clip]:
    """Give at most so many clips with their targets, label by label: drawn in turns from labels that have some left."""
    shuffled = [[paths[place] for place in rng.permutation(len(paths))] for paths in files]
    turns = [
        (target, paths[turn])
        for turn in range(max(map(len, shuffled)))
        for target, paths in enumerate(shuffled)
        if turn < len(paths)
    ]
    return sorted(turns[:most], key=lambda clip: (clip[0], str(clip[1])))


def _read_chunk(clips: Sequence[ClipFile], length: int, unread: list[Finding]) -> dict[int, NDArray[np.float32]]:
    """Read clips of `length` samples, by their place; what cannot be read goes to `unread`."""

    def read(clip: ClipFile) -> NDArray[np.float32] | Finding:
        try:
            return fit_clip(read_labelled(clip).samples, length)
        except SoundError as error:
            return error.finding

    with ThreadPoolExecutor(_READERS) as readers:
        found = list(readers.map(read, clips))
    unread += [problem for problem in found if isinstance(problem, Finding)]
    return {place: audio for place, audio in enumerate(found) if not isinstance(audio, Finding)}


def _sentence(folder: Path, pack: Pack, targets: NDArray[np.int64]) -> str:
    counts = np.bincount(targets, minlength=len(pack.labels))
    missing = [label for label, count in zip(pack.labels, counts, strict=True) if not count]
    held = f"{folder} holds {len(targets)} clips of {np.count_nonzero(counts)} of {len(pack.labels)} labels"
    return f"{held}; none of {', '.join(missing)}." if missing else f"{held}."
