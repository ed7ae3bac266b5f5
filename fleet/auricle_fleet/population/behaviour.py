"""The devices of a run, whatever carries them, and what those of a group do: slow, silent, liars and attackers."""

from __future__ import annotations

import math
from collections import OrderedDict
from collections.abc import Callable
from dataclasses import replace

import numpy as np

from auricle.errors import DataError
from auricle.process.clock import SYSTEM_CLOCK, Clock
from auricle.wire.plan import InferenceLoss, Plan
from auricle.wire.tensors import Flat
from auricle_cloud.rounds.policy import updates_wanted
from auricle_fleet.population.attacks import TOGETHER, Colluders, forged, forged_together, strength_of
from auricle_fleet.population.conditions import RoundClips, named_count
from auricle_fleet.population.data import FleetData
from auricle_fleet.population.judging import FleetJudging
from auricle_fleet.population.partition import device_seed, fresh_labels
from auricle_fleet.population.start import started
from auricle_fleet.settings.fleet_settings import FleetSettings
from auricle_fleet.settings.groups import Group, assigned
from auricle_learning.methods.vectors import declared
from auricle_learning.runtimes import Runtime
from auricle_learning.training.learn_settings import LearnSettings
from auricle_learning.training.mechanism import NOTHING_LENT, LentData
from auricle_learning.training.speech_data import DeviceData
from auricle_learning.training.train import LocalState, RoundResult, Trainer, TrainingStopped

_LOOK = 0.05
"""Seconds between two looks whether the round is over, while a slow device waits."""
MOST_STEPS = 1 << 40
"""Steps that a message has room for."""
REMEMBERED_DEVICES = 1024
"""Devices whose clips stay ready."""
_PLAIN = Group(name="all others")
"""What a device is like that is in no group."""


class GroupTrainer(Trainer):
    """Trains as the devices of a group do.

    Parameters
    ----------
    group
        Whose habits it has.
    runtime, architecture, data, seed, start, settings, clock
        As of `Trainer`.
    waits
        Whether a slow device takes its time; without, only `late` says how long that is.
    force
        The strength of its attack; without, that of the group in a run of this device alone.
    clips
        What it has in each round; without, `data` in all.
    colluders
        Of its group, for attacks that are made together.
    """

    def __init__(
        self,
        group: Group,
        runtime: Runtime,
        architecture: str,
        data: DeviceData,
        seed: int,
        start: Flat | None = None,
        settings: LearnSettings | None = None,
        *,
        clock: Clock = SYSTEM_CLOCK,
        waits: bool = True,
        force: float | None = None,
        clips: RoundClips | None = None,
        colluders: Colluders | None = None,
    ) -> None:
        self.group, self.waits = group, waits
        self._force = strength_of(group, 1, 1) if force is None else force
        self._clips, self._colluders = clips, colluders
        super().__init__(runtime, architecture, data, seed, start, settings, clock=clock)

    def clips_in(self, round_number: int) -> DeviceData:
        """What it has in a round; 0: what it registers with."""
        if self._clips is None:
            return self.data
        return self._clips.at(round_number) if round_number else self._clips.first

    def inference_loss(self, plugin: Flat, kind: InferenceLoss = "ce") -> float:
        """The loss that the device says it has."""
        return self._force if self.group.attack == "loss" else super().inference_loss(plugin, kind)

    def run(
        self,
        plan: Plan,
        round_number: int,
        plugin: Flat,
        state: LocalState,
        checkpoint: Callable[[], bool] = lambda: False,
        lent: LentData = NOTHING_LENT,
    ) -> RoundResult:
        """Train a round, and change what comes out of it; TrainingStopped in a round that is never answered."""
        rng = _habits(self.seed, round_number)
        late = _late(self.group, rng)
        if late is None:
            raise TrainingStopped("This device answers nothing in this round.")
        if self.waits:
            _wait(late, checkpoint, self.clock)
        if (data := self.clips_in(round_number)) is not self.data:
            self.renew(data)
        attack = self.group.attack if self.group.attacks_in(round_number) else None
        if attack == "free-ride":
            return self._claim_without_training(plan, plugin, plugin.copy(), state, late)
        if attack in TOGETHER and self._colluders is not None:
            honest = self._colluders.updates(plan, round_number, plugin, checkpoint)
            sent = plugin + forged_together(attack, honest, self._force)
            return self._claim_without_training(plan, plugin, sent.astype(np.float32), state, late)
        result = super().run(plan, round_number, plugin, state, checkpoint, lent)
        if attack == "samples":
            return replace(result, samples=round(result.samples * self._force))
        if attack == "steps":
            return replace(result, steps=min(MOST_STEPS, round(result.steps * self._force)))
        if attack in (None, "loss", "label-flip"):
            return result
        changed = plugin + forged(attack, result.plugin - plugin, self._force, rng)
        return replace(result, plugin=changed.astype(np.float32))

    def _claim_without_training(
        self, plan: Plan, received: Flat, sent: Flat, state: LocalState, late: float
    ) -> RoundResult:
        """What a device says that trained nothing of its own and claims that it did."""
        loss, count = self.inference_loss(received, plan.inference_loss), self.clips_of(plan)
        said = 0.0 if math.isnan(loss) else loss
        asked = declared(plan, self.pack, gradients=False)
        return RoundResult(
            sent,
            state,
            said,
            1,
            late,
            count.all,
            None,
            None,
            0,
            unsupervised=count.unlabelled,
            vectors={each.name: np.zeros(each.size, np.float32) for each in asked if each.required},
        )


def late_by(group: Group, seed: int, round_number: int) -> float | None:
    """Seconds by which a round takes a device of this seed longer; None where it never answers it."""
    return _late(group, _habits(seed, round_number))


def _habits(seed: int, round_number: int) -> np.random.Generator:
    return np.random.default_rng([seed, round_number, 29])


def _late(group: Group, rng: np.random.Generator) -> float | None:
    silent, late = rng.random() < group.drop_out, rng.uniform(0.5, 1.5) * group.delay
    return None if silent else float(late)


def _wait(seconds: float, checkpoint: Callable[[], bool], clock: Clock) -> None:
    until = clock.monotonic() + seconds
    while (left := until - clock.monotonic()) > 0:
        if checkpoint():
            raise TrainingStopped("The round was stopped.")
        clock.sleep(min(_LOOK, left))


class FleetDevices:
    """The devices of one run.

    Parameters
    ----------
    settings, data, judging
        Of the run.
    clock
        Whom their trainers ask for the time.
    """

    def __init__(
        self, settings: FleetSettings, data: FleetData, judging: FleetJudging, clock: Clock = SYSTEM_CLOCK
    ) -> None:
        self._settings, self._data, self._judging, self._clock = settings, data, judging, clock
        self.names = [f"dev-{i:03d}" for i in range(len(data.devices))]
        self.groups = assigned(settings.groups, len(self.names), settings.seed)
        """Of each device; None: it is in none."""
        self.models = settings.own_models(self.groups, data.pack)
        """Architecture of each device's own model."""

        self._clips: OrderedDict[int, RoundClips] = OrderedDict()
        self._colluders: dict[str, Colluders] = {}

    def seed(self, device: int) -> int:
        """Of everything that a device draws."""
        return device_seed(self._settings.seed, device)

    def trainer(self, device: int, *, waits: bool = True) -> Trainer:
        """What trains a device; without `waits`, a slow one only says how long it would have taken."""
        kind, group, clips = self.models[device], self.groups[device], self.clips(device)
        seed, runtime, learn = self.seed(device), self._judging.runtime, self._judging.learn
        weights = started(self._data, self._settings, kind, seed)
        if group is None and not clips.vary:
            return Trainer(runtime, kind, clips.first, seed, weights, learn, clock=self._clock)
        told, devices = group or _PLAIN, len(self.names)
        return GroupTrainer(
            told,
            runtime,
            kind,
            clips.first,
            seed,
            weights,
            learn,
            clock=self._clock,
            waits=waits,
            force=strength_of(told, devices, updates_wanted(devices, self._settings.participation)),
            clips=clips,
            colluders=self._together(told),
        )

    def registered(self, device: int) -> int:
        """How many clips a device registers with: those with a label, fresh ones included."""
        return named_count(int(self._data.counts[device, 0]), self._labelled_share(device))

    def _labelled_share(self, device: int) -> float:
        """Share of a device's clips that have labels."""
        group = self.groups[device]
        return self._settings.labelled_part if group is None or group.labelled_share is None else group.labelled_share

    def require_clips(self) -> None:
        """See that every device has a clip with a label in its first round, where it shall have any; DataError."""
        if self._settings.partition.fresh is not None:
            for device, share in enumerate(map(self._labelled_share, range(len(self.names)))):
                if share > 0:
                    self.clips(device)

    def clips(self, device: int) -> RoundClips:
        """What a device has in each round."""
        if device not in self._clips:
            settings, group, (_, data) = self._settings, self.groups[device], self._data.devices[device]
            share = self._labelled_share(device)
            labels, seed = self._data.pack.labels, self.seed(device)
            targets = np.concatenate([data.train.targets, data.held_out.targets])
            begins = fresh_labels(targets, len(labels), settings.partition.fresh, seed)
            clips = self._clips[device] = RoundClips(data, group, labels, share, seed, begins, settings.label_errors)
            if len(self._clips) > REMEMBERED_DEVICES:
                self._clips.popitem(last=False)
            if share > 0 and not len(clips.at(1).train):
                raise DataError(
                    f'The device "{self.names[device]}" would have no clip with a label in round 1: raise '
                    "labelled_share, or lower labels of fresh."
                )
            return clips
        return self._clips[device]

    def _together(self, group: Group) -> Colluders | None:
        """The devices of a group whose attack is made together; None: each does its own."""
        if group.attack not in TOGETHER:
            return None
        if group.name not in self._colluders:
            own = [device for device, other in enumerate(self.groups) if other is group]
            plugin, runtime, learn = self._data.pack.manifest.plugin, self._judging.runtime, self._judging.learn
            clips = [self.clips(device) for device in own]
            trainers = [
                Trainer(runtime, plugin, each.first, self.seed(device), None, learn)
                for device, each in zip(own, clips, strict=True)
            ]
            self._colluders[group.name] = Colluders(trainers, clips)
        return self._colluders[group.name]
