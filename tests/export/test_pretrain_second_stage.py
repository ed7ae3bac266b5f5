"""Two stages over whole streams: what a detector would come to, and when the second one is worth it."""

from __future__ import annotations

import json

import numpy as np
import pytest
from tests.export.test_pretrain_live import FRONTEND, LABELS, heard

from auricle.hearing.origins import Recordings
from auricle.packs.manifest import Listening
from auricle_export.commands.pretrain_view import View
from auricle_export.pretrain.listening import command_streams
from auricle_export.pretrain.second_stage import Measured, Sound, Staged, compare_stages
from auricle_export.pretrain.streams import Streams, make_streams


@pytest.fixture(scope="module")
def streams() -> Streams:
    return make_streams(heard(), LABELS, FRONTEND, 0, passes=1, negatives=1, seconds=12)


def sound(streams: Streams, right: float, mistaken: float, commands: Streams | None = None) -> Sound:
    """What a model hears that gives words one posterior, and half a second of each scene without words another."""
    return Sound(
        streams, told(streams, right, mistaken), commands, None if commands is None else told(commands, right, mistaken)
    )


def told(streams: Streams, right: float, mistaken: float) -> list[np.ndarray]:
    found = []
    for scene in streams.scenes:
        rows = np.tile(np.array([0.0, 0.0, 0.9, 0.1], np.float32), (len(scene.samples) // 1_600, 1))
        for word in scene.words:
            rows[word.end // 1_600 : word.end // 1_600 + 5, LABELS.index(word.word)] = right
        if not scene.words:
            rows[20:25, LABELS.index("high")] = mistaken
        found.append(rows)
    return found


def test_a_second_stage_that_knows_better_is_taken_and_its_thresholds_are_for_both(streams: Streams) -> None:
    """Alone, "high" is mistaken four times in 42 s, at the 0.6 at which it is right; both give 0.75 and 0.31."""
    first, second = sound(streams, 0.6, 0.6), sound(streams, 0.9, 0.02)
    stage = compare_stages(first, second, "large", (), open_rate=300)
    assert stage.alone == Measured(0.0, 0.0) and stage.both == Measured(1.0, 0.0)
    assert stage.taken and stage.listening.second_stage == "large"
    assert 0.31 < stage.listening.thresholds["high"] <= 0.75
    hours = 4 / first.measured(Listening(thresholds={"high": 0.5, "low": 0.5})).false_accepts
    assert hours == pytest.approx(sum(s.end - s.start for c in streams.scenes for s in c.stretches) / 16_000 / 3_600)


def test_a_second_stage_that_hears_no_more_is_left_out(streams: Streams) -> None:
    first = sound(streams, 0.6, 0.02)
    same = compare_stages(first, first, "large", (), open_rate=300)
    deaf = compare_stages(first, sound(streams, 0.0, 0.0), "large", (), open_rate=300)
    assert same.alone == same.both == Measured(1.0, 0.0) and not same.taken
    assert deaf.both.heard < deaf.alone.heard == 1.0 and not deaf.taken


def test_with_a_wake_word_the_commands_decide(streams: Streams) -> None:
    """The plug-in gives commands 0.35, less than any command's threshold; both give 0.65."""
    commands = command_streams(heard(), streams, ("high",), 0)
    first, second = sound(streams, 0.35, 0.02, commands), sound(streams, 0.95, 0.02, commands)
    stage = compare_stages(first, second, "large", ("high",), wake_rate=300)
    assert stage.alone == Measured(0.0, 0.0) and stage.both.heard > 0.9 and stage.both.false_accepts == 0.0
    assert stage.taken and stage.listening.wake == ("high",) and 0.5 <= stage.listening.commands["low"] <= 0.65


@pytest.mark.parametrize(
    ("alone", "both", "taken"),
    [
        (Measured(0.5, 4.0), Measured(0.6, 5.0), True),
        (Measured(0.5, 4.0), Measured(0.5, 3.0), False),
        (Measured(0.5, 4.0), Measured(0.9, 5.1), False),
        (Measured(0.5, 6.0), Measured(0.9, 5.5), True),
        (Measured(0.5, 4.0, 0.01), Measured(0.9, 4.0, 0.04), False),
        (Measured(0.5, 4.0, 0.0, 0.04), Measured(0.9, 4.0, 0.0, 0.04), True),
    ],
)
def test_more_hits_count_only_at_no_more_false_accepts(alone: Measured, both: Measured, taken: bool) -> None:
    assert Staged("large", alone, both, Listening(), 5.0).taken is taken


def test_false_accepts_are_counted_by_recording_too(streams: Streams) -> None:
    """In each of four scenes something is mistaken once; their recordings may be the same."""
    first = sound(streams, 0.6, 0.6)
    found = first.measured(Listening(thresholds={"high": 0.5, "low": 0.5}))
    quiet = first.measured(Listening(thresholds={"high": 0.9, "low": 0.9}))
    assert sum(found.recordings.false_accepts.values()) == 4 and 1 <= found.recordings.bad <= 4
    assert quiet.recordings.bad == 0 and quiet.recordings.heard == found.recordings.heard > 4
    assert found == Measured(1.0, found.false_accepts)


def test_the_command_says_from_how_many_recordings(capsys: pytest.CaptureFixture[str]) -> None:
    measured = Measured(0.9, 0.5, recordings=Recordings({"a": 18, "b": 1}, 40, 0.2))
    with View(as_json=True) as view:
        view.chosen(Listening(), measured)
        view.staged(Staged("large", measured, Measured(1.0, 0.0), Listening(), 5.0))
    chosen, staged = map(json.loads, capsys.readouterr().out.splitlines())
    assert chosen["chosen"]["recordings"] == {"with_false_accepts": 2, "heard": 40}
    assert staged["recordings"]["alone"]["with_false_accepts"] == 2
    with View(as_json=False) as view:
        view.chosen(Listening(wake=("high",)), measured)
        view.staged(Staged("large", measured, Measured(1.0, 0.0), Listening(), 5.0))
    said = capsys.readouterr().err
    assert "0.5 false accepts an hour of wake words, from 2 of 40 recordings." in said
    assert "0.0 false accepts an hour from 0 recordings (alone 0.5 from 2)" in said
