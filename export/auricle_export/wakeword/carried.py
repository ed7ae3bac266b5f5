"""Sound without keywords that the shipped packs carry as mel energies: what of it trains, and what chooses thresholds.

Half of what `home` carries trains. The packs were judged by the same readers and speakers, so that a recording of that
half is in the other packs, too, in another noise: pieces that hold one choose nothing.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache

import numpy as np
from msgspec import UNSET
from numpy.lib.stride_tricks import sliding_window_view
from numpy.typing import NDArray

from auricle.errors import DataError
from auricle.hearing.scenes import Scene
from auricle.hearing.utterances import Stretch
from auricle.packs.listening import read_negatives
from auricle.packs.manifest import Task
from auricle.packs.pack import Pack, load_pack
from auricle.speech.features import Energies, mel_filters
from auricle.speech.words import ALL_WORDS
from auricle_export.pretrain.sounds import Sounds

PEOPLE = "home"
"""The shipped pack of whose sound the first half of each stretch trains, and the second helps to choose thresholds."""
CHOOSING_PACKS = ("home-more", "gsc12", "gsc12-res")
"""Packs whose sound trains nothing: the five minutes of `home`'s halves alone chose thresholds that were too low."""
WORDS_CARRIED = ("words", "run together")
"""Kinds of that sound which are single words."""
SAME_SOUND = 0.45
"""Correlation from which two pieces hold the same recording: no speech in the halves of `home` reaches it."""
PIECE_FRAMES = 200
"""Of a piece that is compared, 2 s."""
BANDS_COMPARED = 20
SHORTEST_FRAMES = 500
"""Of what is left of a stretch, 5 s: windows have to fit in it."""
_TRAINING_FRAMES = 1_000
"""Of a piece of sound that trains."""
_BLOCK_FRAMES = 1_024
"""Of the sound that trains, in one Fourier transform."""
_LOUD = 0.5
"""Quantile of a piece's frames above which its level is measured."""
_LEVEL = 0.9
"""Quantile of a stretch's frames whose energy hides what is fainter: the noise behind people."""


@dataclass(frozen=True, eq=False)
class Carried:
    """Sound without keywords of the shipped packs."""

    trained: Mapping[str, Sounds]
    """To train on: `speech` and `noise`."""
    scenes: tuple[tuple[Scene, Energies], ...]
    """To choose thresholds on: scenes without samples, and their energies."""
    identities: tuple[str, ...]
    """Of the packs."""


def load_carried(phrases: Sequence[str], task: Task) -> Carried:
    """Sound of the shipped packs in the bands of a task.

    Its single words are those of Speech Commands: where a phrase is one of them, somebody may say it there.
    """
    left_out = WORDS_CARRIED if {*phrases} & {*ALL_WORDS} else ()
    packs = [load_pack(name) for name in (PEOPLE, *CHOOSING_PACKS)]
    return Carried(
        trained=_training_sounds(packs[0], left_out, task),
        scenes=tuple(
            _scene(kind, other_bands(energies, packs[0].manifest.task, task), task.frontend.hop)
            for kind, energies in choosing_stretches()
            if kind not in left_out
        ),
        identities=tuple(pack.identity for pack in packs),
    )


def stretches_of(pack: Pack) -> list[tuple[str, Energies]]:
    """Kind and energies (frames, mels) of each stretch that a shipped pack carries.

    Raises
    ------
    DataError
        It carries none.
    """
    negatives = pack.manifest.negatives
    if negatives is UNSET:
        raise DataError(f"The pack {pack.manifest.name} carries no sound without keywords: reinstall auricle.")
    stretches = read_negatives(pack.manifest, pack.files)
    return [(kind, stretch[0 : len(stretch)]) for kind, stretch in zip(negatives.kinds, stretches, strict=True)]


@cache
def choosing_stretches() -> tuple[tuple[str, Energies], ...]:
    """Kind and energies (frames, mels), in the bands of `home`, of what chooses thresholds and trains nothing."""
    home = load_pack(PEOPLE)
    trains: dict[str, list[Energies]] = {}
    candidates: list[tuple[str, Energies]] = []
    for kind, energies in stretches_of(home):
        half = len(energies) // 2
        trains.setdefault(_group(kind), []).append(energies[:half])
        candidates.append((kind, energies[half:]))
    for name in CHOOSING_PACKS:
        pack = load_pack(name)
        own = pack.manifest.task
        candidates += [(kind, other_bands(part, own, home.manifest.task)) for kind, part in stretches_of(pack)]
    apart = [(kind, without_same(energies, trains.get(_group(kind), []))) for kind, energies in candidates]
    return tuple((kind, energies) for kind, energies in apart if len(energies) >= SHORTEST_FRAMES)


def without_same(energies: Energies, others: Sequence[Energies]) -> Energies:
    """The pieces of energies (frames, mels), joined, that hold no recording of the others."""
    pieces = [energies[first : first + PIECE_FRAMES] for first in range(0, len(energies), PIECE_FRAMES)]
    whole = pieces if len(pieces[-1]) == PIECE_FRAMES else pieces[:-1]
    changes = _changes(energies)[: len(whole) * PIECE_FRAMES].reshape(len(whole), PIECE_FRAMES, BANDS_COMPARED)
    likeness = np.zeros(len(whole), np.float32)
    for other in others:
        likeness = np.maximum(likeness, _likeness(changes, _changes(other)))
    kept = [piece for piece, alike in zip(whole, likeness, strict=True) if alike < SAME_SOUND]
    return np.concatenate([*kept, energies[:0]])


def other_bands(energies: Energies, from_task: Task, to_task: Task) -> Energies:
    """Energies (frames, mels) as another front-end would have them, about: power is even within a band.

    Each band's energy is laid out over the frequencies under its filter, and the other front-end's filters are put over
    the sum. Where bands are narrow, as pitch is in neither, it comes near; a tenth of a decade is usual.
    """
    if from_task.frontend == to_task.frontend:
        return energies
    here = mel_filters(from_task.frontend, from_task.sample_rate).astype(np.float64)
    there = mel_filters(to_task.frontend, to_task.sample_rate)
    spread = here / np.maximum(here.sum(axis=0), np.finfo(np.float64).tiny)
    made: Energies = (energies @ (spread.T @ there)).astype(np.float32)
    return made


def _group(kind: str) -> str:
    """Kinds with the same recordings in them are compared with each other."""
    return "words" if kind in WORDS_CARRIED else kind


def _changes(energies: Energies) -> NDArray[np.float32]:
    """Changes of the log energy from frame to frame, (frames, `BANDS_COMPARED`); what is faint is even."""
    edges = np.linspace(0, energies.shape[1], BANDS_COMPARED, endpoint=False).astype(int)
    widths = np.diff([*edges, energies.shape[1]])
    bands = np.add.reduceat(energies, edges, axis=1) / widths
    logs = np.log(bands + np.quantile(energies.mean(axis=1), _LEVEL) + 1e-9)
    changes: NDArray[np.float32] = np.diff(logs, axis=0, append=logs[-1:]).astype(np.float32)
    return changes


def _likeness(pieces: NDArray[np.float32], sound: NDArray[np.float32]) -> NDArray[np.float32]:
    """Largest correlation of each piece (P, n, bands) with a sound (frames, bands); half may lie beyond an end."""
    length = pieces.shape[1]
    sound = np.pad(sound, ((length // 2, length // 2), (0, 0)))
    places = len(sound) - length + 1
    step = _BLOCK_FRAMES - length + 1
    padded = np.pad(sound, ((0, -places % step), (0, 0)))
    blocks = sliding_window_view(padded, _BLOCK_FRAMES, axis=0)[::step]
    ours = np.fft.rfft(pieces, _BLOCK_FRAMES, axis=1).conj().transpose(1, 0, 2)
    products = ours @ np.fft.rfft(blocks, axis=2).transpose(2, 1, 0)
    sums = np.fft.irfft(products, _BLOCK_FRAMES, axis=0)[:step].transpose(1, 2, 0).reshape(len(pieces), -1)[:, :places]
    squares = np.cumsum([0.0, *np.square(sound, dtype=np.float64).sum(axis=1)])
    norms = np.sqrt(np.square(pieces).sum(axis=(1, 2))[:, None] * (squares[length:] - squares[:-length]))
    largest: NDArray[np.float32] = (sums / (norms + 1e-6)).max(axis=1).astype(np.float32)
    return largest


def _scene(kind: str, energies: Energies, hop: int) -> tuple[Scene, Energies]:
    samples = len(energies) * hop
    return Scene(np.zeros(samples, np.int16), stretches=(Stretch(kind, 0, samples),)), energies


def _training_sounds(pack: Pack, left_out: Sequence[str], task: Task) -> dict[str, Sounds]:
    """The first half of each stretch, in pieces."""
    pieces: dict[str, list[Energies]] = {"speech": [], "noise": []}
    for kind, energies in stretches_of(pack):
        if kind not in left_out:
            own, half = other_bands(energies, pack.manifest.task, task), len(energies) // 2
            mine = pieces["noise" if kind == "noise" else "speech"]
            mine += [own[first : min(first + _TRAINING_FRAMES, half)] for first in range(0, half, _TRAINING_FRAMES)]
    return {name: _sounds_of(parts) for name, parts in pieces.items()}


def _sounds_of(pieces: Sequence[Energies]) -> Sounds:
    """Energies (frames, mels) as sounds, each a word from its first to its last frame."""
    lengths = np.array([len(piece) for piece in pieces], np.int64)
    levels = []
    for piece in pieces:
        loud = piece.mean(axis=1)
        levels.append(float(loud[loud >= np.quantile(loud, _LOUD)].mean()) + 1e-9)
    return Sounds(
        energies=np.concatenate([*pieces, np.zeros((1, pieces[0].shape[1]), np.float32)]).astype(np.float32),
        starts=np.cumsum(lengths) - lengths,
        lengths=lengths,
        begins=np.zeros(len(pieces), np.int64),
        ends=lengths.copy(),
        levels=np.array(levels, np.float32),
        targets=np.full(len(pieces), -1),
    )
