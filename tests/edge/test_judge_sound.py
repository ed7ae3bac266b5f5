"""The judge's sound: how much of it there is, which clips are in it, and whose answers are remembered."""

from __future__ import annotations

import msgspec
import numpy as np
import pytest
from tests.edge.judge_toy import DETECT, PACK, RUNTIME, negatives
from tests.edge.toy import clips

from auricle.wire.tensors import Flat
from auricle_edge.runtimes import Runtime
from auricle_edge.training.carried import LEAST_WINDOWS
from auricle_edge.training.judge.sound import REMEMBERED, JudgedSound, Negatives, carried_negatives
from auricle_edge.training.speech_data import Clips

FRAMES = PACK.manifest.task.frames


def _silence(seconds: float) -> np.ndarray:
    return np.full((round(100 * seconds), 40), 1e-3, np.float32)


@pytest.fixture
def played(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """The models that were played to, by their first weight."""
    models: list[int] = []

    def play(_: Negatives, __: Runtime, ___: str, weights: Flat) -> np.ndarray:
        models.append(int(weights[0]))
        return np.zeros(1, np.uint8)

    monkeypatch.setattr(Negatives, "_play", play)
    return models


def test_the_answers_of_the_last_models_are_remembered_and_the_one_not_asked_for_longest_goes(
    played: list[int],
) -> None:
    heard = negatives(1)

    def ask(*numbers: int) -> None:
        for number in numbers:
            heard.accepts(RUNTIME, "crnn-lite", np.full(3, number, np.float32))

    ask(*range(REMEMBERED), *range(REMEMBERED))
    assert played == list(range(REMEMBERED))
    ask(0, 100)
    played.clear()
    ask(0, 100, 1)
    assert played == [1]


def test_of_long_negatives_so_many_minutes_are_judged_on() -> None:
    half = carried_negatives(PACK, DETECT, 0.5, [_silence(90)])
    whole = carried_negatives(PACK, DETECT, 15, [_silence(90)])

    assert half.streams.hours * 3600 == pytest.approx(30)
    assert whole.streams.hours * 3600 == pytest.approx(90)


def test_of_many_short_stretches_none_is_cut_to_less_than_a_few_windows() -> None:
    least = LEAST_WINDOWS * FRAMES / 100

    some = carried_negatives(PACK, DETECT, 0.01, [_silence(least + 5)] * 6)

    assert some.streams.hours * 3600 == pytest.approx(6 * least)


def test_clips_of_labels_that_the_pack_does_not_have_are_in_nothing() -> None:
    """Of seven clips one is a keyword, the first, and one is of no keyword, the third."""
    made = clips(7, 1000)
    odd = Clips(made.energies, np.array([0, -1, 2, 3, 4, -7, 99]))
    sound = JudgedSound(RUNTIME, DETECT, negatives(1), odd)

    assert sound._words.tolist() == [0]
    assert sound._own.streams.seconds() == [1]
    assert np.array_equal(sound._own.streams.stretches[0], made.energies[2])


def test_after_a_wake_word_commands_are_heard_and_a_wake_word_is_not_after_itself() -> None:
    waking = msgspec.structs.replace(DETECT, wake=("low",))

    assert JudgedSound(RUNTIME, waking, negatives(1), clips(6, 1000))._awake == [False, True] * 2
    assert JudgedSound(RUNTIME, DETECT, negatives(1), clips(6, 1000))._awake == [False, False] * 2


def test_the_devices_own_clips_are_judged_with_the_gate_open() -> None:
    """A clip was cut because something was heard: a gate that learns what quiet is would be closed at its start."""
    gated = msgspec.structs.replace(DETECT, vad="energy")
    sound = JudgedSound(RUNTIME, gated, negatives(1), clips(6, 1000))

    assert [streams._gate_settings.vad for streams in (sound._own.streams, sound._spoken)] == ["off", "off"]
