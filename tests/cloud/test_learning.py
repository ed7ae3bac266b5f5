"""Whether rounds helped is said every ten rounds, from what devices say of clips that they hold out."""

from __future__ import annotations

import math
from pathlib import Path

import pytest
from tests.cloud.arrivals import BASE, TASK, begin, end_round, open_round, update

from auricle_cloud.operations.operations import Operations
from auricle_cloud.rounds.learning import note_learning
from auricle_cloud.states.learning import NORMAL, Held, learnt
from auricle_cloud.storage.blobs import Blobs
from auricle_cloud.storage.store import Store

DEVICES = ("dev-a", "dev-b", "dev-c")
MANY = 10**9
"""Clips, of which the share that is right is known for certain."""


def held(*changes: tuple[float, float], clips: int = MANY) -> list[Held]:
    return [Held(before, after, clips, clips) for before, after in changes]


def test_three_devices_that_all_gain_were_helped_and_the_interval_is_students() -> None:
    """Changes 0.1, 0.2 and 0.3: a mean of 0.2, a deviation of 0.1, and t of two degrees of freedom is 4.303."""
    found = learnt(held((0.5, 0.6), (0.5, 0.7), (0.5, 0.8)))
    assert found is not None
    half = 4.303 * 0.1 / math.sqrt(3)
    assert (found.change, found.low, found.high) == pytest.approx((0.2, 0.2 - half, 0.2 + half))
    assert found.low < 0
    assert "cannot be told yet" in found.sentence("rounds 1 to 10")


def test_a_few_clips_have_the_interval_of_a_few_clips() -> None:
    """With two more of each, 6 of 10 are 8 of 14: a variance of 24 / 49 / 14 / 2 for each of the two shares."""
    found = learnt(held((0.6, 0.6), clips=10))
    assert found is not None
    half = NORMAL * math.sqrt(2 * (8 / 14) * (6 / 14) / 14)
    assert (found.low, found.high) == pytest.approx((-half, half))


@pytest.mark.parametrize(
    ("before", "after", "said"),
    [(0.6, 0.7, "Rounds 1 to 10 helped"), (0.7, 0.6, "did not help"), (0.6, 0.6, "cannot be told yet")],
)
def test_the_sentence_says_which_of_three(before: float, after: float, said: str) -> None:
    changes = [(before + 0.01 * i, after + 0.011 * i) for i in range(4)]
    found = learnt(held(*changes, clips=4000))
    assert found is not None
    assert said in found.sentence("rounds 1 to 10")


def test_one_device_cannot_turn_what_the_others_agree_on() -> None:
    """It says that a model which all others find better has become useless to it, on any number of clips."""
    honest = held(*[(0.5, 0.6)] * 5, clips=400)
    found = learnt([*honest, Held(1.0, 0.0, MANY, MANY)])
    assert found is not None
    assert found.high > 0
    assert learnt([]) is None


def test_every_tenth_round_enters_an_event_that_the_overview_and_the_device_show(store: Store, tmp_path: Path) -> None:
    begin(store, DEVICES)
    for number in range(1, 11):
        open_round(store, DEVICES, number)
        for name in DEVICES:
            right = {"plugin_accuracy": 0.5 + 0.03 * number, "held_out": 400}
            store.updates.count([update(name, round=number, base=BASE, **right)])
        end_round(store, number, f"{number:064d}")
    with store.database.writing() as tx:
        assert note_learning(tx, TASK, 9) is None
        sentence = note_learning(tx, TASK, 10)
    do = Operations(store, Blobs(tmp_path), TASK)
    assert sentence is not None and sentence.startswith("Rounds 1 to 10 helped")
    assert "changed by +27.0 percentage points" in sentence
    assert do.overview().learning == sentence
    own = do.show_device("dev-a").learning
    assert "1 device holds out changed by +27.0" in own


def test_where_devices_hold_nothing_out_nothing_is_said(store: Store) -> None:
    begin(store, DEVICES)
    for number in (9, 10):
        open_round(store, DEVICES, number)
        store.updates.count([update(name, round=number, base=BASE) for name in DEVICES])
        end_round(store, number, f"{number:064d}")
    with store.database.writing() as tx:
        assert note_learning(tx, TASK, 10) is None
