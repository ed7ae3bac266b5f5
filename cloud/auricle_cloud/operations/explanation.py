"""A stored round report in sentences: who counted, with what weight, who was pruned or refused, and why."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence

from auricle_cloud.operations.device_explanation import (
    Indexed,
    count,
    explain_device,
    finite,
    outcome_of,
    sentence,
)
from auricle_cloud.operations.round_answers import DetectionWhy, OutcomeFilter, RoundWhy
from auricle_cloud.states.report import DetectionReport, Document, RoundReport
from auricle_cloud.states.round import State

NAMED = 5
"""Devices that a sentence names before it says how many more."""


def explain(
    report: RoundReport,
    *,
    task: str,
    number: int,
    state: State,
    only: Sequence[str] | None = None,
    now: Mapping[str, str] | None = None,
) -> RoundWhy:
    """Explain a round from its report.

    Parameters
    ----------
    report
        What the round stored, with what only the rows of its cohort say.
    task, number, state
        The round, and how it ended.
    only
        Devices to explain; all that had to do with the round if None.
    now
        Why devices cannot be invited now, e.g. `is offline`; empty for one that can.
    """
    names = involved(report) if only is None else list(only)
    known = Indexed.of(report)
    return RoundWhy(
        task=task,
        round=number,
        state=state,
        rule=report.rule,
        rule_options=report.rule_options,
        sentences=_about_round(report, number, state),
        detection=_detection(report.detection),
        devices=[explain_device(known, name, number, state, (now or {}).get(name)) for name in names],
        next=None,
    )


def involved(report: RoundReport, *, passed_over: bool = False) -> list[str]:
    """Every device that had to do with a round, by name; with those passed over when it began, if wanted."""
    updates = {update.device for update in report.updates}
    others = report.passed_over if passed_over else ()
    return sorted({*report.invited, *updates, *report.failed, *report.refused, *others})


def filter_by_outcome(report: RoundReport, names: Iterable[str], outcome: OutcomeFilter) -> list[str]:
    """The devices among these that had this outcome; a report of a round under way may lack all but its first facts."""
    known, names = Indexed.of(report), list(names)
    if outcome == "harmful":
        found = set((report.detection or DetectionReport()).bad)
    elif outcome == "pruned":
        kept = [set(layer.kept) for layer in report.layers]
        found = set(known.updates) - known.dropped - kept[0].intersection(*kept[1:]) if kept else set()
    else:
        found = {name for name in names if outcome_of(known, name) == outcome}
    return [name for name in names if name in found]


def is_whole(report: Document | None) -> bool:
    """Whether a round has stored its report: one under way keeps only notes there."""
    return bool(report) and "invited" in (report or {})


# -- the round


def _about_round(report: RoundReport, number: int, state: State) -> list[str]:
    invited, updates = report.invited, report.updates
    samples = sum(update.samples or 0 for update in updates)
    said = [f"Round {number} is {state}: {len(updates)} updates counted of {count(len(invited), 'invited device')}"]
    said[0] += f", with {count(samples, 'training sample')}." if updates else "."
    if report.reason:
        said.append(f"It ended because of this: {sentence(report.reason)}")
    said += _about_rule(report)
    said += [sentence(text) for text in [report.flag, *report.warnings] if text]
    if report.bounded:
        less = {entry.device for entry in report.bounded}
        said.append(f"Counted for less than they said or the rule gave them: {_names(less)}.")
    silent = set(invited) - {update.device for update in updates} - {*report.failed, *report.refused}
    for names, why in (
        (report.dropped, "Left out because some weights are not finite"),
        (report.failed, "Failed or declined"),
        (report.refused, "Refused or late"),
        (silent - {*report.elsewhere}, "Nothing arrived from"),
    ):
        if names:
            said.append(f"{why}: {_names(names)}.")
    return said + _about_detection(_detection(report.detection))


def _about_rule(report: RoundReport) -> list[str]:
    layers = report.layers
    if not layers:
        return []
    options = ", ".join(f"{name} {value}" for name, value in sorted(report.rule_options.items()))
    rule = f"The rule {report.rule}{f' ({options})' if options else ''}" if report.rule else "The rule"
    pruned = Counter(name for layer in layers for name in {*layer.pruned_low, *layer.pruned_high})
    if pruned:
        (most, times), *_ = sorted(pruned.items(), key=lambda item: (-item[1], item[0]))
        return [
            f"{rule} pruned {count(len(pruned), 'device')} somewhere, most often {most}: in {times} of "
            f"{count(len(layers), 'layer')}."
        ]
    left = {name for layer in layers for name in set(layer.share) - set(layer.kept)}
    if left:
        return [f"{rule} left out {count(len(left), 'device')}: {_names(left)}."]
    return [f"{rule} pruned nobody in {count(len(layers), 'layer')}."]


def _detection(found: DetectionReport | None) -> DetectionWhy | None:
    if found is None:
        return None
    return DetectionWhy(
        fires=found.fires,
        sentence=found.sentence,
        judged_round=found.judged_round,
        reference=finite(found.reference),
        votes=sorted(found.votes),
        set_aside=sorted(found.set_aside),
        method=found.method,
        bad=sorted(found.bad),
        repair=found.repair,
        accuracy_before=finite(found.accuracy_before),
        accuracy_after=finite(found.accuracy_after),
    )


METHODS = {
    "exact": "exact Shapley values over the cached updates",
    "monte-carlo": "Shapley values by truncated Monte Carlo",
    "last good model": "no validation set, so that nobody can be named: the last good model was taken",
}


def _about_detection(found: DetectionWhy | None) -> list[str]:
    if found is None:
        return []
    said = [sentence(found.sentence)] if found.sentence else []
    if found.set_aside:
        said.append(f"Not believed, for their loss is far from all others': {_names(found.set_aside)}.")
    if not found.fires:
        return said or ["Detection saw nothing wrong with the model that the round began with."]
    of = "" if found.judged_round is None else f" for the model of round {found.judged_round}"
    said.append(f"The alarm was raised{of} by {count(len(found.votes), 'vote')}.")
    if found.method:
        said.append(f"Judged by {METHODS.get(found.method, found.method)}.")
    if found.bad:
        said.append(f"Named harmful: {_names(found.bad)}.")
    if found.repair:
        change = [f"{value:.4f}" for value in (found.accuracy_before, found.accuracy_after) if value is not None]
        said.append(f"The model was {found.repair}" + (f": accuracy {' -> '.join(change)}." if change else "."))
    return said


def _names(names: Iterable[str]) -> str:
    """Some names, then how many more."""
    known = sorted(names)
    return ", ".join(known[:NAMED]) + (f" and {len(known) - NAMED} more" if len(known) > NAMED else "")
