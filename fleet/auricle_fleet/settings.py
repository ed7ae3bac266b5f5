"""Everything a fleet run is told, kept beside its results so that it can go on and be repeated."""

from __future__ import annotations

from pathlib import Path

import msgspec

from auricle.errors import SettingsError, StorageError, nearest
from auricle.files import write_durably
from auricle.packs.first_weights import check_start
from auricle.packs.pack import Pack
from auricle.wire.tensors import CODECS
from auricle_cloud.aggregation.presets import get_preset
from auricle_cloud.aggregation.rules import rule_names
from auricle_edge.training.learn_settings import LearnSettings
from auricle_edge.training.own_model import own_model

BROKERS = ("mosquitto", "amqtt")
"""Brokers that a run can start itself."""

LONGEST = 1e9
"""Seconds that an invitation can say."""
LARGEST_SEED = 1 << 40
"""What a plan can say."""

JUDGE = ("auto", "on", "off")
MOST_MINUTES = 60.0
MOST_CARRIED = 0.9

LOCALS = ("crnn-base", "crnn-wide", "crnn-deep", "crnn-stacked", "crnn-lite")


class FleetSettings(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """A fleet run. See `auricle fleet run --help` for what each is."""

    data: str = "synthetic"
    words: str | None = None
    pack: str | None = None
    devices: int | None = None
    min_clips: int = 20
    unseen: int | None = None
    takes: int = 8
    rounds: int = 80
    participation: float = 1.0
    quorum: float = 0.7
    deadline: float = 300.0
    rule: str | None = None
    mode: str | None = None
    local: str | None = None
    preset: str = "practical"
    server_rate: float | None = None
    start: str = "scratch"
    carried: float | None = None
    judge: str = "auto"
    judge_minutes: float = 15.0
    judge_share: float = 0.1
    central: bool = False
    central_epochs: int = 150
    codec: str = "float32"
    seed: int = 0
    port: int = 0
    broker: str | None = None

    def __post_init__(self) -> None:
        """Refuse what cannot be run."""
        get_preset(self.preset).fitted(trained=False, server_rate=self.server_rate)
        if self.rule is not None and self.rule not in rule_names():
            raise SettingsError(f'There is no rule "{self.rule}"; {nearest(self.rule, rule_names())}')
        if self.mode not in (None, "mutual", "supervised"):
            raise SettingsError(f'There is no mode "{self.mode}"; {nearest(str(self.mode), ("mutual", "supervised"))}')
        for name in self.architectures():
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

    def architectures(self, pack: Pack | None = None) -> tuple[str, ...]:
        """The local models that devices take in turn: `mixed` is all five, a comma separates a choice.

        Where none are named it is the larger model of the pack, `crnn-base` of a shipped one that the words choose.
        """
        if self.local is None:
            return LOCALS[:1] if pack is None else (own_model(pack, start=self.start),)
        return LOCALS if self.local == "mixed" else tuple(part.strip() for part in self.local.split(","))

    def save(self, folder: Path) -> None:
        """Keep the settings in a run's folder."""
        write_durably(folder / "settings.json", msgspec.json.format(msgspec.json.encode(self), indent=2) + b"\n")

    @classmethod
    def load(cls, folder: Path) -> FleetSettings:
        """Read the settings of an earlier run; StorageError where it is missing in this folder."""
        try:
            return msgspec.json.decode((folder / "settings.json").read_bytes(), type=cls)
        except OSError as error:
            raise StorageError(f"{folder} holds no run to go on with (no settings.json in it).") from error
        except (msgspec.MsgspecError, UnicodeDecodeError) as error:
            raise StorageError(f"{folder / 'settings.json'} is damaged: {error}.") from error
