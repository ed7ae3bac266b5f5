"""What is measured of a run that has ended: recalls, precision, detection, recovery, held-out clips, angles."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import pairwise
from typing import Literal

import numpy as np

from auricle_fleet.population.held_out import WORST_PERCENTILE, FleetScore, ModelRole
from auricle_fleet.population.judging import RECALLS
from auricle_fleet.results.result import RoundRow, Summary

Rows = Sequence[RoundRow]
BACK = 0.02
"""So near to the accuracy of before an attack is recovered."""
AFTERMATH_ROUNDS = 3
"""Rounds after an attack's in which its harm is measured: detection can repair from the first of them on."""


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
    return mean([known[label] for label in (order[:third] if fewest else order[-third:]) if label in known])


Precision = Literal["keyword_precision", "held_out_precision", "start_precision", "central_precision"]
"""Fields of a summary."""


def precision_at(recall: float, field: Precision) -> Callable[[Summary, Rows], float | None]:
    """The precision of keywords at one of `RECALLS`, see `keyword_precision`."""
    place = int(np.argmin(np.abs(np.array(RECALLS) - recall)))

    def read(summary: Summary, _: Rows) -> float | None:
        precision: tuple[float, ...] | None = getattr(summary, field)
        return None if precision is None else precision[place]

    return read


def of_row(model: ModelRole, value: Callable[[FleetScore], float]) -> Callable[[RoundRow], float | None]:
    """A value of one model on the devices' own held-out clips, of a round."""
    return lambda row: None if (score := row.held_out.get(model)) is None else value(score)


def of_held_out(model: ModelRole, value: Callable[[FleetScore], float]) -> Callable[[Summary, Rows], float | None]:
    """The same of a run: that of its last round."""
    read = of_row(model, value)
    return lambda _, rows: read(rows[-1]) if rows else None


def worst_device(_: Summary, rows: Rows) -> float | None:
    """The percentile `WORST_PERCENTILE` of the devices' newest accuracies, between two of them in proportion."""
    newest = {name: value for row in rows for name, value in row.personal.items() if value is not None}
    return float(np.percentile(list(newest.values()), WORST_PERCENTILE)) if newest else None


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


def detection_seconds(*steps: str) -> Callable[[Summary, Rows], float | None]:
    """The seconds of a round that steps of detection took together, the mean of the rounds; None without detection."""

    def read(_: Summary, rows: Rows) -> float | None:
        told = [[getattr(row, step) for step in steps] for row in rows]
        return mean([sum(each) for each in told if None not in each])

    return read


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
    return mean(taken)


def after_attack(summary: Summary, rows: Rows) -> float | None:
    """The plug-in's mean accuracy in `AFTERMATH_ROUNDS` rounds after each one with an attack, and its mean over these.

    Rounds that the run does not have are left out. None without a group that attacks in certain rounds.
    """
    accuracy, attacks = _accuracy_and_attacks(summary, rows)
    after = [[accuracy.get(n) for n in range(attack + 1, attack + 1 + AFTERMATH_ROUNDS)] for attack in attacks]
    known = [mean([value for value in values if value is not None]) for values in after]
    return mean([value for value in known if value is not None])


def _accuracy_and_attacks(summary: Summary, rows: Rows) -> tuple[dict[int, float | None], list[int]]:
    """The plug-in's accuracy on unseen speakers by round, and the rounds with an attack, of a group that names them."""
    accuracy = {row.round: row.plugin_accuracy_unseen for row in rows}
    return accuracy, sorted({number for group in summary.attackers for number in group.rounds if number in accuracy})


def falls(_: Summary, rows: Rows) -> float | None:
    """By how much the plug-in's accuracy on unseen speakers falls from a round to the next: nothing where it rises.

    The mean of all rounds but the first; None of fewer than two rounds that know it.
    """
    known = [row.plugin_accuracy_unseen for row in rows if row.plugin_accuracy_unseen is not None]
    return mean([max(0.0, before - after) for before, after in pairwise(known)])


def angle(_: Summary, rows: Rows) -> float | None:
    """Degrees between the direction of labelled clips and that of a round, the mean of the rounds that tell it."""
    return mean([value for row in rows if (value := labelled_angle(row)) is not None])


def labelled_angle(row: RoundRow) -> float | None:
    """Of a round: the coordinator's clips, or without those the mean of the devices with labels."""
    return row.labelled_angle if row.coordinator_angle is None else row.coordinator_angle


def _harmful_names(rows: Rows) -> set[str]:
    return {name for row in rows for name in row.harmful}


def mean(values: Sequence[float]) -> float | None:
    return sum(values) / len(values) if values else None
