"""What a frozen network makes of a clip is made once, and is the same whatever was kept."""

from __future__ import annotations

import numpy as np

from auricle_learning.training import vector_cache
from auricle_learning.training.vector_cache import VectorCache, VectorCaches

CLIPS = np.random.default_rng(0).random((5, 6, 3), np.float32)


def counting() -> tuple[list[int], VectorCache]:
    """A cache, and how many clips its features were made of at each call."""
    made: list[int] = []

    def make(energies: np.ndarray, rng: np.random.Generator) -> np.ndarray:
        made.append(len(energies))
        return np.round(energies[:, :2] + rng.integers(100), 2).astype(np.float32)

    return made, VectorCache(make, 3)


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


def test_what_was_forgotten_is_made_again_as_it_was(monkeypatch: object) -> None:
    _, cache = counting()
    before = [cache(CLIPS, np.random.default_rng(seed)) for seed in range(4)]
    cache.keep_only(())
    assert not cache._known
    assert np.array_equal(before, [cache(CLIPS, np.random.default_rng(seed)) for seed in range(4)])


def test_it_holds_no_more_than_it_may(monkeypatch) -> None:  # type: ignore[no-untyped-def]
    monkeypatch.setattr(vector_cache, "MOST", 2)
    made, cache = counting()
    cache(CLIPS)
    assert len(cache._known) <= 2 * 3
    cache(CLIPS[-1:])
    assert sum(made) == 5


def test_no_clip_gives_no_vector() -> None:
    _, cache = counting()
    assert cache(CLIPS[:0]).shape == (0, 2, 3)


def test_wiped_clips_are_forgotten_by_every_cache() -> None:
    caches = VectorCaches()
    make = lambda energies, _=None: energies[:, :2]  # noqa: E731
    caches.renew([CLIPS], make, make, make)
    rng = np.random.default_rng(0)
    for cache in (caches.plain, caches.strong, caches.weak):
        cache(CLIPS, rng)
    caches.renew([CLIPS[:2], CLIPS[:0]], make, make, make)
    for cache in (caches.plain, caches.strong, caches.weak):
        assert len({name for name, _ in cache._known}) == 2
