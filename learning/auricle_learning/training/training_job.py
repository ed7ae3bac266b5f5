"""How a device learns: its settings, and what a round's plan means for it."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Annotated

import msgspec
import numpy as np
from msgspec import Meta

from auricle.packs.pack import SLOTS, Pack
from auricle.wire.gradient_terms import TERMS, Term
from auricle.wire.plan import Plan
from auricle.wire.tensors import Flat
from auricle_learning.training.speech_data import Clips

Part = Annotated[float, Meta(ge=0, le=1)]


class LearnSettings(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """Table `[learn]`."""

    clips: Annotated[int, Meta(ge=1, le=100_000)] = 5
    """Fewest labelled clips to train on; with fewer the device declines."""
    confidence: Part = 0.7
    """Posterior from which the fleet's model is believed about a clip without a label (FixMatch's tau)."""
    unlabelled: Annotated[float, Meta(ge=0, le=100)] = 1.0
    """Weight of the loss on clips without labels (FixMatch's lambda); 0: they are not used."""
    maps: bool = False
    """Whether activation maps may leave the device with an update, where a plan asks for them; else it declines."""
    gradients: bool = False
    """Whether the classifier's gradients by class may leave the device with an update, where a round asks for them;
    else it takes part without."""
    carried: Annotated[float, Meta(ge=0, le=0.9)] = 0.5
    """Share of a batch's weight that windows of the pack's negatives have, less where the device has own negatives; 0:
    rounds train on the device's clips alone."""
    judge: bool = True
    """Whether a round that made the device worse is neither sent nor kept."""
    accept: Part = 0.5
    """Posterior from which the judge takes a keyword as heard: one window, where detection sees many and averages."""
    more_false_accepts: Part = 0.01
    """Most by which the share of held-out negatives that are taken for keywords may grow, as far as it is no chance."""
    less_accuracy: Part = 0.02
    """Most by which the share of held-out clips that are recognised, and on streams of held-out keywords that are
    heard, may fall, as far as it is no chance."""
    more_an_hour: Annotated[float, Meta(ge=0, le=1000)] = 1.0
    """Most by which false accepts an hour on streams of negatives may grow, as far as it is no chance."""
    judged_minutes: Annotated[float, Meta(gt=0, le=1000)] = 15.0
    """Most minutes of the pack's negatives that a round is judged on, of the half of each stretch that nobody trains on
    its first part; a pack carries at most 13 minutes."""
    judged_share: Part = 1.0
    """Share of a device's rounds that are judged on streams, drawn round by round; held-out clips judge every round."""
    hears_more: Part = 0.1
    """Share of the held-out keywords by which a round must hear more, as far as it is no chance, so that false accepts
    of the best state, which heard less than half of them, are no standard for it."""
    chance: Annotated[float, Meta(gt=0, le=0.5)] = 0.05
    """Probability below which a change for the worse is no chance (one-sided sign test on the clips or seconds that
    changed)."""
    detector: Part = 0.1
    """Share of held-out keywords that a model must detect before its false accepts are a standard for the next one."""


FLAT = 1e6
"""An epsilon that swamps the second moment: AdamW with beta1 = 0 then is plain SGD at rate / FLAT, to 1e-5."""


def graph_optimizer(plan: Plan) -> str:
    """Which step graph a plan needs: `mixed` runs on AdamW's, or on SGD's where there is only the plug-in."""
    if plan.optimizer != "mixed":
        return plan.optimizer
    return "adamw" if plan.mode == "mutual" else "sgd"


def graph_kind(plan: Plan) -> str:
    """Which kind of step graph a plan needs."""
    return "alternating" if (plan.mode, plan.order) == ("mutual", "alternating") else plan.mode


def scalars_of(plan: Plan) -> dict[str, float]:
    """A plan's hyper-parameters under the names of a job's scalars."""
    mutual = plan.mode == "mutual"
    rates = {"local": plan.local_rate, "plugin": plan.rate} if mutual else {"model": plan.rate}
    common = {"decay": plan.decay, "clip": plan.clip or math.inf, "momentum": plan.momentum}
    named = {f"{role}.{name}": value for role in rates for name, value in common.items()}
    named.update({f"{role}.rate": rate for role, rate in rates.items()})
    if plan.optimizer == "mixed" and mutual:
        flat = {"beta1": 0.0, "beta2": 0.0, "epsilon": FLAT, "decay": 0.0, "rate": plan.rate * FLAT}
        named.update({f"plugin.{name}": value for name, value in flat.items()})
    for term in terms_of(plan):
        named.update({f"{_role(plan)}.{name}": getattr(plan, field) for name, field in TERMS[term].scalars.items()})
    if mutual:
        named.update({"alpha": plan.alpha, "plugin_ce": plan.plugin_ce, "temperature": plan.temperature})
    return named


def terms_of(plan: Plan) -> tuple[Term, ...]:
    """The optional terms of the gradient that a plan asks for."""
    return tuple(name for name, term in TERMS.items() if any(getattr(plan, field) for field in term.scalars.values()))


def vectors_of(plan: Plan, received: Flat, variates: Mapping[str, Flat]) -> dict[str, Flat]:
    """The vectors of these terms by `role.name`; a proximal term holds the plug-in to what was received (FedProx).

    Parameters
    ----------
    plan
        The round's.
    received
        Weights (P,) of the plug-in that training starts from.
    variates
        What `remembered` kept of the rounds before; the gradient of FedDyn's -<g, w> is -g.
    """
    filled = [name for term in terms_of(plan) for name, fill in TERMS[term].vectors.items() if fill == "received"]
    vectors = {f"{_role(plan)}.{name}": received for name in filled}
    if plan.memory == "feddyn":
        vectors[f"{_role(plan)}.linear"] = -_variate("feddyn", variates, received.size)
    return vectors


def remembered(plan: Plan, variates: Mapping[str, Flat], received: Flat, trained: Flat) -> dict[str, Flat]:
    """What a device keeps of how it moved in a round: FedDyn's g <- g - alpha (w - w^t), zeros before its first.

    Parameters
    ----------
    plan
        The round's; one without a memory forgets what was kept.
    variates
        What was kept before.
    received, trained
        (P,) the plug-in before and after training, as they travel.
    """
    if plan.memory != "feddyn":
        return {}
    moved = plan.mu * (trained.astype(np.float64) - received)
    return {"feddyn": (_variate("feddyn", variates, received.size) - moved).astype(np.float32)}


def _variate(name: str, variates: Mapping[str, Flat], size: int) -> Flat:
    """(P,) what was kept; zeros where nothing was, or of another model."""
    kept = variates.get(name)
    return np.zeros(size, np.float32) if kept is None or kept.shape != (size,) else kept


def adjusted(plugin: Flat, clips: Clips, strength: float, pack: Pack) -> Flat:
    """A plug-in (P,) with the clips' log label frequencies added to its biases: logit adjustment.

    That is Menon et al. 2021, eq. 10. Training with them and taking them off again keeps a device that lacks some words
    from unlearning these. Frequencies are those of the clips' weights, smoothed by half a clip a label and centred;
    strength 0: nothing.
    """
    if not strength:
        return plugin
    labels = len(pack.labels)
    counts = np.bincount(clips.targets, clips.weights, minlength=labels) + 0.5
    prior = np.log(counts / counts.sum())
    moved: Flat = plugin.copy()
    moved[-labels:] += (strength * (prior - prior.mean())).astype(np.float32)
    return moved


def _role(plan: Plan) -> str:
    """What a plan's terms are for: the plug-in."""
    return "plugin" if plan.mode == "mutual" else "model"


def fitting_slots(pack: Pack, models: Mapping[str, str], plan: Plan, slots: Mapping[str, Flat]) -> dict[str, Flat]:
    """The kept optimizer vectors by `model.slot`; none unless every vector that this plan needs was kept."""
    sizes = {
        f"{role}.{slot}": pack.table(a).size for role, a in models.items() for slot in SLOTS[graph_optimizer(plan)]
    }
    whole = all(name in slots and slots[name].shape == (size,) for name, size in sizes.items())
    return {name: slots[name] for name in sizes} if plan.keep_state and whole else {}
