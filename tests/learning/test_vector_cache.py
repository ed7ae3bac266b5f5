"""What a frozen network makes of a clip is made once, and is the same whatever was kept."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from auricle_learning.training import vector_cache
from auricle_learning.training.vector_cache import Memory, Noises, VectorCache
from auricle_learning.training.vector_shelf import Halves, Variant, clip_name

CLIPS = np.random.default_rng(0).random((5, 6, 3), np.float32)
PIECES = np.random.default_rng(1).random((7, 6, 3), np.float32)
NAMES = {clip_name(clip) for clip in CLIPS}


def counting(memory: Memory | None = None) -> tuple[list[int], VectorCache]:
    """A cache, and how many clips its features were made of at each call."""
    made: list[int] = []

    def make(energies: np.ndarray, rng: np.random.Generator, noise: np.ndarray | None) -> np.ndarray:
        made.append(len(energies))
        behind = 0 if noise is None else noise[:2]
        return np.round(energies[:, :2] + rng.integers(100) + behind, 2).astype(np.float32)

    return made, VectorCache("strong", make, 3, memory)


def test_a_variant_is_made_once() -> None:
    made, cache = counting()
    rng = np.random.default_rng(1)
    drawn = [cache(CLIPS, rng) for _ in range(40)]
    assert sum(made) == 5 * 3
    assert {float(vectors[0, 0, 0]) for vectors in drawn} == {float(x[0, 0, 0]) for x in drawn[:20]}
    assert len({float(vectors[0, 0, 0]) for vectors in drawn}) == 3


def test_without_a_generator_it_is_the_first_variant() -> None:
    _, cache = counting()
    assert np.array_equal(cache(CLIPS), cache(CLIPS))


def test_what_was_forgotten_is_made_again_as_it_was() -> None:
    memory = Memory()
    _, cache = counting(memory)
    before = [cache(CLIPS, np.random.default_rng(seed)) for seed in range(4)]
    memory.renew((), (), None)
    assert not memory.known
    assert np.array_equal(before, [cache(CLIPS, np.random.default_rng(seed)) for seed in range(4)])


def test_it_holds_no_more_than_it_may(monkeypatch) -> None:  # type: ignore[no-untyped-def]
    monkeypatch.setattr(vector_cache, "MOST_CLIPS", 2)
    monkeypatch.setattr(vector_cache, "VARIANTS", 1)
    memory = Memory()
    made, cache = counting(memory)
    cache(CLIPS)
    assert len(memory.known) == 2 * 2
    cache(CLIPS[-1:])
    assert sum(made) == 5


def test_no_clip_gives_no_vector() -> None:
    _, cache = counting()
    assert cache(CLIPS[:0]).shape == (0, 2, 3)


def test_clips_and_noises_that_are_gone_are_forgotten() -> None:
    memory = Memory()
    _, cache = counting(memory)
    cache.noises = Noises(PIECES)
    for seed in range(20):
        cache(CLIPS, np.random.default_rng(seed))
    left = {clip_name(clip) for clip in CLIPS[:3]}
    heard = {variant.noise for _, variant in memory.known}
    gone = min(heard)
    memory.renew(left, heard - {gone}, None)
    assert {clip for clip, _ in memory.known} == left
    assert {variant.noise for _, variant in memory.known} <= heard - {gone}


def test_one_noise_less_changes_the_variants_alone_that_had_it() -> None:
    every, fewer = Noises(PIECES), Noises(PIECES[1:])
    of = {(clip, place): every.of(clip, place)[0] for clip in NAMES for place in range(40)}
    counts = [list(of.values()).count(name) for name in every.names]
    assert min(counts) > 200 / 7 / 3
    for (clip, place), name in of.items():
        now = fewer.of(clip, place)[0]
        assert now != every.names[0]
        assert name in (now, every.names[0])


class Shelf:
    """A shelf that is a dictionary."""

    def __init__(self) -> None:
        self.kept: dict[tuple[bytes, bytes], Mapping[Variant, Halves]] = {}

    def read(self, clip: bytes, maker: bytes) -> Mapping[Variant, Halves]:
        """What was written."""
        return self.kept.get((clip, maker), {})

    def write(self, maker: bytes, made: Mapping[bytes, Mapping[Variant, Halves]]) -> None:
        """Keep it."""
        self.kept |= {(clip, maker): variants for clip, variants in made.items()}


def test_what_is_on_a_shelf_is_not_made_again_and_of_another_maker_it_is() -> None:
    shelf, rng = Shelf(), np.random.default_rng(2)
    for maker, expected in ((b"a", 5 * 3), (b"a", 0), (b"b", 5 * 3)):
        memory = Memory(maker)
        made, cache = counting(memory)
        memory.renew(NAMES, (), shelf)
        for _ in range(40):
            cache(CLIPS, rng)
        memory.renew((), (), None)
        assert sum(made) == expected


def test_what_a_shelf_has_is_not_written_to_it_again() -> None:
    shelf, memory = Shelf(), Memory()
    _, cache = counting(memory)
    for clips, kept in ((CLIPS[:3], 3), (CLIPS, 2)):
        memory.renew(NAMES, (), shelf)
        cache(clips)
        shelf.kept, before = {}, dict(shelf.kept)
        memory.shelf = shelf
        memory.renew(NAMES, (), shelf)
        assert len(shelf.kept) == kept
        shelf.kept |= before
