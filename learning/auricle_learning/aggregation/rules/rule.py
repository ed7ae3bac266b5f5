"""What a rule is: a function with its options."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace

import numpy as np

from auricle.errors import refuse_misfits_of
from auricle.wire.plan import Plan
from auricle.wire.prior_knowledge import Tuning
from auricle_learning.aggregation.cohort import Aggregate, Cohort
from auricle_learning.aggregation.needs import Need
from auricle_learning.aggregation.rules.average import unchanged

NOT_FINITE = "the rule's model is not finite: the model is unchanged"


@refuse_misfits_of
@dataclass(frozen=True)
class Rule:
    """A rule with its options: call it with a cohort."""

    name: str
    function: Callable[..., Aggregate]
    """(cohort, *, options) -> Aggregate, a pure function."""
    check: Callable[..., None]
    """(*, options) -> None, raises SettingsError for a value that is not allowed."""
    options: Mapping[str, object] = field(default_factory=dict)
    """What differs from the defaults."""
    weight: str = "samples"
    """What clients are weighed by where no option `weighting` says so: "samples", "fedvsa" (losses), or "uniform"."""
    mean: bool = False
    """Whether the model is the average with the shares that it reports, so that shares may be bounded afterwards."""
    moves: bool = False
    """Whether the model is w^t + Σ s_k (w_k - w^t) with the shares s_k that it reports, so that these may be bounded
    afterwards although they need not sum to 1."""
    by_distance: bool = False
    """Whether the model is the average with the shares that it reports, which follow distances as well as what clients
    say of themselves: where that weighs, these shares are bounded over updates that were shortened first."""
    needs: tuple[Need, ...] = ()
    """What it needs beyond the updates of a round."""
    plan: Callable[[Plan, Mapping[str, object]], Plan] | None = None
    """(plan, options) -> plan: what devices do differently in its rounds; None where nothing."""
    tunes: Callable[[Mapping[str, object]], Tuning | None] | None = None
    """(options) -> how devices tune their classifiers before they train, on features that the rule keeps; None where
    they do not."""
    step: bool = False
    """Whether it is itself the server's step, which no server optimizer then follows."""

    def __call__(self, cohort: Cohort) -> Aggregate:
        """Aggregate one round; where the rule's numbers are not finite, model and state stay, with a flag."""
        made = self.function(cohort, **self.options)
        return made if _is_finite(made) else replace(unchanged(cohort, NOT_FINITE), state=cohort.extras.state)

    def plan_for(self, plan: Plan) -> Plan:
        """The devices' plan in its rounds, with these options."""
        return plan if self.plan is None else self.plan(plan, {**self.defaults, **self.options})

    @property
    def tuning(self) -> Tuning | None:
        """How devices tune their classifiers in its rounds, with these options; None where they do not."""
        return None if self.tunes is None else self.tunes({**self.defaults, **self.options})

    @property
    def weighed_by(self) -> str:
        """What the clients are weighed by, with these options."""
        said = self.options.get("weighting", self.defaults.get("weighting"))
        return self.weight if said is None else str(said)

    @property
    def defaults(self) -> dict[str, object]:
        """Every option the rule knows, with its default."""
        parameters = inspect.signature(self.function).parameters.values()
        return {option.name: option.default for option in parameters if option.kind is option.KEYWORD_ONLY}


def _is_finite(made: Aggregate) -> bool:
    """Whether all that a round leaves behind is: the model, those of single clients, and the rule's state."""
    models = None if made.clusters is None else made.clusters.models
    kept = () if made.state is None else made.state.arrays.values()
    return all(values is None or np.isfinite(values).all() for values in (made.weights, made.evaluated, models, *kept))
