"""How one device fared in a round, in sentences, from the round's report as `indexed` returns it."""

from __future__ import annotations

import math
from bisect import bisect_left, bisect_right
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, cast

from msgspec.structs import replace

from auricle_cloud.operations.round_answers import DeviceWhy, LayerPart, Outcome
from auricle_cloud.states.round import State

Report = Mapping[str, Any]

LAYERS, UPDATES, SCORES = "read layers", "updates by device", "scores by device"
"""Keys of what is worked out once for all devices of a report."""


def indexed(report: Report) -> Report:
    """A report in which many devices are soon looked up."""
    layers = report.get("layers") or []
    scores = get(layers[0], "score") if layers else {}
    known = {name: value for name, value in scores.items() if finite(value) is not None}
    sets = {key: frozenset(report.get(key) or []) for key in ("invited", "declined", "dropped")}
    return {
        **report,
        **sets,
        LAYERS: [_Layer.read(layer) for layer in layers],
        SCORES: (known, sorted(known.values())),
        UPDATES: {row["device"]: row for row in report.get("updates") or []},
    }


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
        deviations = {name: value for name, value in get(layer, "deviation").items() if finite(value) is not None}
        return cls(layer["layer"], verdicts, get(layer, "share"), deviations, sorted(deviations.values()))

    def part(self, device: str) -> LayerPart:
        """What became of a device's weights."""
        own, of = self.deviations.get(device), len(self.ascending)
        return LayerPart(
            layer=self.name,
            verdict=cast("Any", self.verdicts.get(device, "left_out")),
            deviation=own,
            of=of,
            weight=finite(self.shares.get(device)),
            rank=None if own is None else 1 + of - bisect_right(self.ascending, own),
        )


def explain_device(report: Report, name: str, number: int, state: State, now: str | None) -> DeviceWhy:
    """Explain one device; parameters as of `explanation.explain`, `now` is this device's."""
    update = report[UPDATES].get(name)
    if update is not None:
        return _counted(report, name, number, update)
    outcome, why = _outcome(report, name, number, state, now)
    return DeviceWhy(
        device=name, outcome=outcome, sentences=[why, *_about_shapley(report, name)], **_judged(report, name)
    )


def outcome_of(report: Report, name: str) -> Outcome:
    """What became of a device's invitation."""
    if name in report[UPDATES]:
        return "dropped" if name in report["dropped"] else "counted"
    return _outcome(report, name, 0, "published", None)[0]


def _outcome(report: Report, name: str, number: int, state: State, now: str | None) -> tuple[Outcome, str]:
    """Why nothing of a device was counted."""
    failed, refused = get(report, "failed"), get(report, "refused")
    if name in refused:
        code = str(refused[name])
        if code.startswith(("late", "closed")):
            return "late", f"{name} sent its update after round {number} had closed."
        return "refused", f"{name} sent an update to round {number} that was refused: {sentence(code)}"
    if name in failed:
        why = str(failed[name] or "it gave no reason")
        if name in report["declined"]:
            return "declined", f"{name} declined round {number}: {sentence(why)}"
        return "failed", f"{name} was invited to round {number} and failed: {sentence(why)}"
    if name not in report["invited"]:
        return "not_invited", f"{name} was not invited to round {number}.{_ineligible(report, name, now)}"
    if name in get(report, "elsewhere"):
        to = report["elsewhere"][name]
        return "elsewhere", f"{name} was invited to round {number}, and its update counted in round {to}."
    until = "before it was aborted" if state == "aborted" else "before it closed"
    return "silent", f"{name} was invited to round {number}, and no update of it arrived {until}."


def _ineligible(report: Report, name: str, now: str | None) -> str:
    """Why a device was not eligible, as far as is known, with a space before it."""
    then = get(report, "passed_over").get(name)
    if then:
        return f" When the round began it {sentence(str(then))}"
    if now is None:
        return ""
    return f" Now it {sentence(now)}" if now else " Now it is eligible: others were chosen, or it came later."


def _counted(report: Report, name: str, number: int, update: Mapping[str, Any]) -> DeviceWhy:
    outcome = outcome_of(report, name)
    dropped = outcome == "dropped"
    loss, staleness = finite(update.get("loss")), update.get("staleness") or 0
    parts = [] if dropped else [layer.part(name) for layer in report[LAYERS]]
    said = [f"{name} counted in round {number} with {count(update.get('samples') or 0, 'training sample')}"]
    said[0] += "" if loss is None else f" and an inference loss of {loss:.4g}"
    said[0] += f", {count(staleness, 'model')} behind." if staleness else "."
    if dropped:
        said = [f"{name} sent an update to round {number} that was left out: some of its weights are not finite."]
    score = {} if dropped else _score(report, name)
    said += [*_about_score(report, score), *_about_layers(parts), *_about_shapley(report, name)]
    return DeviceWhy(
        device=name,
        outcome=outcome,
        sentences=said,
        samples=update.get("samples"),
        loss=loss,
        staleness=staleness,
        layers=parts,
        **score,
        **_judged(report, name),
    )


def _score(report: Report, name: str) -> dict[str, Any]:
    """How the rule judged a device as a whole; empty where it judges layer by layer."""
    known, ascending = report[SCORES]
    if name not in known:
        return {}
    return {
        "score": known[name],
        "score_of": report["layers"][0].get("score_of"),
        "score_among": len(known),
        "score_rank": 1 + bisect_left(ascending, known[name]),
    }


def _about_score(report: Report, score: Mapping[str, Any]) -> list[str]:
    if not score:
        return []
    of = f" ({score['score_of']})" if score["score_of"] else ""
    place = f"{_nth(score['score_rank'])}smallest of {score['score_among']}"
    counted = len(report["layers"][0].get("kept") or [])
    were = f"{counted} {'was' if counted == 1 else 'were'} averaged"
    by = f" by {report['rule']}" if report.get("rule") else ""
    return [f"Its score{by} was {score['score']:.4g}{of}, the {place}; {were}."]


def _about_layers(parts: Sequence[LayerPart]) -> list[str]:
    """A sentence for each layer, or one for all where a rule takes or leaves a device as a whole."""
    alike = {(part.verdict, part.weight) for part in parts}
    if len(parts) > 1 and len(alike) == 1 and all(part.deviation is None for part in parts):
        return [_about_layer(replace(parts[0], layer=f"All {len(parts)} layers"))]
    return [_about_layer(part) for part in parts]


def _about_layer(part: LayerPart) -> str:
    far = ""
    if part.deviation is not None:
        far = f" (deviation {part.deviation:.4g}, the {_nth(part.rank or 1)}farthest of {part.of})"
    if part.verdict == "kept":
        return f"{part.layer}: kept with weight {part.weight or 0.0:.4f}{far}."
    if part.verdict == "left_out":
        return f"{part.layer}: left out by the rule{far}."
    side = "far from" if part.verdict == "pruned_far" else "close to"
    return f"{part.layer}: pruned as too {side} the mean{far}."


def _judged(report: Report, name: str) -> dict[str, Any]:
    found = get(report, "detection")
    value = get(found, "shapley").get(name) or {}
    return {
        "shapley": finite(value.get("value")),
        "shapley_error": finite(value.get("error")),
        "harmful": name in (found.get("bad") or []),
    }


def _about_shapley(report: Report, name: str) -> list[str]:
    found, judged = get(report, "detection"), _judged(report, name)
    said = []
    loss, reference = finite(get(found, "losses").get(name)), finite(found.get("reference"))
    if name in (found.get("votes") or []) and reference is not None:
        told = "not finite" if loss is None else f"{loss:.4g}"
        said.append(
            f"Its loss of the received model was {told}, above the reference of {reference:.4g}: "
            "it voted for the alarm."
        )
    of = "the judged model" if found.get("judged_round") is None else f"the model of round {found['judged_round']}"
    if judged["shapley"] is not None:
        error = f" ± {judged['shapley_error']:.2g}" if judged["shapley_error"] else ""
        said.append(f"Its update to {of} has the Shapley value {judged['shapley']:+.4g}{error}.")
    if judged["harmful"]:
        said.append(f"Detection named its update to {of} harmful.")
    return said


# -- words


def get(report: Report, key: str) -> Mapping[str, Any]:
    """What a report has by name; an older one may not have it."""
    return report.get(key) or {}


def finite(value: Any) -> float | None:
    """A number that can be told."""
    return float(value) if isinstance(value, int | float) and math.isfinite(value) else None


def count(number: int, noun: str) -> str:
    """`3 devices`."""
    return f"{number:,} {noun}{'' if number == 1 else 's'}"


def sentence(text: str) -> str:
    """Text with a full stop."""
    text = text.strip()
    return text if text.endswith((".", "!", "?")) else f"{text}."


def _nth(rank: int) -> str:
    """`2nd ` and so on, with a space after it; nothing for the first."""
    ending = "th" if 10 < rank % 100 < 20 else {1: "st", 2: "nd", 3: "rd"}.get(rank % 10, "th")
    return "" if rank == 1 else f"{rank}{ending} "
