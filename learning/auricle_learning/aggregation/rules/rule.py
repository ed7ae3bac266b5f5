"""What a rule is: a function with its options; and what it needs beyond the updates of a round."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, replace
from typing import Any, Literal, NamedTuple

import numpy as np
from msgspec.structs import asdict

from auricle.errors import SettingsError, refuse_misfits_of
from auricle.wire.plan import Plan
from auricle.wire.prior_knowledge import Tuning
from auricle.wire.update_codec import TOP_K
from auricle_learning.aggregation.cohort import Aggregate, Cohort
from auricle_learning.aggregation.options import Options, read_options
from auricle_learning.aggregation.rules.average import unchanged
from auricle_learning.aggregation.rules.pruning import PruningOptions

Need = Literal[
    "steps",
    "server-state",
    "labelled-clips",
    "device-half",
    "personal-models",
]

WHAT: dict[Need, str] = {
    "steps": "the number of steps that each device took, which comes with the updates of synchronous rounds",
    "server-state": "a state that the coordinator keeps with the model",
    "labelled-clips": "labelled clips at the coordinator: name a folder of them with --labelled",
    "device-half": "a half of it on each device, which goes from round to round",
    "personal-models": "a model of its own for each device, which coordinators keep for synchronous rounds",
}
"""What is missing where a need is not met, as the end of a sentence."""

BY_COHORT: frozenset[Need] = frozenset(WHAT) - {"server-state", "labelled-clips"}
"""Needs that speak of one round's cohort, which a buffer of several rounds' updates is not."""

GIVEN: frozenset[Need] = frozenset({"steps", "server-state", "device-half", "personal-models"})
"""What every coordinator has, with its devices."""

NO_OPTIONS = Options()
NOT_FINITE = "the rule's model is not finite: the model is unchanged"


class TuningOptions(NamedTuple):
    """Names of the options that decide how devices tune their classifiers, for sentences that say what to change."""

    switch: str
    """True or false: whether they do."""
    features: str
    """How many features of each class they do it on."""


@refuse_misfits_of
@dataclass(frozen=True)
class Rule:
    """A rule with its options: call it with a cohort."""

    name: str
    function: Callable[..., Aggregate]
    """(cohort, options) -> Aggregate, a pure function; (cohort) where there are no options."""
    options: Options = NO_OPTIONS
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
    plan: Callable[[Plan, Any], Plan] | None = None
    """(plan, options) -> plan: what devices do differently in its rounds; None where nothing."""
    tunes: Callable[[Any], Tuning | None] | None = None
    """(options) -> how devices tune their classifiers before they train, on features that the rule keeps; None where
    they do not."""
    tuning_options: TuningOptions | None = None
    """Which options `tunes` goes by, where it is there."""
    by_losses: bool = False
    """Whether the model is the average by the softmax of limited losses and nothing else, so that what parts of a
    cohort would have made follows from the losses of all."""
    by_value: bool = False
    """Whether a weight of the model follows the devices' values of that weight alone, whatever else they send."""
    composes: bool = False
    """Whether it asks of the updates only for weighted sums and for distances from a model, and for no vector beside
    them, so that several places can each do this for the updates that they have."""
    step: bool = False
    """Whether it is itself the server's step, which no server optimizer then follows."""

    def __call__(self, cohort: Cohort) -> Aggregate:
        """Aggregate one round; where the rule's numbers are not finite, model and state stay, with a flag."""
        made = self.function(cohort, self.options) if self.options.__struct_fields__ else self.function(cohort)
        return made if _is_finite(made) else replace(unchanged(cohort, NOT_FINITE), state=cohort.extras.state)

    def with_options(self, values: Mapping[str, object]) -> Rule:
        """The rule with other options, as a command line, a file or a plan names them.

        Raises
        ------
        SettingsError
            There is no option of that name, or a value is not allowed.
        """
        return replace(self, options=read_options(self.options, values, f'the method "{self.name}"'))

    def plan_for(self, plan: Plan) -> Plan:
        """The devices' plan in its rounds, with these options."""
        return plan if self.plan is None else self.plan(plan, self.options)

    @property
    def tuning(self) -> Tuning | None:
        """How devices tune their classifiers in its rounds, with these options; None where they do not."""
        return None if self.tunes is None else self.tunes(self.options)

    @property
    def pruning(self) -> PruningOptions | None:
        """Its options where it leaves out of each layer who deviates least and most; None where it does not."""
        return self.options if isinstance(self.options, PruningOptions) else None

    @property
    def weighed_by(self) -> str:
        """What the clients are weighed by, with these options."""
        said = getattr(self.options, "weighting", None)
        return self.weight if said is None else str(said)

    @property
    def settings(self) -> dict[str, object]:
        """Every option with its value, by name."""
        return asdict(self.options)


def given_with(*, labelled: bool) -> frozenset[Need]:
    """What a coordinator has, with an operator's labelled clips or without."""
    return GIVEN | {"labelled-clips"} if labelled else GIVEN


def check_needs(
    rule: Rule,
    *,
    given: Collection[Need] = GIVEN,
    mode: str = "sync",
    detection: bool = False,
    codec: str = "float32",
) -> None:
    """Refuse a rule that needs what a run does not have.

    Parameters
    ----------
    rule
        The rule that a run is told to use.
    given
        What the run has.
    mode
        "sync" or "async".
    detection
        Whether the run looks for those who poison, which aggregates parts of a round again.
    codec
        How updates travel.

    Raises
    ------
    SettingsError
        A need is not met; one sentence says which and what to do.
    """
    for need in rule.needs:
        if need not in given:
            raise SettingsError(f'The method "{rule.name}" needs {WHAT[need]}; or choose another method.')
        if mode == "async" and need in BY_COHORT:
            raise SettingsError(
                f'The method "{rule.name}" needs synchronous rounds: choose mode sync or another method.'
            )
    if detection and rule.needs:
        raise SettingsError(
            f'Detection aggregates parts of a round again, which "{rule.name}" cannot: leave out detection, or choose '
            "a method that needs nothing but updates."
        )
    if rule.by_value and codec == TOP_K:
        raise SettingsError(
            f'The method "{rule.name}" takes each weight alone, and of most weights most devices send nothing in '
            f"{TOP_K}: choose another method, or int8."
        )


def check_composes(rule: Rule) -> None:
    """Refuse a rule whose cohort cannot lie in several places.

    Raises
    ------
    SettingsError
        It compares updates with each other, or needs more of them than sums and distances.
    """
    if not rule.composes:
        raise SettingsError(
            f'The method "{rule.name}" needs all updates in one place: choose one that needs sums of them alone, e.g. '
            "fedavg, lpa, fedvsa or fedmlac, or run one coordinator for all regions."
        )


def _is_finite(made: Aggregate) -> bool:
    """Whether all that a round leaves behind is: the model, those of single clients, and the rule's state."""
    models = None if made.clusters is None else made.clusters.models
    kept = () if made.state is None else made.state.arrays.values()
    return all(values is None or np.isfinite(values).all() for values in (made.weights, made.evaluated, models, *kept))
