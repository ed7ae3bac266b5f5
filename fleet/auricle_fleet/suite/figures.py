"""What a suite can measure of a run, by name: accuracies, recall by label, precision, detection, recovery, angles."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Literal

import msgspec
import numpy as np

from auricle_fleet.population.judging import RECALLS
from auricle_fleet.results.result import RoundRow, Summary

Rows = Sequence[RoundRow]
Unit = Literal["share", "rounds", "devices", "degrees"]
ROUNDS = "rounds"
"""The figure that a suite has beside those that it names, where it has a target."""
BACK = 0.02
"""So near to the accuracy of before an attack is recovered."""
AFTERMATH_ROUNDS = 3
"""Rounds after an attack's in which its harm is measured: detection can repair from the first of them on."""
WORST_PERCENTILE = 10
"""Percentile of the devices' accuracies that stands for the worst of them."""


class Figure(msgspec.Struct, frozen=True, kw_only=True):
    """What is measured of a run."""

    name: str
    title: str
    of: Callable[[Summary, Rows], float | None]
    """Of a run that has ended; None where it does not know it."""
    by_round: Callable[[RoundRow], float | None] | None = None
    """Of a round, for a curve; None: there is no curve."""
    unit: Unit = "share"
    """A share is from 0 to 1."""
    higher_is_better: bool = True
    model: Literal["plug-in", "own", "run"] = "plug-in"
    """Of what: the shared plug-in, the devices' own models, or the run."""


def recalls(summary: Summary) -> dict[int, float]:
    """Recall on unseen speakers by the place of the label; labels of which there are no clips are missing."""
    counts = summary.confusion or ()
    return {label: row[label] / sum(row) for label, row in enumerate(counts) if sum(row)}


def recall_of_third(summary: Summary, *, fewest: bool) -> float | None:
    """Mean recall on unseen speakers of the third of the labels with the fewest training clips, or with the most.

    A third of L labels are L / 3 of them, rounded down, and one at least; of labels with as many clips the first ones
    count as fewer. None where there are no such clips, or an earlier version did not count them.
    """
    if summary.label_clips is None:
        return None
    clips = np.array(summary.label_clips)
    order = np.argsort(clips, kind="stable").tolist()
    third = max(len(order) // 3, 1)
    known = recalls(summary)
    return _mean([known[label] for label in (order[:third] if fewest else order[-third:]) if label in known])


def precision_at(recall: float) -> Callable[[Summary, Rows], float | None]:
    """The precision of keywords at one of `RECALLS`, see `keyword_precision`."""
    place = int(np.argmin(np.abs(np.array(RECALLS) - recall)))
    return lambda summary, _: None if summary.keyword_precision is None else summary.keyword_precision[place]


def recall_of_detection(summary: Summary, rows: Rows) -> float | None:
    """Attackers whom detection blamed in some round, by those who attacked; None without detection or attackers.

    Who attacked has sent an update that counted in a round in which its group attacks, or was blamed in some round.
    """
    named, present = _harmful_names(rows), set()
    for group in summary.attackers:
        there = {name for row in rows if group.attack_in(row.round) for name in row.personal}
        present |= set(group.devices) & (there | named)
    return len(present & named) / len(present) if summary.detect and present else None


def false_names(summary: Summary, rows: Rows) -> float | None:
    """Honest devices whom detection blamed in some round; None without detection."""
    hostile = {name for group in summary.attackers for name in group.devices}
    return float(len(_harmful_names(rows) - hostile)) if summary.detect else None


def recovery(summary: Summary, rows: Rows) -> float | None:
    """Rounds from an attack until the plug-in's accuracy is within `BACK` of that of the round before, their mean.

    An attack in round t that leaves it there counts 0, one from which it is back after round t + 2 counts 2. One that
    is not over when the next one comes, or the run ends, counts the rounds up to there: it took longer. None without a
    group that attacks in certain rounds.
    """
    accuracy, attacks = _accuracy_and_attacks(summary, rows)
    accuracy[0] = summary.start_accuracy_unseen
    last = max(accuracy)
    taken = []
    for attack, end in zip(attacks, [*attacks[1:], last + 1], strict=False):
        before = accuracy.get(attack - 1)
        if before is None:
            continue
        back = (n for n in range(attack, end) if (accuracy.get(n) or 0.0) >= before - BACK)
        taken.append(float(next(back, end) - attack))
    return _mean(taken)


def after_attack(summary: Summary, rows: Rows) -> float | None:
    """The plug-in's mean accuracy in `AFTERMATH_ROUNDS` rounds after each one with an attack, and its mean over these.

    Rounds that the run does not have are left out. None without a group that attacks in certain rounds.
    """
    accuracy, attacks = _accuracy_and_attacks(summary, rows)
    told = [[accuracy.get(n) for n in range(attack + 1, attack + 1 + AFTERMATH_ROUNDS)] for attack in attacks]
    known = [_mean([value for value in values if value is not None]) for values in told]
    return _mean([value for value in known if value is not None])


def _accuracy_and_attacks(summary: Summary, rows: Rows) -> tuple[dict[int, float | None], list[int]]:
    """The plug-in's accuracy on unseen speakers by round, and the rounds with an attack, of a group that names them."""
    accuracy = {row.round: row.plugin_accuracy_unseen for row in rows}
    return accuracy, sorted({number for group in summary.attackers for number in group.rounds if number in accuracy})


def worst_device(_: Summary, rows: Rows) -> float | None:
    """The percentile `WORST_PERCENTILE` of the devices' newest accuracies, between two of them in proportion."""
    newest = {name: value for row in rows for name, value in row.personal.items() if value is not None}
    return float(np.percentile(list(newest.values()), WORST_PERCENTILE)) if newest else None


def angle(_: Summary, rows: Rows) -> float | None:
    """Degrees between the direction of labelled clips and that of a round, the mean of the rounds that tell it."""
    return _mean([value for row in rows if (value := labelled_angle(row)) is not None])


def labelled_angle(row: RoundRow) -> float | None:
    """Of a round: the coordinator's clips, or without those the mean of the devices with labels."""
    return row.labelled_angle if row.coordinator_angle is None else row.coordinator_angle


def rounds_to(target: float) -> Figure:
    """The first round in which the plug-in is at least as accurate on unseen speakers; one that is never counts as one
    after the last.
    """
    return Figure(
        name=ROUNDS,
        title=f"Rounds until the shared plug-in understands {100 * target:g} %",
        of=lambda summary, rows: float(first_at(target, rows) or summary.rounds_planned + 1),
        unit="rounds",
        higher_is_better=False,
    )


def first_at(target: float, rows: Rows) -> int | None:
    """The first round in which the plug-in reaches the target on unseen speakers; None if it never does."""
    return next((row.round for row in rows if (row.plugin_accuracy_unseen or 0.0) >= target), None)


def _harmful_names(rows: Rows) -> set[str]:
    return {name for row in rows for name in row.harmful}


def _mean(values: Sequence[float]) -> float | None:
    return sum(values) / len(values) if values else None


FIGURES = (
    Figure(
        name="unseen",
        title="Shared plug-in on speakers that no device has",
        of=lambda summary, _: summary.plugin_accuracy_unseen,
        by_round=lambda row: row.plugin_accuracy_unseen,
    ),
    Figure(
        name="personal",
        title="Devices' own models on their own held-out clips",
        of=lambda summary, _: summary.personal_accuracy,
        by_round=lambda row: row.personal_accuracy,
        model="own",
    ),
    Figure(
        name="tail",
        title="Recall of the third of the labels with the fewest training clips",
        of=lambda summary, _: recall_of_third(summary, fewest=True),
    ),
    Figure(
        name="head",
        title="Recall of the third of the labels with the most training clips",
        of=lambda summary, _: recall_of_third(summary, fewest=False),
    ),
    Figure(
        name="macro",
        title="Recall, the mean of the labels",
        of=lambda summary, _: _mean(list(recalls(summary).values())),
    ),
    *(
        Figure(
            name=f"precision-{percent}",
            title=f"Precision of keywords at a recall of {percent} %",
            of=precision_at(percent / 100),
        )
        for percent in (60, 70, 80, 90)
    ),
    Figure(
        name="backdoor",
        title="Clips that a backdoor's trigger turns into its label",
        of=lambda _, rows: rows[-1].backdoor if rows else None,
        by_round=lambda row: row.backdoor,
        higher_is_better=False,
    ),
    Figure(name="recall-of-detection", title="Attackers whom detection blamed", of=recall_of_detection, model="run"),
    Figure(
        name="false-names",
        title="Honest devices whom detection blamed",
        of=false_names,
        unit="devices",
        higher_is_better=False,
        model="run",
    ),
    Figure(
        name="recovery",
        title="Rounds until the shared plug-in is as good as before an attack",
        of=recovery,
        unit="rounds",
        higher_is_better=False,
    ),
    Figure(
        name="after-attack",
        title="Shared plug-in in the three rounds after an attack's",
        of=after_attack,
    ),
    Figure(
        name="worst-device",
        title="Devices' own models, the 10th percentile of the devices",
        of=worst_device,
        model="own",
    ),
    Figure(
        name="angle",
        title="Angle between the direction of labelled clips and a round's",
        of=angle,
        by_round=labelled_angle,
        unit="degrees",
        higher_is_better=False,
        model="run",
    ),
)
"""All of them, in the order of the tables."""
NAMES = tuple(figure.name for figure in FIGURES)
"""What `Suite.figures` can name."""


def named(name: str) -> Figure:
    """The figure of a name; StopIteration for an unknown name, which `Suite` refuses."""
    return next(figure for figure in FIGURES if figure.name == name)
