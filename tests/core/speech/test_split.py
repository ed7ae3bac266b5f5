"""Who takes part and who is only measured on."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from auricle.errors import DataError, SettingsError
from auricle.speech.speech_set import SpeechSet, build_speech_set
from auricle.speech.split import FleetSplit, split_by_speaker


def _speech(clips_of_each: list[int]) -> SpeechSet:
    speakers = [f"s{place:02}" for place, count in enumerate(clips_of_each) for _ in range(count)]
    audio = np.zeros((len(speakers), 16_000), dtype=np.int16)
    return build_speech_set(("yes",), audio, ["yes"] * len(speakers), speakers)


def _sizes(split: FleetSplit) -> tuple[int, int, int]:
    return len(split.devices), len(split.unseen_speakers), len(split.unused)


def test_every_speaker_with_enough_clips_is_a_device_or_held_out() -> None:
    split = split_by_speaker(_speech([5, 5, 5, 5, 2, 1]), min_clips=5, unseen=1)

    assert _sizes(split) == (3, 3, 0)
    assert {"s04", "s05"} < set(split.unseen_speakers)
    assert split.training_clips() == 15
    assert len(split.unseen) == 8


@pytest.mark.parametrize(
    ("devices", "unseen", "expected"),
    [
        (None, None, (8, 2, 0)),
        (None, 4, (6, 4, 0)),
        (6, None, (6, 4, 0)),
        (9, None, (9, 1, 0)),
        (6, 1, (6, 1, 3)),
        (9, 1, (9, 1, 0)),
    ],
)
def test_who_is_left_over(devices: int | None, unseen: int | None, expected: tuple[int, int, int]) -> None:
    assert _sizes(split_by_speaker(_speech([3] * 10), min_clips=3, devices=devices, unseen=unseen)) == expected


def test_all_may_be_devices_when_those_with_few_clips_are_the_measure() -> None:
    assert _sizes(split_by_speaker(_speech([3, 3, 1]), min_clips=3, devices=2)) == (2, 1, 0)
    assert _sizes(split_by_speaker(_speech([3, 3, 1]), min_clips=3, unseen=0)) == (2, 1, 0)


@given(
    counts=st.lists(st.integers(1, 6), min_size=2, max_size=12),
    devices=st.none() | st.integers(1, 6),
    unseen=st.none() | st.integers(0, 6),
    seed=st.integers(0, 100),
)
def test_nobody_stands_on_two_sides(counts: list[int], devices: int | None, unseen: int | None, seed: int) -> None:
    speech = _speech(counts)

    try:
        split = split_by_speaker(speech, min_clips=3, devices=devices, unseen=unseen, seed=seed)
    except DataError:
        return

    names = [*(device.speaker for device in split.devices), *split.unseen_speakers, *split.unused]
    assert sorted(names) == list(speech.speaker_names)
    clips = [*(device.clips for device in split.devices), split.unseen]
    together = np.concatenate(clips)
    assert len(np.unique(together)) == len(together)
    assert all(len(part) for part in clips)
    for device in split.devices:
        assert len(device.clips) >= 3
        assert {speech.speaker_names[place] for place in speech.speakers[device.clips]} == {device.speaker}
    assert not {device.speaker for device in split.devices} & {
        speech.speaker_names[place] for place in speech.speakers[split.unseen]
    }


def test_the_seed_decides_and_the_same_seed_decides_alike() -> None:
    speech = _speech([3] * 20)

    held_out = [split_by_speaker(speech, min_clips=3, unseen=5, seed=seed).unseen_speakers for seed in (1, 1, 2)]

    assert held_out[0] == held_out[1]
    assert held_out[0] != held_out[2]


@pytest.mark.parametrize(("devices", "unseen", "held", "left"), [(9, 2, 2, 8), (10, None, 1, 9)])
def test_more_devices_than_speakers_says_the_numbers(
    devices: int | None, unseen: int | None, held: int, left: int
) -> None:
    sentence = f"of 10 with 3 clips or more {held} are held out, which leaves {left} for --devices {devices or 1}"

    with pytest.raises(DataError, match=sentence):
        split_by_speaker(_speech([3] * 10), min_clips=3, devices=devices, unseen=unseen)


@pytest.mark.parametrize(("devices", "unseen"), [(None, 10), (1, 12)])
def test_more_unseen_speakers_than_speakers_is_said_as_that(devices: int | None, unseen: int) -> None:
    with pytest.raises(DataError, match=f"^--unseen {unseen} leaves nobody to learn: 10 speakers have 3 clips or more"):
        split_by_speaker(_speech([3] * 10), min_clips=3, devices=devices, unseen=unseen)


def test_what_leaves_nobody_is_refused() -> None:
    with pytest.raises(DataError, match="No speaker has 4 clips, the most is 3"):
        split_by_speaker(_speech([3] * 10), min_clips=4)
    with pytest.raises(DataError, match="No speaker is left to measure on"):
        split_by_speaker(_speech([3] * 10), min_clips=3, unseen=0)


@pytest.mark.parametrize(("option", "value"), [("devices", 0), ("min_clips", 0), ("unseen", -1)])
def test_a_number_out_of_range_is_refused(option: str, value: int) -> None:
    with pytest.raises(SettingsError, match=f"--{option.replace('_', '-')} is {value} and must be at least"):
        split_by_speaker(_speech([3] * 3), **{option: value})  # type: ignore[arg-type]
