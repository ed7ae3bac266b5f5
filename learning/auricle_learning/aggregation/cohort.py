"""One round's updates as arrays, and what a rule makes of them."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple, TypedDict

import numpy as np
from numpy.typing import ArrayLike, NDArray

from auricle.errors import refuse_misfits_of
from auricle_learning.aggregation.cohort_checks import CohortError as CohortError
from auricle_learning.aggregation.cohort_checks import Layer as Layer
from auricle_learning.aggregation.cohort_checks import (
    check_ids,
    check_layers,
    check_samples,
    check_start,
    check_upload,
    is_finite,
    per_client,
)
from auricle_learning.aggregation.cohort_checks import layers_of as layers_of
from auricle_learning.aggregation.compute.distances import Float64Array as Float64Array
from auricle_learning.aggregation.compute.distances import FloatArray as FloatArray
from auricle_learning.aggregation.compute.matrix import Matrix, NumpyMatrix, Opener
from auricle_learning.aggregation.direction import Direction
from auricle_learning.aggregation.extras import NOTHING, Clusters, Extras, RuleState, Synthesis

BoolArray = NDArray[np.bool_]

NO_UPDATE = "no usable update: the model is unchanged"


@refuse_misfits_of
@dataclass(frozen=True, eq=False)
class Cohort:
    """K finite updates of one round, sorted by client id. Made by `Cohort.build`, which is what checks them."""

    ids: tuple[str, ...]
    """(K,) client ids in ascending order: results and ties depend on them, never on the order of arrival."""
    weights: FloatArray
    """(K, P) the clients' models at the end of the round."""
    samples: Float64Array
    """(K,) n_k, the number of training samples each client used."""
    losses: Float64Array
    """(K,) inference losses of the received model; NaN where a client gave none."""
    start: FloatArray
    """(P,) w^t, the model of which the round began; its dtype is the model's dtype."""
    layers: tuple[Layer, ...]
    """L groups that cover the flat vector exactly once."""
    dropped: tuple[str, ...] = ()
    """Clients left out because some weight is not finite, in ascending order."""
    registered: Float64Array | None = None
    """(K,) clips that each client registered, NaN where not known; None: not known of any. No rule uses it."""
    opener: Opener = NumpyMatrix
    """What computes on the weights, see `auricle_learning.aggregation.compute.accelerator`."""
    extras: Extras = NOTHING
    """What some rules need beyond the updates; rows as of `ids`."""

    @cached_property
    def matrix(self) -> Matrix:
        """The primitives over `weights`, of which every rule is made; not for a cohort that is empty."""
        return self.opener(self.weights)

    @property
    def spans(self) -> list[tuple[slice, ...]]:
        """(L,) the spans of each layer."""
        return [layer.slices for layer in self.layers]

    @property
    def names(self) -> tuple[str, ...]:
        """(L,) the names of the layers."""
        return tuple(layer.name for layer in self.layers)

    @classmethod
    def build(
        cls,
        *,
        ids: Sequence[str],
        weights: Sequence[FloatArray] | FloatArray,
        samples: ArrayLike,
        start: FloatArray,
        layers: Sequence[Layer],
        losses: ArrayLike | None = None,
        opener: Opener = NumpyMatrix,
        registered: ArrayLike | None = None,
        extras: Extras = NOTHING,
    ) -> Cohort:
        """Check the uploads, put them in the order of their ids and drop those that are not finite.

        Parameters
        ----------
        ids
            (K,) client ids, each once, in any order.
        weights
            (K, P), or K vectors (P,), float32 or float64; an array whose rows all count in their order is not copied.
        samples
            (K,) training samples, finite and not negative. They are checked before anything is dropped.
        start
            (P,) w^t, float32 or float64.
        layers
            Groups that cover 0..P-1 exactly once, see `layers_of`.
        losses
            (K,) inference losses, NaN where unknown; None where nobody gave one.
        opener
            What the rules shall compute with: `auricle_learning.aggregation.compute.accelerator.choose(...).opener`.
        registered
            (K,) clips that each client registered, NaN where unknown; for `BoundedRule`.
        extras
            What some rules need beyond this, its rows in the order of `ids`.

        Raises
        ------
        CohortError
            Shapes or dtypes differ from the model's, an id comes twice, a sample count is negative or not finite,
            w^t is not finite, or the layers do not cover the model exactly once.
        """
        check_start(start)
        check_layers(layers, start.size)
        check_ids(ids, weights)
        for client, row in zip(ids, weights, strict=True):
            check_upload(client, row, start)
        counts = per_client("sample counts", samples, len(ids))
        check_samples(ids, counts)
        known = per_client("losses", [np.nan] * len(ids) if losses is None else losses, len(ids))
        order = sorted(range(len(ids)), key=lambda k: ids[k])
        finite = [k for k in order if is_finite(weights[k], start.dtype)]
        left = set(finite)
        return cls(
            ids=tuple(ids[k] for k in finite),
            weights=_rows(weights, finite, start),
            samples=counts[finite],
            losses=known[finite],
            start=start,
            layers=tuple(layers),
            dropped=tuple(ids[k] for k in order if k not in left),
            opener=opener,
            registered=None if registered is None else per_client("registered clips", registered, len(ids))[finite],
            extras=extras.taken(finite, len(ids)),
        )


BoundedWhat = str
"""What of a client was bounded: `samples`, `loss`, `steps` or `counts` (clips by class) as it said them, `vector` and
its name for the length of one, `share` that a rule gave it, `length` of its update."""


class Bounded(NamedTuple):
    """A client that counted for something else than it said or the rule gave it, see `BoundedRule`."""

    device: str
    what: BoundedWhat
    said: float
    counted: float


class LayerExplanation(TypedDict):
    """Who counted in one layer; see `Aggregate.explain`."""

    layer: str
    kept: list[str]
    pruned_low: list[str]
    pruned_high: list[str]
    share: dict[str, float | None]
    deviation: dict[str, float | None] | None
    score: dict[str, float | None] | None
    score_of: str | None


@refuse_misfits_of
@dataclass(frozen=True, eq=False)
class Aggregate:
    """A rule's answer: the next model, and for the operator who counted in which layer and how much."""

    weights: FloatArray
    """(P,) the aggregate in the model's dtype."""
    ids: tuple[str, ...]
    """(K,) client ids, the rows of the tables below."""
    layers: tuple[str, ...]
    """(L,) layer names, the columns of the tables below."""
    kept: BoolArray
    """(K, L) who counted in which layer."""
    share: Float64Array
    """(K, L) final weight of each client in each layer; 0 for who is left out. A column sums to 1, or to less where the
    rest, or the whole layer, is w^t. Where a rule decides value by value, the mean over the layer's values."""
    deviation: Float64Array | None = None
    """(K, L) distance from the mean model, where the rule measures one."""
    pruned: NDArray[np.int8] | None = None
    """(K, L) -1 removed as too close to the mean, +1 as too far, 0 neither; None where the rule does not prune."""
    dropped: tuple[str, ...] = ()
    """Clients whose upload was not finite."""
    flag: str | None = None
    """Why the model, or a layer of it, is w^t."""
    warnings: tuple[str, ...] = ()
    """Sentences for the log; a caller shows each once."""
    score: Float64Array | None = None
    """(K,) the number by which a client as a whole was judged, where the rule has one."""
    score_of: str | None = None
    """What the score is."""
    bounded: tuple[Bounded, ...] = ()
    """Whose numbers counted for less than was said; empty of a rule by itself."""
    state: RuleState | None = None
    """What the rule keeps for its next round, where it keeps something."""
    clusters: Clusters | None = None
    """Groups of clients with models of their own, where the rule makes some."""
    synthesis: Synthesis | None = None
    """What became of the features that stand for all clients', where the rule has some."""
    evaluated: FloatArray | None = None
    """(P,) what the round is judged by in place of the model, where the rule has such weights; devices go on from the
    model. Where a value is that of `weights`, it is the model's."""
    direction: Direction | None = None
    """The common direction that the rule agreed on, where it looks for one."""

    @property
    def left_out(self) -> tuple[str, ...]:
        """Clients that the rule gave the weight 0 in every layer; not those of `dropped`."""
        return tuple(client for client, share in zip(self.ids, self.share, strict=True) if not share.any())

    def explain(self) -> list[LayerExplanation]:
        """Tell layer by layer who counted, as plain lists, strings and floats that go straight into JSON.

        Returns
        -------
        list of dict
            One a layer: `layer`, the ids `kept`, `pruned_low`, `pruned_high`, `share` and `deviation` by id, and the
            client's `score` by id with what it is in `score_of`, the same in every layer. `deviation` and `score` are
            None where the rule measures none, and for a client whose number is past the largest float.
        """
        return [self._explain_layer(column) for column in range(len(self.layers))]

    def _explain_layer(self, column: int) -> LayerExplanation:
        none = np.zeros(len(self.ids), np.int8)
        pruned = none if self.pruned is None else self.pruned[:, column]
        return {
            "layer": self.layers[column],
            "kept": self._named(self.kept[:, column]),
            "pruned_low": self._named(pruned < 0),
            "pruned_high": self._named(pruned > 0),
            "share": self._by_id(self.share[:, column]),
            "deviation": None if self.deviation is None else self._by_id(self.deviation[:, column]),
            "score": None if self.score is None else self._by_id(self.score),
            "score_of": self.score_of,
        }

    def _by_id(self, values: Float64Array) -> dict[str, float | None]:
        known = (value if math.isfinite(value) else None for value in values.tolist())
        return dict(zip(self.ids, known, strict=True))

    def _named(self, chosen: BoolArray) -> list[str]:
        return [client for client, is_chosen in zip(self.ids, chosen, strict=True) if is_chosen]


def _rows(weights: Sequence[FloatArray] | FloatArray, chosen: list[int], start: FloatArray) -> FloatArray:
    if not chosen:
        return np.empty((0, start.size), start.dtype)
    if isinstance(weights, np.ndarray) and chosen == list(range(len(weights))):
        return weights
    return np.stack([weights[k] for k in chosen])
