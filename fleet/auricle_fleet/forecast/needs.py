"""What a run takes with an engine: time, memory, bytes on the wire, open files, disk."""

from __future__ import annotations

import math
from pathlib import Path

import numpy as np
from msgspec import UNSET, Struct

from auricle.packs.first_weights import choose_weights
from auricle.packs.pack import SLOTS
from auricle.speech.row_store import Spill
from auricle.wire.update_codec import MOVES, length_of
from auricle.wire.vectors import bytes_of
from auricle_cloud.rounds.policy import devices_invited, quorum_of, updates_wanted
from auricle_edge.fleet.agent_context import AgentSettings
from auricle_edge.listening.detect import DetectTable, detect_settings
from auricle_edge.training.judge.sound import load_negatives
from auricle_fleet.engines import ENGINES
from auricle_fleet.forecast.constants import (
    AT_ONCE,
    END_MEMORY,
    FEATURE_MEMORY,
    OF_FEATURES,
    READ,
    RELAY_FILES,
    SPOKEN_SECONDS,
)
from auricle_fleet.forecast.crowd import Crowd
from auricle_fleet.forecast.speed import Speed
from auricle_fleet.population.judging import MEASURED_MINUTES
from auricle_fleet.settings.fleet_settings import BROKERS, FleetSettings
from auricle_fleet.settings.start_from import require_model
from auricle_fleet.virtual.local_crew import processes_of
from auricle_learning.methods.passes import graph_optimizer
from auricle_learning.presets import Preset
from auricle_learning.training.step_count import epochs_of


class Needs(Struct, frozen=True, kw_only=True):
    """Of one engine; None is what this engine does not have."""

    memory: int
    """Most bytes of its process at any time, the broker's counted."""
    up_round: int
    """Bytes that all devices together send in a round after the first."""
    down_round: int
    up: int
    """Bytes that they send in the whole run."""
    down: int
    files: int
    """Open files and connections of the run's process."""
    broker_files: int
    disk: int
    """Bytes of the run's folder, at most."""
    answers: int
    """Devices that train in a round."""


class Times(Struct, frozen=True, kw_only=True):
    """Of one engine, on this machine when it has nothing else to do."""

    prepare: float
    """Seconds until the first round begins."""
    round: float
    cpu: float
    """CPU seconds of a round, of all cores together."""
    run: float
    """Seconds of everything, the central training counted where there is one."""


class Needed:
    """Adds up what a run takes.

    Parameters
    ----------
    settings, crowd
        Of the run.

    Raises
    ------
    PackError
        The rule asks the devices for what the pack's graphs cannot do, or models are to start from trained weights that
        the pack does not have.
    SettingsError
        The model of another run to start from is not there.
    """

    def __init__(self, settings: FleetSettings, crowd: Crowd) -> None:
        self._settings, self._crowd = settings, crowd
        self.preset: Preset = settings.preset_for(trained=settings.start == "pack")
        self.preset.require_pack(crowd.pack)
        for model in {crowd.pack.manifest.plugin, *crowd.models}:
            choose_weights(settings.own_start, crowd.pack, model, settings.seed, crowd.origin)
        require_model(settings.start)
        task = crowd.pack.manifest.task
        self.clip_bytes = 4 * task.frames * task.frontend.mels
        self._plugin = crowd.pack.plugin_table.size
        self._epochs = epochs_of(crowd.pack, self.preset.plan)
        wanted = updates_wanted(crowd.devices, settings.participation)
        self.invited = devices_invited(crowd.devices, wanted, settings.over_selection)
        silent = sum(group.drop_out for group in crowd.groups if group is not None) / crowd.devices
        self._wanted, self._answering = wanted, 1 - silent
        self._own_broker = settings.broker is None or settings.broker in BROKERS

    def needs(self, engine: str, seconds: float = 0.0) -> Needs:
        """Everything but time.

        Parameters
        ----------
        seconds
            Of a round: in long ones devices ask what is next.
        """
        has, crowd, rounds = ENGINES[engine].constants, self._crowd, self._settings.rounds
        trains = self._trains(engine)
        asked = crowd.devices * seconds / AgentSettings.ask_every
        up_round = trains * (self._sent() + has.sent_round_bytes) + asked * has.sent_asking_bytes
        receive = self.invited if has.all_train else trains
        down_round = receive * (4 * self._plugin + has.received_round_bytes + self.preset.lent_with(crowd.pack))
        down_round += asked * has.received_asking_bytes
        once = crowd.devices
        relays = sum(group is not None and not group.network.is_perfect for group in crowd.groups)
        files = has.base_files + has.device_files * crowd.devices + RELAY_FILES * relays * has.links
        broker = has.broker_memory_bytes + has.broker_device_bytes * crowd.devices
        return Needs(
            memory=round(self._memory(engine, trains) + self._own_broker * broker),
            up_round=round(up_round),
            down_round=round(down_round),
            up=round(rounds * up_round + once * has.sent_once_bytes),
            down=round(rounds * down_round + once * has.received_once_bytes),
            files=math.ceil(files),
            broker_files=has.broker_files + crowd.devices if has.links and self._own_broker else 0,
            disk=round(self._disk(engine, trains)),
            answers=round(trains),
        )

    def times(self, engine: str, speeds: dict[str, Speed], cores: int) -> Times:
        """How long it takes.

        Parameters
        ----------
        speeds
            Of this machine, by the devices' own models.
        cores
            On which devices train at once.
        """
        has, crowd, settings = ENGINES[engine].constants, self._crowd, self._settings
        any_speed = next(iter(speeds.values()))
        trains = self._trains(engine)
        client = float(np.mean([self._client(i, speeds[model]) for i, model in enumerate(crowd.models)]))
        judged = (crowd.unseen + self._windows(MEASURED_MINUTES)) * any_speed.plugin
        trained, beside = trains * client, trains * has.client_seconds + judged
        each = trained / cores + beside
        made = crowd.clips * (SPOKEN_SECONDS / cores if crowd.synthetic else READ)
        used = float(crowd.trained.sum() + crowd.held_out.sum()) + crowd.unseen

        def train(clips: int, epochs: int) -> float:
            return epochs * math.ceil(clips / any_speed.batch) * any_speed.step

        prepare = made + used * any_speed.features + has.start_seconds + train(crowd.labelled, settings.pretrain)
        central = train(int(crowd.trained.sum()), settings.central_epochs) if settings.central else 0.0
        return Times(prepare=prepare, round=each, cpu=trained + beside, run=prepare + settings.rounds * each + central)

    def _client(self, device: int, speed: Speed) -> float:
        """Seconds of one core for a device's round."""
        plan, settings = self.preset.plan, self._settings
        trained, held = int(self._crowd.trained[device]), int(self._crowd.held_out[device])
        mutual = plan.mode == "mutual"
        steps = self._epochs * math.ceil(trained / speed.batch)
        seconds = steps * speed.step + (trained + held) * speed.plugin + held * (speed.own if mutual else speed.plugin)
        if settings.judges:  # what it trained, and its own model before and after; all listen to one received plug-in
            models = speed.plugin + (2 * speed.own if mutual else 0.0)
            seconds += settings.judge_share * self._windows(settings.judge_minutes) * models
        return seconds

    def _windows(self, minutes: float) -> float:
        """Windows that the detector looks at in what there is of so many minutes of negatives."""
        pack = self._crowd.pack
        detect = detect_settings(DetectTable(), pack)
        if pack.manifest.negatives is UNSET:
            return min(minutes * 60, self._crowd.unseen / 2) / detect.hop
        return load_negatives(pack, detect, self._settings.judge_minutes).streams.hours * 3600 / detect.hop

    def _trains(self, engine: str) -> float:
        """Devices that train and answer in a round, on average."""
        awaited = max(min(self.invited, self._wanted), self._quorum())
        there = self.invited if ENGINES[engine].constants.all_train else awaited
        return there * self._answering

    def _quorum(self) -> int:
        return quorum_of(self.invited, self._settings.quorum)

    def _sent(self) -> int:
        """Bytes of an update's weights, and of the vectors after them, as they travel."""
        pack = self._crowd.pack
        return length_of(pack.plugin_table, self._settings.codec) + bytes_of(self.preset.declared(pack))

    def _state(self, model: str) -> int:
        """Bytes of what a device has learnt."""
        pack, plan = self._crowd.pack, self.preset.plan
        own, vectors = pack.table(model).size, 0
        if plan.keep_state:
            trained = own + self._plugin if plan.mode == "mutual" else self._plugin
            vectors = len(SLOTS[graph_optimizer(plan)]) * trained
        beside = bool(plan.method) + (self._settings.codec in MOVES)
        return 4 * (own + vectors + beside * self._plugin)

    @property
    def whole_states(self) -> int:
        """Bytes of what all devices have learnt, once each has trained."""
        return sum(self._state(model) for model in self._crowd.models)

    def state_bytes(self, engine: str) -> float:
        """Bytes of it in memory in the end; a live device that never trained has its first model."""
        crowd, often = self._crowd, min(1.0, self._times_each(engine))
        room = ENGINES[engine].constants.states_room_bytes
        if room < math.inf:
            return min(often * self.whole_states, room)
        first = sum(4 * crowd.pack.table(model).size for model in crowd.models)
        return often * self.whole_states + (1 - often) * first

    def _times_each(self, engine: str) -> float:
        """How often a device trains in the whole run, on average."""
        return self._settings.rounds * self._trains(engine) / self._crowd.devices

    @property
    def _of_devices(self) -> int:
        """Bytes of the devices' clips as energies."""
        crowd = self._crowd
        clips = int(crowd.trained.sum() + crowd.held_out.sum())
        return min(clips, crowd.clips) * self.clip_bytes  # one that several devices have is there once

    @property
    def _mapped_bytes(self) -> int:
        """Bytes of them that lie in a file, which the system keeps in memory as far as there is room."""
        return self._of_devices if self._of_devices > Spill(Path()).above else 0

    def _memory(self, engine: str, trains: float) -> float:
        has, crowd = ENGINES[engine].constants, self._crowd
        task = crowd.pack.manifest.task
        sound = crowd.clips * task.clip_samples * 2
        clips = self._of_devices - self._mapped_bytes + 2 * crowd.unseen * self.clip_bytes  # these as features, too
        for device, group in enumerate(crowd.groups):
            copies = int(self._settings.partition.fresh is not None)
            copies += 0 if group is None else (group.noise_db is not None) + (group.attack == "backdoor")
            clips += copies * int(crowd.trained[device] + crowd.held_out[device]) * self.clip_bytes
        at_once = max(int((crowd.trained + crowd.held_out).max()), min(AT_ONCE, crowd.unseen))
        loading = max(2 * sound if crowd.synthetic else 0, sound + clips + at_once * FEATURE_MEMORY * task.seconds)
        processes = processes_of(self._settings, crowd.devices) if has.process_memory_bytes else 1
        others = has.process_memory_bytes * processes if processes > 1 else 0.0
        running = others + clips + self.state_bytes(engine) + has.device_memory_bytes * crowd.devices
        running += has.update_memory_ratio * 4 * self._plugin * trains
        running += OF_FEATURES * self.preset.lent_with(crowd.pack) + trains * bytes_of(self.preset.declared(crowd.pack))
        return max(has.base_memory_bytes - END_MEMORY + loading, has.base_memory_bytes + running)

    def _disk(self, engine: str, trains: float) -> float:
        has, crowd, settings = ENGINES[engine].constants, self._crowd, self._settings
        best = (
            sum(4 * (self._plugin + crowd.pack.table(model).size) for model in crowd.models) if settings.judges else 0
        )
        rows = settings.rounds * trains * has.row_disk_bytes
        updates = trains * self._sent() if has.models_kept > 2 else 0  # of the newest round, at the coordinator
        kept = (4 + self._optimizer_bytes()) * self._plugin + self.preset.lent_with(crowd.pack)
        models = min(settings.rounds + 1, has.models_kept) * kept
        models += min(settings.rounds + 1, has.weights_kept) * 4 * self._plugin
        devices = min(has.states_kept, self._times_each(engine)) * self.whole_states + best
        devices += has.device_disk_bytes * crowd.devices
        return has.base_disk_bytes + self._mapped_bytes + devices + updates + models + rows

    def _optimizer_bytes(self) -> int:
        """Bytes a weight of what is kept with a model: two moments in float64 at most."""
        return 16 if self.preset.server.kind != "none" or self.preset.method.get_rule().step else 0
