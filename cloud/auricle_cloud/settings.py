"""What a coordinator is told before it runs a task's rounds, and what it tells after each."""

from __future__ import annotations

from collections.abc import Sized
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Any, Literal

from msgspec import Meta, Struct

from auricle.errors import SettingsError, refuse_misfits_of
from auricle.mqtt_link.settings import BrokerAddress
from auricle.settings import CheckedMeta
from auricle.wire.secure_sum.kinds import FEWEST_DEVICES
from auricle.wire.secure_sum.sizes import MOST
from auricle.wire.tensors import Flat
from auricle.wire.update_codec import MOVES
from auricle_learning.aggregation.accounting import require_accounting
from auricle_learning.aggregation.rules.rule import check_composes, check_needs, given_with
from auricle_learning.methods import MethodSettings
from auricle_learning.presets import PRACTICAL, Preset

NAME = "coordinator"
"""What a coordinator is called at its broker."""


class Detection(Struct, metaclass=CheckedMeta, frozen=True, forbid_unknown_fields=True):
    """The detection of FedVSA (ALGORITHMS 6.2-6.4), in two phases or in one."""

    repair: Annotated[
        Literal["re-aggregate", "hotfix"],
        Meta(description="re-aggregate without the harmful updates, or hotfix: take them off the model."),
    ] = "re-aggregate"
    tau: Annotated[
        float, Meta(gt=0, le=1, description="Strength of a hotfix; 1 removes the harmful updates exactly.")
    ] = 1.0
    permutations: Annotated[
        int, Meta(ge=1, le=100_000, description="Of the Monte Carlo estimate, for cohorts above ten.")
    ] = 50
    tolerance: Annotated[
        float,
        Meta(ge=0, le=1, description="A permutation ends where what is left is worth less accuracy than this."),
    ] = 0.01
    margin: Annotated[
        float,
        Meta(ge=0, le=1, description="Accuracy a device must have cost to be called harmful; 0 blames some by chance."),
    ] = 0.01
    quarantine_after: Annotated[
        int, Meta(ge=0, le=1_000_000, description="Harmful rounds after which a device is quarantined; 0: never.")
    ] = 0
    wait: Annotated[float, Meta(gt=0, le=1e9, description="Seconds to wait for the losses of a cohort.")] = 60.0
    losses: Annotated[
        bool, Meta(description="Compare losses first; false: judge each round's updates by Shapley values at once.")
    ] = True
    shapley: Annotated[
        bool, Meta(description="Find by Shapley values who is to blame; false: an alarm takes back the whole round.")
    ] = True
    one_phase: Annotated[
        bool,
        Meta(description="Compare the losses that come with the updates, after training, and ask for none before it."),
    ] = False
    """After an alarm the updates are put onto the repaired model (A45). A message less for each device, and a cohort
    that trained on a poisoned model."""

    def require(self) -> None:
        """Refuse what would look for nobody.

        Raises
        ------
        SettingsError
            There are no losses to compare, and nothing else that could be done.
        """
        if not self.losses and not self.shapley:
            raise SettingsError(
                "Detection has losses = false and shapley = false, its two steps: leave one of them out."
            )
        if not self.losses and self.one_phase:
            raise SettingsError("one_phase says which losses are compared, and losses is false: leave one of them out.")


class Buffer(Struct, metaclass=CheckedMeta, frozen=True, forbid_unknown_fields=True):
    """Asynchronous rounds (FedBuff, Nguyen et al. 2022)."""

    size: Annotated[int, Meta(ge=1, le=1_000_000, description="Updates a model is made of.")] = 10
    stale_limit: Annotated[int, Meta(ge=0, le=1_000_000, description="Models an update may be behind.")] = 20


class Privacy(Struct, metaclass=CheckedMeta, frozen=True, forbid_unknown_fields=True):
    """Clipping and noise on devices, and what may be given away in all (docs/privacy.md)."""

    clip: Annotated[
        float | None,
        Meta(description="Have devices clip updates to this Euclidean norm and add noise [no clipping, no noise]."),
    ] = None
    noise: Annotated[
        Annotated[float, Meta(ge=0, le=1e6)] | None,
        Meta(description="Noise multiplier: standard deviation of the noise in the sum, over the clip [1]."),
    ] = None
    budget: Annotated[
        float | None, Meta(description="Largest epsilon: no round begins that would exceed it [without limit].")
    ] = None
    delta: Annotated[
        float,
        Meta(gt=0, lt=1, description="Delta, the chance that epsilon does not hold: far below 1 / number of devices."),
    ] = 1e-5
    view: Annotated[
        Literal["fleet", "device"],
        Meta(description="Against whom the budget counts: fleet, who sees models; device, who sees single updates."),
    ] = "fleet"

    @property
    def multiplier(self) -> float:
        """Of the noise."""
        return 1.0 if self.noise is None else self.noise

    def require(self, method: MethodSettings, *, mode: str, detection: bool, codec: str = "float32") -> None:
        """Refuse what no number holds for, or what noise makes meaningless.

        Raises
        ------
        SettingsError
            The first of it.
        """
        if self.clip is None:
            if self.budget is not None:
                raise SettingsError("A privacy budget needs noise: give a clipping norm, --dp-clip.")
            if self.noise is not None:
                raise SettingsError("Without clipping no noise is added: give a clipping norm, --dp-clip.")
            return
        if not 0 < self.clip <= 1e6:
            raise SettingsError(f"The clipping norm, --dp-clip, is {self.clip:g}: it has to be above 0, at most 1e6.")
        if not (self.budget is None or self.budget > 0):
            raise SettingsError(f"The privacy budget, --dp-budget, is {self.budget:g}: it has to be above 0.")
        if method.name != "fedavg":
            raise SettingsError(
                f"Noise on devices needs the method fedavg: what {method.name} compares or weighs of single updates "
                "would be noise. Add --method fedavg."
            )
        if mode != "sync":
            raise SettingsError("Noise on devices needs synchronous rounds, with a drawn cohort: leave out mode async.")
        if detection:
            raise SettingsError(
                "Detection compares losses and single updates, which devices hide with noise: leave out detection, or "
                "--dp-clip."
            )
        if codec in MOVES:
            raise SettingsError(
                f"In {codec} a device holds back a part of its noise, on which the epsilon of the fleet view counts: "
                f"leave out {codec}, or --dp-clip."
            )
        require_accounting()


BUCKET = 8
"""Devices of a bucket of a secure sum without noise, where nobody says otherwise."""


class SecureSum(Struct, metaclass=CheckedMeta, frozen=True, forbid_unknown_fields=True):
    """Rounds in which the coordinator learns the sum of the updates, and none of them (docs/privacy.md)."""

    on: Annotated[
        bool, Meta(description="Learn only the sum of a round's updates, and no single one; with the method fedavg.")
    ] = False
    bound: Annotated[
        float,
        Meta(gt=0, le=1e6, description="Values of an update are cut to it, and rounded to steps of bound / 32767."),
    ] = 0.5
    wait: Annotated[
        float, Meta(gt=0, le=1e9, description="Seconds to wait for keys, shares and what is revealed, each.")
    ] = 60.0
    bucket: Annotated[
        Annotated[int, Meta(ge=0, le=MOST)] | None,
        Meta(description="Devices of a bucket, whose sums are compared; 0: one sum of all [8; with noise 0]."),
    ] = None

    @property
    def bucket_size(self) -> int:
        """Devices of a bucket in a round without noise; 0: one sum of all."""
        return BUCKET if self.bucket is None else self.bucket

    def require(
        self, method: MethodSettings, *, mode: str, detection: bool, noise: bool, codec: str = "float32"
    ) -> None:
        """Refuse what needs single updates, or would show sums with less noise than is said.

        Raises
        ------
        SettingsError
            The first of it.
        """
        if not self.on:
            return
        if method.name != "fedavg":
            raise SettingsError(
                f"A secure sum needs the method fedavg: {method.name} compares or weighs single updates, which nobody "
                "sees. Add --method fedavg, or leave out --secure-sum."
            )
        if (weighting := method.options.get("weighting", "uniform")) != "uniform":
            raise SettingsError(
                f'In a secure sum each update weighs the same: the weighting "{weighting}" needs what each '
                "device says of its clips. Leave it out, or --secure-sum."
            )
        if codec != "float32":
            raise SettingsError(f"A secure sum has its own form of updates: leave out {codec}, or --secure-sum.")
        if mode != "sync":
            raise SettingsError("A secure sum needs synchronous rounds: leave out mode async, or --secure-sum.")
        if detection:
            raise SettingsError(
                "Detection compares losses and single updates, which a secure sum hides: leave out detection, or "
                "--secure-sum."
            )
        if self.bucket and self.bucket < FEWEST_DEVICES:
            raise SettingsError(f"A bucket of a secure sum has at least {FEWEST_DEVICES} devices, not {self.bucket}.")
        if self.bucket and noise:
            raise SettingsError(
                "With noise a secure sum has no buckets: the coordinator would see sums with the noise of a few "
                "devices, which the epsilon of the fleet view does not cover. Leave out --secure-sum-bucket, or "
                "--dp-clip."
            )


class Limits(Struct, metaclass=CheckedMeta, frozen=True, forbid_unknown_fields=True):
    """What a device may claim and do."""

    samples: Annotated[int, Meta(ge=1, le=1 << 40, description="Largest number of clips of an update.")] = 10_000_000
    loss: Annotated[float, Meta(gt=0, description="Largest loss.")] = 1e6
    weight: Annotated[float, Meta(gt=0, description="Largest weight of a model, plus or minus.")] = 1e6
    """No weight of a model that learns comes near it; one that does would stop a server's optimizer for good."""
    norm: Annotated[
        float, Meta(gt=0, description="Largest Euclidean distance of an update from the model it started from.")
    ] = 1e4
    share: Annotated[
        float,
        Meta(
            ge=1,
            le=1e9,
            description="Largest share of one device in a model, as a multiple of its fair one; from 3 on below half.",
        ),
    ] = 3.0
    prune_few: Annotated[
        bool,
        Meta(
            description="Where lpa removes nobody: below 5 devices shorten long updates, else prune the farthest fifth."
        ),
    ] = True
    frames: Annotated[float, Meta(gt=0, description="Frames a second, in the long run.")] = 20.0
    burst: Annotated[float, Meta(ge=1, description="Frames that may come at once.")] = 200.0


@refuse_misfits_of
@dataclass(frozen=True)
class RunSettings:
    """What a coordinator is told before it starts."""

    fleet: str
    broker: BrokerAddress
    folder: Path
    """Key, and where no URL says otherwise database and blobs live here."""
    rounds: int | None = 10
    """Rounds to run in all; None: run what operators and schedules plan, until stopped."""
    task: str = "keywords"
    preset: Preset = field(default=PRACTICAL)
    participation: float = 1.0
    """Share of the devices that can be invited that are."""
    over_selection: float = 1.0
    """Invite so many times more devices, and close when the share above has answered."""
    quorum: float = 0.7
    """Share of the invited that is enough to close a round that has waited."""
    deadline: float = 300.0
    """Seconds after which a round closes with what it has; without a quorum it is aborted."""
    patience: float = 2.0
    """Once the quorum is in, wait this many times as long again as it took (at least `least_wait` seconds)."""
    least_wait: float = 5.0
    devices: int = 1
    """Registered devices to wait for before the first round."""
    gather: float = 120.0
    """Seconds to wait for them; then the run begins with those that are there."""
    connect_timeout: float = 30.0
    """Seconds to wait for the broker at the start; later losses are waited out."""
    seed: int = 0
    start: Flat | None = field(default=None, compare=False, repr=False)
    """(P,) weights of the first model; None: drawn from the seed."""
    horizon: int = 200
    """Rounds over which a preset's rates change where `rounds` is None."""
    mode: Literal["sync", "async"] = "sync"
    buffer: Buffer = field(default_factory=Buffer)
    detection: Detection | None = None
    """Rounds with detection; None: the plain ones."""
    validation: Path | None = None
    """The operator's labelled clips: every model is judged on them, and after an alarm every device; without them an
    alarm goes back to the last good model."""
    labelled: Path | Sized | None = field(default=None, compare=False)
    """The operator's labelled clips for methods that learn from them, a folder or a `ValidationSet`; not those that
    results are reported on."""
    approval: Literal["auto", "claimed", "manual"] = "auto"
    """Whether a device that registers for the first time has to wait for an operator."""
    database: str | None = None
    """URL of the database; None: SQLite in the folder."""
    blobs: str | None = None
    """URL of the object store; None: a folder in the folder."""
    limits: Limits = field(default_factory=Limits)
    privacy: Privacy = field(default_factory=Privacy)
    secure_sum: SecureSum = field(default_factory=SecureSum)
    compute: str = "auto"
    """What rules and evaluation compute on: auto, cpu or cuda."""
    keep_models: int = 100
    """Newest models kept; the first and the current one always are."""
    keep_events: int = 100_000
    """Newest events kept of each kind that devices make."""
    keep_audit: float = 400.0
    """Days for which events of operators, detection and policy are kept."""
    keep_hearing: float = 35.0
    """Days for which reports of hearing are kept."""
    backups: Path | None = None
    """Folder for a backup every night; None: there are none."""
    keep_backups: int = 7
    """Newest of them kept."""
    worker: BrokerAddress | None = None
    """As whom updates are taken in beside other coordinators of the same database, one of which leads at a time; None:
    there are no others."""
    region: str | None = None
    """URL of where this coordinator's rounds are joined with those of other regions; None: they are its own."""
    durable: bool = True
    """Whether key, SQLite database and blobs in folders survive a power cut; without, the end of the process alone."""

    def __post_init__(self) -> None:
        """Refuse what no round could be run with, and a rule that does not exist."""
        if not 0 < self.participation <= 1 or not 0 < self.quorum <= 1:
            raise SettingsError("Participation and quorum are shares: above 0, at most 1.")
        if not 1 <= self.over_selection <= 10:
            raise SettingsError("Over-selection is a factor of at least 1 and at most 10.")
        if (self.rounds is not None and self.rounds < 1) or not 0 < self.deadline <= 1e9:
            raise SettingsError("A run needs at least one round and a deadline above 0, at most 1e9 seconds.")
        if self.buffer.size < 1 or self.buffer.stale_limit < 0:
            raise SettingsError("A buffer holds at least one update, and its stale limit is at least 0.")
        if self.detection is not None and self.mode == "async":
            raise SettingsError("Detection needs synchronous rounds: leave out mode async or detection.")
        if self.detection is not None:
            self.detection.require()
        if self.keep_models < 2:
            raise SettingsError("Keep at least two models: an alarm goes back to the one before.")
        if self.mode == "async" and self.keep_models <= self.buffer.stale_limit + 1:
            raise SettingsError("Keep more models than the stale limit: an update is measured against its own.")
        if not 1 <= self.keep_audit <= 36_500:
            raise SettingsError("Keep events of operators for 1 to 36500 days.")
        if not 1 <= self.keep_hearing <= 365:
            raise SettingsError("Keep reports of hearing for 1 to 365 days.")
        method, detects, codec = self.preset.method, self.detection is not None, self.preset.plan.codec
        given = given_with(labelled=self.labelled is not None)
        check_needs(method.get_rule(), given=given, mode=self.mode, detection=detects, codec=codec)
        if self.preset != self.preset.with_method(method):
            raise SettingsError(f'The method "{method.name}" changes plan or server: take it by Preset.with_method.')
        if self.worker is not None and self.mode == "async":
            raise SettingsError("Several coordinators run synchronous rounds: leave out mode async, or --worker.")
        if self.worker is not None and self.database is None:
            raise SettingsError("Several coordinators need PostgreSQL: give --database postgresql://USER@HOST/NAME.")
        self.privacy.require(method, mode=self.mode, detection=detects, codec=codec)
        noise = self.privacy.clip is not None
        self.secure_sum.require(method, mode=self.mode, detection=detects, noise=noise, codec=codec)
        if self.region is not None:
            self._require_joint()

    def _require_joint(self) -> None:
        """Refuse what cannot be joined with other regions' rounds."""
        check_composes(self.preset.method.get_rule())
        if self.mode == "async":
            raise SettingsError("Regions meet after synchronous rounds: leave out mode async, or --region.")
        if self.detection is not None:
            raise SettingsError(
                "Detection aggregates parts of a round again, whose updates lie in other regions: leave out detection, "
                "or --region."
            )
        if self.secure_sum.on or self.privacy.clip is not None:
            raise SettingsError(
                "A secure sum, and noise on devices, are counted for the cohort of one coordinator: leave out "
                "--secure-sum and --dp-clip, or --region."
            )


@dataclass(frozen=True)
class JointSettings:
    """How regions meet."""

    folder: Path
    regions: tuple[str, ...]
    """Names of those that may take part."""
    preset: Preset
    quorum: int
    """Regions without which no model is made."""
    patience: float = 60.0
    """Seconds that a quorum waits for the other regions."""
    limits: Limits = field(default_factory=Limits)
    horizon: int = 200
    """Rounds over which a preset's rates change."""

    def __post_init__(self) -> None:
        """Refuse what no model could be made with; SettingsError."""
        if not 1 <= self.quorum <= len(self.regions):
            raise SettingsError(
                f"{self.quorum} of {len(self.regions)} regions cannot meet: the quorum is 1 to {len(self.regions)}."
            )
        if not 0 <= self.patience <= 1e9:
            raise SettingsError("The patience for regions is 0 to 1e9 seconds.")
        rule = self.preset.method.get_rule()
        check_needs(rule)
        check_composes(rule)


@dataclass(frozen=True)
class RoundDone:
    """A finished round, for a watcher."""

    number: int
    rounds: int
    state: str
    """`published` or `aborted`."""
    model: Flat
    seconds: float
    invited: int
    counted: int
    report: dict[str, Any]
    left_out: int = 0
    """Devices whose update came, and got the weight 0 in every layer from the rule."""
    evaluated: Flat | None = None
    """What the round is judged by in place of the model, where its rule has such weights."""

    @property
    def judged(self) -> Flat:
        """(P,) what the round is judged by."""
        return self.model if self.evaluated is None else self.evaluated
