"""A device that listens: its parts put together, and what can be asked of it while it runs."""

from __future__ import annotations

import asyncio
import contextlib
import dataclasses
import logging
import time
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from typing import Any

import msgspec
import numpy as np

from auricle import __version__
from auricle.errors import AuricleError
from auricle.packs.first_weights import chosen_weights
from auricle.packs.manifest import SPECIAL_LABELS
from auricle.packs.pack import Pack
from auricle.speech.features import LogMel
from auricle.wire.tensors import Flat
from auricle_edge.board.gate import Gate
from auricle_edge.board.memory import keep_start, rest
from auricle_edge.board.sensors import Sensors
from auricle_edge.clips import ClipStore
from auricle_edge.control import ControlServer
from auricle_edge.fleet.agent import Agent
from auricle_edge.fleet.report import HearingReporter
from auricle_edge.labels import Enrolment, Labeller
from auricle_edge.labels.candidates import reconsider
from auricle_edge.listening.broadcast import AudioBroadcast
from auricle_edge.listening.capture.capture import Capture
from auricle_edge.listening.capture.state import CaptureState
from auricle_edge.listening.detect import Detector, detect_settings
from auricle_edge.listening.detect.sensitivity import tuned
from auricle_edge.listening.events.buttons import Buttons, Press
from auricle_edge.listening.events.chosen import Device, chosen_outputs
from auricle_edge.listening.events.outputs import Output, Outputs
from auricle_edge.listening.feedback import Feedback
from auricle_edge.listening.listener import Listener
from auricle_edge.listening.sound import Detection, Event, Timeout
from auricle_edge.listening.tuning import Tuning
from auricle_edge.ota.following import Following
from auricle_edge.runtimes import choose_runtime
from auricle_edge.service.greeting import quoted
from auricle_edge.service.hearing_model import HearingModel
from auricle_edge.service.notify import Notifier, Pulse
from auricle_edge.settings import EdgeSettings, agent_settings
from auricle_edge.training.judge.sound import Judging
from auricle_edge.training.own_model import own_model, passed_over
from auricle_edge.training.priority import yield_to_detection
from auricle_edge.training.speech_data import DataSource, DeviceData
from auricle_edge.training.train import RoundResult, Trainer

log = logging.getLogger("auricle.edge")

TICK = 0.5
"""Seconds between two looks after labels, the watchdog and the memory."""
SETTLED = 5.0
"""Seconds after the start, or after a round, from which on memory that only they needed is given back."""
SILENCE = 30.0
"""Seconds without a sign of sound, though it is not muted, after which the device is not well."""
LIVE = 0.1
"""Seconds between two lines of a live view."""


class ListeningDevice:
    """Everything between the microphone and the fleet.

    Parameters
    ----------
    settings
        What was set.
    pack
        What it runs.
    notifier
        Tells systemd; without, by the environment.

    Raises
    ------
    AuricleError
        A part cannot work with its settings.
    """

    def __init__(self, settings: EdgeSettings, pack: Pack, *, notifier: Notifier | None = None) -> None:
        self.settings, self.pack = settings, pack
        folder, frontend = settings.folder, LogMel(pack.manifest.task)
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        self.choice = choose_runtime(settings.runtime, pack, settings.threads, training=settings.fleet is not None)
        self._notifier, self._pulse, self._began = notifier or Notifier(), Pulse(), time.monotonic()
        self._executor = ThreadPoolExecutor(1, "train", initializer=yield_to_detection)
        self._labelling = ThreadPoolExecutor(1, "label")
        self.capture = Capture(settings.capture, self._capture_changed)
        self.taps = AudioBroadcast()
        self.own_model = own_model(pack, settings.local, settings.start)
        """Name of the model that never leaves the device."""
        self.own_model_reason = passed_over(pack, settings.local, settings.start)
        """Why it is not the larger model; None where it is what was wanted."""
        first, plugin = (
            chosen_weights(settings.start, pack, model, settings.seed)
            for model in (self.own_model, pack.manifest.plugin)
        )
        self.store = ClipStore(folder / "clips", settings.clips, frontend)
        data = self.store.device_data()
        self.detect = detect_settings(settings.detect, pack)
        """What it listens with: its settings over the pack's."""
        self.hearing = HearingModel(
            folder, self.choice.runtime, self.own_model, first, plugin, self.detect, settings.seed
        )
        chosen = self.hearing.choose(data.held_out).candidate
        self.tuning = Tuning(folder, accepted=settings.remote.sensitivity)
        self.tuning.apply, self.tuning.executor = self._tuned, self._labelling
        detect = tuned(self.detect, pack.labels, self.tuning.step)
        self.detector = Detector(frontend, pack.labels, chosen.recognise, detect, model=chosen.name)
        self.labeller = Labeller(self.store, self.detector, settings.labels, chosen.recognise)
        self.detector.watch_near(settings.labels.near_share, self.labeller.almost)
        self.listener = Listener(self.capture, self.detector, self._heard, self.taps, self._listening_ended)
        self.gate = Gate(
            Sensors(Path("/"), settings.gate),
            settings.gate,
            speaking=lambda: self.detector.speaking,
            muted=lambda: self.capture.state.muted,
        )
        self._agent_settings = agent_settings(settings)
        self.updates = Following(settings, pack.identity, restart=self._start_anew, busy=self._trains)
        self.starts_anew = False
        """Whether the process is to start again with what was just installed."""
        self.agent = None if self._agent_settings is None else self._make_agent(first, data)
        self.reporter = HearingReporter(
            settings.report, folder, self.words, lambda: self.detector.figures, lambda: self.capture.state
        )
        self.outputs = Outputs(self._make_outputs(), settings.events.waiting)
        self._last: Detection | None = None
        self._event: Event | None = None
        self._loop: asyncio.AbstractEventLoop | None = None
        self._over: asyncio.Future[None] | None = None
        self._trained: float | None = None
        """When training was last seen, until its memory was given back."""
        self._tell = ""

    # -- its parts

    def _make_agent(self, first: Flat | None, data: DeviceData) -> Agent:
        assert self._agent_settings is not None
        settings = self.settings
        trainer = Trainer(self.choice.runtime, self.own_model, data, settings.seed, first, settings.learn)
        source = DataSource(self.store.device_data, lambda: self.store.generation)
        return Agent(
            self._agent_settings,
            trainer,
            self._executor,
            gate=self.gate,
            source=source,
            learnt=self._learnt,
            updates=self.updates,
            judging=Judging(self.detect),
            tuning=self.tuning,
        )

    def _make_outputs(self) -> list[Output]:
        words = self.detect.wake or self.words
        device = Device(self.settings.name, words, self.pack.manifest.name, self._another_detector, self._answer_later)
        return chosen_outputs(self.settings.events, device)

    def _another_detector(self) -> Detector:
        """A detector for the sound of somebody else, with the model that listens now."""
        now = self.hearing.now.candidate
        frontend = LogMel(self.pack.manifest.task)
        detect = tuned(self.detect, self.pack.labels, self.tuning.step)
        return Detector(frontend, self.pack.labels, now.recognise, detect, model=now.name)

    @property
    def words(self) -> tuple[str, ...]:
        """The keywords."""
        return tuple(label for label in self.pack.labels if label not in SPECIAL_LABELS)

    # -- life

    async def run(self, started: Callable[[], None] = lambda: None) -> None:
        """Listen until cancelled, or until a recording is over.

        Parameters
        ----------
        started
            Called once it listens and can be asked.

        Raises
        ------
        AuricleError
            A part cannot start, or the listening failed.
        """
        self._loop = asyncio.get_running_loop()
        self._over = self._loop.create_future()
        self.capture.start()
        control = ControlServer(self.settings.folder, self, self.settings.control)
        buttons = Buttons(self.settings.buttons, self._pressed) if self.settings.buttons.lines() else None
        tasks: list[asyncio.Task[None]] = []
        try:
            await self.outputs.start()
            self.listener.start()
            tasks = [self._loop.create_task(work()) for work in (self._look_after, self._give_back)]
            tasks.append(self._loop.create_task(self.updates.run(self._release_changed)))
            if self.agent is not None:
                tasks.append(self._loop.create_task(self.agent.run()))
                if self.settings.report.hearing:
                    tasks.append(self._loop.create_task(self._report_hearing(self.agent)))
            self._notifier.ready(self._summary())
            started()
            await asyncio.wait([self._over, *tasks], return_when=asyncio.FIRST_COMPLETED)
            for ended in (self._over, *tasks):
                if ended.done():
                    ended.result()
        finally:
            if not self.starts_anew:
                self._notifier.stopping()
            self.capture.stop()
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)
            await asyncio.to_thread(self.listener.join)
            await self.outputs.stop()
            control.close()
            if buttons is not None:
                buttons.close()
            self._executor.shutdown(cancel_futures=True)
            self._labelling.shutdown(cancel_futures=True)
            self.store.close()

    async def _look_after(self) -> None:
        """Labels, the watchdog, what systemd shows."""
        assert self._loop is not None
        fed, failures = 0.0, self.listener.failures
        frontend = self.pack.manifest.task.frontend
        silence = np.zeros((1, self.pack.manifest.task.frames, frontend.mels), np.float32)
        await self._loop.run_in_executor(self._labelling, self.hearing.now.candidate.recognise, silence)
        while True:
            await asyncio.sleep(TICK)
            for done in await self._loop.run_in_executor(self._labelling, self.labeller.tick):
                log.info("%s", done.said)
            state, now = self.capture.state, time.monotonic()
            self._without_sound(state, now)
            well = self._pulse.beats(state.last_progress, sum(state.restarts.values()), state.muted, now)
            if well and now - fed >= (self._notifier.interval or 0) / 2:
                self._notifier.alive()
                fed = now
            self._notifier.status(self._summary())
            judges, failures = self.listener.failures == failures, self.listener.failures
            self.updates.watch(judges and self._hears(state, now) and self._is_reached())

    def _hears(self, state: CaptureState, now: float) -> bool:
        """Whether sound comes, unless it is not wanted."""
        return state.muted or (state.last_progress is not None and now - state.last_progress < SILENCE)

    def _is_reached(self) -> bool:
        """Whether the agent has registered at its broker, where there is one."""
        return self.agent is None or (self.agent.link.connected and self.agent.state != "new")

    def _trains(self) -> bool:
        return self.agent is not None and self.agent.state == "training"

    async def _release_changed(self) -> None:
        if self.agent is not None and self.agent.state != "new":  # who registers says it
            await self.agent.say_release()

    def _start_anew(self) -> None:
        """End, and start again with what was just installed."""
        self.starts_anew = True
        if self._over is not None and not self._over.done():
            self._over.set_result(None)

    async def _give_back(self) -> None:
        """What only the start and the rounds needed."""
        assert self._loop is not None
        await asyncio.sleep(SETTLED)
        await self._loop.run_in_executor(self._labelling, keep_start)
        while True:
            await asyncio.sleep(TICK)
            if self.agent is not None and self.agent.state == "training":
                self._trained = time.monotonic()
            elif self._trained is not None and time.monotonic() - self._trained >= SETTLED:
                self._trained = None
                await self._loop.run_in_executor(self._executor, rest, self.choice.runtime)

    async def _report_hearing(self, agent: Agent) -> None:
        """Tell the coordinator how well the device hears: only where its owner has allowed it."""
        assert self._loop is not None
        while True:
            await asyncio.sleep(TICK)
            self.reporter.look(agent.base)
            if not self.reporter.due or not self._is_reached():
                continue
            try:
                ended = await self._loop.run_in_executor(self._labelling, self.reporter.end)
                if ended is not None:
                    await agent.say_hearing(*ended)
            except AuricleError as error:
                log.warning("A report of hearing was not sent: %s", error)

    def _listening_ended(self, error: AuricleError | None) -> None:
        """From the listening thread: end the service, with the error if there is one."""

        def settle() -> None:
            assert self._over is not None
            if not self._over.done():
                self._over.set_result(None) if error is None else self._over.set_exception(error)

        if self._loop is not None:
            with contextlib.suppress(RuntimeError):
                self._loop.call_soon_threadsafe(settle)

    def _capture_changed(self, state: Any) -> None:
        if state.problem is not None and state.problem != self._tell:
            log.warning("%s", state.problem)
        self._tell = state.problem

    def _heard(self, event: Event) -> None:
        self._event = event
        self.outputs.emit(event)
        if isinstance(event, Detection):
            self._last = event
            self.labeller.detected(event)

    def _without_sound(self, state: CaptureState, now: float) -> None:
        """Close the window after a wake word where no sound comes in which a command could be heard."""
        silent = state.last_progress is None or now - state.last_progress > self.detect.window
        if self.detector.state == "awake" and (state.muted or silent):
            closed = self.detector.sleep()
            if closed is not None:
                self._heard(closed)

    def _learnt(self, plugin: Flat, result: RoundResult) -> None:
        """After a round: let the model that is best on the held-out clips listen."""
        assert self.agent is not None
        self._trained, held_out = time.monotonic(), self.agent.trainer.data.held_out

        def choose() -> None:
            choice = self.hearing.learnt(plugin, result.local.weights, held_out)
            self.detector.replace(choice.candidate.recognise, choice.candidate.name)
            self.labeller.recognise = choice.candidate.recognise
            reconsider(self.store, choice.candidate.recognise, self.settings.labels)
            log.info("%s", choice.reason)

        self._labelling.submit(choose).add_done_callback(_report)

    def _tuned(self, step: int) -> None:
        """Another sensitivity: in the thread that also chooses what listens."""
        now = self.hearing.now.candidate
        chosen = tuned(self.detect, self.pack.labels, step)
        self.detector.replace(now.recognise, now.name, chosen.thresholds, chosen.commands)

    # -- what can be asked

    def status(self) -> Mapping[str, Any]:
        """How the device is: its parts' own words."""
        state, figures = self.capture.state, self.detector.figures
        now, gate = time.monotonic(), self.agent.gate.decision if self.agent is not None else None
        sound = dataclasses.asdict(state) | {
            "last_progress": None,
            "seconds_since_sound": None if state.last_progress is None else round(now - state.last_progress, 3),
        }
        return {
            "device": self.settings.name,
            "agent": __version__,
            "pack": self.pack.identity,
            "pack_name": self.pack.manifest.name,
            "running_seconds": round(now - self._began, 1),
            "capture": sound,
            "listening": dataclasses.asdict(figures),
            "judging_failures": self.listener.failures,
            "model": self.hearing.now.candidate.name,
            "model_reason": self.hearing.now.reason,
            "own_model": self.own_model,
            "own_model_reason": self.own_model_reason,
            "state": self.detector.state,
            "wake": self.detect.wake,
            "window": self.detect.window,
            "second_stage": self.detect.second_stage,
            "gate": None if gate is None else dataclasses.asdict(gate),
            "fleet": None
            if self.agent is None
            else {
                "name": self.settings.fleet,
                "connected": self.agent.link.connected,
                "state": self.agent.state,
                "last_error": self.agent.link.last_error,
                "other_pack": self.agent.other_pack,
            },
            "updates": dataclasses.asdict(self.updates.standing()),
            "sensitivity": {"step": self.tuning.step, "remote": self.tuning.accepted},
            "report": {
                "hearing": self.settings.report.hearing and self.agent is not None,
                "words": self.settings.report.words,
                "last": None if self.reporter.last is None else dataclasses.asdict(self.reporter.last),
            },
            "outputs": {name: dataclasses.asdict(counts) for name, counts in self.outputs.delivered.items()},
            "last": None if self._last is None else dataclasses.asdict(self._last),
        }

    def answer(self, feedback: Feedback, newest: str | None = None) -> Mapping[str, Any]:
        """Take feedback; AuricleError when there is nothing that it could be about.

        Parameters
        ----------
        newest
            Id of the detection that was the newest when the feedback came, where that is some time ago.
        """
        if feedback.verdict == "confirm":
            done = self.labeller.confirm(feedback.id, newest=newest)
        elif feedback.verdict == "deny":
            done = self.labeller.deny(feedback.id, feedback.word, newest=newest)
            if done.detection is not None:
                self.detector.denied(done.detection)
        else:
            done = self.labeller.missed(feedback.word)
            self.reporter.missed()
        answered: dict[str, Any] = msgspec.structs.asdict(done)
        return answered

    def mute(self, muted: bool) -> Mapping[str, Any]:
        """Close or open the microphone."""
        self.capture.mute(muted, "command")
        if self.agent is not None and self._loop is not None:
            asyncio.run_coroutine_threadsafe(self.agent.gate.look(), self._loop)
        return {"muted": self.capture.state.muted}

    def live(self) -> Iterator[Mapping[str, Any]]:
        """Level, posteriors, state and events, ten times a second."""
        seen = self._event
        while True:
            state = self.capture.state
            line: dict[str, Any] = {
                "level_dbfs": state.level_dbfs,
                "clipping": state.clipping,
                "muted": state.muted,
                "running": state.running,
                "problem": state.problem,
                "speaking": self.detector.speaking,
                "posteriors": self.detector.posteriors,
                "state": self.detector.state,
            }
            if self._event is not seen and self._event is not None:
                seen = self._event
                line["timeout" if isinstance(seen, Timeout) else "detection"] = dataclasses.asdict(seen)
            yield line
            time.sleep(LIVE)

    def enrol(self, word: str, takes: int, keep: bool) -> Iterator[Mapping[str, Any]]:
        """Record takes of a word from the sound that comes."""
        recognise = self.hearing.now.candidate.recognise
        enrolment = Enrolment(word, takes, self.store, self.settings.labels, recognise, keep=keep)
        with self.labeller.paused(), self.taps.listening() as blocks:
            for step in enrolment.run(blocks):
                yield msgspec.structs.asdict(step)

    # -- inside

    def _answer_later(self, feedback: Feedback) -> Future[Mapping[str, Any]]:
        """Feedback from the loop's thread, or a button's: it may write to the disk, so another thread takes it.

        What is the newest detection is settled now, not when that thread gets to it.
        """
        done = self._labelling.submit(self.answer, feedback, self.labeller.newest)
        done.add_done_callback(_report)
        return done

    def _pressed(self, press: Press) -> None:
        word = self.settings.buttons.missed_word if press == "missed" else None
        self._answer_later(Feedback(press, word=word))

    def _summary(self) -> str:
        state = self.capture.state
        if state.muted:
            return "Muted."
        if not state.running:
            return state.problem or "Waiting for sound."
        wanted = quoted(self.detect.wake) or f"{len(self.words)} words"
        apart = "" if self.agent is None or self.agent.other_pack is None else f" {self.agent.other_pack}"
        return f"Listening to {state.device} for {wanted} with the {self.hearing.now.candidate.name} model.{apart}"


def _report(done: Any) -> None:
    """Log what went wrong in another thread."""
    error = None if done.cancelled() else done.exception()
    if isinstance(error, AuricleError):
        log.warning("%s", error)
    elif error is not None:
        log.error("A task failed in an unforeseen way", exc_info=error)
    elif not done.cancelled() and isinstance(done.result(), Mapping):
        log.info("%s", done.result().get("said"))
