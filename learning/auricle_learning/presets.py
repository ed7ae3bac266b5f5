"""Ready-made settings of a run: how devices train, how the server averages, how rates change over the rounds."""

from __future__ import annotations

import math
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

import msgspec

from auricle.errors import PackError, SettingsError, nearest
from auricle.packs.graph_interface import require_maps
from auricle.wire.kinds import UNDECODABLE
from auricle.wire.plan import LARGEST_BLOB, Plan
from auricle.wire.vectors import Declared, bytes_of
from auricle_learning.aggregation.server_optimizer import OptimizerSettings
from auricle_learning.methods import MethodSettings
from auricle_learning.methods.passes import require_graphs
from auricle_learning.methods.vectors import GRADIENTS, declared, method_of

if TYPE_CHECKING:
    from auricle.packs.pack import Pack

LENT_HEADER = 128
"""Most bytes of what is lent beside its numbers and the names of its classes."""


@dataclass(frozen=True)
class Rates:
    """How large steps are in a run, as its first lines say."""

    plugin: float
    """Of the plug-in on the devices."""
    own: float
    """Of the devices' own models."""
    server: str
    """Kind of the server's optimizer, or the name of a method that is itself the server's step."""
    server_rate: float | None
    """Its largest; None where it takes the average as it is."""

    def __str__(self) -> str:
        devices = f"devices train the plug-in at a rate of {self.plugin:g} and their own model at {self.own:g}"
        if self.server_rate is None and self.server != "none":
            return f"{devices}; the server's step is that of the method {self.server}"
        if self.server_rate is None:
            return f"{devices}; the server takes their average as it is"
        return f"{devices}; the server follows their average by {self.server} at a rate of at most {self.server_rate:g}"


@dataclass(frozen=True)
class Gentle:
    """What a preset changes where models start from trained weights, which its steps from noise would destroy."""

    rate: float
    """Learning rate of the plug-in on the devices, the same in all rounds."""
    server: OptimizerSettings = field(default_factory=lambda: OptimizerSettings(kind="none"))


@dataclass(frozen=True)
class Preset:
    """Everything about training that the coordinator decides."""

    plan: Plan
    """The first round's plan; later ones differ in their learning rates only."""
    method: MethodSettings
    server: OptimizerSettings = field(default_factory=lambda: OptimizerSettings(kind="none"))
    schedule: str = "constant"
    """`constant`, or `cosine`: the factor falls along half a cosine to `final`."""
    final: float = 0.0
    warmup: int = 0
    """Rounds in which the factor rises to 1."""
    scheduled: tuple[str, ...] = ("devices",)
    """Whose learning rates the factor multiplies: `devices`, `server`."""
    gentle: Gentle | None = None
    """For a trained start; None: the same as from scratch."""

    def fitted(self, *, trained: bool, server_rate: float | None = None) -> Preset:
        """The preset as a run takes it.

        Parameters
        ----------
        trained
            Whether the first model has trained weights for all its words; then `gentle` counts.
        server_rate
            Learning rate of the server's optimizer, which somebody has named: it wins, and all else is as from scratch.

        Raises
        ------
        SettingsError
            A rate is named and the preset has no server optimizer, or it is not above 0.
        """
        if server_rate is not None:
            if self.server.kind == "none":
                raise SettingsError("No server optimizer follows this preset's method: leave --server-rate out.")
            return replace(self, server=replace(self.server, lr=server_rate), gentle=None)
        if not trained or self.gentle is None:
            return self
        plan = msgspec.structs.replace(self.plan, rate=self.gentle.rate)
        return replace(self, plan=plan, server=self.gentle.server, schedule="constant", warmup=0, gentle=None)

    def with_method(self, method: MethodSettings) -> Preset:
        """The preset with another method, and what devices do differently in its rounds.

        A method that is itself the server's step has no server optimizer after it.

        Raises
        ------
        SettingsError
            The method or an option does not exist, or a value is not allowed, or is one that no plan can say.
        """
        chosen = method.get_rule()
        server = OptimizerSettings(kind="none") if chosen.step else self.server
        plan = chosen.plan_for(self.plan)
        try:
            msgspec.msgpack.decode(msgspec.msgpack.encode(plan), type=Plan)
        except (*UNDECODABLE, OverflowError) as error:
            raise SettingsError(
                f"No plan can tell devices these options of the method {method.name}: {error}."
            ) from error
        return replace(self, plan=plan, method=method, server=server)

    def require_pack(self, pack: Pack) -> None:
        """Refuse a pack whose step graphs cannot do what the devices' plan asks for.

        Raises
        ------
        PackError
            The pack lacks a step graph of the method; the plan asks for dropped activations, and the pack's models have
            no layers that drop any; or what devices would be lent to tune their classifiers, or their gradients of
            them, would be more than `LARGEST_BLOB`.
        """
        options = self.method.get_rule().tuning_options
        gradients = bytes_of([v for v in self.declared(pack) if v.name == GRADIENTS.name])
        if gradients > LARGEST_BLOB:
            off = f" or {options.switch}=false" if options and options.switch in self.method.options else ""
            raise PackError(
                f"The method {self.method.name} has each update bring {gradients} bytes of gradients with "
                f"{len(pack.labels)} words, more than the {LARGEST_BLOB} that are taken: choose a pack with fewer "
                f"words, or another method{off}."
            )
        if self.lent_with(pack) > LARGEST_BLOB:
            raise PackError(
                f"So many features of each of {len(pack.labels)} words are more than the {LARGEST_BLOB} bytes that "
                f"devices fetch: choose {f'a smaller {options.features}' if options else 'another method'}."
            )
        method = method_of(self.plan)
        if method is not None:
            judged = {graph.model for graph in pack.manifest.graphs if graph.kind == "evaluate"}
            require_graphs(pack, self.plan, method, judged & set(pack.tables))
        if self.plan.bavd:
            require_maps(pack.manifest.name, pack.manifest.plugin, pack.manifest.graphs)

    def lent_with(self, pack: Pack) -> int:
        """Most bytes that devices are lent in a round, beside the model, to tune their classifiers; 0: nothing."""
        tuning = self.method.get_rule().tuning
        classes, width = pack.plugin_table.specs[-2].shape
        return 4 * classes * (width * tuning.features + width + 1) + LENT_HEADER + 5 * classes if tuning else 0

    def declared(self, pack: Pack) -> tuple[Declared, ...]:
        """The vectors that follow the weights of an update in this preset's rounds."""
        tuning = self.method.get_rule().tuning
        return declared(self.plan, pack, gradients=tuning is not None)

    def rates(self) -> Rates:
        """The learning rates before the schedule's factor."""
        server = None if self.server.kind == "none" else self.server.rate
        kind = self.method.name if self.method.get_rule().step else self.server.kind
        return Rates(self.plan.rate, self.plan.local_rate, kind, server)

    def factor(self, round_number: int, rounds: int) -> float:
        """The schedule's factor in a round, from 1; rounds after the last planned one have that one's."""
        round_number = min(round_number, rounds)
        factor = min(1.0, round_number / self.warmup) if self.warmup else 1.0
        if self.schedule == "cosine":
            fallen = 0.5 * (1 + math.cos(math.pi * (round_number - 1) / rounds))
            factor *= self.final + (1 - self.final) * fallen
        return factor

    def plan_for(self, round_number: int, rounds: int, seed: int) -> Plan:
        """The devices' plan of a round, 1 to `rounds`."""
        factor = self.factor(round_number, rounds) if "devices" in self.scheduled else 1.0
        return msgspec.structs.replace(
            self.plan, rate=self.plan.rate * factor, local_rate=self.plan.local_rate * factor, seed=seed
        )

    def server_for(self, round_number: int, rounds: int) -> OptimizerSettings:
        """The server optimizer's settings in a round."""
        if self.server.kind == "none" or "server" not in self.scheduled:
            return self.server
        return replace(self.server, lr=self.server.rate * self.factor(round_number, rounds))


PAPER = Preset(Plan(epochs=1, optimizer="sgd", rate=0.01, local_rate=0.01, alpha=0.5), MethodSettings("lpa"))
"""FedMLAC's own settings (ALGORITHMS 3.1): one local epoch, plain SGD at 0.01, no cross-entropy on the plug-in."""

SERVER = OptimizerSettings(kind="adam", lr=0.02, beta2=0.99, tau=1e-6, v0=0.0, bias_correction=True)

PRACTICAL = Preset(
    Plan(
        epochs=3,
        optimizer="mixed",
        rate=0.05,
        local_rate=1e-3,
        decay=0.01,
        clip=5.0,
        alpha=0.5,
        plugin_ce=1.0,
        prior=1.0,
        keep_state=True,
        augment=True,
    ),
    MethodSettings("lpa"),
    server=SERVER,
    schedule="cosine",
    warmup=3,
    scheduled=("server",),
    gentle=Gentle(rate=0.001),
)
"""What learns fastest on real devices' few clips; docs/design/practical-preset.md says why each value is what it is."""

FEDAVG = replace(
    PRACTICAL,
    plan=Plan(
        mode="supervised", epochs=3, optimizer="mixed", rate=0.1, local_rate=3e-3, clip=5.0, prior=1.0, augment=True
    ),
    method=MethodSettings("fedavg"),
)
"""The baseline, tuned as long: the plug-in itself trained on labels by SGD and averaged, with the same server
optimizer. Methods whose devices train models of their own train those by AdamW."""

PRESETS = {"practical": PRACTICAL, "paper": PAPER, "fedavg": FEDAVG}


def get_preset(name: str) -> Preset:
    """Find a preset; SettingsError with a hint when none has that name."""
    if name not in PRESETS:
        raise SettingsError(f'There is no preset "{name}"; {nearest(name, PRESETS)}')
    return PRESETS[name]
