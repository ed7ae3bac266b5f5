"""The judge's sound: how much of it there is, which clips are in it, and whose answers are remembered."""

from __future__ import annotations

import msgspec
import numpy as np
import pytest
from tests.edge.judge_toy import DETECT, PACK, RUNTIME, negatives
from tests.learning.toy import clips

from auricle.errors import SettingsError
from auricle.speech.features import LogMel
from auricle.wire.tensors import Flat
from auricle_edge.listening.detect import DetectSettings
from auricle_edge.training.judge.sound import REMEMBERED_MODELS, JudgedSound, Judging, Negatives, load_negatives
from auricle_edge.training.judge.streams import Streams, in_quiet
from auricle_learning.runtimes import Runtime
from auricle_learning.training.carried import LEAST_WINDOWS
from auricle_learning.training.speech_data import Clips

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

    ask(*range(REMEMBERED_MODELS), *range(REMEMBERED_MODELS))
    assert played == list(range(REMEMBERED_MODELS))
    ask(0, 100)
    played.clear()
    ask(0, 100, 1)
    assert played == [1]


def test_of_long_negatives_so_many_minutes_are_judged_on() -> None:
    half = load_negatives(PACK, DETECT, 0.5, [_silence(90)])
    whole = load_negatives(PACK, DETECT, 15, [_silence(90)])
    assert half.streams.hours * 3600 == pytest.approx(30)
    assert whole.streams.hours * 3600 == pytest.approx(90)


def test_of_many_short_stretches_none_is_cut_to_less_than_a_few_windows() -> None:
    least = LEAST_WINDOWS * FRAMES / 100
    some = load_negatives(PACK, DETECT, 0.01, [_silence(least + 5)] * 6)
    assert some.streams.hours * 3600 == pytest.approx(6 * least)


def test_clips_of_labels_that_the_pack_does_not_have_are_in_nothing() -> None:
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
    gated = msgspec.structs.replace(DETECT, vad="energy")
    sound = JudgedSound(RUNTIME, gated, negatives(1), clips(6, 1000))
    assert [streams._gate_settings.vad for streams in (sound._own.streams, sound._spoken)] == ["off", "off"]


def test_negatives_are_judged_through_the_detectors_gate() -> None:
    gated = msgspec.structs.replace(DETECT, vad="energy")
    assert load_negatives(PACK, gated, 1, [_silence(9)]).streams._gate_settings.vad == "energy"
    assert Judging().detect == DetectSettings()


@pytest.mark.parametrize(("hop", "frames"), [(0.004, None), (0.01, 1), (1.0, 100), (1.01, None)])
def test_a_hop_is_at_least_a_frame_and_at_most_a_clip(hop: float, frames: int | None) -> None:
    asked = msgspec.structs.replace(DETECT, hop=hop)
    if frames is None:
        with pytest.raises(SettingsError, match="at least a frame and at most a clip"):
            load_negatives(PACK, asked, 1, [])
    else:
        assert load_negatives(PACK, asked, 1, []).streams.frames == frames


def _streams(*frames: int) -> Streams:
    whole = np.random.default_rng(3).gamma(1.0, size=(sum(frames), 40)).astype(np.float32)
    return Streams(LogMel(PACK.manifest.task), PACK.labels, DETECT, np.split(whole, np.cumsum(frames)[:-1]))


def test_a_stretch_is_judged_from_its_first_whole_window_to_its_last_whole_hop() -> None:
    """Of 125 frames twelve hops of ten; a window of a hundred is whole with the tenth."""
    streams = _streams(125)
    assert streams._judged[0].tolist() == [False] * 9 + [True] * 3
    said = streams._posteriors(
        lambda features: np.ones((len(features), 3), np.float32),
        streams.stretches[0],
        np.flatnonzero(streams._judged[0]),
        12,
    )
    assert said[:, 0].tolist() == [0] * 9 + [1] * 3


def test_a_hop_that_begins_with_a_second_lies_in_it() -> None:
    assert [_streams(300).second_of(hop) for hop in (0, 9, 10, 19, 20)] == [0, 0, 1, 1, 2]


def test_where_a_stretch_ends_is_in_the_digest() -> None:
    assert len({_streams(200).digest, _streams(100, 100).digest, _streams(90, 110).digest}) == 3


def test_quiet_is_what_a_tenth_of_the_frames_stay_under() -> None:
    clip = np.repeat(np.arange(101, dtype=np.float32)[:, None], 40, axis=1)
    (padded,) = in_quiet(clip[None], 2)
    assert padded[:2, 0].tolist() == padded[-2:, 0].tolist() == [10, 10]
    assert np.array_equal(padded[2:-2], clip)
