"""Everything a fleet run is told, kept beside its results so that it can go on and be repeated."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import msgspec
from msgspec import Meta

from auricle.errors import NOT_FOUND, StorageError
from auricle.files import describe, read_kept, write_durably
from auricle.mqtt_link.settings import BrokerAddress
from auricle.settings import CheckedMeta, from_mapping
from auricle.wire.kinds import UNDECODABLE
from auricle_cloud.settings import Buffer, Detection, Limits, Privacy, SecureSum
from auricle_edge.training.own_model import name_in, own_model
from auricle_fleet.settings.groups import Group
from auricle_fleet.settings.partition import Partition
from auricle_learning.aggregation.server_optimizer import OptimizerSettings
from auricle_learning.methods import MethodSettings
from auricle_learning.presets import Preset, get_preset
from auricle_learning.training.learn_settings import LearnSettings

if TYPE_CHECKING:
    from auricle.packs.pack import Pack

BROKERS = ("mosquitto", "amqtt")
"""Brokers that a run can start itself."""
LOCALS = ("crnn-base", "crnn-wide", "crnn-deep", "crnn-stacked", "crnn-lite")
"""Local models of the shipped packs' architectures."""


EARLIER_NAMES = {"rule": "method", "rule_options": "method_options"}
"""Settings by the names that the version before wrote them with."""


class NoRunError(StorageError):
    """A folder that holds no run."""

    exit_code = NOT_FOUND


class FleetSettings(msgspec.Struct, metaclass=CheckedMeta, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """A fleet run. See `auricle fleet run --help` for what each is.

    A value of the wrong kind is refused here; settings that do not go together are refused by what runs or plans them
    (`check_run` in `settings/check.py`).
    """

    data: Annotated[
        str,
        Meta(
            description="synthetic, speech-commands, a folder <word>/<speaker>_nohash_<n>.(wav|flac), a list in CSV "
            "with the columns path, word and speaker, or urbansound:, crema-d: or iemocap: and the folder of that "
            "corpus."
        ),
    ] = "synthetic"
    words: Annotated[
        str | None,
        Meta(
            description="a,b,c, gsc12, gsc35, digits, urbansound, emotions, or common:N for words with at least N "
            "clips [gsc12, or the pack's or corpus's]."
        ),
    ] = None
    pack: Annotated[
        str | None, Meta(description="A pack of your own, a folder or a .tar.zst [the shipped one for the words].")
    ] = None
    devices: Annotated[
        int | None, Meta(description="Number of devices, each with one speaker's clips [all that qualify].")
    ] = None
    min_clips: Annotated[
        int | None,
        Meta(
            description="A speaker with fewer clips is not a device and counts as unseen [20, or fewer where speakers "
            "have fewer]."
        ),
    ] = None
    unseen: Annotated[int | None, Meta(description="Speakers held out wholly, as well as those under --min-clips.")] = (
        None
    )
    validation: Annotated[
        bool,
        Meta(
            description="Keep a third of the unseen speakers apart, the same whatever the seed: values are chosen by "
            "their clips, and results are reported on the others'."
        ),
    ] = False
    takes: Annotated[int, Meta(description="Synthetic speech: takes of each word by each speaker.")] = 8
    white_noise: Annotated[
        Annotated[float, Meta(ge=-30, le=120)] | None,
        Meta(description="Decibels of every clip, of unseen speakers too, over white noise added to it [none]."),
    ] = None
    label_errors: Annotated[
        float,
        Meta(ge=0, le=1, description="Share of the clips that devices train on with another label than theirs."),
    ] = 0.0
    rounds: Annotated[int, Meta(description="Rounds to run.")] = 80
    participation: Annotated[float, Meta(description="Share of the devices invited to a round.")] = 1.0
    quorum: Annotated[
        float, Meta(description="Share of the invited that is enough to close a round that has waited.")
    ] = 0.7
    deadline: Annotated[float, Meta(description="Seconds after which a round closes.")] = 300.0
    engine: Annotated[
        str | None,
        Meta(
            description="live: agents, a coordinator and a broker; virtual: the same training and methods on a clock "
            "that only counts, without links [virtual, or live where a broker, a network or a fault is asked for]."
        ),
    ] = None
    processes: Annotated[
        int,
        Meta(
            description="Processes in which the virtual engine trains; 1: in the run's own [one a core where a run is "
            "long enough]."
        ),
    ] = 0
    ray: Annotated[
        str | None,
        Meta(description="Address of a Ray cluster on which the virtual engine trains; local: one is begun here."),
    ] = None
    round_every: Annotated[
        float,
        Meta(description="Seconds of the virtual engine's clock from one round's beginning to the next, at least."),
    ] = 0.0
    step_seconds: Annotated[
        float,
        Meta(
            description="Seconds of the virtual engine's clock that a step of training takes, times the compute of a "
            "device's group [training takes no time]."
        ),
    ] = 0.0
    mode: Annotated[
        str,
        Meta(description="sync, or async: a new model after every few updates, without waiting for anybody."),
    ] = "sync"
    over_selection: Annotated[
        float, Meta(description="Invite this many times as many devices, and close when enough have answered.")
    ] = 1.0
    method: Annotated[
        str | None,
        Meta(
            description="Method of federated learning: fedavg, lpa, fedvsa, median, multi-krum, fedopt and more, see "
            "docs/methods.md, or one that a package adds [the preset's]."
        ),
    ] = None
    method_options: Annotated[dict[str, object], Meta(description="A table of options of the method.")] = {}
    labelled: Annotated[
        str | None,
        Meta(
            description="Labelled clips at the coordinator, for a method that learns from them (zeno, fedlaw, fedrpo) "
            "or --pretrain: a folder, validation for those of the --validation speakers, or share:S for that share of "
            "the devices' clips, drawn by label and taken from them."
        ),
    ] = None
    labelled_share: Annotated[
        float | None,
        Meta(
            description="Share of each device's clips with labels; fedrpo learns from the others by FixMatch [0 with "
            "--method fedrpo, else 1]."
        ),
    ] = None
    detect: Annotated[
        bool,
        Meta(description="Compare losses, find who poisons, repair; judged by the clips of half of the unseen."),
    ] = False
    learning: Annotated[
        str | None, Meta(description="mutual, or supervised: the plug-in alone on labels [the preset's].")
    ] = None
    local: Annotated[
        str | None,
        Meta(
            description="Local model: crnn-base, -wide, -deep, -stacked, -lite, one of --pack, a,b,c in turn, or mixed "
            "[crnn-base, or the pack's larger model]."
        ),
    ] = None
    preset: Annotated[
        str, Meta(description="practical, paper (FedMLAC's own settings), or fedavg (the tuned baseline).")
    ] = "practical"
    epochs: Annotated[
        Annotated[int, Meta(ge=1, le=1000)] | None,
        Meta(description="Times that a device takes each of its clips in a round [the preset's]."),
    ] = None
    rate: Annotated[
        Annotated[float, Meta(gt=0, le=10)] | None,
        Meta(description="Learning rate of the plug-in on the devices [the preset's]."),
    ] = None
    local_rate: Annotated[
        Annotated[float, Meta(gt=0, le=10)] | None,
        Meta(description="Learning rate of the devices' own models [the preset's]."),
    ] = None
    augment: Annotated[
        Literal["on", "off"] | None,
        Meta(description="Whether devices shift, stretch and mask clips and add noise as they train [the preset's]."),
    ] = None
    server_optimizer: Annotated[
        str | None,
        Meta(
            description="Optimizer with which the model follows the devices' average: none, momentum, adagrad, adam or "
            "yogi [the preset's]."
        ),
    ] = None
    server_rate: Annotated[
        float | None,
        Meta(description="Learning rate of the server's optimizer [the preset's; with --start pack a gentle step]."),
    ] = None
    start: Annotated[
        str,
        Meta(
            description="scratch: all models start from seeded noise; pack: from the pack's trained weights; a run's "
            "folder, or a .safetensors in it: the shared model from that run's."
        ),
    ] = "scratch"
    pretrain: Annotated[
        int,
        Meta(
            description="Epochs for which the shared model is trained on the coordinator's --labelled clips before the "
            "first round."
        ),
    ] = 0
    carried: Annotated[
        float | None,
        Meta(
            description="Share of what devices train on that is sound without keywords, of the pack's negatives; less "
            "with own ones [with --start pack 0.5, of 2 to 6 --devices 0.25; else 0]."
        ),
    ] = None
    judge: Annotated[
        str,
        Meta(
            description="Whether a device gives up a round that made it worse: on, off, or auto: on with --start pack."
        ),
    ] = "auto"
    judge_minutes: Annotated[float, Meta(description="Most minutes of negatives on which a device judges a round.")] = (
        15.0
    )
    judge_share: Annotated[
        float, Meta(description="Share of its rounds that a device judges on them, drawn at random.")
    ] = 0.1
    runtime: Annotated[
        str,
        Meta(
            description="What trains: native, a C library (compiled once where the wheel brings none), step, which is "
            "onnxruntime, or auto: native where it can be."
        ),
    ] = "auto"
    codec: Annotated[str, Meta(description="How updates travel: float32, float16, int8 or top-k.")] = "float32"
    central: Annotated[bool, Meta(description="Also train the same clips centrally: the ceiling.")] = False
    central_epochs: Annotated[int, Meta(description="Epochs of the central training.")] = 150
    pictures: Annotated[
        bool,
        Meta(
            description="Leave pictures of the models in the run's folder: where the shared one looks, and what "
            "devices sent in the last round in two dimensions, by group (virtual engine)."
        ),
    ] = False
    seed: Annotated[int, Meta(description="Random seed of speech, split, initial weights and every draw.")] = 0
    port: Annotated[int, Meta(description="Port of the broker on loopback; 0 takes a free one.")] = 0
    broker: Annotated[
        str | None,
        Meta(description="mosquitto, amqtt, or mqtt://user:password@host:port of a running one [mosquitto if found]."),
    ] = None
    durable: Annotated[
        bool,
        Meta(
            description="Sync files and commits of devices and coordinator to the disk as real ones do (live engine): "
            "without, a power cut of this machine may lose the run's state, and the end of a process loses nothing."
        ),
    ] = False
    buffer: Buffer = Buffer()
    detection: Detection = Detection()
    limits: Limits = Limits()
    privacy: Privacy = Privacy()
    secure_sum: SecureSum = SecureSum()
    groups: tuple[Group, ...] = ()
    partition: Partition = Partition()

    @property
    def carried_share(self) -> float:
        """Share of what devices train on that is of the pack's negatives: left open, a board's from trained weights.

        From seeded noise a run repeats what the papers did: clips alone.
        """
        if self.carried is not None:
            return self.carried
        return LearnSettings().carried if self.start == "pack" else 0.0

    @property
    def own_start(self) -> str:
        """What devices' own models start from: `scratch` also where the shared one is another run's."""
        return "pack" if self.start == "pack" else "scratch"

    @property
    def labelled_part(self) -> float:
        """Share of the devices' clips with labels: none where a method asks for FixMatch and nothing else is said."""
        if self.labelled_share is not None:
            return self.labelled_share
        return 0.0 if self.with_method(get_preset(self.preset)).plan.fixmatch else 1.0

    @property
    def judges(self) -> bool:
        """Whether devices judge their rounds: asked for, or left open in a run that has a good state to protect."""
        return self.judge == "on" or (self.judge == "auto" and self.start == "pack")

    def preset_for(self, *, trained: bool) -> Preset:
        """The preset with what the options change in it, as it fits a first model that is trained, or is noise."""
        preset = self.with_method(get_preset(self.preset)).fitted(trained=trained, server_rate=self.server_rate)
        plan = msgspec.structs.replace(
            preset.plan,
            mode=self.learning or preset.plan.mode,
            codec=self.codec,
            epochs=self.epochs or preset.plan.epochs,
            augment=preset.plan.augment if self.augment is None else self.augment == "on",
            rate=preset.plan.rate if self.rate is None else self.rate,
            local_rate=preset.plan.local_rate if self.local_rate is None else self.local_rate,
        )
        return replace(preset, plan=plan)

    def choose_method(self, usual: MethodSettings) -> MethodSettings:
        """The method with its options, over those of `usual`, the preset's, unless it is another one."""
        return usual.override(self.method or None, self.method_options)

    def with_method(self, preset: Preset) -> Preset:
        """A preset with the method and the server's optimizer of these settings."""
        chosen = preset.with_method(self.choose_method(preset.method))
        kind = self.server_optimizer
        if kind in (None, chosen.server.kind):
            return chosen
        return replace(chosen, server=OptimizerSettings(kind=kind or "none"), gentle=None)

    def architectures(self, pack: Pack | None = None) -> tuple[str, ...]:
        """The local models that devices take in turn: `mixed` is all of the pack's, a comma separates a choice.

        Where none are named it is the larger model of the pack, `crnn-base` of a shipped one that the words choose.
        """
        if self.local is None:
            return LOCALS[:1] if pack is None else (own_model(pack, start=self.own_start),)
        if self.local == "mixed":
            return LOCALS if pack is None or {*LOCALS} <= {*pack.tables} else tuple(sorted(pack.tables))
        names = (part.strip() for part in self.local.split(","))
        return tuple(name if pack is None else name_in(pack, name) for name in names)

    def own_models(self, groups: Sequence[Group | None], pack: Pack) -> list[str]:
        """The own model of each device, by the group that it is in."""
        kinds = self.architectures(pack)
        named = (group.local if group else None for group in groups)
        return [name_in(pack, own) if own else kinds[place % len(kinds)] for place, own in enumerate(named)]

    def changed(self) -> dict[str, object]:
        """The settings that are not the defaults, as plain values; a broker without its password."""
        usual, plain = msgspec.to_builtins(FleetSettings()), msgspec.to_builtins(self)
        if self.broker is not None and self.broker not in BROKERS:
            plain["broker"] = str(BrokerAddress.parse(self.broker))
        return {name: value for name, value in plain.items() if value != usual[name]}

    def save(self, folder: Path) -> None:
        """Keep the settings in a run's folder, for their user alone: a broker's password may stand there."""
        written = msgspec.json.format(msgspec.json.encode(self), indent=2) + b"\n"
        write_durably(folder / "settings.json", written, mode=0o600)

    @classmethod
    def load(cls, folder: Path) -> FleetSettings:
        """Read the settings of an earlier run; NoRunError where it is missing in this folder."""
        if not (folder / "settings.json").exists():
            inside = sorted(folder.glob("*/settings.json"))
            hint = f"; there are runs in it, such as {inside[-1].parent}" if inside else ""
            raise NoRunError(f"{folder} holds no run: there is no settings.json in it{hint}.")
        return cls.read(folder / "settings.json")

    @classmethod
    def read(cls, path: Path) -> FleetSettings:
        """Read the file that `save` made.

        Raises
        ------
        StorageError
            It cannot be read, or is damaged.
        SettingsError
            A name in it is no setting, or a value is of the wrong kind.
        """
        try:
            written = msgspec.json.decode(read_kept(path), type=dict[str, object])
        except OSError as error:
            raise StorageError(describe(error, path)) from error
        except UNDECODABLE as error:
            raise StorageError(f"{path} is damaged: it was cut short, or is no JSON of settings.") from error
        if "learning" not in written:  # as the version before wrote it
            written["learning"] = written.pop("mode", None)
        written = {EARLIER_NAMES.get(name, name): value for name, value in written.items()}
        return from_mapping(cls, written, str(path))
