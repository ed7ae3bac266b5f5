"""A wake word, then a command: step by step, worked out by hand, and the same however the sound is cut."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.edge.test_detector import FRONTEND, _blocks, _by_pitch, _sound

from auricle_edge.listening.detect import Detector, DetectSettings
from auricle_edge.listening.detect.decision import Awake, Decider, waken
from auricle_edge.listening.sound import RATE, Block, Detection, Event, Timeout

LABELS = ("wake", "stop", "go", "_unknown_")
WAKE = Detection("00112233aabb", "wake", 0.9, "plugin", 0, 16_000, 16_000, 0.0, 0.1, "wake")


def _row(wake: float = 0.0, stop: float = 0.0, go: float = 0.0) -> np.ndarray:
    return np.array([wake, stop, go, 1 - wake - stop - go], np.float32)


def _decider(**changes: object) -> Decider:
    values: dict[str, object] = {
        "smoothing": 1,
        "patience": 1,
        "threshold": 0.5,
        "refractory": 0.0,
        "wake": ("wake",),
        "commands": {"stop": 0.3, "go": 0.3},
    }
    return Decider(LABELS, DetectSettings(**{**values, **changes}))  # type: ignore[arg-type]


def _heard(decider: Decider, rows: Sequence[np.ndarray], *, awake: bool) -> list[str | None]:
    decisions = [decider.step(row, awake=awake) for row in rows]
    return [None if decision is None else LABELS[decision[0]] for decision in decisions]


# -- the decider


def test_asleep_only_the_wake_word_counts_and_a_louder_command_does_not_hold_it_back() -> None:
    """0.49 is below 0.5; a command of 0.51 is nothing; 0.5 counts."""
    decider = _decider()
    rows = [_row(wake=0.49, stop=0.51), _row(stop=1.0), _row(wake=0.5, stop=0.5)]
    assert _heard(decider, rows, awake=False) == [None, None, "wake"]


def test_awake_the_commands_count_at_their_own_thresholds() -> None:
    """0.3 for `stop`; `go` keeps its usual 0.5 where it has none of its own."""
    decider = _decider(commands={"stop": 0.3})
    assert _heard(decider, [_row(stop=0.29), _row(go=0.49), _row(stop=0.3), _row(go=0.5)], awake=True) == [
        None,
        None,
        "stop",
        "go",
    ]


def test_what_a_command_averaged_before_the_window_is_not_left() -> None:
    """Averages over three: asleep `stop` stood at 0.9; the first window awake is (0 + 0 + 0.6) / 3 = 0.2, then 0.4."""
    decider = _decider(smoothing=3)
    assert _heard(decider, [_row(stop=0.9)] * 4, awake=False) == [None] * 4
    assert decider.smoothed[1] == pytest.approx(0.9)
    assert _heard(decider, [_row(stop=0.6)] * 2, awake=True) == [None, "stop"]
    assert decider.smoothed[1] == pytest.approx(0.4)


def test_patience_counts_windows_of_the_window_only() -> None:
    """Two in a row: the one before waking is none of them."""
    decider = _decider(patience=2)
    _heard(decider, [_row(stop=0.9)], awake=False)
    assert _heard(decider, [_row(stop=0.9)] * 2, awake=True) == [None, "stop"]


def test_the_refractory_time_of_a_command_ends_with_its_window() -> None:
    """A minute of it: `stop` is heard again at once when it is awake again, and though it never fell below 0.3."""
    decider = _decider(refractory=60.0)
    assert _heard(decider, [_row(stop=0.9)] * 2, awake=True) == ["stop", None]
    assert _heard(decider, [_row(stop=0.9)], awake=False) == [None]
    assert _heard(decider, [_row(stop=0.9)], awake=True) == ["stop"]


def test_the_wake_words_own_refractory_time_goes_on() -> None:
    """0.3 s are three hops, whatever the state is in them."""
    decider = _decider(refractory=0.3)
    assert _heard(decider, [_row(wake=0.9), _row()], awake=False) == ["wake", None]
    assert _heard(decider, [_row(wake=0.9), _row(wake=0.9)], awake=True) == [None, "wake"]


def test_a_wake_word_that_was_heard_or_does_not_reach_its_threshold_holds_no_command_back() -> None:
    """It is in the sound of the command for up to a second: 0.6 and heard, then 0.45, below its 0.5."""
    decider = _decider()
    assert _heard(decider, [_row(wake=0.6)], awake=False) == ["wake"]
    assert _heard(decider, [_row(wake=0.6, stop=0.3)], awake=True) == ["stop"]
    assert _heard(decider, [_row(wake=0.45, go=0.35)], awake=True) == ["go"]


def test_a_wake_word_that_is_said_again_wins_over_what_it_sounds_like() -> None:
    """It fell to 0 in between; at 0.6 it is higher than `stop`."""
    decider = _decider()
    _heard(decider, [_row(wake=0.6)], awake=False)
    assert _heard(decider, [_row(), _row(wake=0.6, stop=0.4)], awake=True) == [None, "wake"]


def test_of_two_commands_only_the_higher_is_heard() -> None:
    assert _heard(_decider(), [_row(stop=0.4, go=0.5)] * 2, awake=True) == ["go", None]


def test_without_wake_words_the_state_changes_nothing() -> None:
    rng = np.random.default_rng(0)
    rows = rng.dirichlet(np.full(4, 0.5), 60).astype(np.float32)
    values: dict[str, object] = {"wake": (), "commands": {}, "refractory": 0.2, "smoothing": 2}
    plain, told = _decider(**values), _decider(**values)
    found = _heard(plain, rows, awake=False)
    assert found == [word for row in rows for word in _heard(told, [row], awake=bool(row[0] > 0.3))]
    assert len([word for word in found if word]) > 3


def test_closeness_is_of_the_keywords_and_thresholds_that_count_now() -> None:
    """Asleep 0.4 of `wake` is 0.8 of its 0.5, and commands are far; awake 0.15 of `stop` is half of its 0.3."""
    decider = _decider(commands={"stop": 0.3})
    _heard(decider, [_row(wake=0.4, stop=0.6)], awake=False)
    assert decider.closeness.tolist() == pytest.approx([0.8, 0.0, 0.0, 0.0])
    _heard(decider, [_row(wake=0.1, stop=0.15, go=0.2)], awake=True)
    assert decider.closeness.tolist() == pytest.approx([0.2, 0.5, 0.4, 0.0])
    decider.set_thresholds({}, {"stop": 0.6})
    assert decider.closeness.tolist() == pytest.approx([0.2, 0.25, 0.4, 0.0])
    decider.reset()
    assert decider.closeness.tolist() == [0.0] * 4


# -- the window


def test_a_window_has_its_hops_and_then_is_over() -> None:
    """0.5 s of 0.1 s: five hops."""
    left = waken(dataclasses.replace(WAKE, word_end=0), 0.5, 0.1)
    assert (left.left, left.guard) == (5, 0)
    for hops in (4, 3, 2, 1):
        after = left.after_hop()
        assert after is not None and after.left == hops and after.listens
        left = after
    assert left.after_hop() is None


@pytest.mark.parametrize(
    ("before", "hop", "guard"),
    [(0.0, 0.1, 2), (0.05, 0.1, 2), (0.1, 0.1, 1), (0.2, 0.1, 0), (0.5, 0.1, 0), (0.0, 0.25, 1)],
)
def test_no_command_is_heard_sooner_than_one_can_have_been_said(before: float, hop: float, guard: int) -> None:
    """The first hop that counts ends 0.3 s or more after the wake word, which ended so long before its window did."""
    opened = waken(dataclasses.replace(WAKE, word_end=WAKE.end - round(before * RATE)), 3.0, hop)
    assert opened.guard == guard
    assert (guard + 1) * hop + before >= 0.3 - 1e-9 and (guard == 0 or guard * hop + before < 0.3 - 1e-9)
    after: Awake | None = opened
    for _ in range(guard):
        assert after is not None and not after.listens
        after = after.after_hop()
    assert after is not None and after.listens


# -- the detector, told hop by hop what its model says


class Script:
    """A recogniser that says row after row, (low, high, silence), and then nothing."""

    def __init__(self, rows: Sequence[tuple[float, float]]) -> None:
        self._rows = iter(rows)

    def __call__(self, features: np.ndarray) -> np.ndarray:
        """The next row."""
        low, high = next(self._rows, (0.0, 0.0))
        return np.array([[low, high, 1 - low - high]], np.float32)


STEPS = DetectSettings(
    smoothing=1, patience=1, threshold=0.5, refractory=0.0, vad="off", wake=("low",), commands={"high": 0.3}, window=0.5
)
FIRST = 10
"""Hops before the first window is whole."""


def _listen(rows: Sequence[tuple[float, float]], chosen: DetectSettings = STEPS, more: int = 12) -> list[Event]:
    detector = Detector(FRONTEND, ("low", "high", "_silence_"), Script(rows), chosen)
    sound = np.zeros((FIRST - 1 + len(rows) + more) * 1600, np.int16)
    return [event for block in _blocks(sound, [1600]) for event in detector.listen(block)]


def _hop(event: Event) -> int:
    """In which row something happened."""
    return (event.end + (120 if isinstance(event, Detection) else 0)) // 1600 - FIRST


def _said(event: Event) -> tuple[int, str]:
    return _hop(event), "timeout" if isinstance(event, Timeout) else f"{event.kind} {event.word}"


def test_a_wake_word_then_a_command_that_carries_it_then_it_sleeps() -> None:
    rows = [(0.0, 0.9), (0.6, 0.3), (0.0, 0.2), (0.0, 0.4), (0.0, 0.9), (0.0, 0.9)]
    events = _listen(rows)
    assert [_said(event) for event in events] == [(1, "wake low"), (3, "detection high")]
    wake, command = events
    assert isinstance(wake, Detection) and isinstance(command, Detection)
    assert (wake.wake, wake.wake_word) == (None, None)
    assert (command.wake, command.wake_word) == (wake.id, "low")


def test_a_window_without_a_command_ends_with_a_timeout_after_its_last_hop() -> None:
    """Woken in row 0, five hops, 1 to 5; a command in row 6 is too late."""
    rows = [(0.6, 0.0), *[(0.0, 0.0)] * 5, (0.0, 0.9)]
    wake, closed = _listen(rows)
    assert [_said(wake), _said(closed)] == [(0, "wake low"), (5, "timeout")]
    assert isinstance(wake, Detection) and isinstance(closed, Timeout)
    assert (closed.wake, closed.wake_word) == (wake.id, "low")


def test_a_command_in_the_last_hop_counts() -> None:
    events = _listen([(0.6, 0.0), *[(0.0, 0.0)] * 4, (0.0, 0.3)])
    assert [_said(event) for event in events] == [(0, "wake low"), (5, "detection high")]


def test_the_wake_word_again_makes_the_window_whole_again() -> None:
    """Rows 0 and 3: it closes after row 8, once, for the second of them."""
    events = _listen([(0.6, 0.0), (0.0, 0.0), (0.0, 0.0), (0.7, 0.0)])
    assert [_said(event) for event in events] == [(0, "wake low"), (3, "wake low"), (8, "timeout")]
    again, closed = events[1:]
    assert isinstance(again, Detection) and isinstance(closed, Timeout)
    assert again.wake is None and closed.wake == again.id


def test_one_window_is_for_one_command() -> None:
    events = _listen([(0.6, 0.0), (0.0, 0.9), (0.0, 0.0), (0.0, 0.9), (0.6, 0.0), (0.0, 0.9)])
    assert [_said(event) for event in events] == [
        (0, "wake low"),
        (1, "detection high"),
        (4, "wake low"),
        (5, "detection high"),
    ]


def test_an_open_detector_has_no_states() -> None:
    events = _listen([(0.6, 0.0), (0.0, 0.9)], DetectSettings(smoothing=1, patience=1, threshold=0.5, vad="off"))
    assert [_said(event) for event in events] == [(0, "detection low"), (1, "detection high")]


def test_its_state_can_be_asked_and_sleep_ends_the_window_where_no_sound_comes() -> None:
    detector = Detector(FRONTEND, ("low", "high", "_silence_"), Script([(0.6, 0.0)]), STEPS)
    assert detector.state == "asleep" and detector.sleep() is None
    (wake,) = detector.feed(Block(np.zeros(FIRST * 1600, np.int16), 0, 0.0))
    assert detector.state == "awake"
    closed = detector.sleep()
    assert closed is not None and closed.wake == wake.id and detector.state == "asleep"
    figures = detector.figures
    assert (figures.wakes, figures.timeouts, figures.detections) == (1, 1, 1)
    assert Detector(FRONTEND, ("low", "high", "_silence_"), Script([])).state == "open"


def test_a_gap_ends_the_window() -> None:
    """With a timeout, before anything that comes after it; `feed` gives keywords only."""
    detectors = [
        Detector(FRONTEND, ("low", "high", "_silence_"), Script([(0.6, 0.0), (0.0, 0.9)]), STEPS) for _ in "ab"
    ]
    before = Block(np.zeros(FIRST * 1600, np.int16), 0, 0.0)
    after = Block(np.zeros((FIRST + 1) * 1600, np.int16), 10 * RATE, 20.0)
    assert [_said(event) for event in detectors[0].listen(before)] == [(0, "wake low")]
    assert [_said(event) for event in detectors[0].listen(after)] == [(0, "timeout")]
    assert [d.word for d in detectors[1].feed(before)] == ["low"] and detectors[1].feed(after) == []


# -- on sound

LISTENS = DetectSettings(
    smoothing=2, patience=2, threshold=0.6, refractory=0.5, wake=("low",), commands={"high": 0.5}, window=2.0
)
SOUND = _sound([(1.5, "high"), (3.0, "low"), (4.2, "high"), (6.0, "low"), (10.0, "high")], 11.5)


def _events(sizes: Sequence[int], start: int = 0) -> list[tuple[str, float, int]]:
    detector = Detector(FRONTEND, ("low", "high", "_silence_"), _by_pitch, LISTENS)
    events = [event for block in _blocks(SOUND, sizes, start) for event in detector.listen(block)]
    return [(_said(e)[1], e.score if isinstance(e, Detection) else 0.0, e.end - start) for e in events]


def test_in_sound_it_hears_the_wake_word_the_command_after_it_and_nothing_else() -> None:
    assert [said for said, _, _ in _events([1600])] == ["wake low", "detection high", "wake low", "timeout"]


@pytest.mark.slow
@settings(max_examples=10)
@given(st.lists(st.integers(1, 20_000), max_size=15), st.integers(100, 5000), st.integers(0, 10**9))
def test_the_same_sound_gives_the_same_events_however_it_is_cut(sizes: list[int], rest: int, start: int) -> None:
    assert _events([*sizes, rest], start) == _events([1600])
