"""What became of one device in a round, in sentences, from the round's report."""

from __future__ import annotations

import math
from bisect import bisect_left, bisect_right
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass

from msgspec.structs import replace

from auricle.process.times import how_many
from auricle_cloud.operations.group_explanation import about_group
from auricle_cloud.operations.round_answers import DeviceWhy, LayerPart, Verdict
from auricle_cloud.operations.secure_explanation import why_unused
from auricle_cloud.states.attendance import not_in_quorum
from auricle_cloud.states.outcome import Outcome, sentence_of
from auricle_cloud.states.report import (
    BoundedReport,
    CountedUpdate,
    DetectionReport,
    LayerReport,
    RoundReport,
    ShapleyValue,
)
from auricle_cloud.states.round import State
from auricle_cloud.states.round_outcomes import DevicesOfRound, outcome_of


@dataclass(frozen=True)
class _Layer:
    """One layer of a report, indexed by device."""

    name: str
    verdicts: Mapping[str, Verdict]
    shares: Mapping[str, float | None]
    deviations: Mapping[str, float]
    ascending: Sequence[float]

    @classmethod
    def read(cls, layer: LayerReport) -> _Layer:
        """Index a layer."""
        kinds: tuple[tuple[Verdict, list[str]], ...] = (
            ("kept", layer.kept),
            ("pruned_near", layer.pruned_low),
            ("pruned_far", layer.pruned_high),
        )
        verdicts = {name: word for word, names in kinds for name in names}
        deviations = _finite(layer.deviation)
        return cls(layer.layer, verdicts, layer.share, deviations, sorted(deviations.values()))

    def part(self, device: str) -> LayerPart:
        """What became of a device's weights."""
        own, of = self.deviations.get(device), len(self.ascending)
        return LayerPart(
            layer=self.name,
            verdict=self.verdicts.get(device, "left_out"),
            deviation=own,
            of=of,
            weight=finite(self.shares.get(device)),
            rank=None if own is None else 1 + of - bisect_right(self.ascending, own),
        )


@dataclass(frozen=True)
class Indexed(DevicesOfRound):
    """A report with the layers and scores of its devices."""

    layers: Sequence[_Layer]
    scores: Mapping[str, float]
    ascending: Sequence[float]
    """The scores."""

    @classmethod
    def of(cls, report: RoundReport) -> Indexed:
        """Index a report."""
        scores = _finite(report.layers[0].score) if report.layers else {}
        return cls(
            **vars(DevicesOfRound.of(report)),
            layers=[_Layer.read(layer) for layer in report.layers],
            scores=scores,
            ascending=sorted(scores.values()),
        )


@dataclass(frozen=True)
class _Score:
    """How the rule judged a device as a whole."""

    score: float
    score_of: str | None
    score_among: int
    score_rank: int


@dataclass(frozen=True)
class _Judged:
    """How detection judged a device."""

    shapley: float | None
    shapley_error: float | None
    harmful: bool


def explain_device(known: Indexed, name: str, number: int, state: State, now: str | None) -> DeviceWhy:
    """Explain one device; parameters as of `explanation.explain`, `now` is this device's."""
    update = known.updates.get(name)
    if update is not None:
        return _counted(known, name, number, update)
    outcome, why = _explain_missing(known, name, number, state, now)
    said = [why, *_about_quorum(known, name), *_about_shapley(known, name)]
    return DeviceWhy(device=name, outcome=outcome, sentences=said, **asdict(_judged(known, name)))


def _explain_missing(known: Indexed, name: str, number: int, state: State, now: str | None) -> tuple[Outcome, str]:
    """Why nothing of a device was counted."""
    outcome, report = outcome_of(known, name), known.report
    why: object
    if outcome in ("late", "refused"):
        why = sentence(str(report.refused[name]))
    elif outcome in ("declined", "failed"):
        why = sentence(str(report.failed[name] or "it gave no reason"))
    elif outcome == "not_invited":
        why = _ineligible(known, name, now)
    elif outcome == "elsewhere":
        why = report.elsewhere[name]
    else:
        why = "before it was aborted" if state == "aborted" else "before it closed"
    return outcome, sentence_of(outcome, name, number, why)


def _about_quorum(known: Indexed, name: str) -> list[str]:
    rounds = known.report.broken.get(name)
    return [] if rounds is None else [f"It did not count for the quorum: {not_in_quorum(rounds)}."]


def _ineligible(known: Indexed, name: str, now: str | None) -> str:
    """Why a device was not eligible, as far as is known, with a space before it."""
    then = known.report.passed_over.get(name)
    if then:
        return f" The reason when the round began: it {sentence(str(then))}"
    if now is None:
        return ""
    return f" Now it {sentence(now)}" if now else " Now it is eligible: others were chosen, or it came later."


def _counted(known: Indexed, name: str, number: int, update: CountedUpdate) -> DeviceWhy:
    outcome = outcome_of(known, name)
    dropped = outcome == "dropped"
    loss, staleness = finite(update.loss), update.staleness or 0
    parts = [] if dropped else [layer.part(name) for layer in known.layers]
    if known.report.secure_sum is not None:
        hidden = [f"The update of {name} is part of the secure sum of round {number}: nothing is known of it alone."]
        if unused := why_unused(known.report.secure_sum, name):
            hidden.append(unused)
        if known.report.secure_sum.dropped.get(name) == "reveal":
            hidden.append(f"{name} was gone when shares were revealed; those of the others were enough.")
        return DeviceWhy(device=name, outcome=outcome, sentences=hidden)
    why = how_many(update.samples or 0, "training sample")
    why += "" if loss is None else f" and an inference loss of {loss:.4g}"
    why += f", {how_many(staleness, 'model')} behind." if staleness else "."
    said = [sentence_of(outcome, name, number, why)]
    score = None if dropped else _score(known, name)
    said += _about_quorum(known, name)
    said += [_about_bound(entry) for entry in known.report.bounded if entry.device == name]
    said += [*about_group(known.report.groups, name), *_about_score(known, score)]
    said += [*_about_layers(parts), *_about_shapley(known, name)]
    return DeviceWhy(
        device=name,
        outcome=outcome,
        sentences=said,
        samples=update.samples,
        loss=loss,
        staleness=staleness,
        layers=parts,
        **({} if score is None else asdict(score)),
        **asdict(_judged(known, name)),
    )


BOUNDED = {
    "samples": "It said {said:,.0f} training samples, which counted as {counted:,.0f}",
    "loss": "It said a loss of {said:.4g}, which counted as {counted:.4g}",
    "steps": "It said {said:,.0f} training steps, which counted as {counted:,.4g}",
    "counts": "It said {said:,.0f} clips of its words, of which {counted:,.0f}, its training samples, counted",
    "length": "Its update was {said:.4g} long and was shortened to {counted:.4g}",
    "share": "The rule alone would have given it a share of up to {said:.4f}, it got {counted:.4f}",
}


VECTOR = "Its vector {name} was {said:.4g} long and was shortened to {counted:.4g}"
"""Where `what` is `vector` and the vector's name."""


def _about_bound(entry: BoundedReport) -> str:
    said, counted = finite(entry.said), finite(entry.counted)
    kind, _, name = entry.what.partition(" ")
    sentence_of = VECTOR if kind == "vector" and name else BOUNDED.get(entry.what)
    if said is None or counted is None or sentence_of is None:
        return "What it said of itself was bounded: no device may outweigh the others."
    return sentence_of.format(name=name, said=said, counted=counted) + ": no device may outweigh the others."


def _score(known: Indexed, name: str) -> _Score | None:
    """How the rule judged a device as a whole; None where it judges layer by layer."""
    if name not in known.scores:
        return None
    score = known.scores[name]
    return _Score(
        score=score,
        score_of=known.report.layers[0].score_of,
        score_among=len(known.scores),
        score_rank=1 + bisect_left(known.ascending, score),
    )


def _about_score(known: Indexed, score: _Score | None) -> list[str]:
    if score is None:
        return []
    of = f" ({score.score_of})" if score.score_of else ""
    place = f"{_nth(score.score_rank)}smallest of {score.score_among}"
    counted = len(known.report.layers[0].kept)
    were = f"{counted} {'was' if counted == 1 else 'were'} averaged"
    by = f" by {known.report.method}" if known.report.method else ""
    return [f"Its score{by} was {score.score:.4g}{of}, the {place}; {were}."]


def _about_layers(parts: Sequence[LayerPart]) -> list[str]:
    """A sentence for each layer, or one for all where a rule takes or leaves a device as a whole."""
    alike = {(part.verdict, part.weight) for part in parts}
    if len(parts) > 1 and len(alike) == 1 and all(part.deviation is None for part in parts):
        return [_about_layer(replace(parts[0], layer=f"All {len(parts)} layers"))]
    return [_about_layer(part) for part in parts]


def _about_layer(part: LayerPart) -> str:
    far = ""
    if part.deviation is not None and part.of > 1:
        far = f" (deviation {part.deviation:.4g}, the {_nth(part.rank or 1)}farthest of {part.of})"
    if part.verdict == "kept":
        return f"{part.layer}: kept with weight {part.weight or 0.0:.4f}{far}."
    if part.verdict == "left_out":
        return f"{part.layer}: left out by the rule{far}."
    side = "far from" if part.verdict == "pruned_far" else "close to"
    return f"{part.layer}: pruned as too {side} the mean{far}."


def _judged(known: Indexed, name: str) -> _Judged:
    found = known.report.detection or DetectionReport()
    value = found.shapley.get(name) or ShapleyValue()
    return _Judged(finite(value.value), finite(value.error), name in found.bad)


def _about_shapley(known: Indexed, name: str) -> list[str]:
    found, judged = known.report.detection or DetectionReport(), _judged(known, name)
    said = []
    loss, reference = finite(found.losses.get(name)), finite(found.reference)
    if name in found.votes and reference is not None:
        told = "not finite" if loss is None else f"{loss:.4g}"
        said.append(
            f"Its loss of the received model was {told}, above the reference of {reference:.4g}: "
            "it voted for the alarm."
        )
    if name in found.set_aside:
        said.append("Its loss of the received model is far from all others' and was not used.")
    of = "the judged model" if found.judged_round is None else f"the model of round {found.judged_round}"
    if judged.shapley is not None:
        error = f" ± {judged.shapley_error:.2g}" if judged.shapley_error else ""
        said.append(f"Its update to {of} has the Shapley value {judged.shapley:+.4g}{error}.")
    if judged.harmful:
        said.append(f"Detection named its update to {of} harmful.")
    return said


# -- words


def finite(value: float | None) -> float | None:
    """A number that can be told."""
    return None if value is None or not math.isfinite(value) else value


def _finite(values: Mapping[str, float | None]) -> dict[str, float]:
    return {name: value for name, value in values.items() if value is not None and math.isfinite(value)}


def sentence(text: str) -> str:
    """Text with a full stop."""
    text = text.strip()
    return text if text.endswith((".", "!", "?")) else f"{text}."


def _nth(rank: int) -> str:
    """`2nd ` and so on, with a space after it; nothing for the first."""
    ending = "th" if 10 < rank % 100 < 20 else {1: "st", 2: "nd", 3: "rd"}.get(rank % 10, "th")
    return "" if rank == 1 else f"{rank}{ending} "
