"""What a suite draws: accuracy and loss by round, precision by recall, rounds to the target, confusion."""

from __future__ import annotations

import statistics
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

from auricle.process.times import how_many
from auricle_cloud.states.figures import LOSS_UNITS
from auricle_fleet.population.judging import RECALLS
from auricle_fleet.results.drawing import Axis, Bar, Point, Series, bar_chart, heat_map, line_chart
from auricle_fleet.results.result import RoundRow
from auricle_fleet.suite.figures import Figure, Unit
from auricle_fleet.suite.folder import Ended
from auricle_fleet.suite.parts import Condition
from auricle_fleet.suite.plan import Suite, plain_name
from auricle_fleet.suite.tables import Results, figures_of
from auricle_fleet.suite.targets import TargetFigure

AXES: dict[Unit, Axis] = {"share": Axis("", 0.0, 1.0, is_share=True), "degrees": Axis("degrees", 0.0, 180.0)}
"""Of the values of a figure by round."""


@dataclass(frozen=True)
class Picture:
    """A drawing of a suite, for its page and a file."""

    name: str
    """Of the file, without its ending."""
    svg: str
    model: str = "plug-in"
    """Of what it tells, as of `Figure.model`."""


def pictures(suite: Suite, ended: Sequence[Ended], found: Results) -> list[Picture]:
    """Everything that the runs tell, by condition."""
    drawn: list[Picture] = []
    for condition in suite.conditions:
        runs = [each for each in ended if each.cell.condition == condition.name]
        drawn += _of_condition(suite, runs, condition, found)
    for target in suite.target_figures:
        svg = bars_to_target(suite, found, target)
        if svg is not None:
            drawn.append(Picture(f"{target.name}-to-target", svg, target.model))
    return drawn


def _of_condition(suite: Suite, ended: Sequence[Ended], condition: Condition, found: Results) -> Iterable[Picture]:
    place = plain_name(condition.name)
    for figure in figures_of(suite):
        svg = curves(suite, ended, condition.name, figure)
        if svg is not None:
            yield Picture(f"{figure.name}-{place}", svg, figure.model)
    for loss, unit in LOSS_UNITS.items():
        svg = loss_curves(suite, [each for each in ended if _loss_of(each) == loss], condition.name, unit)
        if svg is not None:
            yield Picture(f"loss-{place}" if loss == "ce" else f"loss-{loss}-{place}", svg)
    svg = precision_curves(suite, found, condition.name)
    if svg is not None:
        yield Picture(f"precision-recall-{place}", svg)
    for run in (run for run in ended if run.cell.seed == suite.seeds[0]):
        for name, drawn in run.pictures.items():
            model = "plug-in" if name == "occlusion" else "run"
            yield Picture(f"{name}-{plain_name(run.cell.method)}-{place}", drawn, model)
    for each in found.confusions:
        if each.condition == condition.name:
            title = f"What words are taken for: {each.method}"
            svg = heat_map(title, f"{condition.name}; unseen speakers, all seeds", each.words, each.counts)
            yield Picture(f"confusion-{plain_name(each.method)}-{place}", svg)


def curves(suite: Suite, ended: Sequence[Ended], condition: str, figure: Figure) -> str | None:
    """Draw a figure of all methods in a condition by round; None where no run tells it."""
    if figure.by_round is None:
        return None
    return _by_round(suite, ended, condition, figure.title, figure.by_round, AXES[figure.unit])


def _loss_of(ended: Ended) -> object:
    """Which loss of the model the devices of a run say: an option of some methods."""
    return ended.cell.settings.method_options.get("inference_loss", "ce")


def loss_curves(suite: Suite, ended: Sequence[Ended], condition: str, unit: str) -> str | None:
    """Draw the mean loss of each round's first model on the devices' clips; None where no run tells it.

    Parameters
    ----------
    ended
        Runs of which the losses have one `unit`.
    """
    losses = [row.inference_loss for each in ended for row in each.rounds if row.inference_loss is not None]
    axis = Axis(unit, 0.0, max(losses, default=1.0) or 1.0)
    title = "Loss of the shared plug-in on the devices' clips"
    return _by_round(suite, ended, condition, title, lambda row: row.inference_loss, axis)


def precision_curves(suite: Suite, found: Results, condition: str) -> str | None:
    """Draw the precision of keywords by recall, the mean of the seeds; None where no run tells it."""
    told = {each.method: each.precision for each in found.precision if each.condition == condition}
    series = [
        Series(m.name, [(r, p, p, p) for r, p in zip(RECALLS, told.get(m.name, ()), strict=False) if p is not None])
        for m in suite.methods
    ]
    if not any(line.points for line in series):
        return None
    axes = Axis("recall", 0.0, 1.0, is_share=True), Axis("precision", 0.0, 1.0, is_share=True)
    return line_chart("Keywords of unseen speakers: precision by recall", condition, series, *axes)


def bars_to_target(suite: Suite, found: Results, target: TargetFigure) -> str | None:
    """Draw the mean rounds or seconds until a target as bars; a method of which no run is there has a text alone.

    A run that is never there counts as one round more than it has, so the mean with such runs is the least that it may
    be; the mean of seconds is without it. None where no run has ended.
    """
    reached = [each for each in found.reached if each.figure == target.name]
    if not any(each.runs for each in reached):
        return None
    blocks, most = [], 0.0
    for condition in suite.conditions:
        bars = []
        for each in (each for each in reached if each.condition == condition.name):
            mean = found.entry(target.name, each.method, condition.name).mean
            if not each.runs:
                continue
            if not each.rounds or mean is None:
                within = "" if mean is None else f" in {how_many(round(mean - 1), 'round')}"
                bars.append(Bar(each.method, None, f"never{within}, {how_many(each.runs, 'run')}"))
                continue
            most = max(most, mean)
            least = "at least " if target.unit == "rounds" and len(each.rounds) < each.runs else ""
            bars.append(Bar(each.method, mean, f"{least}{mean:.1f}, reached by {len(each.rounds)} of {each.runs}"))
        blocks.append((condition.name, bars))
    return bar_chart(target.title, blocks, most)


def _by_round(
    suite: Suite,
    ended: Sequence[Ended],
    condition: str,
    title: str,
    value: Callable[[RoundRow], float | None],
    axis: Axis,
) -> str | None:
    """Lines of all methods: the mean of the seeds, and from the least to the most."""
    series = [
        Series(
            method.name,
            _points([e for e in ended if (e.cell.method, e.cell.condition) == (method.name, condition)], value),
        )
        for method in suite.methods
    ]
    last = max((point[0] for line in series for point in line.points), default=None)
    if last is None:
        return None
    return line_chart(title, condition, series, Axis("round", 1.0, last), axis)


def _points(ended: Sequence[Ended], value: Callable[[RoundRow], float | None]) -> list[Point]:
    by_round: dict[int, list[float]] = {}
    for each in ended:
        for row in each.rounds:
            told = value(row)
            if told is not None:
                by_round.setdefault(row.round, []).append(told)
    return [(n, min(values), statistics.fmean(values), max(values)) for n, values in sorted(by_round.items())]
