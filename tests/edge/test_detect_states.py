"""A wake word, then a command: step by step, worked out by hand, and the same however the sound is cut."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence

import msgspec
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.edge.test_detector import FRONTEND, _blocks, _by_pitch, _sound

from auricle_edge.listening.detect import Detector, DetectSettings
from auricle_edge.listening.detect.decision import Awake, Decider, waken
from auricle_edge.listening.detect.settings import ANY_DROP
from auricle_edge.listening.sound import RATE, Block, Detection, Event, Timeout

LABELS = ("wake", "stop", "go", "_unknown_")
WAKE = Detection("00112233aabb", "wake", 0.9, "plugin", 0, 16_000, 16_000, 0.0, 0.1, "wake")


def _row(wake: float = 0.0, stop: float = 0.0, go: float = 0.0) -> np.ndarray:
    return np.array([wake, stop, go, 1 - wake - stop - go], np.float32)


def _decider(**changes: object) -> Decider:
    values: dict[str, object] = {"smoothing": 1, "patience": 1, "threshold": 0.5, "refractory": 0.0}
    values |= {"wake": ("wake",), "commands": {"stop": 0.3, "go": 0.3}}
    return Decider(LABELS, DetectSettings(**{**values, **changes}))  # type: ignore[arg-type]


def _heard(decider: Decider, rows: Sequence[np.ndarray], *, awake: bool) -> list[str | None]:
    decisions = [decider.step(row, awake=awake) for row in rows]
    return [None if decision is None else LABELS[decision[0]] for decision in decisions]


# -- the decider


ASLEEP, AWAKE = False, True
MINUTE = {"refractory": 60.0}
Steps = list[tuple[bool, list[np.ndarray], list[str | None]]]
CASES: dict[str, tuple[dict[str, object], Steps]] = {
    "asleep only the wake word counts, and a louder command does not hold it back": (
        {},
        [(ASLEEP, [_row(wake=0.49, stop=0.51), _row(stop=1.0), _row(wake=0.5, stop=0.5)], [None, None, "wake"])],
    ),
    "a command without a threshold of its own has the usual 0.5": (
        {"commands": {"stop": 0.3}},
        [(AWAKE, [_row(stop=0.29), _row(go=0.49), _row(stop=0.3), _row(go=0.5)], [None, None, "stop", "go"])],
    ),
    "patience does not count the window before waking": (
        {"patience": 2},
        [(ASLEEP, [_row(stop=0.9)], [None]), (AWAKE, [_row(stop=0.9)] * 2, [None, "stop"])],
    ),
    "the refractory time of a command ends with its window, though it never fell": (
        MINUTE,
        [
            (AWAKE, [_row(stop=0.9)] * 2, ["stop", None]),
            (ASLEEP, [_row(stop=0.9)], [None]),
            (AWAKE, [_row(stop=0.9)], ["stop"]),
        ],
    ),
    "the wake word's own refractory time of three hops goes on": (
        {"refractory": 0.3},
        [(ASLEEP, [_row(wake=0.9), _row()], ["wake", None]), (AWAKE, [_row(wake=0.9)] * 2, [None, "wake"])],
    ),
    "a wake word that was heard, or is below its 0.5, holds no command back": (
        {},
        [(ASLEEP, [_row(wake=0.6)], ["wake"]), (AWAKE, [_row(0.6, 0.3), _row(0.45, go=0.35)], ["stop", "go"])],
    ),
    "a wake word that is said again wins over what it sounds like": (
        {},
        [(ASLEEP, [_row(wake=0.6)], ["wake"]), (AWAKE, [_row(), _row(wake=0.6, stop=0.4)], [None, "wake"])],
    ),
    "of two commands only the higher is heard": ({}, [(AWAKE, [_row(stop=0.4, go=0.5)] * 2, ["go", None])]),
}


@pytest.mark.parametrize("case", CASES)
def test_what_is_heard_asleep_and_awake(case: str) -> None:
    changes, steps = CASES[case]
    decider = _decider(**changes)
    assert [_heard(decider, rows, awake=awake) for awake, rows, _ in steps] == [heard for _, _, heard in steps]


def test_what_a_command_averaged_before_the_window_is_not_left() -> None:
    """Averages over three: asleep `stop` stood at 0.9; the first window awake is (0 + 0 + 0.6) / 3 = 0.2, then 0.4."""
    decider = _decider(smoothing=3)
    assert _heard(decider, [_row(stop=0.9)] * 4, awake=False) == [None] * 4
    assert decider.smoothed[1] == pytest.approx(0.9)
    assert _heard(decider, [_row(stop=0.6)] * 2, awake=True) == [None, "stop"]
    assert decider.smoothed[1] == pytest.approx(0.4)


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
    return (event.end + (120 if isinstance(event, Detection) else 0)) // 1600 - FIRST


def _said(event: Event) -> tuple[int, str]:
    return _hop(event), "timeout" if isinstance(event, Timeout) else f"{event.kind} {event.word}"


NONE, WOKEN, COMMAND = (0.0, 0.0), (0.6, 0.0), (0.0, 0.9)
OPEN = DetectSettings(smoothing=1, patience=1, threshold=0.5, vad="off")
HEARD: dict[str, tuple[list[tuple[float, float]], list[tuple[int, str]]]] = {
    "a command, then it sleeps": (
        [COMMAND, (0.6, 0.3), (0.0, 0.2), (0.0, 0.4), COMMAND, COMMAND],
        [(1, "wake low"), (3, "detection high")],
    ),
    "a command in row 6 is too late": ([WOKEN, *[NONE] * 5, COMMAND], [(0, "wake low"), (5, "timeout")]),
    "a command in the last hop": ([WOKEN, *[NONE] * 4, (0.0, 0.3)], [(0, "wake low"), (5, "detection high")]),
    "the wake word again": ([WOKEN, NONE, NONE, (0.7, 0.0)], [(0, "wake low"), (3, "wake low"), (8, "timeout")]),
    "one window is for one command": (
        [WOKEN, COMMAND, NONE, COMMAND, WOKEN, COMMAND],
        [(0, "wake low"), (1, "detection high"), (4, "wake low"), (5, "detection high")],
    ),
}


@pytest.mark.parametrize("case", HEARD)
def test_a_wake_word_opens_a_window_of_five_hops_for_a_command(case: str) -> None:
    """What comes in it carries the last wake word, a timeout too."""
    rows, heard = HEARD[case]
    events, last = _listen(rows), None
    assert [_said(event) for event in events] == heard
    for event in events:
        if isinstance(event, Detection) and event.kind == "wake":
            assert (event.wake, event.wake_word) == (None, None)
            last = event
        else:
            assert last is not None and (event.wake, event.wake_word) == (last.id, "low")


def test_an_open_detector_has_no_states() -> None:
    assert [_said(event) for event in _listen([WOKEN, COMMAND], OPEN)] == [(0, "detection low"), (1, "detection high")]


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
    detectors = [
        Detector(FRONTEND, ("low", "high", "_silence_"), Script([(0.6, 0.0), (0.0, 0.9)]), STEPS) for _ in "ab"
    ]
    before = Block(np.zeros(FIRST * 1600, np.int16), 0, 0.0)
    after = Block(np.zeros((FIRST + 1) * 1600, np.int16), 10 * RATE, 20.0)
    assert [_said(event) for event in detectors[0].listen(before)] == [(0, "wake low")]
    assert [_said(event) for event in detectors[0].listen(after)] == [(0, "timeout")]
    assert [d.word for d in detectors[1].feed(before)] == ["low"] and detectors[1].feed(after) == []


def _loud(rows: Sequence[tuple[float, float]], levels: Sequence[int], drop: float) -> list[Event]:
    """The same with a tenth of a second of sound for each row, so loud, and silence before them."""
    detector = Detector(
        FRONTEND, ("low", "high", "_silence_"), Script(rows), msgspec.structs.replace(LOUD, command_drop=drop)
    )
    sound = np.repeat([0] * (FIRST - 1) + list(levels), 1600).astype(np.int16)
    return [event for block in _blocks(sound, [1600]) for event in detector.listen(block)]


LOUD = msgspec.structs.replace(STEPS, window=3.0)


def test_the_fainter_a_command_is_than_its_wake_word_the_surer_it_has_to_be() -> None:
    """A wake word of three tenths at 8000; when nothing of it is in the window, a command at 2000, 12.04 dB less.

    Where 4 are allowed, its threshold of 0.3 is 8.04 times 0.05 higher: 0.702. Where any are, 0.3 is enough. The window
    goes on: a command at 4000, 6.02 dB less, needs 0.401.
    """
    before, levels = [NONE, NONE, WOKEN, *[NONE] * 12], [8000] * 3 + [0] * 10 + [2000] * 3 + [0] + [4000] * 3
    for first, second, drop, heard in (
        (0.71, 0.0, 4.0, [(15, "detection high")]),
        (0.70, 0.41, 4.0, [(19, "detection high")]),
        (0.70, 0.40, 4.0, []),
        (0.31, 0.0, ANY_DROP, [(15, "detection high")]),
    ):
        told = _loud([*before, (0.0, first), *[NONE] * 3, (0.0, second)], levels, drop)
        assert [_said(event) for event in told] == [(2, "wake low"), *heard]
    wake = told[0]
    assert isinstance(wake, Detection) and wake.level == pytest.approx(-12.2, abs=0.1)


def test_a_faint_command_is_not_counted_and_its_window_ends_as_one_without() -> None:
    rows, levels = [NONE, NONE, WOKEN, *[NONE] * 12, (0.0, 0.7)], [8000] * 3 + [0] * 10 + [2000] * 3 + [0] * 30
    assert [_said(event) for event in _loud(rows, levels, 4.0)] == [(2, "wake low"), (32, "timeout")]


def test_a_wake_word_said_again_faintly_needs_no_more_than_its_threshold() -> None:
    rows, levels = [NONE, NONE, WOKEN, *[NONE] * 12, WOKEN], [8000] * 3 + [0] * 10 + [500] * 3
    assert [_said(event) for event in _loud(rows, levels, 4.0)] == [(2, "wake low"), (15, "wake low")]


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
