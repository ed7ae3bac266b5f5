"""The simulation of wake words on posteriors hears what the detector's rules hear, hop by hop, whatever is said."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.edge.test_detector import FRONTEND

from auricle.hearing.rule import Rule
from auricle.hearing.waking import SHORTEST_SECONDS, Waking, guard_hops, hear_awake
from auricle_edge.evaluate.device import hear_by_detector
from auricle_edge.evaluate.listeners import waking_of
from auricle_edge.listening.detect import DetectSettings
from auricle_edge.listening.detect.decision import Awake, Decider, waken
from auricle_edge.listening.sound import RATE, Detection

LABELS = ("go", "wake", "_unknown_", "stop", "again")
WAKE = ("again", "wake")
STEP = 1600


def _settings(draw: st.DrawFn) -> DetectSettings:
    return DetectSettings(
        smoothing=draw(st.integers(1, 4)),
        patience=draw(st.integers(1, 3)),
        threshold=draw(st.sampled_from([0.2, 0.3, 0.5])),
        thresholds={"wake": draw(st.sampled_from([0.2, 0.35]))},
        refractory=draw(st.sampled_from([0.0, 0.3, 1.0])),
        wake=WAKE,
        window=draw(st.sampled_from([0.5, 1.0, 3.0])),
        commands={"stop": draw(st.sampled_from([0.1, 0.25]))},
        vad="off",
    )


@st.composite
def streams(draw: st.DrawFn) -> tuple[DetectSettings, np.ndarray]:
    """Settings, and posteriors (hops, 5) of which one label in turn has most for a while; also none at all."""
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    hops, longest = draw(st.integers(0, 160)), draw(st.integers(1, 5))
    favoured = np.repeat(rng.integers(5, size=hops), rng.integers(1, longest + 1, size=hops))[:hops]
    rows = rng.dirichlet(np.full(5, 0.6), hops) + draw(st.sampled_from([0.0, 1.0])) * np.eye(5)[favoured]
    rows /= np.maximum(rows.sum(axis=1, keepdims=True), 1)
    rows[rng.random(hops) < draw(st.sampled_from([0.0, 0.2]))] = 0
    return _settings(draw), rows.astype(np.float32)


def _by_the_rules(chosen: DetectSettings, rows: np.ndarray, since_end: float) -> list[tuple[str, int, bool]]:
    """The detector's own decider and states; every wake word ends so many seconds before the window it is heard in."""
    decider, awake, found = Decider(LABELS, chosen), None, []
    for hop, row in enumerate(rows):
        state: Awake | None = awake
        decision = decider.step(row if row.any() else None, awake=state is not None and state.listens)
        if decision is None:
            awake = None if state is None else state.after_hop()
            continue
        word = LABELS[decision[0]]
        found.append((word, (hop + 1) * STEP, word not in WAKE))
        end = (hop + 1) * STEP
        heard = Detection("0", word, decision[1], "plugin", end - RATE, end, end - round(since_end * RATE), 0.0, 0.0)
        awake = waken(heard, chosen.window, chosen.hop) if word in WAKE else None
    return found


def _simulated(chosen: DetectSettings, rows: np.ndarray, guard: int) -> list[tuple[str, int, bool]]:
    waking = waking_of(LABELS, chosen, guard)
    assert waking is not None
    return [(heard.word, heard.decided, heard.command) for heard in hear_awake(rows, LABELS, waking)]


@pytest.mark.slow
@settings(max_examples=300, deadline=None)
@given(streams(), st.sampled_from([0.0, 0.05, 0.1, 0.2, 0.7]))
def test_the_simulation_hears_what_decider_and_states_hear(
    given_: tuple[DetectSettings, np.ndarray], since_end: float
) -> None:
    chosen, rows = given_
    expected = _by_the_rules(chosen, rows, since_end)
    assert _simulated(chosen, rows, guard_hops(since_end, chosen.hop)) == expected


def test_the_streams_of_that_test_have_much_to_hear() -> None:
    rng = np.random.default_rng(1)
    rows = rng.dirichlet(np.full(5, 0.4), 2000).astype(np.float32)
    chosen = DetectSettings(smoothing=1, patience=1, threshold=0.5, refractory=0.3, wake=WAKE, commands={"stop": 0.6})
    for since_end in (0.0, 0.3):
        found = _simulated(chosen, rows, guard_hops(since_end, chosen.hop))
        assert found == _by_the_rules(chosen, rows, since_end)
        kinds = [command for _, _, command in found]
        again = sum(not first and not second for first, second in itertools.pairwise(kinds))
        assert kinds.count(True) > 40 and again > 20


class _Script:
    """A recogniser that says row after row."""

    def __init__(self, rows: np.ndarray) -> None:
        self._rows = iter(rows)

    def __call__(self, features: np.ndarray) -> np.ndarray:
        return next(self._rows)[None]


@settings(max_examples=15, deadline=None)
@given(streams())
def test_the_detector_itself_hears_it_too(given_: tuple[DetectSettings, np.ndarray]) -> None:
    chosen, rows = given_
    rows[:9] = 0  # no window is whole yet
    told = hear_by_detector(np.zeros(len(rows) * STEP, np.int16), FRONTEND, LABELS, _Script(rows[9:]), chosen)
    assert _simulated(chosen, rows, 0) == [(heard.word, heard.decided, heard.command) for heard in told]


@pytest.mark.parametrize(
    ("since_end", "hop", "guard"),
    [(0.0, 0.1, 2), (0.1, 0.1, 1), (0.11, 0.1, 1), (0.2, 0.1, 0), (5.0, 0.1, 0), (0.0, 0.25, 1)],
)
def test_the_guard_is_what_is_left_of_the_shortest_command(since_end: float, hop: float, guard: int) -> None:
    """At a guard of g the first hop that counts ends (g + 1) hops later: `SHORTEST_SECONDS` or more after the word."""
    assert guard_hops(since_end, hop) == guard
    assert since_end + (guard + 1) * hop >= SHORTEST_SECONDS - 1e-9


def test_without_wake_words_nothing_is_simulated() -> None:
    assert waking_of(LABELS, DetectSettings()) is None
    assert isinstance(waking_of(LABELS, DetectSettings(wake=("wake",))), Waking)
    rule = Rule(0.1, 3, 2, 1.0)
    found = waking_of(LABELS, DetectSettings(wake=("wake",), thresholds={"go": 0.6}, commands={"stop": 0.4}))
    assert found == Waking(("wake",), {"wake": 0.8}, {"go": 0.6, "stop": 0.4, "again": 0.8}, 3.0, rule)
