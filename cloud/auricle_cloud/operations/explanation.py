"""A stored round report in sentences: who counted, with what weight, who was pruned or refused, and why."""

from __future__ import annotations

import math
from bisect import bisect_right
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, cast

from auricle_cloud.operations.operation_types import DetectionWhy, DeviceWhy, Fate, LayerPart, RoundWhy
from auricle_cloud.rounds.round_states import State

Report = Mapping[str, Any]

LAYERS, UPDATES = "read layers", "updates by device"
"""Keys of what is worked out once for all devices of a report."""
NAMED = 5
"""Devices that a sentence names before it says how many more."""


@dataclass(frozen=True)
class _Layer:
    """One layer of a report, indexed by device."""

    name: str
    verdicts: Mapping[str, str]
    shares: Mapping[str, Any]
    deviations: Mapping[str, float]
    ascending: Sequence[float]

    @classmethod
    def read(cls, layer: Mapping[str, Any]) -> _Layer:
        """Index an entry of `Aggregate.explain`."""
        kinds = (("kept", "kept"), ("pruned_low", "pruned_near"), ("pruned_high", "pruned_far"))
        verdicts = {name: word for key, word in kinds for name in layer.get(key) or []}
        deviations = {name: value for name, value in _get(layer, "deviation").items() if _finite(value) is not None}
        return cls(layer["layer"], verdicts, _get(layer, "share"), deviations, sorted(deviations.values()))

    def part(self, device: str) -> LayerPart:
        """What became of a device's weights."""
        own, of = self.deviations.get(device), len(self.ascending)
        return LayerPart(
            layer=self.name, verdict=cast("Any", self.verdicts.get(device, "left_out")), deviation=own, of=of,
            weight=_finite(self.shares.get(device)),
            rank=None if own is None else 1 + of - bisect_right(self.ascending, own),
        )  # fmt: skip


def explain(
    report: Report, *, task: str, number: int, state: State, only: Sequence[str] | None = None,
    now: Mapping[str, str] | None = None,
) -> RoundWhy:  # fmt: skip
    """Explain a round from its report.

    Parameters
    ----------
    report
        What the round stored, of which an older coordinator may have written less; and besides it `declined`, names,
        and `elsewhere`, the rounds that updates of invited devices counted in where it is not this one.
    task, number, state
        The round, and how it ended.
    only
        Devices to explain; all that had to do with the round if None.
    now
        Why devices cannot be invited now, e.g. `is offline`; empty for one that can.
    """
    names = involved(report) if only is None else list(only)
    report = {**report, LAYERS: [_Layer.read(layer) for layer in report.get("layers") or []],
              UPDATES: {row["device"]: row for row in report.get("updates") or []}}  # fmt: skip
    return RoundWhy(
        task=task, round=number, state=state, rule=report.get("rule"), rule_options=dict(_get(report, "rule_options")),
        sentences=_about_round(report, number, state), detection=_detection(report),
        devices=[_device(report, name, number, state, (now or {}).get(name)) for name in names], next=None,
    )  # fmt: skip


def involved(report: Report) -> list[str]:
    """Every device that a report speaks of, by name."""
    updates = {row["device"] for row in report.get("updates") or []}
    return sorted({*(report.get("invited") or []), *updates, *_get(report, "failed"), *_get(report, "refused")})


def is_whole(report: Report | None) -> bool:
    """Whether a round has stored its report: one under way keeps only notes there."""
    return bool(report) and "invited" in (report or {})


def _get(report: Report, key: str) -> Mapping[str, Any]:
    return report.get(key) or {}


# -- the round


def _about_round(report: Report, number: int, state: State) -> list[str]:
    invited, updates = report.get("invited") or [], report.get("updates") or []
    samples = sum(row.get("samples") or 0 for row in updates)
    said = [f"Round {number} is {state}: {len(updates)} updates counted of {_count(len(invited), 'invited device')}"]
    said[0] += f", with {_count(samples, 'training sample')}." if updates else "."
    if report.get("reason"):
        said.append(f"It ended because of this: {_sentence(report['reason'])}")
    said += _about_rule(report)
    said += [_sentence(text) for text in [report.get("flag"), *(report.get("warnings") or [])] if text]
    silent = set(invited) - {row["device"] for row in updates} - {*_get(report, "failed"), *_get(report, "refused")}
    for names, why in (
        (report.get("dropped"), "Left out because some weights are not finite"),
        (_get(report, "failed"), "Failed or declined"),
        (_get(report, "refused"), "Refused or late"),
        (silent - {*_get(report, "elsewhere")}, "Nothing arrived from"),
    ):
        if names:
            said.append(f"{why}: {_names(names)}.")
    return said + _about_detection(_detection(report))


def _about_rule(report: Report) -> list[str]:
    layers = report.get("layers") or []
    if not layers:
        return []
    options = ", ".join(f"{name} {value}" for name, value in sorted(_get(report, "rule_options").items()))
    rule = f"The rule {report['rule']}{f' ({options})' if options else ''}" if report.get("rule") else "The rule"
    pruned = Counter(
        name for layer in layers for name in {*(layer.get("pruned_low") or []), *(layer.get("pruned_high") or [])}
    )
    if not pruned:
        return [f"{rule} pruned nobody in {_count(len(layers), 'layer')}."]
    (most, times), *_ = sorted(pruned.items(), key=lambda item: (-item[1], item[0]))
    return [f"{rule} pruned {_count(len(pruned), 'device')} somewhere, most often {most}: in {times} of "
            f"{_count(len(layers), 'layer')}."]  # fmt: skip


def _detection(report: Report) -> DetectionWhy | None:
    found = report.get("detection")
    if not found:
        return None
    return DetectionWhy(
        fires=bool(found.get("fires")), sentence=str(found.get("sentence") or ""),
        judged_round=found.get("judged_round"), reference=_finite(found.get("reference")),
        votes=sorted(found.get("votes") or []), method=found.get("method"), bad=sorted(found.get("bad") or []),
        repair=found.get("repair"), accuracy_before=_finite(found.get("accuracy_before")),
        accuracy_after=_finite(found.get("accuracy_after")),
    )  # fmt: skip


METHODS = {
    "exact": "exact Shapley values over the cached updates",
    "monte-carlo": "Shapley values by truncated Monte Carlo",
    "last good model": "no validation set, so that nobody can be named: the last good model was taken",
}


def _about_detection(found: DetectionWhy | None) -> list[str]:
    if found is None:
        return []
    said = [_sentence(found.sentence)] if found.sentence else []
    if not found.fires:
        return said or ["Detection saw nothing wrong with the model that the round began with."]
    of = "" if found.judged_round is None else f" for the model of round {found.judged_round}"
    said.append(f"The alarm was raised{of} by {_count(len(found.votes), 'vote')}.")
    if found.method:
        said.append(f"Judged by {METHODS.get(found.method, found.method)}.")
    if found.bad:
        said.append(f"Named harmful: {_names(found.bad)}.")
    if found.repair:
        change = [f"{value:.4f}" for value in (found.accuracy_before, found.accuracy_after) if value is not None]
        said.append(f"The model was {found.repair}" + (f": accuracy {' -> '.join(change)}." if change else "."))
    return said


# -- one device


def _device(report: Report, name: str, number: int, state: State, now: str | None) -> DeviceWhy:
    update = report[UPDATES].get(name)
    if update is not None:
        return _counted(report, name, number, update)
    fate, sentence = _fate(report, name, number, state, now)
    said = [sentence, *_about_shapley(report, name)]
    return DeviceWhy(device=name, fate=fate, sentences=said, **_judged(report, name))


def _fate(report: Report, name: str, number: int, state: State, now: str | None) -> tuple[Fate, str]:
    """Why nothing of a device was counted."""
    failed, refused = _get(report, "failed"), _get(report, "refused")
    if name in refused:
        code = str(refused[name])
        if code.startswith("late"):
            return "late", f"{name} sent its update after round {number} had closed."
        return "refused", f"{name} sent an update to round {number} that was refused: {_sentence(code)}"
    if name in failed:
        why = str(failed[name] or "it gave no reason")
        if name in (report.get("declined") or []):
            return "declined", f"{name} declined round {number}: {_sentence(why)}"
        return "failed", f"{name} was invited to round {number} and failed: {_sentence(why)}"
    if name not in (report.get("invited") or []):
        return "not_invited", f"{name} was not invited to round {number}.{_ineligible(report, name, now)}"
    if name in _get(report, "elsewhere"):
        to = report["elsewhere"][name]
        return "elsewhere", f"{name} was invited to round {number}, and its update counted in round {to}."
    until = "before it was aborted" if state == "aborted" else "before it closed"
    return "silent", f"{name} was invited to round {number}, and no update of it arrived {until}."


def _ineligible(report: Report, name: str, now: str | None) -> str:
    """Why a device was not eligible, as far as is known, with a space before it."""
    then = _get(report, "passed_over").get(name)
    if then:
        return f" When the round began it {_sentence(str(then))}"
    if now is None:
        return ""
    return f" Now it {_sentence(now)}" if now else " Now it is eligible: others were chosen, or it came later."


def _counted(report: Report, name: str, number: int, update: Mapping[str, Any]) -> DeviceWhy:
    dropped = name in (report.get("dropped") or [])
    loss, staleness = _finite(update.get("loss")), update.get("staleness") or 0
    parts = [] if dropped else [layer.part(name) for layer in report[LAYERS]]
    said = [f"{name} counted in round {number} with {_count(update.get('samples') or 0, 'training sample')}"]
    said[0] += "" if loss is None else f" and an inference loss of {loss:.4g}"
    said[0] += f", {_count(staleness, 'model')} behind." if staleness else "."
    if dropped:
        said = [f"{name} sent an update to round {number} that was left out: some of its weights are not finite."]
    said += [_about_layer(part) for part in parts]
    said += _about_shapley(report, name)
    return DeviceWhy(
        device=name, fate="dropped" if dropped else "counted", sentences=said, samples=update.get("samples"),
        loss=loss, staleness=staleness, layers=parts, **_judged(report, name),
    )  # fmt: skip


def _about_layer(part: LayerPart) -> str:
    far = ""
    if part.deviation is not None:
        far = f" (deviation {part.deviation:.4g}, {_ordinal(part.rank)} of {part.of})"
    if part.verdict == "kept":
        return f"{part.layer}: kept with weight {part.weight or 0.0:.4f}{far}."
    if part.verdict == "left_out":
        return f"{part.layer}: left out by the rule{far}."
    side = "far from" if part.verdict == "pruned_far" else "close to"
    return f"{part.layer}: pruned as too {side} the mean{far}."


def _judged(report: Report, name: str) -> dict[str, Any]:
    found = _get(report, "detection")
    value = _get(found, "shapley").get(name) or {}
    return {
        "shapley": _finite(value.get("value")), "shapley_error": _finite(value.get("error")),
        "harmful": name in (found.get("bad") or []),
    }  # fmt: skip


def _about_shapley(report: Report, name: str) -> list[str]:
    found, judged = _get(report, "detection"), _judged(report, name)
    said = []
    loss, reference = _finite(_get(found, "losses").get(name)), _finite(found.get("reference"))
    if name in (found.get("votes") or []) and reference is not None:
        told = "not finite" if loss is None else f"{loss:.4g}"
        said.append(f"Its loss of the received model was {told}, above the reference of {reference:.4g}: "
                    "it voted for the alarm.")  # fmt: skip
    of = "the judged model" if found.get("judged_round") is None else f"the model of round {found['judged_round']}"
    if judged["shapley"] is not None:
        error = f" ± {judged['shapley_error']:.2g}" if judged["shapley_error"] else ""
        said.append(f"Its update to {of} has the Shapley value {judged['shapley']:+.4g}{error}.")
    if judged["harmful"]:
        said.append(f"Detection named its update to {of} harmful.")
    return said


# -- words


def _finite(value: Any) -> float | None:
    return float(value) if isinstance(value, int | float) and math.isfinite(value) else None


def _count(number: int, noun: str) -> str:
    return f"{number:,} {noun}{'' if number == 1 else 's'}"


def _sentence(text: str) -> str:
    text = text.strip()
    return text if text.endswith((".", "!", "?")) else f"{text}."


def _ordinal(rank: int | None) -> str:
    if rank in (None, 1):
        return "the farthest"
    ending = "th" if 10 < rank % 100 < 20 else {1: "st", 2: "nd", 3: "rd"}.get(rank % 10, "th")
    return f"the {rank}{ending} farthest"


def _names(names: Iterable[str]) -> str:
    """Some names, then how many more."""
    known = sorted(names)
    return ", ".join(known[:NAMED]) + (f" and {len(known) - NAMED} more" if len(known) > NAMED else "")
