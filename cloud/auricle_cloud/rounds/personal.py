"""Rounds of a rule that makes a model for each device: who begins with which, how it gets there, and what is kept.

An invitation names the model that its device begins with, so a device of any version takes part. Chunks of these models
lie on the broker for as long as their round is open; so do those of what devices tune their classifiers by, where the
rule has some, which older devices do not look for.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
from msgspec import UNSET, to_builtins
from msgspec.structs import replace

from auricle.wire.messages import Invite
from auricle.wire.plan import Lent, Plan
from auricle.wire.tensors import encode
from auricle.wire.vector_headers import LentVector
from auricle_cloud.link.messenger import chunks_of
from auricle_cloud.rounds.context import RoundContext
from auricle_cloud.states.report import Document
from auricle_cloud.storage.personal_records import MadeModel
from auricle_cloud.storage.rows import LENT, VECTORS, ModelRow, RoundRow, UpdateRow
from auricle_learning.aggregation.cohort import Aggregate, Float64Array
from auricle_learning.aggregation.feature_synthesis import lent_after
from auricle_learning.methods.vectors import lent_sizes, method_of


def own_bases(site: RoundContext, version: int, names: Sequence[str]) -> dict[str, str]:
    """The models that devices begin with after a version, by device; empty where the rule makes none."""
    if "personal-models" not in site.rule.rule.needs:
        return {}
    known = site.store.personal.of(site.task, version)
    return {name: known[name].blob for name in names if name in known}


def starts_of(site: RoundContext, row: RoundRow, counted: Sequence[UpdateRow]) -> Float64Array | None:
    """(K, P) the models that counted devices began a round with; None where all began with the round's own."""
    asked = site.store.personal.asked(site.task, row.round)
    if not asked:
        return None
    return np.stack([site.weights(asked.get(update.device, row.begun.base)) for update in counted]).astype(np.float64)


def keep_made(site: RoundContext, aggregate: Aggregate) -> dict[str, MadeModel]:
    """Keep the models that a rule made for single devices; by device."""
    found = aggregate.clusters
    if found is None or found.models is None:
        return {}
    blobs = site.blobs.put_all([encode(np.asarray(weights, np.float32)) for weights in found.models])
    named = zip(aggregate.ids, found.labels, blobs, strict=True)
    return {device: MadeModel(cluster, blob) for device, cluster, blob in named}


def keep_lent(site: RoundContext, model: ModelRow, plan: Plan) -> Document:
    """Keep what a round lends that begins with a model: what classifiers are tuned by, and its method's vectors.

    It is named in the round's report, which begins with this: a coordinator with other settings that takes the round up
    goes on with what was lent, takes it back in the end, and reads the updates that it brought.

    Returns
    -------
    Document
        Empty where the rule has nothing to lend.
    """
    return {**_prior_kept(site, model), **_vectors_kept(site, model, plan)}


def _vectors_kept(site: RoundContext, model: ModelRow, plan: Plan) -> Document:
    """Keep the vectors that a plan's method has go out with a model."""
    method = method_of(plan)
    if method is None or not method.needs.down:
        return {}
    sent = method.sent(site.state_after(model, method.name), lent_sizes(plan, site.pack))
    blobs = {name: encode(vector) for name, vector in sent.items()}
    lent = [
        LentVector(name=name, blob=site.blobs.put(data), length=len(data), chunks=chunks_of(len(data)))
        for name, data in blobs.items()
    ]
    return {VECTORS: to_builtins(lent)}


def _prior_kept(site: RoundContext, model: ModelRow) -> Document:
    """Keep what devices tune their classifiers by, where the rule has them do so."""
    tuning = site.rule.rule.tuning
    if tuning is None:
        return {}
    state, weights = site.rule_state_after(model), site.weights(model.blob)
    data = lent_after(state, weights, site.pack.plugin_table, tuning).to_bytes()
    return {LENT: to_builtins(Lent(blob=site.blobs.put(data), length=len(data), chunks=chunks_of(len(data))))}


async def lend(site: RoundContext, asked: Mapping[str, str], row: RoundRow, invite: Invite) -> Invite:
    """Have the broker keep the models that devices were asked to begin with, and what the round lends beside them.

    Returns
    -------
    Invite
        The round's, naming what is lent.
    """
    await site.messenger.lend([*sorted(set(asked.values())), *(each.blob for each in row.everything_lent)])
    return replace(invite, prior=row.lent or UNSET, vectors=row.vectors or UNSET)
