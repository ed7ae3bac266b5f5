"""A stored round report in sentences: who counted, with what weight, who was pruned or refused, and why."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence

from msgspec.structs import asdict

from auricle.process.times import how_many
from auricle_cloud.operations.device_explanation import (
    Indexed,
    explain_device,
    finite,
    sentence,
)
from auricle_cloud.operations.group_explanation import about_groups, about_prior, name_some
from auricle_cloud.operations.round_answers import (
    BucketWhy,
    DetectionWhy,
    OutcomeFilter,
    PrivacyWhy,
    RoundWhy,
    SecureWhy,
)
from auricle_cloud.operations.secure_explanation import about_secure_sum
from auricle_cloud.states.outcome import OUTCOMES
from auricle_cloud.states.report import (
    DetectionReport,
    DirectionReport,
    Document,
    PrivacyReport,
    RoundReport,
    SecureReport,
)
from auricle_cloud.states.round import State
from auricle_cloud.states.round_outcomes import DevicesOfRound, outcome_of

GIVEN_DEVICES = 3
"""Devices that were not invited of which a round says why."""


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
        method=report.method,
        method_options=report.method_options,
        sentences=_about_round(report, number, state),
        detection=_detection(report.detection),
        privacy=privacy_of(report),
        secure_sum=secure_sum_of(report.secure_sum),
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
    known, names = DevicesOfRound.of(report), list(names)
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


def privacy_of(report: RoundReport) -> PrivacyWhy | None:
    """What a round with noise gave away."""
    told = report.privacy
    return None if told is None else PrivacyWhy(**asdict(told), sentences=_about_privacy(told, report.secure_sum))


def secure_sum_of(told: SecureReport | None) -> SecureWhy | None:
    """The secure sum of a round."""
    if told is None:
        return None
    buckets = [BucketWhy(**asdict(each)) for each in told.buckets]
    return SecureWhy(**{**asdict(told), "buckets": buckets}, sentences=about_secure_sum(told))


# -- the round


def _about_round(report: RoundReport, number: int, state: State) -> list[str]:
    invited, updates = report.invited, report.updates
    samples = sum(update.samples or 0 for update in updates if not update.left_out)
    out = sum(update.left_out for update in updates)
    said = [
        f"Round {number} is {state}: {how_many(len(updates) - out, 'update')} counted of "
        f"{how_many(len(invited), 'invited device')}{f', {out} left out by the rule' if out else ''}"
    ]
    said[0] += f", with {how_many(samples, 'training sample')}." if updates and not report.secure_sum else "."
    if report.reason:
        said.append(f"It ended because of this: {sentence(report.reason)}")
    said += _about_rule(report)
    said += [*about_groups(report.groups), *about_prior(report.prior_knowledge, evaluated=report.evaluated)]
    said += [sentence(text) for text in [report.flag, *report.warnings] if text]
    if report.bounded:
        less = {entry.device for entry in report.bounded}
        said.append(f"Counted for less than they sent, said or were given by the rule: {name_some(less)}.")
    said += _about_direction(report.direction)
    silent = set(invited) - {update.device for update in updates} - {*report.failed, *report.refused}
    for names, of in (
        (report.dropped, OUTCOMES["dropped"]),
        (report.failed, OUTCOMES["failed"]),
        (report.refused, OUTCOMES["refused"]),
        (silent - {*report.elsewhere}, OUTCOMES["silent"]),
    ):
        if names:
            said.append(f"{of.named}: {name_some(names)}.")
    said += _not_invited(report, number)
    said += about_secure_sum(report.secure_sum)
    said += _about_privacy(report.privacy, report.secure_sum)
    return said + _about_detection(_detection(report.detection))


def _about_direction(told: DirectionReport | None) -> list[str]:
    """How far the round's direction is from those of the parties; nothing without a rule that agrees on one."""
    if told is None:
        return []
    named, far = set(told.labelled), []
    if told.coordinator is not None:
        far.append(f"{told.coordinator:.1f} degrees from that of the coordinator's clips")
    for of, who in ((True, "with labels"), (False, "without")):
        angles = [angle for name, angle in told.angles.items() if angle is not None and (name in named) == of]
        if angles:
            mean = f"{sum(angles) / len(angles):.1f}{'' if far else ' degrees'}"
            far.append(f"{mean} on average from that of {how_many(len(angles), 'device')} {who}")
    return [f"The round's direction is {', '.join(far)}; above 90 it goes against them."] if far else []


def _not_invited(report: RoundReport, number: int) -> list[str]:
    """Who was left out before the round began: each with its reason where they are few."""
    reasons = {name: why for name, why in sorted(report.passed_over.items()) if name not in report.invited}
    if not reasons:
        return []
    if len(reasons) <= GIVEN_DEVICES:
        return [f"Not invited: {name} {sentence(why)}" for name, why in reasons.items()]
    return [f"Not invited: {name_some(reasons)}; rounds why {number} --outcome not_invited has the reasons."]


def _about_rule(report: RoundReport) -> list[str]:
    layers = report.layers
    if not layers:
        return []
    options = ", ".join(f"{name} {value}" for name, value in sorted(report.method_options.items()))
    rule = f"The method {report.method}{f' ({options})' if options else ''}" if report.method else "The rule"
    pruned = Counter(name for layer in layers for name in {*layer.pruned_low, *layer.pruned_high})
    if pruned:
        (most, times), *_ = sorted(pruned.items(), key=lambda item: (-item[1], item[0]))
        out = [update.device for update in report.updates if update.left_out]
        return [
            f"{rule} pruned {how_many(len(pruned), 'device')} somewhere, most often {most}: in {times} of "
            f"{how_many(len(layers), 'layer')}.",
            *([f"Left out in every layer: {name_some(out)}."] if out else []),
        ]
    left = {name for layer in layers for name in set(layer.share) - set(layer.kept)}
    if left:
        return [f"{rule} left out {how_many(len(left), 'device')}: {name_some(left)}."]
    return [f"{rule} pruned nobody in {how_many(len(layers), 'layer')}."]


def _about_privacy(told: PrivacyReport | None, secure: SecureReport | None = None) -> list[str]:
    if told is None or told.clip is None:
        return []
    said = [
        f"Devices clipped their updates to a norm of {told.clip:g} and added noise of standard deviation "
        f"{told.deviation or 0:.4g} to each value."
    ]
    if told.epsilon is None or told.device_epsilon is None:
        return said
    how = "" if told.accounting is None else f" (by {told.accounting})"
    limit = "" if told.budget is None else f"; the budget is {told.budget:g} of the {told.view} view"
    said.append(
        f"After {how_many(told.rounds or 0, 'round')} with noise epsilon is {told.epsilon:.4g}{how} towards who sees "
        f"models and {told.device_epsilon:.4g} towards who sees a device's single updates "
        f"(delta {told.delta:g}){limit}."
    )
    if secure is not None:
        said.append("The coordinator saw the sum alone: towards it the first figure holds as well.")
    if told.bare:
        said.append(f"Not covered: {how_many(told.bare, 'round')} before, without noise or ended early.")
    return said


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
    "last good model": "nobody, as none can be named: the last good model was taken",
}


def _about_detection(found: DetectionWhy | None) -> list[str]:
    if found is None:
        return []
    said = [sentence(found.sentence)] if found.sentence else []
    if found.set_aside:
        said.append(f"Their loss was not used, because it is far from all others': {name_some(found.set_aside)}.")
    if not found.fires:
        return said or ["Detection saw nothing wrong with the model that the round began with."]
    of = "" if found.judged_round is None else f" for the model of round {found.judged_round}"
    if found.reference is not None:
        said.append(f"The alarm was raised{of} by {how_many(len(found.votes), 'vote')}.")
    if found.method:
        said.append(f"Judged by {METHODS.get(found.method, found.method)}.")
    if found.bad:
        said.append(f"Named harmful: {name_some(found.bad)}.")
    if found.repair:
        change = [f"{value:.4f}" for value in (found.accuracy_before, found.accuracy_after) if value is not None]
        said.append(f"The model was {found.repair}" + (f": accuracy {' -> '.join(change)}." if change else "."))
    return said
