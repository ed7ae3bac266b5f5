"""The bench beside other detectors: counts by hand, the whole bench in small, and peers only where they can be had."""

from __future__ import annotations

import json
from pathlib import Path

import msgspec
import numpy as np
import pytest
from bench import hearing, step_environments
from bench.hearing import Result, arguments, report, run
from bench.hearing_sound import TARGET, forms_of, load_stranger
from bench.hearing_table import Listens, rows_of, shares
from bench.step_environments import NoEnvironment, Recipe, environment
from bench.step_process import Failed

from auricle.errors import DataError
from auricle.hearing.rule import Rule
from auricle.hearing.scenes import Scene, Spoken, Stretch
from auricle.hearing.sounds import Take
from auricle.speech.audio import SAMPLE_RATE

HOP = 0.1
HOPS = 36_000
"""An hour."""


def _scores(*heard: tuple[int, float]) -> np.ndarray[tuple[int, int], np.dtype[np.float32]]:
    rows = np.zeros((HOPS, 1), np.float32)
    for hop, score in heard:
        rows[hop] = score
    return rows


def test_a_words_row_is_what_was_counted_by_hand() -> None:
    """An hour with false accepts of 0.95, 0.6 and, exactly at the threshold, 0.5; three words with 0.97, 0.7 and 0."""
    empty = np.zeros(0, np.int16)
    at = [(s * SAMPLE_RATE, (s + 1) * SAMPLE_RATE) for s in (10, 20, 30)]
    words = tuple(Spoken("jarvis", *each, "x", "jarvis: noise", 10.0) for each in at)
    scenes = [Scene(empty, words), Scene(empty, (), (Stretch("speech", 0, 3600 * SAMPLE_RATE),))]
    scores = [_scores((105, 0.97), (205, 0.7)), _scores((1000, 0.95), (2000, 0.6), (3000, 0.5))]
    listens = Listens(("hey_jarvis",), {"hey_jarvis": 0.5}, ("hey_jarvis",), Rule(HOP, 1, 1), False, above=True)

    (row,) = rows_of("peer", listens, scores, scenes, {"hey_jarvis": 7}, 1.0)

    assert (row.word, row.weights, row.default.threshold) == ("hey_jarvis", 7, 0.5)
    assert row.default.false_accepts["speech"].events == row.default.false_accepts["all"].events == 2
    assert row.default.hits["jarvis: noise"].hits == 2
    assert row.swept is not None and 0.6 < (row.swept.threshold or 0) < 0.65
    assert row.swept.false_accepts["all"].events == 1
    assert row.swept.hits["jarvis: noise"].hits == 2
    (strict,) = rows_of("peer", listens, scores, scenes, {"hey_jarvis": 7}, 0.5)
    assert strict.swept is not None and strict.swept.false_accepts["all"].events == 0
    assert strict.swept.hits["jarvis: noise"].hits == 1


def test_of_two_words_of_one_model_only_the_higher_counts() -> None:
    """`computer` is always above `jarvis`: `jarvis` has no false accept; hits are stated of what is said only."""
    scene = Scene(np.zeros(0, np.int16), (), (Stretch("noise", 0, 3600 * SAMPLE_RATE),))
    scores = np.concatenate((_scores((500, 0.9)), _scores((500, 0.95))), axis=1)
    levels = {"jarvis": 0.8, "computer": 0.8}
    listens = Listens(("jarvis", "computer"), levels, ("jarvis", "computer"), Rule(HOP, 1, 1), True, above=False)

    jarvis, computer = rows_of("ours", listens, [scores], [scene], {"": 5}, 1.0)

    assert jarvis.default.false_accepts["all"].events == 0
    assert computer.default.false_accepts["all"].events == 1
    assert computer.default.hits == {}


def test_a_word_is_shared_when_it_ends_in_it() -> None:
    assert [word for word in ("jarvis", "hey_jarvis", "hey_mycroft", "") if shares(word)] == ["jarvis", "hey_jarvis"]


def test_hey_is_said_just_before_the_recording() -> None:
    """The recorded word keeps its samples; before it there is an espeak-ng "hey" that is as loud."""
    pytest.importorskip("espeakng_loader", reason="espeak-ng says the hey")
    word = np.random.default_rng(0).standard_normal(6000).astype(np.float32) / 10
    take = Take(TARGET, "someone", np.pad(word, 5000))

    forms = forms_of([take], 1, 0)

    (before,), (synthetic,) = forms["hey + jarvis"], forms["hey jarvis, espeak"]
    assert np.isin(word[100:-100], before.sound).all()
    assert len(before.sound) > len(word) + 0.5 * SAMPLE_RATE + 0.1 * SAMPLE_RATE
    assert len(synthetic.sound) > 0.8 * SAMPLE_RATE


def _small(data: Path, peer: str, *more: str) -> list[str]:
    given = ["--data", str(data), "--minutes", "0.2", "--voices", "0", "--rounds", "1", "--pack", "gsc12"]
    return [*given, "--peer", peer, *more]


@pytest.mark.slow
def test_the_whole_bench_in_small_with_ours_only(
    data: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Every kind of sound has hours, the time was taken, and both outputs say the same."""
    monkeypatch.setattr("sys.argv", ["hearing.py", *_small(data, "none", "--json")])
    assert hearing.main() == 0
    facts = json.loads(capsys.readouterr().out)
    result = msgspec.convert(facts, Result)

    (row,) = result.rows
    assert (row.listener, row.word, row.weights) == ("auricle gsc12", "all words", 26_572)
    assert set(row.default.false_accepts) == {"speech", "words", "languages", "run together", "noise", "all"}
    assert row.default.false_accepts["all"].hours > 0 and facts["packs"] == ["gsc12"]
    assert len(result.cpu_seconds["auricle gsc12"]) == 5 and min(result.cpu_seconds["auricle gsc12"]) > 0
    assert result.missing == {} and result.peers == {}
    assert "auricle gsc12" in report(result) and "26,572" in report(result)


def test_a_peer_that_cannot_be_had_is_named_with_the_reason(data: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The others are measured all the same."""
    monkeypatch.setitem(step_environments.ENVIRONMENTS, "microwakeword", Recipe(("nothing",), ("2.0",)))
    environment.cache_clear()
    result = run(arguments(_small(data, "microwakeword")))
    assert "needs Python 2.0" in result.missing["microwakeword"]
    assert len(result.rows) == 1
    assert "microwakeword did not run" in report(result)


@pytest.mark.slow
@pytest.mark.parametrize("peer", list(hearing.PEERS))
@pytest.mark.nightly
def test_a_peer_listens_with_the_models_of_its_wheel(peer: str, data: Path) -> None:
    try:
        environment(peer)
        result: Result = run(arguments(_small(data, peer)))
    except (NoEnvironment, Failed) as reason:
        pytest.skip(str(reason))

    if peer in result.missing:
        pytest.skip(result.missing[peer])
    rows = {row.word: row for row in result.rows if row.listener == peer}
    assert {"hey_jarvis", "hey_mycroft", "alexa", "okay_nabu"} <= set(rows)
    assert rows["hey_jarvis"].default.hits and not rows["alexa"].default.hits
    assert all(10_000 < row.weights < 2_000_000 for row in rows.values())
    assert len(result.cpu_seconds[peer]) == 5


@pytest.mark.parametrize("name", ["home-more", "gsc35", "digits"])
def test_a_pack_that_strangers_trained_is_refused(name: str) -> None:
    with pytest.raises(DataError, match="People of gsc trained"):
        load_stranger(name)
    assert load_stranger("home").manifest.name == "home"
