"""What a rule may be given beyond the updates of a round, and the state that it may keep from round to round."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from auricle_learning.aggregation.cohort_checks import CohortError
from auricle_learning.aggregation.compute.distances import Float64Array

Objective = Callable[[Float64Array], tuple[float, Float64Array]]
"""Mean cross-entropy of a model (P,) on a batch of the coordinator's labelled clips, and its gradient (P,)."""

COUNTS = "counts"
"""Name of the vector that says how many clips of each class a client has; vectors beside it are class by class."""
BY_CLASS = (COUNTS, "histogram")
"""Names of vectors of clips by class, whose sums are bounded as samples are."""

MAPS, GRADIENTS = "maps", "gradients"
"""Names of the vectors that fill `Extras.maps` and `Extras.gradients`."""


@dataclass(frozen=True, eq=False)
class RuleState:
    """What a rule remembers from round to round: kept with the model, so a restarted coordinator goes on from it."""

    rule: str
    """Name of the rule, without its options."""
    arrays: Mapping[str, NDArray[Any]]
    """By name: vectors (P,), or tables of any shape, which may be float32."""
    step: int = 0
    """Rounds that the rule has done, without those in which nobody counted."""

    def array(self, name: str, size: int) -> Float64Array:
        """A vector (P,), zeros where the rule has not kept it yet."""
        return self.arrays[name] if name in self.arrays else np.zeros(size)


@dataclass(frozen=True)
class PlannedSteps:
    """How many steps a round's plan has a device take, whatever its own settings."""

    fewest_epochs: int
    """Of the passes whose steps a device counts."""
    most_epochs: int
    """Of all passes."""
    batch: int | None
    """Most clips of a step; None: a pass may have a single one."""

    def fewest(self, samples: Float64Array) -> Float64Array:
        """(K,) of devices with so many clips (K,): full batches, and all places the clips'."""
        in_epoch = np.ones(samples.size) if self.batch is None else np.maximum(1.0, np.ceil(samples / self.batch))
        return np.asarray(self.fewest_epochs * in_epoch)

    def most(self, samples: Float64Array) -> Float64Array:
        """(K,) the same with one clip a step."""
        return np.asarray(self.most_epochs * np.maximum(1.0, np.ceil(samples)))


@dataclass(frozen=True, eq=False)
class Extras:
    """What some rules need. Rows of the (K, ...) arrays are the clients of `Cohort.build`, in the order given there."""

    steps: Float64Array | None = None
    """(K,) local steps that each client took."""
    planned: PlannedSteps | None = None
    """What the round's plan allows of them; None: that is not known."""
    class_counts: Float64Array | None = None
    """(K, C) training clips of each class."""
    maps: Float64Array | None = None
    """(K, M) activation maps, the layers' one after the other in the order of their names."""
    gradients: Sequence[NDArray[Any] | None] | None = None
    """(K) of each client its gradients (C, C d + C) of the classifier by class, zeros where it has no clip of one; None
    for a client that says none."""
    vectors: Mapping[str, Sequence[NDArray[Any] | None]] = field(default_factory=dict)
    """By name (K): what updates brought beside their weights; None of an update that brought none of that name."""
    starts: Float64Array | None = None
    """(K, P) the models that the clients began the round with; None: all with w^t."""
    labelled: Float64Array | None = None
    """(K,) 1 for a client that trained on labels, 0 for one that had none; None: nobody had any."""
    rate: float | None = None
    """η of the clients' plain SGD."""
    clients: int | None = None
    """N, all clients of the fleet; None: those of this round."""
    total_samples: float | None = None
    """Σ n over all clients; None: N times the mean of this round."""
    objectives: Sequence[Objective] = ()
    """The coordinator's labelled clips, a batch each."""
    reference: Float64Array | None = None
    """(P,) what the coordinator's own training on labelled clips gave: w^t - w_server."""
    reference_samples: float = 0.0
    """Clips behind `reference`."""
    state: RuleState | None = None
    """What this rule kept of the round before; None before its first."""
    round: int = 0
    """Number of the round, from which what is drawn is drawn."""

    def taken(self, rows: Sequence[int], count: int) -> Extras:
        """The extras of some of `count` clients, in this order; CohortError where an array has another length."""
        found: dict[str, Float64Array] = {}
        for name in ("steps", "class_counts", "maps", "starts", "labelled"):
            values = getattr(self, name)
            if values is None:
                continue
            array = np.array(values, np.float64)
            if array.ndim == 0 or len(array) != count:
                raise CohortError(f"{name} has the shape {array.shape}; one row for each of the {count} clients.")
            if not np.isfinite(array).all():
                raise CohortError(f"{name} has values that are not finite.")
            found[name] = array[list(rows)]
        said = self.gradients
        if said is not None:
            if len(said) != count or not all(one is None or np.isfinite(one).all() for one in said):
                raise CohortError(f"gradients are those of {len(said)} clients of {count}, or not finite.")
            said = tuple(said[row] for row in rows)
        vectors = {name: self._rows_of(name, each, rows, count) for name, each in self.vectors.items()}
        return replace(self, gradients=said, vectors=vectors, **found)  # type: ignore[arg-type]

    @staticmethod
    def _rows_of(
        name: str, brought: Sequence[NDArray[Any] | None], rows: Sequence[int], count: int
    ) -> tuple[NDArray[Any] | None, ...]:
        if len(brought) != count or not all(one is None or np.isfinite(one).all() for one in brought):
            raise CohortError(f"{name} are vectors of {len(brought)} clients of {count}, or not finite.")
        return tuple(brought[row] for row in rows)

    def kept_by(self, rule: str) -> RuleState:
        """This rule's state, an empty one before its first round or after another rule's."""
        return self.state if self.state is not None and self.state.rule == rule else RuleState(rule, {})


NOTHING = Extras()
"""Of a round in which the rule gets the updates alone."""


@dataclass(frozen=True, eq=False)
class Clusters:
    """Which clients belong together, and the model of each group."""

    labels: tuple[int, ...]
    """(K,) number of each client's cluster, from 0 in the order of the clients."""
    silhouette: float | None
    """Mean silhouette of the chosen number; None where there was nothing to choose."""
    models: Float64Array | None = field(repr=False)
    """(K, P) each client's own model; None: all go on from the fleet's."""


@dataclass(frozen=True)
class Synthesis:
    """What a round's gradients of the classifier did to the features that stand for all clients' (PKCF)."""

    classes: tuple[int, ...]
    """That a gradient came of."""
    clients: int
    """That sent some."""
    before: float
    """Mean of 1 - cos between the clients' gradients and the features', before they moved; of CReFF over the rows of
    the classifier as well."""
    after: float
