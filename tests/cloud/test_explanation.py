"""Why a device counted as it did, in sentences that an operator understands."""

from __future__ import annotations

import json
import math
from typing import Any

import msgspec
import numpy as np
import pytest

from auricle_cloud.operations.explanation import explain, filter_by_outcome, involved
from auricle_cloud.operations.round_answers import DeviceWhy
from auricle_cloud.states.report import read_report
from auricle_learning.aggregation.cohort import Cohort, layers_of
from auricle_learning.methods import get_rule

LAYER: dict[str, Any] = {
    "layer": "gru",
    "kept": ["dev-b", "dev-c"],
    "pruned_low": ["dev-a"],
    "pruned_high": ["dev-d"],
    "share": {"dev-a": 0.0, "dev-b": 0.25, "dev-c": 0.75, "dev-d": 0.0},
    "deviation": {"dev-a": 0.1, "dev-b": 0.2, "dev-c": 0.3, "dev-d": 9.0},
}
REPORT: dict[str, Any] = {
    "invited": ["dev-a", "dev-b", "dev-c", "dev-d", "dev-e", "dev-f", "dev-g", "dev-h"],
    "failed": {"dev-e": "its clock is wrong", "dev-f": "hot"},
    "declined": ["dev-f"],
    "refused": {"dev-g": "rejected:norm", "dev-x": "late", "dev-y": "closed"},
    "elsewhere": {},
    "passed_over": {"dev-p": "is offline"},
    "updates": [{"device": f"dev-{letter}", "samples": 100, "loss": 1.25, "staleness": 0} for letter in "abcd"],
    "layers": [LAYER],
    "rule": "lpa",
    "rule_options": {},
    "detection": {
        "fires": True,
        "sentence": "6 of 8 losses are above 2.1",
        "reference": 2.1,
        "losses": {"dev-d": 3.5},
        "votes": ["dev-d"],
        "judged_round": 11,
        "method": "exact",
        "bad": ["dev-d"],
        "repair": "re-aggregated",
        "shapley": {"dev-d": {"value": -0.031, "error": 0.004}},
        "accuracy_before": 0.31,
        "accuracy_after": 0.93,
    },
}


def one(device: str, report: dict[str, Any] = REPORT, now: dict[str, str] | None = None) -> DeviceWhy:
    (found,) = explain(read_report(report), task="t", number=12, state="published", only=[device], now=now).devices
    return found


@pytest.mark.parametrize(
    ("device", "outcome", "says"),
    [
        ("dev-b", "counted", ["100 training", "1.25", "gru: kept", "0.2500", "(deviation 0.2, the 3rd farthest of 4)"]),
        ("dev-a", "counted", ["too close", "(deviation 0.1, the 4th farthest of 4)"]),
        ("dev-d", "counted", ["too far", "(deviation 9, the farthest of 4)", "was 3.5", "of 2.1"]),
        ("dev-d", "counted", ["round 11", "-0.031 ± 0.004", "harmful"]),
        ("dev-e", "failed", ["its clock is wrong"]),
        ("dev-f", "declined", ["hot"]),
        ("dev-g", "refused", ["rejected:norm"]),
        ("dev-x", "late", ["closed"]),
        ("dev-y", "late", ["closed"]),
        ("dev-h", "silent", ["no update"]),
        ("dev-p", "not_invited", ["is offline"]),
    ],
)
def test_a_device_is_told_its_own_reason(device: str, outcome: str, says: list[str]) -> None:
    found = one(device)
    assert found.outcome == outcome
    assert [word for word in says if word not in " ".join(found.sentences)] == []


def test_whoever_was_not_invited_is_told_what_stands_in_the_way_now() -> None:
    assert "approval" in one("dev-q", now={"dev-q": "waits for an operator's approval"}).sentences[0]
    assert "eligible" in one("dev-q", now={"dev-q": ""}).sentences[0]


def test_verdicts_are_numbers_too() -> None:
    found = one("dev-d")
    assert (found.shapley, found.shapley_error, found.harmful) == (-0.031, 0.004, True)
    part = found.layers[0]
    assert (part.verdict, part.weight, part.deviation, part.rank, part.of) == ("pruned_far", 0.0, 9.0, 1, 4)


@pytest.mark.parametrize(
    ("passed_over", "says"),
    [
        ({}, []),
        ({"dev-a": "is offline"}, []),  # it was invited after all
        ({"dev-p": "is offline", "dev-q": "is quarantined"}, [["dev-p is offline"], ["dev-q is quarantined"]]),
        ({f"dev-{number}": "is offline" for number in range(1, 8)}, [["dev-1, dev-2", "dev-5 and 2 more"]]),
    ],
)
def test_a_round_says_who_was_not_invited(passed_over: dict[str, str], says: list[list[str]]) -> None:
    report = read_report({**REPORT, "passed_over": passed_over})
    told = [said for said in explain(report, task="t", number=12, state="published").sentences if "Not invited" in said]
    assert len(told) == len(says)
    assert all(word in said for said, words in zip(told, says, strict=True) for word in words)


def test_the_round_is_summed_up() -> None:
    said = explain(read_report(REPORT), task="t", number=12, state="published").sentences
    assert said[0] == "Round 12 is published: 4 updates counted of 8 invited devices, with 400 training samples."
    for words in ("lpa pruned 2 devices", "in 1 of 1 layer", "dev-e, dev-f", "dev-h", "0.3100 -> 0.9300"):
        assert words in " ".join(said)
    assert "exact" in said[-3] and "dev-d" in said[-2]


def test_an_update_that_counted_later_is_not_missing_and_one_that_is_not_finite_was_dropped() -> None:
    found = one("dev-h", {**REPORT, "elsewhere": {"dev-h": 14}})
    assert (found.outcome, "round 14" in found.sentences[0]) == ("elsewhere", True)
    found = one("dev-b", {**REPORT, "dropped": ["dev-b"]})
    assert (found.outcome, found.layers) == ("dropped", [])


@pytest.mark.parametrize("gone", [*REPORT, None])
def test_reports_of_older_coordinators_are_explained_as_far_as_they_go(gone: str | None) -> None:
    report = {key: value for key, value in REPORT.items() if key != gone} if gone else {"invited": []}
    whole = explain(read_report(report), task="t", number=12, state="aborted")
    answer = json.loads(msgspec.json.encode(whole))
    assert (answer["rule"], answer["rule_options"]) == (None if gone in ("rule", None) else "lpa", {})
    assert whole.sentences[0].startswith("Round 12 is aborted")


def test_numbers_that_are_not_finite_are_left_out() -> None:
    layer = {**LAYER, "deviation": {**LAYER["deviation"], "dev-d": math.inf, "dev-c": math.nan}}
    report = {**REPORT, "layers": [layer], "updates": [{"device": "dev-d", "samples": 1, "loss": math.nan}]}
    found = one("dev-d", report)
    assert (found.loss, found.layers[0].deviation, found.layers[0].rank, found.layers[0].of) == (None, None, None, 2)


def test_whom_the_rule_left_out_of_every_layer_did_not_count() -> None:
    updates = [{**update, "left_out": update["device"] == "dev-d"} for update in REPORT["updates"]]
    report = {**REPORT, "updates": updates}

    found, said = one("dev-d", report), explain(read_report(report), task="t", number=12, state="published").sentences

    assert found.outcome == "left_out" and one("dev-a", report).outcome == "counted"
    assert "left out by the rule" in found.sentences[0] and "too far" in found.sentences[1]
    assert said[0].startswith(
        "Round 12 is published: 3 updates counted of 8 invited devices, 1 left out by the rule, with 300 "
    )
    assert "Left out in every layer: dev-d." in said
    assert filter_by_outcome(read_report(report), ["dev-a", "dev-d"], "left_out") == ["dev-d"]


def test_a_score_by_which_a_rule_chose_is_told_with_its_rank() -> None:
    score = {"dev-a": 3.25, "dev-b": 1.0, "dev-c": 9.5, "dev-d": None}
    share = {"dev-a": 0.5, "dev-b": 0.5, "dev-c": 0, "dev-d": 0}
    layer = {**LAYER, "kept": ["dev-a", "dev-b"], "pruned_low": [], "pruned_high": [], "deviation": None}
    layer |= {"score": score, "share": share, "score_of": "sum of distances"}
    layers = [{**layer, "layer": "gru"}, {**layer, "layer": "head"}]
    report = {**REPORT, "rule": "multi_krum", "layers": layers, "detection": None}

    kept, left, unknown = one("dev-a", report), one("dev-c", report), one("dev-d", report)

    assert "3.25 (sum of distances), the 2nd smallest of 3; 2 were" in kept.sentences[1]
    assert "All 2 layers" in kept.sentences[2] and "0.5000" in kept.sentences[2]
    assert "9.5 (sum of distances), the 3rd smallest of 3; 2 were" in left.sentences[1]
    assert "left out" in left.sentences[2]
    assert (kept.score, kept.score_of, kept.score_rank, kept.score_among) == (3.25, "sum of distances", 2, 3)
    assert (unknown.score, unknown.score_rank) == (None, None)
    said = explain(read_report(report), task="t", number=12, state="published").sentences
    assert any("left out 2 devices: dev-c, dev-d" in sentence for sentence in said)


def test_the_score_of_the_rule_itself_reaches_the_explanation() -> None:
    start, layers = np.zeros(2, np.float32), layers_of([("a", 1, None), ("b", 1, None)])
    weights = np.array([[0, 0], [1, 0], [0, 2], [30, 40]], np.float32)
    cohort = Cohort.build(
        ids=["dev-a", "dev-b", "dev-c", "dev-d"], weights=weights, samples=[1] * 4, start=start, layers=layers
    )
    report = {**REPORT, "rule": "krum", "layers": get_rule("krum", attackers=1)(cohort).explain(), "detection": None}

    assert (one("dev-b", report).score, one("dev-b", report).score_rank) == (1.0, 1)
    assert "was 4 (sum of the squared" in one("dev-c", report).sentences[1]
    assert "the 4th smallest of 4; 1 was" in one("dev-d", report).sentences[1]


def test_devices_are_found_by_how_they_fared() -> None:
    report = read_report({**REPORT, "dropped": ["dev-a"]})
    fared = "counted:bcd dropped:a pruned:d failed:e declined:f refused:g silent:h late:xy not_invited:p"
    fared += " harmful:d elsewhere:"
    for outcome, letters in (each.split(":") for each in fared.split()):
        found = filter_by_outcome(report, involved(report, passed_over=True), outcome)
        assert found == [f"dev-{letter}" for letter in letters], outcome


@pytest.mark.parametrize(
    ("what", "said", "counted", "sentence"),
    [
        ("steps", 2.0**40, 30.0, "It said 1,099,511,627,776 training steps, which counted as 30: no device may"),
        ("steps", 1.0, 2.5, "It said 1 training steps, which counted as 2.5: no device may"),
        ("counts", 1e6, 10.0, "It said 1,000,000 clips of its words, of which 10, its training samples, counted: no"),
        ("vector means", 1e4, 6.0, "Its vector means was 1e+04 long and was shortened to 6: no device may"),
        ("moons", 1.0, 2.0, "What it said of itself was bounded: no device may"),
    ],
)
def test_it_is_told_in_what_a_device_was_bounded(what: str, said: float, counted: float, sentence: str) -> None:
    bounded = [{"device": "dev-b", "what": what, "said": said, "counted": counted}]
    assert any(each.startswith(sentence) for each in one("dev-b", {**REPORT, "bounded": bounded}).sentences)
