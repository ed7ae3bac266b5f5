"""What a suite can measure of a run, by name: accuracies, recall by label, precision, detection, recovery, angles."""

from __future__ import annotations

from collections.abc import Callable
from typing import Literal

import msgspec

from auricle_fleet.population.held_out import FleetScore, ModelRole
from auricle_fleet.results.result import RoundRow, Summary
from auricle_fleet.suite.measures import (
    Precision,
    Rows,
    after_attack,
    angle,
    detection_seconds,
    falls,
    false_names,
    labelled_angle,
    mean,
    of_held_out,
    of_row,
    precision_at,
    recall_of_detection,
    recall_of_third,
    recalls,
    recovery,
    worst_device,
)

Unit = Literal["share", "rounds", "devices", "degrees", "seconds"]


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


def figures_of_shared(model: ModelRole, title: str) -> tuple[Figure, ...]:
    """Of the shared model on each device's own held-out clips: the mean of the devices, the worst tenth, macro F1."""
    values: tuple[tuple[str, str, Callable[[FleetScore], float]], ...] = (
        ("", "mean of the devices", lambda score: score.accuracy),
        ("-worst", "10th percentile of the devices", lambda score: score.worst),
        ("-f1", "macro F1, mean of the devices", lambda score: score.f1),
    )
    return tuple(
        Figure(
            name=f"{model}{ending}",
            title=f"{title}, {what}",
            of=of_held_out(model, value),
            by_round=of_row(model, value),
        )
        for ending, what, value in values
    )


def figures_of_precision(name: str, title: str, field: Precision) -> tuple[Figure, ...]:
    """Of a precision of keywords in the summary, at four recalls."""
    return tuple(
        Figure(
            name=f"{name}-{percent}",
            title=f"{title} at a recall of {percent} %",
            of=precision_at(percent / 100, field),
        )
        for percent in (60, 70, 80, 90)
    )


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
        name="personal-worst",
        title="Devices' own models, 10th percentile of the devices",
        of=worst_device,
        model="own",
    ),
    Figure(
        name="personal-f1",
        title="Devices' own models, macro F1, mean of the devices",
        of=of_held_out("own", lambda score: score.f1),
        by_round=of_row("own", lambda score: score.f1),
        model="own",
    ),
    *figures_of_shared("received", "Shared model on each device's own held-out clips"),
    *figures_of_shared("trained", "Shared model after local training on each device's own held-out clips"),
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
        of=lambda summary, _: mean(list(recalls(summary).values())),
    ),
    Figure(
        name="start",
        title="First shared plug-in on speakers that no device has",
        of=lambda summary, _: summary.start_accuracy_unseen,
    ),
    Figure(
        name="central",
        title="Central training on speakers that no device has",
        of=lambda summary, _: summary.central_accuracy_unseen,
    ),
    *figures_of_precision("precision", "Precision of keywords", "keyword_precision"),
    *figures_of_precision("held-out-precision", "The same on the devices' own held-out clips", "held_out_precision"),
    *figures_of_precision("start-precision", "Precision of keywords of the first shared plug-in", "start_precision"),
    *figures_of_precision("central-precision", "Precision of keywords of central training", "central_precision"),
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
    *(
        Figure(
            name=f"{name}-seconds",
            title=f"Seconds of a round that {what} took",
            of=detection_seconds(*steps),
            unit="seconds",
            higher_is_better=False,
            model="run",
        )
        for name, what, steps in (
            ("detection", "detection", ("comparison_seconds", "shapley_seconds")),
            ("comparison", "asking for losses and comparing them", ("comparison_seconds",)),
            ("shapley", "Shapley values and repair", ("shapley_seconds",)),
        )
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
        name="falls",
        title="Falls of the shared plug-in's accuracy from a round to the next, their mean",
        of=falls,
        higher_is_better=False,
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
CURVES = tuple(figure.name for figure in FIGURES if figure.by_round is not None and figure.higher_is_better)
"""What `Suite.target_figure` can name."""
OWN_CLIPS = tuple(name for name in CURVES if name.startswith(("received", "trained", "personal")))
"""What a suite can tune by: on the devices' own held-out clips."""


def get_figure(name: str) -> Figure:
    """The figure of a name; StopIteration for an unknown name, which `Suite` refuses."""
    return next(figure for figure in FIGURES if figure.name == name)
