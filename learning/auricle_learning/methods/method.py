"""A method: both halves of an algorithm, the rule at the coordinator and what devices do differently."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, Literal

import msgspec
import numpy as np
from msgspec.structs import asdict
from numpy.typing import NDArray

from auricle.wire.gradient_terms import Term
from auricle.wire.plan import Plan
from auricle.wire.tensors import Flat
from auricle.wire.vectors import Declared
from auricle_learning.aggregation.cohort import Aggregate, Cohort
from auricle_learning.aggregation.extras import Extras, Objective, RuleState
from auricle_learning.aggregation.options import Kind, Options, read_options
from auricle_learning.aggregation.rules.rule import Rule

if TYPE_CHECKING:
    from auricle.packs.pack import Pack

Trains = Literal["plugin", "personal", "local"]
Kept = Mapping[str, Flat]
"""What a device keeps of a method from round to round, by name; empty at first, and after another method's round."""


def method_options(kind: type[Kind], plan: Plan) -> Kind:
    """Options of a plan's method; those that the plan does not say have this version's default."""
    return read_options(kind(), plan.options, f'the method "{plan.method}"')


def of_the_plugin(pack: Pack, plan: Plan) -> int:
    """P, the numbers of a vector that has one for each weight of the plug-in."""
    return pack.plugin_table.size


@dataclass(frozen=True)
class Vector:
    """A named vector that travels beside the model."""

    name: str
    """Of a `down` vector also the name in the method's state of what is sent; zeros before its first round."""
    size: Callable[[Pack, Plan], int] | int = of_the_plugin
    """Numbers, or (pack, plan) -> numbers; 0: there is none in such a round."""
    required: bool = True
    """Whether a device that does not send it declines; else it takes part without."""
    allowed_by: str | None = None
    """The name under which its owner lets it leave (`[learn]`); None: it gives away no more than the weights do."""
    check: Callable[[Pack, Flat, float], None] | None = None
    """(pack, vector, largest weight): raises WireError for numbers that it cannot have."""

    def numbers(self, pack: Pack, plan: Plan) -> int:
        """How many it has in a round of this plan."""
        return self.size if isinstance(self.size, int) else self.size(pack, plan)

    def declared(self, pack: Pack, plan: Plan) -> Declared:
        """What is held against updates that bring it."""
        check = self.check
        values = None if check is None else lambda vector, largest: check(pack, vector, largest)
        return Declared(self.name, self.numbers(pack, plan), self.required, values)


@dataclass(frozen=True)
class Needs:
    """What a method has travel; coordinator and device refuse what they cannot give in one sentence."""

    down: tuple[Vector, ...] = ()
    """Go out with the model."""
    up: tuple[Vector, ...] = ()
    """Come with an update."""


@dataclass(frozen=True)
class Received:
    """What a device begins a round with."""

    plan: Plan
    plugin: Flat
    """(P,) w^t."""
    vectors: Mapping[str, Flat] = field(default_factory=dict)
    """The method's `down` vectors by name."""
    samples: int = 0
    """Clips that the device trains on."""
    histogram: Flat = field(default_factory=lambda: np.zeros(0, np.float32))
    """(C,) of those with a label, how many have each word of the pack."""
    head: int = 0
    """H, how many of the plug-in's weights are its classifier; they are the last ones."""
    width: int = 0
    """d, how many features the classifier of the device's own model sees."""

    def options(self, kind: type[Kind]) -> Kind:
        """The method's, as its rule has them."""
        return method_options(kind, self.plan)

    def vector(self, name: str) -> Flat:
        """A `down` vector; zeros (P,) where the round brought none of that name."""
        return self.vectors.get(name, np.zeros(self.plugin.size, np.float32))

    def own(self, kept: Kept, name: str) -> Flat:
        """(P,) what the device kept; zeros before its first round, or where it was of another model."""
        vector, size = kept.get(name), self.plugin.size
        return np.zeros(size, np.float32) if vector is None or vector.shape != (size,) else vector


@dataclass(frozen=True)
class JobChanges:
    """What a method changes of a pass of training; the first pass trains what the plan says."""

    terms: tuple[Term, ...] = ()
    """Further terms of the gradient, see `TERMS`."""
    vectors: Mapping[str, Flat] = field(default_factory=dict)
    """(P,) inputs of these terms: `linear`, `anchor`, `keep`; and the `teacher` of a `fixmatch` graph."""
    scalars: Mapping[str, float] = field(default_factory=dict)
    """Hyper-parameters of the plug-in's training by name."""
    trains: Trains = "plugin"
    """Which model; `personal` has the plug-in's architecture and never leaves, `local` is the device's own."""
    begin: Flat | None = None
    """(P,) what the pass begins with; None: the plug-in as the pass before left it, or as it was received; the device's
    own model as it was."""
    epochs: int | None = None
    """None: those of the plan."""
    kind: Literal["supervised", "distill", "fixmatch"] | None = None
    """Of step graph; None: the plan's, or `supervised` where it is not the plug-in that is trained."""
    inputs: Mapping[str, NDArray[Any]] = field(default_factory=dict)
    """Further inputs of the graph that stay the same, such as `means` and `valid`."""
    then: tuple[JobChanges, ...] = ()
    """The passes that follow."""
    tune: Callable[[Flat], Flat] | None = None
    """Makes of what the pass begins with (P,) what it is trained from."""
    offset: Flat | None = None
    """Added to the last weights of the plug-in, its biases, for the time of its training."""
    drops: bool = False
    """Whether layers that can drop activations do."""
    reads: Callable[[Any, str], Mapping[str, Flat]] | None = None
    """Makes of a `Training` that is done, and the plug-in's role in it, vectors that travel, by name."""
    batches: Callable[[Any], Iterator[dict[str, NDArray[Any]]]] | None = None
    """Makes the batches of `EpochInputs`; None: of the clips with labels alone."""

    @property
    def passes(self) -> tuple[JobChanges, ...]:
        """All of the round's, in order."""
        return (self, *(each for later in self.then for each in later.passes))


NO_CHANGES = JobChanges()


def no_features() -> tuple[NDArray[np.float32], NDArray[np.int64]]:
    """Of a device without clips."""
    return np.zeros((0, 0), np.float32), np.zeros(0, np.int64)


@dataclass(frozen=True)
class Trained:
    """What came out of a device's training."""

    received: Received
    plugin: Flat
    """(P,) w_k."""
    steps: int
    """Local steps of this round on the plug-in."""
    personal: Flat | None = None
    """(P,) the model of the passes that train `personal`; None without one."""
    features: Callable[[], tuple[NDArray[np.float32], NDArray[np.int64]]] = no_features
    """Gives what the classifier of the device's own model, as it is now, sees of the clips with a label (n, d), and
    their labels (n,)."""


Sent = Mapping[str, Flat]
"""A method's `up` vectors by name."""


@dataclass(frozen=True)
class Step:
    """What a round of a method made at the coordinator."""

    aggregate: Aggregate
    """The next model and who counted."""
    state: RuleState | None
    """What the coordinator keeps for the next round."""
    send: Mapping[str, Flat]
    """What goes out with the next model, by the names of `Needs.down`."""


@dataclass(frozen=True)
class Server:
    """What a coordinator has beside the updates of a round."""

    objectives: Sequence[Objective] = ()
    """Of its labelled clips, a batch each."""
    labelled: float = 0.0
    """Number of these clips."""
    clients: int | None = None
    """N, all clients of the fleet; None: those of this round."""
    total_samples: float | None = None
    """Σ n over all clients; None: N times the mean of this round."""
    rate: float | None = None
    """η of the clients' plain SGD."""
    round: int = 0
    """Number of the round, from which what is drawn is drawn."""

    def beside(self, extras: Extras) -> Extras:
        """What a cohort's rule may need, with what the coordinator has."""
        return replace(
            extras,
            objectives=self.objectives,
            reference_samples=self.labelled,
            clients=self.clients,
            total_samples=self.total_samples,
            rate=self.rate,
            round=self.round,
        )


def unchanged_before(received: Received, kept: Kept) -> JobChanges:
    """Train as the plan says."""
    return NO_CHANGES


def travels_whole(trained: Trained) -> Flat:
    """The plug-in as it was trained."""
    return trained.plugin


def nothing_after(trained: Trained, kept: Kept) -> tuple[Sent, Kept]:
    """Send the weights alone, keep nothing."""
    return {}, {}


@dataclass(frozen=True)
class Method:
    """An algorithm of federated learning. A rule alone is one whose devices do what the plan says and no more."""

    rule: Rule
    """The coordinator's half, with its options."""
    needs: Needs = Needs()
    before: Callable[[Received, Kept], JobChanges] = unchanged_before
    """The device's half, first part: what changes in its training."""
    after: Callable[[Trained, Kept], tuple[Sent, Kept]] = nothing_after
    """The device's half, second part: what travels beside the weights, and what stays for the next round."""
    travels: Callable[[Trained], Flat] = travels_whole
    """(P,) the weights that leave the device."""
    own_model: bool = False
    """Whether devices train and judge their own model in its rounds."""
    since: str = "0.1.0"
    """The version of its package from which on devices know it."""

    @property
    def name(self) -> str:
        """As `--method` names it."""
        return self.rule.name

    @property
    def rule_for_rounds(self) -> Rule:
        """Its rule; where devices have a half of it with that need, and with a plan that names the method."""
        if not self.has_device_half:
            return self.rule
        needs = tuple(dict.fromkeys((*self.rule.needs, "device-half")))
        return replace(self.rule, plan=self.plan_for, needs=needs)

    @property
    def has_device_half(self) -> bool:
        """Whether devices have to know it."""
        return self.before is not unchanged_before or self.after is not nothing_after or bool(self.needs.down)

    def plan_for(self, plan: Plan, options: Options) -> Plan:
        """The devices' plan in its rounds: named there, with all options, where they have a half of it."""
        changed = plan if self.rule.plan is None else self.rule.plan(plan, options)
        if not self.has_device_half:
            return changed
        told = {name: value for name, value in asdict(options).items() if isinstance(value, (bool, int, float, str))}
        return msgspec.structs.replace(changed, method=self.name, options=told, since=self.since)

    def sent(self, state: RuleState | None, sizes: Mapping[str, int]) -> dict[str, Flat]:
        """What goes out with a model: the vectors of the state that `Needs.down` names; zeros before the first round.

        Parameters
        ----------
        state
            What the method kept of the round that made the model; another method's is as good as none.
        sizes
            Numbers of each, by name.
        """
        kept = {} if state is None or state.rule != self.name else state.arrays
        return {name: np.asarray(kept.get(name, np.zeros(n)), np.float32).ravel() for name, n in sizes.items()}

    def aggregate(self, cohort: Cohort, state: RuleState | None = None, server: Server | None = None) -> Step:
        """Make the next model of a round's updates, as the coordinator does; options are the rule's.

        Parameters
        ----------
        cohort
            K updates.
        state
            `Step.state` of the round before; None before the first.
        server
            What the coordinator has besides; None where the cohort's `extras` have it.

        Raises
        ------
        SettingsError, CohortError
            As the rule raises them.
        """
        extras = cohort.extras if server is None else server.beside(cohort.extras)
        made = self.rule(replace(cohort, extras=replace(extras, state=state)))
        own = {} if made.state is None else {name: values.size for name, values in made.state.arrays.items()}
        sizes = {
            v.name: own.get(v.name, v.size if isinstance(v.size, int) else cohort.start.size) for v in self.needs.down
        }
        return Step(made, made.state, self.sent(made.state, sizes))
