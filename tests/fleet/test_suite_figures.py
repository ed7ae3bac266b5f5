"""What a suite measures of a run, by hand."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest
from tests.fleet.ended_run import SUMMARY, line

from auricle_fleet.population.attacks import Attackers
from auricle_fleet.results.result import RoundRow, Summary
from auricle_fleet.suite.figures import NAMES, get_figure
from auricle_fleet.suite.targets import kind_of, rounds_to, seconds_to

ONCE = Attackers(group="once", devices=("a", "b"), rounds=(3, 6))


def told(name: str, *rows: RoundRow, **changes: Any) -> float | None:
    return get_figure(name).of(msgspec.structs.replace(SUMMARY, **changes), rows)


def rounds(*accuracies: float | None) -> list[RoundRow]:
    return [line(n, plugin_accuracy_unseen=value) for n, value in enumerate(accuracies, 1)]


def test_tail_and_head_are_thirds_of_the_labels_by_training_clips() -> None:
    counts = ((8, 2, 0, 0), (5, 5, 0, 0), (0, 0, 0, 0), (0, 0, 7, 3))
    of = {"words": ("a", "b", "c", "d"), "confusion": counts}
    assert told("macro", **of) == pytest.approx((0.8 + 0.5 + 0.3) / 3)  # of c nobody said anything
    assert told("tail", **of, label_clips=(9, 2, 5, 3)) == 0.5 and told("head", **of, label_clips=(9, 2, 5, 3)) == 0.8
    assert told("tail", **of, label_clips=(9, 2, 1, 3)) is None
    assert told("tail", **of) is None  # an earlier version counted none
    six = {"confusion": tuple(tuple((i, 10 - i, 0, 0, 0, 0)[(j - i) % 6] for j in range(6)) for i in range(6))}
    assert told("tail", **six, label_clips=(6, 6, 9, 9, 9, 9)) == pytest.approx((0 + 0.1) / 2)
    assert told("head", **six, label_clips=(6, 6, 9, 9, 9, 9)) == pytest.approx((0.4 + 0.5) / 2)


def test_precision_is_read_at_its_recall() -> None:
    values = tuple(n / 100 for n in range(1, 21))
    assert told("precision-60", keyword_precision=values) == 0.12
    assert told("precision-90", keyword_precision=values) == 0.18
    assert told("precision-90") is None and told("precision-90", held_out_precision=values) is None
    assert told("held-out-precision-70", held_out_precision=values) == 0.14
    assert told("start-precision-80", start_precision=values) == 0.16
    assert told("central-precision-60", central_precision=values) == 0.12 and told("central-precision-60") is None
    assert told("start", start_accuracy_unseen=0.4) == 0.4 and told("central", central_accuracy_unseen=0.9) == 0.9


def test_detection_is_measured_by_those_who_attacked() -> None:
    rows = (
        line(2, personal={"a": 0.5, "c": 0.5}),
        line(3, personal={"b": 0.5, "c": 0.5}),
        line(4, harmful=["b", "c"], personal={"d": 0.5}),
    )
    hostile = (ONCE, Attackers(group="always", devices=("d", "e")))
    found = {"attackers": hostile, "detect": True}
    assert told("recall-of-detection", *rows, **found) == 1 / 2  # b and d; a was there before, e never
    assert told("false-names", *rows, **found) == 1
    assert told("recall-of-detection", *rows, detect=True) is None and told("false-names", detect=True) == 0
    assert told("false-names", *rows, attackers=hostile) is None  # nobody looked for them


@pytest.mark.parametrize(
    ("accuracies", "taken"),
    [
        ((0.5, 0.6, 0.585, 0.7, 0.7, 0.7, 0.7), 0.0),  # within two points all the time
        ((0.5, 0.6, 0.3, 0.5, 0.7, 0.2, 0.69), (2 + 1) / 2),
        ((0.5, 0.6, 0.3, 0.5, 0.5, 0.49, 0.5), (3 + 0) / 2),  # of the first, never before the next one
        ((0.5, 0.6, 0.3, 0.4, 0.6, 0.1, 0.2), (2 + 2) / 2),  # of the second, never
        ((0.5, 0.6), None),  # the run was over before
    ],
)
def test_recovery_counts_rounds_until_the_accuracy_is_back(accuracies: tuple[float, ...], taken: float | None) -> None:
    assert told("recovery", *rounds(*accuracies), attackers=(ONCE,)) == taken
    assert told("recovery", *rounds(*accuracies), attackers=(Attackers(group="always", devices=("a",)),)) is None


def test_an_attack_of_the_first_round_is_measured_by_the_model_that_the_run_started_from() -> None:
    first = (Attackers(group="g", devices=("a",), rounds=(1,)),)
    assert told("recovery", *rounds(0.2, 0.4), attackers=first, start_accuracy_unseen=0.4) == 1
    assert told("recovery", *rounds(0.2, 0.4), attackers=first) is None


def test_harm_of_an_attack_is_the_accuracy_of_the_three_rounds_after_it() -> None:
    twice = (Attackers(group="g", devices=("a",), rounds=(2, 5)),)
    found = rounds(0.5, 0.1, 0.25, 0.5, 0.375, 0.625, 0.875)
    assert told("after-attack", *found, attackers=twice) == ((0.25 + 0.5 + 0.375) / 3 + (0.625 + 0.875) / 2) / 2
    assert told("after-attack", *rounds(0.5, 0.1), attackers=twice) is None
    assert told("after-attack", *found) is None


def test_falls_are_what_accuracy_loses_from_round_to_round() -> None:
    assert told("falls", *rounds(0.5, 0.4, 0.7, 0.1)) == pytest.approx((0.1 + 0 + 0.6) / 3)
    assert told("falls", *rounds(0.5, None)) is None and told("falls") is None


def test_worst_device_angle_backdoor_and_rounds() -> None:
    rows = (
        line(1, personal={"a": 0.1, "b": 0.5, "c": 0.7}, coordinator_angle=80.0, labelled_angle=10.0, backdoor=0.9),
        line(2, personal={"a": 0.4, "b": None}, labelled_angle=40.0, backdoor=0.2),
    )
    assert told("personal-worst", *rows) == pytest.approx(0.4 + 0.2 * 0.1)  # of 0.4, 0.5, 0.7
    assert told("angle", *rows) == 60 and told("backdoor", *rows) == 0.2
    assert told("personal-worst") is None and told("angle") is None and told("backdoor") is None
    summary: Summary = msgspec.structs.replace(SUMMARY, rounds_planned=9)
    assert rounds_to(0.6).of(summary, rounds(0.5, None, 0.6, 0.7)) == 3
    assert rounds_to(0.8).of(summary, rounds(0.5, 0.6)) == 10


def test_seconds_to_a_target_are_those_of_the_rounds_up_to_it_and_a_run_that_is_never_there_has_none() -> None:
    times = (2.0, 0.5, 4.0)
    rows = [msgspec.structs.replace(row, seconds=s) for row, s in zip(rounds(0.5, 0.4, 0.7), times, strict=True)]
    assert [seconds_to(target).of(SUMMARY, rows) for target in (0.5, 0.6, 0.8)] == [2.0, 6.5, None]
    assert (kind_of("seconds-of-15").unit, kind_of("rounds-2").unit, kind_of("detection-seconds").unit) == (
        *("seconds", "rounds", "seconds"),
    )
    assert kind_of("seconds-2").name == "seconds" and not kind_of("seconds-2").higher_is_better


def test_seconds_until_so_many_devices_have_a_target_count_each_with_its_newest_accuracy() -> None:
    rows = (
        line(1, personal={"a": 0.7, "b": 0.5}, seconds=1.0),
        line(2, personal={"a": 0.6, "c": 0.9}, seconds=2.0),  # a has fallen
        line(3, personal={"b": 0.7, "d": None}, seconds=4.0),
    )
    found = {count: seconds_to(0.7, "personal", devices=count) for count in (1, 2, 3)}
    assert [figure.of(SUMMARY, rows) for figure in found.values()] == [1.0, 7.0, None]
    assert (found[2].name, found[2].model, found[2].first_at(rows)) == ("seconds-of-2", "own", 3)


def test_models_on_held_out_clips_are_told_of_the_last_round() -> None:
    scores = {
        "received": {"accuracy": 0.5, "worst": 0.25, "f1": 0.375, "devices": 4},
        "own": {"accuracy": 0.75, "worst": 0.5, "f1": 0.625, "devices": 4},
    }
    rows = line(1, held_out={}), line(2, held_out=scores)
    names = ("received", "received-worst", "received-f1", "personal-f1", "trained")
    assert [told(name, *rows) for name in names] == [0.5, 0.25, 0.375, 0.625, None]
    assert [told(name) for name in names] == [None] * 5
    assert rounds_to(0.5, "received").first_at(rows) == 2 and rounds_to(0.6, "received", 2).name == "rounds-2"


def test_every_figure_of_a_run_without_figures_is_unknown() -> None:
    nothing = {"plugin_accuracy_unseen": None, "personal_accuracy": None, "confusion": None}
    assert {name for name in NAMES if told(name, **nothing) is not None} == set()
