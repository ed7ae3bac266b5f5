"""A fleet without a broker: devices and rounds on a clock that only counts, in one process or some.

Devices train with the same trainer, their updates travel as the same bytes and pass the same checks, and the same rule
and server optimizer make the model: a round of a cohort ends with the weights of a live fleet, bit for bit.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import math
from collections.abc import Awaitable, Callable, Coroutine, Mapping
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any, ClassVar

import numpy as np

from auricle.errors import AuricleError
from auricle.process.clock import SYSTEM_CLOCK, Clock, VirtualClock
from auricle_cloud.evaluation.labelled_clips import LabelledClips, labelled_clips
from auricle_cloud.evaluation.validation_set import load_validation
from auricle_cloud.rounds.finished import Newcomer
from auricle_cloud.rounds.inquiry import Judge
from auricle_cloud.rounds.policy import Timing, devices_invited, updates_wanted
from auricle_cloud.rounds.privacy import rule_of
from auricle_cloud.settings import RoundDone, RunSettings
from auricle_cloud.states.attendance import broken_devices, brought_nothing, rounds_back, slow_devices
from auricle_cloud.states.round import MISSING, counted_words
from auricle_edge.training.judge.round_judge import best_states
from auricle_fleet.engine import Constants, constants_of, read_figures
from auricle_fleet.population.behaviour import FleetDevices
from auricle_fleet.population.data import FleetData
from auricle_fleet.population.judging import FleetJudging
from auricle_fleet.population.last_round import LastRound, write_last_round
from auricle_fleet.population.start import Start
from auricle_fleet.population.traces import timelines
from auricle_fleet.settings.check import labelled_folder, learns_from_labelled
from auricle_fleet.settings.fleet_settings import FleetSettings
from auricle_fleet.virtual.book import Book, cohort_of
from auricle_fleet.virtual.checkpoint import ROOM, Checkpoint, DeviceStates
from auricle_fleet.virtual.client import with_unsent
from auricle_fleet.virtual.cohort import Cohorts
from auricle_fleet.virtual.crew import Clients, Crew, Site
from auricle_fleet.virtual.detection import VirtualDetection
from auricle_fleet.virtual.device import VirtualDevice, work_of
from auricle_fleet.virtual.local_crew import crew_of
from auricle_fleet.virtual.model import Model
from auricle_fleet.virtual.order import Ended, Order
from auricle_fleet.virtual.privacy import VirtualPrivacy
from auricle_fleet.virtual.ray_crew import require_ray
from auricle_fleet.virtual.round import VirtualRounds
from auricle_learning.aggregation.cohort import Cohort
from auricle_learning.presets import Preset
from auricle_learning.training.speech_data import DeviceData

log = logging.getLogger("auricle.fleet")

EVERY = 10.0
"""Seconds between two checkpoints: rounds after the last one are made again, to the same bits, by a run that goes on.
With a judge, whose best states are kept as they come, or noise, which no round draws twice, every round is one."""


class VirtualFleet:
    """Coordinator and devices of one run, without links.

    Parameters
    ----------
    settings, data, judging
        Of the run.
    state
        Folder for what the run goes on with.
    clock
        Whom it asks how long its work takes; its rounds have a clock of their own, which only counts.
    """

    constants: ClassVar[Constants] = constants_of(
        read_figures("virtual"),
        links=False,
        all_train=False,
        states_room_bytes=ROOM,
        states_kept=2,
        models_kept=2,
        weights_kept=RunSettings.keep_models,
    )
    lighter: ClassVar[str | None] = None
    coordinator = None
    """There is no process to ask."""

    @staticmethod
    def refusal(settings: FleetSettings) -> str | None:
        """What only agents, links and a broker have, in a sentence; None where there is nothing of that."""
        if settings.mode == "async":
            return "--mode async needs --engine live: the virtual engine has no asynchronous rounds."
        if settings.secure_sum.on:
            return "--secure-sum needs --engine live: the virtual engine has no messages to hide."
        if settings.broker is not None or settings.port:
            return "--broker and --port need --engine live: the virtual engine has no broker."
        if settings.ray is not None and settings.judges:
            return "--ray needs --judge off: the best states of devices that judge are files of this machine."
        cut = next((group.name for group in settings.groups if group.network.cut is not None), None)
        return None if cut is None else f'The group "{cut}" has connections that are cut: that needs --engine live.'

    @staticmethod
    async def require(settings: FleetSettings) -> None:
        """See that Ray is there where it is asked for; SettingsError."""
        if settings.ray is not None:
            require_ray()

    def __init__(
        self,
        settings: FleetSettings,
        data: FleetData,
        judging: FleetJudging,
        state: Path,
        clock: Clock = SYSTEM_CLOCK,
    ) -> None:
        self._settings, self._data, self._pack, self._judging = settings, data, data.pack, judging
        self._devices = FleetDevices(settings, data, judging, clock)
        self.names, self.groups, self.models = self._devices.names, self._devices.groups, self._devices.models
        self.bytes_sent = self.bytes_received = 0
        """Weights that all devices sent and received since this process began."""
        self._folder, self._rows = state / "virtual", state / "coordinator"
        self._fleet: dict[str, VirtualDevice] = {}
        self._model = Model(np.zeros(0, np.float32))
        self._before: Model | None = None
        self._states = DeviceStates(lambda _: None)
        self._invited: set[str] = set()
        """Since the checkpoint."""
        self._detection: VirtualDetection | None = None
        self._privacy: VirtualPrivacy | None = None
        self._missed: dict[str, list[int]] = {}
        """The rounds that devices missed since they counted."""
        self._nothing: dict[str, list[int]] = {}
        """The rounds that speak against devices, since they counted."""
        self._stopped = False
        self._clock = clock
        self._run_clock = VirtualClock()
        """Seconds since the run began."""

    async def run(
        self, start: Start, watch: Callable[[RoundDone], Awaitable[None]], say: Callable[[str], None]
    ) -> None:
        """Run all rounds; parameters as of `Federation.run`.

        Raises
        ------
        AuricleError
            All devices failed in a round, or a disk is full.
        """
        checkpoint = Checkpoint(self._folder, self._pack.identity, self._pack.plugin_table)
        settings, preset, written = self._settings, start.preset, self._clock.monotonic()
        bounded = rule_of(preset.method, settings.limits, hidden=settings.privacy.clip is not None)
        cohorts = Cohorts(self._pack, self._fleet, bounded, settings.limits, await self._load_labelled())
        if settings.detect:
            evaluator = self._judging.evaluator(self._pack)
            judge = Judge(settings.detection, bounded, evaluator, settings.seed, settings.limits)
            server = partial(preset.server_for, rounds=settings.rounds)
            self._detection = VirtualDetection(judge, server, cohorts, self._clock)
        number = await asyncio.to_thread(self._begin, checkpoint, start)
        timing = Timing(settings.quorum, settings.deadline, RunSettings.patience, RunSettings.least_wait)
        site = Site(settings, self._data, self._folder / "devices")
        clients = partial(Clients, site, self._judging, self._clock)
        with contextlib.closing(await self._crew(site, clients, say)) as crew:
            work = work_of(self._pack, preset.plan, self._judging.learn, settings.step_seconds)
            book = await asyncio.to_thread(self._opened, number)
            if settings.privacy.clip is not None:
                self._privacy = VirtualPrivacy(settings, self._fleet, book.noisy())
            rounds = VirtualRounds(cohorts, timing, crew, self._states.get, self._detection, work, self._privacy)
            once = self._judging.learn.judge or self._privacy is not None
            try:
                while number < settings.rounds and (self._privacy is None or self._privacy.budget_refusal is None):
                    done = await self._round(rounds, number + 1, preset, book)
                    number += 1
                    await watch(done)
                    late = self._clock.monotonic() - written >= EVERY
                    if once or late or self._states.is_full:
                        await _to_its_end(asyncio.to_thread(self._keep, checkpoint, number, book))
                        written = self._clock.monotonic()
            finally:
                with contextlib.closing(book):
                    if self._invited:
                        self._keep(checkpoint, number, book)

    async def _load_labelled(self) -> LabelledClips:
        """What rules may learn from."""
        settings = self._settings
        if settings.labelled is None or not learns_from_labelled(settings):
            return LabelledClips()
        named = labelled_folder(settings.labelled)
        if named is None:
            clips = self._judging.labelled()
        else:
            clips = await asyncio.to_thread(load_validation, Path(named), self._pack)
        return labelled_clips(self._pack, clips, settings.seed)

    async def _crew(self, site: Site, clients: Callable[[], Clients], say: Callable[[str], None]) -> Crew:
        """Who trains the devices, begun in a thread: it may take a minute, in which the run may be ended."""
        work = asyncio.ensure_future(asyncio.to_thread(crew_of, site, clients, lambda: self._stopped, say))
        try:
            return await asyncio.shield(work)
        except asyncio.CancelledError:
            self._stopped = True
            for crew in await asyncio.gather(work, return_exceptions=True):
                if not isinstance(crew, BaseException):
                    crew.close()
            raise

    def _begin(self, checkpoint: Checkpoint, start: Start) -> int:
        """Make the devices and the first model, or take up those of the checkpoint; the newest round."""
        note, table = checkpoint.read(), self._pack.plugin_table
        self._states = DeviceStates(checkpoint.state)
        self._devices.require_clips()
        recorded = timelines(self.groups, self._settings.seed)
        for place, (name, group) in enumerate(zip(self.names, self.groups, strict=True)):
            registered, seed = self._devices.registered(place), self._devices.seed(place)
            clips_in = partial(self._clips_in, place)
            device = VirtualDevice(name, place, registered, seed, group, recorded[place], clips_in)
            device.selected, self._fleet[name] = checkpoint.selected(name), device
        if note is None:
            self._model = Model(table.initial(self._settings.seed) if start.weights is None else start.weights)
            return 0
        self._run_clock = VirtualClock(note.clock)
        if self._detection is not None:
            self._detection.restore(note.watch)
        self._model, self._before = checkpoint.models(note)
        return note.round

    def _clips_in(self, place: int, number: int) -> DeviceData:
        return self._devices.clips(place).at(number)

    def _opened(self, number: int) -> Book:
        """The rows of the rounds up to this one."""
        limit = self._settings.detection.quarantine_after if self._settings.detect else 0
        book = Book(self._rows, self._pack, self._clock, limit, self._settings.deadline)
        named = zip(self._fleet.values(), self.models, strict=True)
        known = [Newcomer(each.device, model, each.registered, each.selected) for each, model in named]
        book.begin(number, self._model, known)
        wanted = updates_wanted(len(known), self._settings.participation)
        asked = number + 1, [device.device for device in known], rounds_back(len(known), wanted)
        self._missed, self._nothing = book.missed(*asked), book.nothing(*asked)
        return book

    async def _round(self, rounds: VirtualRounds, number: int, preset: Preset, book: Book) -> RoundDone:
        """Make a round in a thread, and take over what came of it once it has ended."""
        settings, began, opened = self._settings, self._clock.monotonic(), self._clock.now()
        able = self._next(number)
        wanted = updates_wanted(len(able), settings.participation)
        drawn = None if self._privacy is None else self._privacy.draw(able)
        size = devices_invited(len(able), wanted, settings.over_selection) if drawn is None else len(drawn)
        plan = preset.plan_for(number, settings.rounds, settings.seed)
        server, moment = preset.server_for(number, settings.rounds), self._run_clock.now()
        first = number - rounds_back(len(self._fleet), size)
        self._missed, self._nothing = _since(self._missed, first), _since(self._nothing, first)
        slow, broken = slow_devices(self._missed), broken_devices(self._nothing)
        order = Order(
            number, plan, server, size, wanted, settings.seed, moment, book.version, book.newest, slow, broken
        )
        if self._privacy is not None and drawn is not None:
            order = await asyncio.to_thread(self._privacy.begin, replace(order, wanted=min(wanted, size)), drawn)
        work = asyncio.ensure_future(asyncio.to_thread(rounds.run, order, self._model, self._before))
        try:
            ended = await asyncio.shield(work)
        except asyncio.CancelledError:
            self._stopped = True
            await asyncio.gather(work, return_exceptions=True)
            raise
        self._take(number, ended)
        if settings.pictures and ended.cohort is not None:
            await asyncio.to_thread(
                write_last_round, self._folder.parent, _last_round(number, ended.cohort, ended.report)
            )
        if self._privacy is not None:
            self._privacy.note(number, ended.report)
        book.add(order, ended, opened, None if self._privacy is None else self._privacy.budget_refusal)
        self._run_clock.sleep(max(ended.lasted, settings.round_every))
        state, seconds = ("aborted" if ended.model is None else "published"), self._clock.monotonic() - began
        if ended.model is None:
            log.warning("round %d: %s", number, ended.report.get("reason", "aborted"))
        log.info("round %d %s: %s", number, state, counted_words(ended.counted, len(ended.invited), ended.left_out))
        return RoundDone(
            number,
            settings.rounds,
            state,
            self._model.weights,
            seconds,
            len(ended.invited),
            ended.counted,
            ended.report,
            ended.left_out,
            ended.evaluated,
        )

    def _next(self, number: int) -> list[VirtualDevice]:
        """Wait for the moment when a device can be invited to a round; which can then.

        Raises
        ------
        AuricleError
            From now on no device ever can.
        """
        now = self._run_clock.now()
        barred = self._detection.barred if self._detection is not None else frozenset()
        there = [device for device in self._fleet.values() if device.device not in barred]
        if not there:
            raise AuricleError(f"Round {number} cannot begin: every device is quarantined; raise quarantine_after.")
        while not (able := [device for device in there if device.comes(now) <= now]):
            following = min(device.comes(now) for device in there)
            if following == math.inf:
                ended = f"end this run with --resume --rounds {number - 1}, or " if number > 1 else ""
                raise AuricleError(
                    f"Round {number} cannot begin: after {now:g} s no trace has a device that can take part: {ended}"
                    "start a run whose traces repeat."
                )
            now = following
        self._run_clock = VirtualClock(now)
        return able

    def _take(self, number: int, ended: Ended) -> None:
        judged = ended.judged
        if self._detection is not None:
            back, trained = ended.went_back, ended.answers
            self._detection.take(judged, ended.maker, went_back=back, number=number, trained=trained)
        if judged.repaired is not None:
            self._model, self._before = judged.repaired, None
            log.warning("round %d: %s", number, (judged.detection or {})["sentence"])
        for name in ended.invited:
            self._fleet[name].selected += 1
        for name, answer in ended.answers.items():
            if answer.local is not None:
                refused = name in ended.heard.refused  # what was left out before may be why
                self._states.put(name, with_unsent(answer.local, None) if refused else answer.local)
            if answer.verdict is not None and answer.verdict.best is not None:
                model = self.models[self._fleet[name].place]
                best_states(self._pack, model, self._folder / "devices" / name).save(dict(answer.verdict.best))
            self.bytes_sent += len(answer.body)
        self.bytes_received += ended.fetched * len(ended.answers) + judged.fetched * len(judged.losses)
        self._invited |= set(ended.invited)
        self._attend(number, ended)
        if ended.model is not None:
            self._before, self._model = self._model, ended.model
        elif ended.went_back and self._before is not None:
            self._model, self._before = self._before, None

    def _attend(self, number: int, ended: Ended) -> None:
        """Note who missed a round that made a model, and whom a round speaks against."""
        made, came = ended.model is not None, len(ended.heard.updates)
        for name, member in cohort_of(ended).items():
            if name in ended.heard.updates:
                self._missed.pop(name, None)
                self._nothing.pop(name, None)
                continue
            if made and member.state in MISSING:
                self._missed.setdefault(name, []).append(number)
            given_up = not made and not ended.went_back
            if brought_nothing(member.state, given_up=given_up, answered=came, invited=len(ended.invited)):
                self._nothing.setdefault(name, []).append(number)

    def _keep(self, checkpoint: Checkpoint, number: int, book: Book) -> None:
        """Keep what a run goes on with, and the rows of its rounds before that: they may be ahead, and not behind."""
        book.write()
        watch = b"" if self._detection is None else self._detection.to_bytes()
        selected = {name: self._fleet[name].selected for name in self._invited}
        unkept = self._states.unkept()
        checkpoint.write(number, self._model, self._before, unkept, selected, self._run_clock.now(), watch)
        self._states.settle()
        self._invited = set()
        book.trim()


def _last_round(number: int, cohort: Cohort, report: Mapping[str, object]) -> LastRound:
    """The updates of a round as they are kept."""
    groups, maps = report.get("groups"), cohort.extras.maps
    groups = groups.get("of", {}) if isinstance(groups, dict) else {}
    return LastRound(number, cohort.ids, cohort.weights, groups, None if maps is None else maps.astype(np.float32))


def _since(rounds: dict[str, list[int]], first: int) -> dict[str, list[int]]:
    """Rounds of devices without those before this one, and without devices that then have none."""
    near = {name: [each for each in numbers if each >= first] for name, numbers in rounds.items()}
    return {name: numbers for name, numbers in near.items() if numbers}


async def _to_its_end(work: Coroutine[Any, Any, None]) -> None:
    """Wait for what a thread writes, also where the run is interrupted meanwhile: what follows writes there too."""
    writing = asyncio.ensure_future(work)
    try:
        await asyncio.shield(writing)
    except asyncio.CancelledError:
        await writing
        raise
