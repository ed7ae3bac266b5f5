"""Everything a fleet run is told, kept beside its results so that it can go on and be repeated."""

from __future__ import annotations

from dataclasses import replace
from difflib import get_close_matches
from pathlib import Path
from typing import Annotated

import msgspec
from msgspec import Meta

from auricle.errors import NOT_FOUND, SettingsError, StorageError, nearest
from auricle.files import describe, write_durably
from auricle.mqtt_link.link import BrokerAddress
from auricle.packs.first_weights import check_start
from auricle.packs.pack import Pack
from auricle.wire.tensors import CODECS
from auricle_cloud.aggregation.presets import Preset, get_preset
from auricle_cloud.aggregation.rules import get_rule, rule_names
from auricle_cloud.settings import Buffer, Detection, Limits
from auricle_edge.training.learn_settings import LearnSettings
from auricle_edge.training.own_model import own_model
from auricle_fleet.groups import Group, check_groups, require_room

BROKERS = ("mosquitto", "amqtt")
"""Brokers that a run can start itself."""

LONGEST = 1e9
"""Seconds that an invitation can say."""
LARGEST_SEED = 1 << 40
"""What a plan can say."""

JUDGE = ("auto", "on", "off")
MOST_MINUTES = 60.0
MOST_CARRIED = 0.9

MODES = ("sync", "async")
MOST_SELECTED = 10.0
LEARNING = ("mutual", "supervised")

LOCALS = ("crnn-base", "crnn-wide", "crnn-deep", "crnn-stacked", "crnn-lite")


class NoRunError(StorageError):
    """A folder that holds no run."""

    exit_code = NOT_FOUND


def slip(broker: str) -> str | None:
    """The broker's program that was meant by a word that is nearly its name; None where it is an address."""
    return None if "://" in broker else next(iter(get_close_matches(broker, BROKERS, 1, 0.7)), None)


class FleetSettings(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """A fleet run. See `auricle fleet run --help` for what each is."""

    data: Annotated[
        str, Meta(description="synthetic, speech-commands, or a folder <word>/<speaker>_nohash_<n>.(wav|flac).")
    ] = "synthetic"
    words: Annotated[
        str | None,
        Meta(
            description="a,b,c, gsc12, gsc35, digits, or common:N for words with at least N clips [gsc12, or the "
            "pack's]."
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
            description="A speaker with fewer clips is no device and counts as unseen [20, or fewer where speakers "
            "have fewer]."
        ),
    ] = None
    unseen: Annotated[int | None, Meta(description="Speakers held out wholly, as well as those under --min-clips.")] = (
        None
    )
    takes: Annotated[int, Meta(description="Synthetic speech: takes of each word by each speaker.")] = 8
    rounds: Annotated[int, Meta(description="Rounds to run.")] = 80
    participation: Annotated[float, Meta(description="Share of the devices invited to a round.")] = 1.0
    quorum: Annotated[
        float, Meta(description="Share of the invited that is enough to close a round that has waited.")
    ] = 0.7
    deadline: Annotated[float, Meta(description="Seconds after which a round closes.")] = 300.0
    mode: Annotated[
        str,
        Meta(description="sync, or async: a model from every so many updates, nobody is waited for."),
    ] = "sync"
    over_selection: Annotated[
        float, Meta(description="Invite so many times more, and close when enough have answered.")
    ] = 1.0
    rule: Annotated[
        str | None,
        Meta(
            description="fedavg, lpa, fedvsa, lpa+fedvsa, median, trimmed-mean, krum, multi-krum, geometric-median, "
            "norm-clip, or one that a package adds [the preset's]."
        ),
    ] = None
    rule_options: Annotated[dict[str, object], Meta(description="A table of options of the rule.")] = {}
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
    server_rate: Annotated[
        float | None,
        Meta(description="Learning rate of the server's optimizer [the preset's; with --start pack a gentle step]."),
    ] = None
    start: Annotated[
        str,
        Meta(
            description="scratch: all models start from seeded noise, as in every published figure; pack: from the "
            "pack's trained weights."
        ),
    ] = "scratch"
    carried: Annotated[
        float | None,
        Meta(
            description="Share of what devices train on that is sound without keywords, of the pack's negatives; less "
            "with own ones [0.5 with --start pack, else 0]."
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
    codec: Annotated[str, Meta(description="How updates travel: float32 or float16.")] = "float32"
    central: Annotated[bool, Meta(description="Also train the same clips centrally: the ceiling.")] = False
    central_epochs: Annotated[int, Meta(description="Epochs of the central training.")] = 150
    seed: Annotated[int, Meta(description="Decides speech, split, initial weights and every draw.")] = 0
    port: Annotated[int, Meta(description="Port of the broker on loopback; 0 takes a free one.")] = 0
    broker: Annotated[
        str | None,
        Meta(description="mosquitto, amqtt, or mqtt://user:password@host:port of a running one [mosquitto if found]."),
    ] = None
    buffer: Buffer = Buffer()
    detection: Detection = Detection()
    limits: Limits = Limits()
    groups: tuple[Group, ...] = ()

    def __post_init__(self) -> None:
        """Refuse what cannot be run."""
        get_preset(self.preset).fitted(trained=False, server_rate=self.server_rate)
        if self.rule is not None and self.rule not in rule_names():
            raise SettingsError(f'There is no rule "{self.rule}"; {nearest(self.rule, rule_names())}')
        get_rule(self.rule or get_preset(self.preset).rule, **self.rule_options)
        if self.learning is not None and self.learning not in LEARNING:
            raise SettingsError(f'There is no learning "{self.learning}"; {nearest(self.learning, LEARNING)}')
        if self.mode not in MODES:
            hint = " How devices learn is --learning." if self.mode in LEARNING else ""
            raise SettingsError(f'There is no mode "{self.mode}"; {nearest(self.mode, MODES)}{hint}')
        if not 1 <= self.over_selection <= MOST_SELECTED:
            raise SettingsError(f"--over-selection has to be from 1 to {MOST_SELECTED:g}.")
        if self.detect and self.mode == "async":
            raise SettingsError("--detect compares the losses of one round's devices: it needs --mode sync.")
        check_groups(self.groups)
        if self.devices is not None:
            require_room(self.groups, self.devices)
        for name in (*self.architectures(), *(group.local for group in self.groups if group.local)):
            if self.pack is None and name not in LOCALS:
                raise SettingsError(f'There is no local model "{name}"; {nearest(name, (*LOCALS, "mixed"))}')
        check_start(self.start)
        if self.judge not in JUDGE:
            raise SettingsError(f"--judge is {', '.join(JUDGE[:-1])} or {JUDGE[-1]}: {nearest(self.judge, JUDGE)}")
        if not 0 < self.judge_minutes <= MOST_MINUTES or not 0 <= self.judge_share <= 1:
            raise SettingsError(
                f"--judge-minutes has to be above 0 and at most {MOST_MINUTES:.0f}, --judge-share from 0 to 1."
            )
        if self.carried is not None and not 0 <= self.carried <= MOST_CARRIED:
            raise SettingsError(f"--carried is a share of what a round trains on, 0 to {MOST_CARRIED:g}.")
        for option, value in (("rounds", self.rounds), ("takes", self.takes), ("central-epochs", self.central_epochs)):
            if value < 1:
                raise SettingsError(f"--{option} is {value}: it has to be at least 1.")
        if not 0 < self.participation <= 1 or not 0 < self.quorum <= 1:
            raise SettingsError("--participation and --quorum are shares: above 0, at most 1.")
        if not 0 < self.deadline <= LONGEST or not 0 <= self.seed <= LARGEST_SEED:
            raise SettingsError(
                f"--deadline has to be above 0 and at most {LONGEST:.0f} seconds, --seed from 0 to {LARGEST_SEED}."
            )
        if self.codec not in CODECS:
            raise SettingsError(f'There is no codec "{self.codec}"; {nearest(self.codec, CODECS)}')
        if self.broker is not None and self.broker not in BROKERS and (near := slip(self.broker)):
            raise SettingsError(f'There is no broker "{self.broker}"; did you mean "{near}"?')
        if not 0 <= self.port <= 65535:
            raise SettingsError(f"--port is {self.port}: it has to be from 0 (a free one) to 65535.")

    @property
    def carried_share(self) -> float:
        """Share of what devices train on that is of the pack's negatives: left open, a board's from trained weights.

        From seeded noise a run repeats what the papers did: clips alone.
        """
        if self.carried is not None:
            return self.carried
        return LearnSettings().carried if self.start == "pack" else 0.0

    @property
    def judges(self) -> bool:
        """Whether devices judge their rounds: asked for, or left open in a run that has a good state to protect."""
        return self.judge == "on" or (self.judge == "auto" and self.start == "pack")

    def preset_for(self, *, trained: bool) -> Preset:
        """The preset with what the options change in it, as it fits a first model that is trained, or is noise."""
        preset = get_preset(self.preset).fitted(trained=trained, server_rate=self.server_rate)
        plan = msgspec.structs.replace(preset.plan, mode=self.learning or preset.plan.mode, codec=self.codec)
        rule = self.rule or preset.rule
        options = {**(preset.rule_options if rule == preset.rule else {}), **self.rule_options}
        return replace(preset, plan=plan, rule=rule, rule_options=options)

    def architectures(self, pack: Pack | None = None) -> tuple[str, ...]:
        """The local models that devices take in turn: `mixed` is all five, a comma separates a choice.

        Where none are named it is the larger model of the pack, `crnn-base` of a shipped one that the words choose.
        """
        if self.local is None:
            return LOCALS[:1] if pack is None else (own_model(pack, start=self.start),)
        return LOCALS if self.local == "mixed" else tuple(part.strip() for part in self.local.split(","))

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
            raise NoRunError(f"{folder} holds no run: there is no settings.json in it.")
        return cls.read(folder / "settings.json")

    @classmethod
    def read(cls, path: Path) -> FleetSettings:
        """Read the file that `save` made; StorageError where it cannot be read, or is damaged."""
        try:
            written = msgspec.json.decode(path.read_bytes(), type=dict[str, object])
            if "learning" not in written:  # as the version before wrote it
                written["learning"] = written.pop("mode", None)
            return msgspec.convert(written, cls)
        except OSError as error:
            raise StorageError(describe(error, path)) from error
        except (msgspec.MsgspecError, UnicodeDecodeError) as error:
            raise StorageError(f"{path} is damaged: {error}.") from error
