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
        *((None, None, (8, 2, 0)), (None, 4, (6, 4, 0)), (6, None, (6, 4, 0)), (9, None, (9, 1, 0)), (6, 1, (6, 1, 3))),
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


@pytest.mark.parametrize(
    ("options", "error", "noun"),
    [
        ({"devices": 9, "unseen": 2}, DataError, "2 are held out, which leaves 8"),
        ({"devices": 10}, DataError, "1 are held out, which leaves 9"),
        ({"unseen": 10}, DataError, "^--unseen 10"),
        ({"devices": 1, "unseen": 12}, DataError, "^--unseen 12"),
        ({"min_clips": 4}, DataError, "the most is 3"),
        ({"unseen": 0}, DataError, "measure"),
        ({"devices": 0}, SettingsError, "--devices is 0"),
        ({"min_clips": 0}, SettingsError, "--min-clips is 0"),
        ({"unseen": -1}, SettingsError, "--unseen is -1"),
    ],
)
def test_what_leaves_nobody_is_refused(options: dict[str, int], error: type[Exception], noun: str) -> None:
    with pytest.raises(error, match=noun):
        split_by_speaker(_speech([3] * 10), **{"min_clips": 3, **options})


@pytest.mark.parametrize(("clips", "unseen", "sizes"), [([3] * 10, 6, (4, 4, 2)), ([3] * 6 + [1] * 3, 0, (6, 2, 1))])
def test_a_third_of_those_held_out_are_the_validation_speakers_whatever_the_seed(
    clips: list[int], unseen: int, sizes: tuple[int, int, int]
) -> None:
    speech = _speech(clips)
    found = [split_by_speaker(speech, min_clips=3, unseen=unseen, seed=seed, validation=True) for seed in range(5)]
    assert len({split.validation_speakers for split in found}) == 1
    for split in found:
        devices = tuple(device.speaker for device in split.devices)
        sides = (devices, split.unseen_speakers, split.validation_speakers)
        assert tuple(map(len, sides)) == sizes
        assert sorted(sum(sides, ())) == sorted(speech.speaker_names), "each stands on one side"
        clips_of = [device.clips for device in split.devices]
        together = np.concatenate([*clips_of, split.unseen, split.validation])
        assert np.sort(together).tolist() == list(range(len(speech.targets)))
        assert {speech.speaker_names[i] for i in speech.speakers[split.validation]} == set(split.validation_speakers)


def test_validation_needs_a_speaker_to_choose_by_and_one_to_report() -> None:
    with pytest.raises(DataError, match="--unseen to 2"):
        split_by_speaker(_speech([3] * 4), min_clips=3, unseen=1, validation=True)
