"""Why a device counted as it did, in sentences that an operator understands."""

from __future__ import annotations

import json
import math
from typing import Any

import msgspec
import numpy as np
import pytest

from auricle_cloud.aggregation.cohort import Cohort, layers_of
from auricle_cloud.aggregation.rules import get_rule
from auricle_cloud.operations.explanation import explain, filter_by_outcome, involved
from auricle_cloud.operations.round_answers import DeviceWhy
from auricle_cloud.states.report import read_report

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
        ("dev-b", "counted", "counted in round 12 with 100 training samples and an inference loss of 1.25"),
        ("dev-b", "counted", "gru: kept with weight 0.2500 (deviation 0.2, the 3rd farthest of 4)"),
        ("dev-a", "counted", "gru: pruned as too close to the mean (deviation 0.1, the 4th farthest of 4)"),
        ("dev-d", "counted", "gru: pruned as too far from the mean (deviation 9, the farthest of 4)"),
        ("dev-d", "counted", "Its loss of the received model was 3.5, above the reference of 2.1"),
        ("dev-d", "counted", "Its update to the model of round 11 has the Shapley value -0.031 ± 0.004"),
        ("dev-d", "counted", "Detection named its update to the model of round 11 harmful"),
        ("dev-e", "failed", "failed: its clock is wrong."),
        ("dev-f", "declined", "declined round 12: hot."),
        ("dev-g", "refused", "refused: rejected:norm."),
        ("dev-x", "late", "after round 12 had closed"),
        ("dev-y", "late", "after round 12 had closed"),
        ("dev-h", "silent", "no update of it arrived before it closed"),
        ("dev-p", "not_invited", "The reason when the round began: it is offline."),
    ],
)
def test_a_device_is_told_its_own_reason(device: str, outcome: str, says: str) -> None:
    found = one(device)

    assert found.outcome == outcome
    assert says in " ".join(found.sentences)
    assert all(sentence.endswith(".") for sentence in found.sentences)


def test_whoever_was_not_invited_is_told_what_stands_in_the_way_now() -> None:
    assert one("dev-q", now={"dev-q": "waits for an operator's approval"}).sentences == [
        "dev-q was not invited to round 12. Now it waits for an operator's approval."
    ]
    assert "Now it is eligible" in one("dev-q", now={"dev-q": ""}).sentences[0]


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
        (
            {"dev-p": "is offline", "dev-q": "is quarantined: odd"},
            ["Not invited: dev-p is offline.", "Not invited: dev-q is quarantined: odd."],
        ),
        (
            {f"dev-{number}": "is offline" for number in range(1, 8)},
            [
                "Not invited: dev-1, dev-2, dev-3, dev-4, dev-5 and 2 more; rounds why 12 --outcome not_invited has the"
                " reasons."
            ],
        ),
    ],
)
def test_a_round_says_who_was_not_invited(passed_over: dict[str, str], says: list[str]) -> None:
    report = read_report({**REPORT, "passed_over": passed_over})

    said = explain(report, task="t", number=12, state="published").sentences

    assert [sentence for sentence in said if sentence.startswith("Not invited")] == says


def test_one_is_counted_as_one() -> None:
    alone = {**LAYER, "kept": ["dev-b"], "pruned_low": [], "pruned_high": [], "share": {"dev-b": 1.0}}
    updates = [{"device": "dev-b", "samples": 1, "loss": 1.25, "staleness": 0}]
    layers = [{**alone, "deviation": {"dev-b": 0.0}}]
    report = {"invited": ["dev-b"], "updates": updates, "layers": layers, "rule": "lpa"}

    said = explain(read_report(report), task="t", number=12, state="published")

    assert said.sentences[0] == "Round 12 is published: 1 update counted of 1 invited device, with 1 training sample."
    assert said.devices[0].sentences[1] == "gru: kept with weight 1.0000."


def test_the_round_is_summed_up() -> None:
    said = explain(read_report(REPORT), task="t", number=12, state="published").sentences

    assert said[0] == "Round 12 is published: 4 updates counted of 8 invited devices, with 400 training samples."
    assert "The rule lpa pruned 2 devices somewhere, most often dev-a: in 1 of 1 layer." in said
    assert "Failed or declined: dev-e, dev-f." in said and "Nothing arrived from: dev-h." in said
    assert said[-3:] == [
        "Judged by exact Shapley values over the cached updates.",
        "Named harmful: dev-d.",
        "The model was re-aggregated: accuracy 0.3100 -> 0.9300.",
    ]


def test_an_update_that_counted_in_a_later_round_is_not_called_missing() -> None:
    found = one("dev-h", {**REPORT, "elsewhere": {"dev-h": 14}})

    assert (found.outcome, found.sentences) == (
        "elsewhere",
        ["dev-h was invited to round 12, and its update counted in round 14."],
    )


def test_an_update_that_is_not_finite_was_dropped_and_judges_no_layer() -> None:
    found = one("dev-b", {**REPORT, "dropped": ["dev-b"]})

    assert (found.outcome, found.layers) == ("dropped", [])


@pytest.mark.parametrize("gone", [*REPORT, None])
def test_reports_of_older_coordinators_are_explained_as_far_as_they_go(gone: str | None) -> None:
    report = {key: value for key, value in REPORT.items() if key != gone} if gone else {"invited": []}

    whole = explain(read_report(report), task="t", number=12, state="aborted")

    json.loads(msgspec.json.encode(whole))
    assert whole.sentences[0].startswith("Round 12 is aborted")


def test_numbers_that_are_not_finite_are_left_out() -> None:
    layer = {**LAYER, "deviation": {**LAYER["deviation"], "dev-d": math.inf, "dev-c": math.nan}}
    report = {**REPORT, "layers": [layer], "updates": [{"device": "dev-d", "samples": 1, "loss": math.nan}]}

    found = one("dev-d", report)

    assert (found.loss, found.layers[0].deviation, found.layers[0].rank, found.layers[0].of) == (None, None, None, 2)


def test_a_score_by_which_a_rule_chose_is_told_with_its_rank() -> None:
    score = {"dev-a": 3.25, "dev-b": 1.0, "dev-c": 9.5, "dev-d": None}
    layer = {
        "kept": ["dev-a", "dev-b"],
        "pruned_low": [],
        "pruned_high": [],
        "deviation": None,
        "score": score,
        "share": {"dev-a": 0.5, "dev-b": 0.5, "dev-c": 0, "dev-d": 0},
        "score_of": "sum of distances",
    }
    layers = [{"layer": "gru", **layer}, {"layer": "head", **layer}]
    report = {**REPORT, "rule": "multi_krum", "layers": layers, "detection": None}

    kept, left, unknown = one("dev-a", report), one("dev-c", report), one("dev-d", report)

    assert kept.sentences[1:] == [
        "Its score by multi_krum was 3.25 (sum of distances), the 2nd smallest of 3; 2 were averaged.",
        "All 2 layers: kept with weight 0.5000.",
    ]
    assert left.sentences[1:] == [
        "Its score by multi_krum was 9.5 (sum of distances), the 3rd smallest of 3; 2 were averaged.",
        "All 2 layers: left out by the rule.",
    ]
    assert (kept.score, kept.score_of, kept.score_rank, kept.score_among) == (3.25, "sum of distances", 2, 3)
    assert (unknown.score, unknown.score_rank) == (None, None)
    said = explain(read_report(report), task="t", number=12, state="published").sentences
    assert "The rule multi_krum left out 2 devices: dev-c, dev-d." in said


def test_the_score_of_the_rule_itself_reaches_the_explanation() -> None:
    start, layers = np.zeros(2, np.float32), layers_of([("a", 1, None), ("b", 1, None)])
    weights = np.array([[0, 0], [1, 0], [0, 2], [30, 40]], np.float32)
    cohort = Cohort.build(
        ids=["dev-a", "dev-b", "dev-c", "dev-d"], weights=weights, samples=[1] * 4, start=start, layers=layers
    )
    report = {**REPORT, "rule": "krum", "layers": get_rule("krum", attackers=1)(cohort).explain(), "detection": None}

    assert (one("dev-b", report).score, one("dev-b", report).score_rank) == (1.0, 1)
    assert one("dev-c", report).sentences[1].startswith("Its score by krum was 4 (sum of the squared distances to ")
    assert one("dev-d", report).sentences[1].endswith("the 4th smallest of 4; 1 was averaged.")


@pytest.mark.parametrize(
    ("outcome", "devices"),
    [
        ("counted", ["dev-b", "dev-c", "dev-d"]),
        ("dropped", ["dev-a"]),
        ("pruned", ["dev-d"]),
        ("failed", ["dev-e"]),
        ("declined", ["dev-f"]),
        ("refused", ["dev-g"]),
        ("silent", ["dev-h"]),
        ("late", ["dev-x", "dev-y"]),
        ("not_invited", ["dev-p"]),
        ("harmful", ["dev-d"]),
        ("elsewhere", []),
    ],
)
def test_devices_are_found_by_how_they_fared(outcome: Any, devices: list[str]) -> None:
    report = read_report({**REPORT, "dropped": ["dev-a"]})

    assert filter_by_outcome(report, involved(report, passed_over=True), outcome) == devices
