"""The parts of a device that listens, put together."""

from __future__ import annotations

import logging
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec

from auricle.errors import AuricleError, StorageError
from auricle.files import describe
from auricle.packs.first_weights import choose_weights
from auricle.packs.manifest import SPECIAL_LABELS
from auricle.packs.pack import Pack
from auricle.speech.features import LogMel
from auricle.wire.tensors import Flat
from auricle_edge.board.gate import Gate
from auricle_edge.board.memory import hold_little
from auricle_edge.board.priority import yield_to_detection
from auricle_edge.board.sensors import Sensors
from auricle_edge.clips import ClipStore
from auricle_edge.control.server import FEEDBACK_TOKEN, device_token
from auricle_edge.fleet.agent import Agent
from auricle_edge.fleet.agent_context import AgentSettings
from auricle_edge.fleet.device_rounds import Learnt
from auricle_edge.fleet.report import HearingReporter
from auricle_edge.labels import Labeller
from auricle_edge.listening.assist.badge import Badge
from auricle_edge.listening.assist.settings import require_ready
from auricle_edge.listening.capture.capture import Capture
from auricle_edge.listening.detect import Detector, DetectSettings, detect_settings
from auricle_edge.listening.detect.rules import tune
from auricle_edge.listening.detect.vote import load_voter
from auricle_edge.listening.events.chosen import Device, choose_answers, choose_outputs
from auricle_edge.listening.events.home_device import HomeDevice
from auricle_edge.listening.events.outputs import Output, Outputs
from auricle_edge.listening.listening_status import CaptureState
from auricle_edge.listening.listening_thread import AudioBroadcast, ListeningThread
from auricle_edge.listening.own_thresholds import OwnThresholds
from auricle_edge.listening.sound import Event, Feedback
from auricle_edge.listening.tuning import Tuning
from auricle_edge.ota.following import Following
from auricle_edge.ota.offers import Offers
from auricle_edge.runtimes import choose_runtime
from auricle_edge.runtimes.choice import vote_runtime
from auricle_edge.service.hearing_model import HearingModel
from auricle_edge.service.home_report import BoardFigures, HomeReport
from auricle_edge.settings import EdgeSettings, agent_settings
from auricle_edge.training.judge.sound import Judging
from auricle_edge.training.own_model import own_model, why_not_larger
from auricle_learning.runtimes import frontend_of
from auricle_learning.training.speech_data import DataSource, DeviceData
from auricle_learning.training.train import Trainer

if TYPE_CHECKING:
    from auricle_edge.listening.assist.satellite import Satellite

log = logging.getLogger("auricle.edge")


@dataclass(frozen=True)
class Hooks:
    """Whom the parts tell what happens; each from the thread in which it does."""

    heard: Callable[[Event], None]
    """A word, or a window that closed without one: from the listening thread."""
    ended: Callable[[AuricleError | None], None]
    """The listening is over: from its thread."""
    learnt: Learnt
    tuned: Callable[[int], None]
    """Another sensitivity: from the labelling thread."""
    feedback: Callable[[Feedback], Future[msgspec.Struct]]
    mute: Callable[[bool], object]
    """The home closes or opens the microphone: from a thread of its own."""
    restart: Callable[[], None]
    """A version was installed that is to run."""


class Parts:
    """What a device that listens is made of.

    Parameters
    ----------
    settings, pack
        What was set, and what it runs.
    hooks
        Whom the parts tell what happens.
    readable
        Write events on standard output for a person instead of as JSON.

    Raises
    ------
    AuricleError
        A part cannot work with its settings.
    """

    def __init__(self, settings: EdgeSettings, pack: Pack, hooks: Hooks, *, readable: bool = False) -> None:
        self.settings, self.pack, self._hooks, self._readable = settings, pack, hooks, readable
        folder = settings.folder
        try:
            folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        except OSError as error:
            raise StorageError(describe(error, folder)) from error
        self.choice = choose_runtime(settings.runtime, pack, settings.threads, training=settings.fleet is not None)
        hold_little(self.choice.runtime)
        self._frontend = frontend = frontend_of(self.choice.runtime)
        self.training = ThreadPoolExecutor(1, "train", initializer=yield_to_detection)
        """The thread that trains."""
        self.labelling = ThreadPoolExecutor(1, "label")
        """The thread that writes clips, and chooses what listens."""
        self._satellite: Satellite | None = None
        self._problem: str | None = None
        self._note: str | None = None
        self.capture = Capture(settings.capture, self._capture_changed)
        self.taps = AudioBroadcast()
        self.own_model = own_model(pack, settings.local, settings.start)
        """Name of the model that never leaves the device."""
        self.own_model_reason = why_not_larger(pack, settings.local, settings.start)
        """Why it is not the larger model; None where it is what was wanted."""
        first, plugin = (
            choose_weights(settings.start, pack, model, settings.seed)
            for model in (self.own_model, pack.manifest.plugin)
        )
        for weights in (first, plugin):
            if weights is not None:
                weights.flags.writeable = False  # so that who recognises with them needs no copy
        self.store = ClipStore(folder / "clips", settings.clips, frontend)
        data = self.store.device_data()
        self.detect = detect_settings(settings.detect, pack)
        """Its settings over the pack's; `hearing.detect` has the thresholds that fit what listens now."""
        self.vote = load_voter(pack, partial(vote_runtime, self.choice.runtime, settings.threads), self.detect.vote)
        """The vote of the pack; None where none is heard."""
        self.hearing = HearingModel(
            folder, self.choice.runtime, self.own_model, first, plugin, settings.detect, settings.seed
        )
        chosen = self.hearing.choose(data.held_out).candidate
        self.tuning = Tuning(folder, accepted=settings.remote.sensitivity)
        self.tuning.apply, self.tuning.executor = hooks.tuned, self.labelling
        self.own_thresholds = OwnThresholds(folder, self.detect, self.detect.wake or self.words)
        self.own_thresholds.apply = lambda: hooks.tuned(self.tuning.step)
        self.detector = self._detector(frontend)
        self.labeller = Labeller(self.store, self.detector, settings.labels, chosen.recognise)
        self.detector.watch_near(settings.labels.near_share, self.labeller.almost)
        self.listener = ListeningThread(self.capture, self.detector, hooks.heard, self.taps, hooks.ended)
        self.gate = Gate(
            Sensors(Path("/"), settings.gate),
            settings.gate,
            speaking=lambda: self.speaking,
            muted=lambda: self.capture.state.muted,
        )
        agent = agent_settings(settings)
        self.updates = Following(settings, pack.identity, restart=hooks.restart, busy=lambda: self.trains)
        self.offers = Offers(settings, self.updates, busy=lambda: self.trains)
        self.agent = None if agent is None else self._make_agent(agent, first, data)
        self.reporter = HearingReporter(
            settings.report, folder, self.words, lambda: self.detector.figures, lambda: self.capture.state
        )
        self.rounds = 0
        """Rounds that were trained since the start."""
        self._satellite = self._make_satellite()
        outputs = [*self._make_outputs(), *([] if self._satellite is None else [self._satellite])]
        self.one_answer = choose_answers(outputs)
        """Who settles with other devices which of them answers; None: this one answers everything."""
        answers = None if self.one_answer is None else self.one_answer.answers
        self.outputs = Outputs(outputs, settings.events.waiting, answers)

    @property
    def words(self) -> tuple[str, ...]:
        """The keywords."""
        return tuple(label for label in self.pack.labels if label not in SPECIAL_LABELS)

    @property
    def speaking(self) -> bool:
        """Whether somebody speaks; where no sound comes any more nobody knows, and what was last heard has ended."""
        return self.detector.speaking and self.capture.state.running

    @property
    def trains(self) -> bool:
        """Whether a round is being trained."""
        return self.agent is not None and self.agent.state == "training"

    @property
    def works(self) -> bool:
        """Whether a round or a measurement is under way, as the agent says it."""
        return self.agent is not None and self.agent.works

    @property
    def reached(self) -> bool:
        """Whether the agent has registered at its broker, where there is one."""
        return self.agent is None or (self.agent.link.connected and self.agent.state != "new")

    def make_detector(self) -> Detector:
        """A detector for the sound of somebody else, with the model that listens now."""
        return self._detector(self._frontend)

    @property
    def detect_now(self) -> DetectSettings:
        """What listens with: the thresholds that fit the model, the owner's over them, at the sensitivity of now."""
        return tune(self.own_thresholds.over(self.hearing.detect), self.pack.labels, self.tuning.step)

    def _detector(self, frontend: LogMel) -> Detector:
        now, detect = self.hearing.now.candidate, self.detect_now
        return Detector(frontend, self.pack.labels, now.recognise, detect, model=now.name, vote=self.vote)

    def close(self) -> None:
        """End the threads, and the store."""
        self.training.shutdown(cancel_futures=True)
        self.labelling.shutdown(cancel_futures=True)
        self.store.close()

    def _make_agent(self, agent: AgentSettings, first: Flat | None, data: DeviceData) -> Agent:
        settings = self.settings
        trainer = Trainer(self.choice.runtime, self.own_model, data, settings.seed, first, settings.learn)
        return Agent(
            agent,
            trainer,
            self.training,
            gate=self.gate,
            source=DataSource(self.store.device_data, lambda: self.store.generation),
            learnt=self._hooks.learnt,
            updates=self.updates,
            judging=Judging(self.detect),
            tuning=self.tuning,
        )

    def _make_outputs(self) -> list[Output]:
        words = self.detect.wake or self.words
        device = Device(
            self.settings.name,
            words,
            self.pack.manifest.name,
            self.make_detector,
            self._hooks.feedback,
            lambda: device_token(self.settings.folder, FEEDBACK_TOKEN),
            self._readable,
            self._home_device(),
            self.settings.folder,
        )
        return choose_outputs(self.settings.events, device)

    def _make_satellite(self) -> Satellite | None:
        """Who gives sound to Home Assistant's assistant, where the settings want that."""
        assist = self.settings.assist
        if assist.listen is None:
            return None
        require_ready(assist)
        from auricle_edge.listening.assist.satellite import DeviceEars, Satellite  # with protobuf: only who asked

        ears = DeviceEars(
            name=self.settings.name,
            model=self.pack.manifest.name,
            wake=self.detect.wake,
            recent=self.detector,
            taps=self.taps,
            capture=lambda: self.capture.state,
            folder=self.settings.folder,
            mute=self._hooks.mute,
        )
        return Satellite(assist, ears)

    def _home_device(self) -> HomeDevice:
        def set_threshold(word: str, threshold: float) -> None:
            self.labelling.submit(self.own_thresholds.set, word, threshold).result()

        return HomeDevice(
            name=self.settings.name,
            model=self.pack.manifest.name,
            keywords=self.words,
            state=HomeReport(
                pack=self.pack,
                capture=self.capture,
                offers=self.offers,
                hearing=self.hearing,
                thresholds=self.own_thresholds,
                agent=self.agent,
                rounds=lambda: self.rounds,
                figures=BoardFigures(Sensors(Path("/"), self.settings.gate), self.settings.folder),
            ),
            mute=self._hooks.mute,
            wake=self.detect.wake,
            set_threshold=set_threshold,
            install=self.offers.install if self.settings.events.mqtt_install else None,
            buttons=self.settings.events.mqtt_buttons,
            mac=None if self.settings.assist.listen is None else Badge(self.settings.name).mac,
        )

    def _capture_changed(self, state: CaptureState) -> None:
        if self._satellite is not None:
            self._satellite.on_capture(state)
        if state.problem is not None and state.problem != self._problem:
            log.warning("%s", state.problem)
        self._problem = state.problem
        if state.note is not None and state.note != self._note:
            log.warning("%s", state.note)
            self._note = state.note
