"""The listening bench's judge and its table: counted by hand, and held to the detector's own rule."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import pytest
from bench.listening import arguments, main
from bench.listening_differences import by_owner, of_fleets
from bench.listening_fleet import above_the_start, keep, known
from bench.listening_judging import Judge, Sound
from bench.listening_result import DEVICE, PLUGIN, SIDES, Asked, AtRate, AtThresholds, Cost, Day, Fleet, RoundOf, Side
from bench.listening_table import report

from auricle.errors import DataError
from auricle.hearing.scenes import Scene, Spoken, Stretch
from auricle.packs.pack import load_pack
from auricle.speech.audio import SAMPLE_RATE
from auricle_edge.evaluate.sources import Sources

HOW: dict[str, Any] = {"passes": 1, "judge": "streams", "preset": "practical", "server_rate": None, "days": 2}
HOW |= {"owners": 2, "local": "resnet-base"}
ASKED = Asked(**HOW, pack="gsc12-res 0123456789ab", rounds=20, day_minutes=8.0, minutes=4.0, judge_minutes=15.0)


def _scene(words: list[tuple[str, str, float]], seconds: float, heard: list[float]) -> tuple[Scene, np.ndarray]:
    """Words (word, speaker, second) in a scene, or a stretch without; "yes" is heard for half a second at each time."""
    labels = load_pack("gsc12-res").labels
    posteriors = np.zeros((round(seconds * 10), len(labels)), np.float32)
    for at in heard:
        posteriors[round(at * 10) : round(at * 10) + 5, labels.index("yes")] = 0.99
    ends = [(round(at * SAMPLE_RATE), round((at + 0.5) * SAMPLE_RATE)) for _, _, at in words]
    spoken = tuple(Spoken(word, *end, who, "noise", 10.0) for (word, who, _), end in zip(words, ends, strict=True))
    silent = () if words else (Stretch("speech", 0, round(seconds * SAMPLE_RATE)),)
    return Scene(np.zeros(0, np.int16), spoken, silent), posteriors


def test_owners_are_compared_where_all_devices_together_have_the_rate() -> None:
    """One owner's two words are heard, the other's are not; in two hours nothing, then in another two 20 false ones."""
    judge = Judge(load_pack("gsc12-res"), Sources((), (), (), (), ()), Sound())
    said = [
        _scene([("yes", "one", 1.0), ("yes", "one", 5.0)], 8, [1.0, 5.0]),
        _scene([("yes", "two", 1.0), ("no", "two", 5.0)], 8, [5.0]),
        _scene([], 7200, []),
    ]
    scenes, posteriors = zip(*said, strict=True)
    side = judge.side("before", PLUGIN, [], scenes, posteriors)
    assert [point.share for point in side.points] == [0.5, 0.5, 0.5]
    assert side.owners == {"one": (1.0,) * 3, "two": (0.0,) * 3} and side.by_kind == {"noise": (0.5,) * 3}
    assert (side.kept.hits, side.kept.words, side.kept.wrong, side.kept.accepts) == (2, 4, 1, 0)

    loud, rows = _scene([], 7200, [10.0 * i for i in range(1, 21)])
    side = judge.side("after", PLUGIN, [], (*scenes, loud), (*posteriors, rows))
    assert side.kept.per_hour == pytest.approx(20 / 4)
    assert [point.share for point in side.points] == pytest.approx([0.1, 0.5, 0.5])
    assert side.owners["one"] == pytest.approx((0.2, 1.0, 1.0))


def _kept(hits: int, accepts: int) -> AtThresholds:
    return AtThresholds(hits, 40, 2, {"speech": accepts, "noise": 0}, {"speech": 1.0, "noise": 1.0}, 0.3)


def _side(when: str, listener: str, owners: dict[str, float], hits: int, accepts: int) -> Side:
    mean = sum(owners.values()) / len(owners)
    points = tuple(AtRate(rate, mean, mean - 0.1, mean + 0.1, rate > 1) for rate in (1.0, 5.0, 20.0))
    shares = {owner: (share,) * 3 for owner, share in owners.items()}
    return Side(when, listener, {"plugin": 2}, points, {"noise": (mean,) * 3}, shares, _kept(hits, accepts))


def _fleet(seed: int, after: dict[str, float], answers: float = 1.0) -> Fleet:
    before = dict.fromkeys(after, 0.5)
    sides = tuple(
        _side(when, listener, before if when == "before" else after, hits, accepts)
        for when, hits, accepts in (("before", 20, 10), ("after", 25, 8))
        for listener in (PLUGIN, DEVICE)
    )
    days = tuple(
        Day(i + 1, 10 * i, 10, 5, 3, 1.0 if i < 2 else 0.0, dict.fromkeys((PLUGIN, DEVICE), _kept(20, accepts)))
        for i, accepts in enumerate((10, 30, 8))
    )
    judged = enumerate((10, 9, 12, 10))
    rounds = tuple(RoundOf(i, "published", 2, 2, 0, 1.5, _kept(20, accepts)) for i, accepts in judged)
    cost = Cost({"days and rounds": 100.0}, {"days and rounds": 90.0}, 1.0, 1.5)
    found = {"words": 20.0, "speech": 2.0, "languages": 0.0, "noise": 4.0}
    return Fleet(ASKED, seed, answers, tuple(after), {"confirmed": 3}, found, found, sides, days, rounds, cost)


def test_differences_are_owner_by_owner_and_days_and_rounds_above_the_start_are_named() -> None:
    """`b` is in both fleets, +20 and -10 points: +5. With a +30 and c -20 the mean is +5, two better and one worse."""
    fleets = [_fleet(0, {"a": 0.8, "b": 0.7}), _fleet(1, {"b": 0.4, "c": 0.3})]
    found = by_owner(fleets, PLUGIN, 1)
    assert found.mean == pytest.approx(0.05) and (found.better, found.worse, found.owners) == (2, 1, 3)
    assert (found.low, found.high) == pytest.approx((-0.2, 0.3))
    assert of_fleets(fleets, PLUGIN, 1) == pytest.approx([0.25, -0.15])
    days, rounds = above_the_start(_fleet(0, {"a": 0.8}))
    assert (list(days), list(rounds)) == ([2], [2])


def test_the_tables_fit_a_terminal_and_say_both_listeners_of_both_sides() -> None:
    fleets = [_fleet(seed, {"a": 0.8, "b": 0.7}, answers) for answers in (1.0, 0.1) for seed in (0, 1)]
    lines = report(fleets).splitlines()
    assert max(map(len, lines)) <= 80
    for when in SIDES:
        for listener in (PLUGIN, DEVICE):
            assert sum(line.startswith(f"{when}: {listener}") for line in lines) == 4
    row = "before: plug-in ~50.0 (50-50) 50.0 (50-50) 50.0 (50-50)"
    assert row in [" ".join(line.split()) for line in lines]
    assert any("answer 0.1" in line for line in lines)
    assert "above the start's false accepts, as it listens: day 2" in lines
    assert "above the start's false accepts: 1 of 3 rounds: 2" in lines


def test_a_later_run_goes_on_with_what_was_found(tmp_path: Path) -> None:
    fleet, other = _fleet(3, {"a": 0.8}), msgspec.structs.replace(ASKED, rounds=10)
    assert known(tmp_path / "results", ASKED, 3, 1.0) is None
    keep(tmp_path / "results", fleet)
    assert known(tmp_path / "results", ASKED, 3, 1.0) == fleet
    assert known(tmp_path / "results", ASKED, 3, 0.1) is None
    with pytest.raises(DataError, match="other settings"):
        known(tmp_path / "results", other, 3, 1.0)
    next((tmp_path / "results").iterdir()).write_bytes(b"{")
    with pytest.raises(DataError, match="remove it"):
        known(tmp_path / "results", ASKED, 3, 1.0)


def test_missing_recordings_are_one_sentence(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("sys.argv", ["listening.py", "--data", str(tmp_path / "nowhere")])
    assert main() == 1
    assert "bench: " in capsys.readouterr().err
    for wrong in ("--owners 0", "--answers 2", "--minutes 0", "--rounds 2"):
        with pytest.raises(SystemExit):
            arguments(wrong.split())
