"""A device that listens: its life from the first sound to the last."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import time
from collections.abc import Callable

from auricle.errors import AuricleError
from auricle.mqtt_link.tasks import give_up
from auricle.packs.pack import Pack
from auricle.wire.tensors import Flat
from auricle_edge.control import ControlServer
from auricle_edge.labels.candidates import reconsider
from auricle_edge.listening.events.buttons import Buttons
from auricle_edge.listening.sound import Detection, Event
from auricle_edge.service.home_watch import is_of_home, watch_home
from auricle_edge.service.parts import Hooks, Parts
from auricle_edge.service.questions import Questions, report
from auricle_edge.service.status import summary
from auricle_edge.service.systemd import Notifier
from auricle_edge.service.upkeep import Upkeep
from auricle_edge.settings import EdgeSettings
from auricle_learning.training.train import RoundResult

log = logging.getLogger("auricle.edge")


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
    readable
        Write events on standard output for a person instead of as JSON.

    Raises
    ------
    AuricleError
        A part cannot work with its settings.
    """

    def __init__(
        self, settings: EdgeSettings, pack: Pack, *, notifier: Notifier | None = None, readable: bool = False
    ) -> None:
        began, self._notifier = time.monotonic(), notifier or Notifier()
        self._loop: asyncio.AbstractEventLoop | None = None
        self._over: asyncio.Future[None] | None = None
        self.starts_anew = False
        """Whether the process is to start again with what was just installed, or at another broker."""
        self.moved_to: str | None = None
        """The broker to start again at; None: the same."""
        self.parts = Parts(
            settings,
            pack,
            Hooks(
                heard=self._on_event,
                ended=self._listening_ended,
                learnt=self._learnt,
                tuned=self._on_tune,
                feedback=lambda feedback: self.questions.answer_later(feedback),
                mute=lambda muted: self.questions.mute(muted),
                restart=self._start_anew,
            ),
            readable=readable,
        )
        self.questions = Questions(self.parts, began)
        self._upkeep = Upkeep(self.parts, self._notifier, self._on_event)

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
        parts, settings = self.parts, self.parts.settings
        self._loop = self.questions.loop = asyncio.get_running_loop()
        self._over = self._loop.create_future()
        parts.capture.start()
        control = ControlServer(settings.folder, self.questions, settings.control)
        buttons = Buttons(settings.buttons, self.questions.pressed) if settings.buttons.lines() else None
        tasks: list[asyncio.Task[None]] = []
        try:
            await parts.outputs.start()
            parts.listener.start()
            tasks = self._begin(self._loop)
            self._notifier.ready(summary(parts))
            started()
            await asyncio.wait([self._over, *tasks], return_when=asyncio.FIRST_COMPLETED)
            for ended in (self._over, *tasks):
                if ended.done():
                    ended.result()
        finally:
            if not self.starts_anew:
                self._notifier.stopping()
            give_up(self._over)  # the listening may end with an error meanwhile, and nobody waits for that any more
            await self._end(tasks)
            control.close()
            if buttons is not None:
                buttons.close()
            parts.close()

    def _begin(self, loop: asyncio.AbstractEventLoop) -> list[asyncio.Task[None]]:
        parts = self.parts
        works = [self._upkeep.look_after(), self._upkeep.give_back(), parts.updates.run(self._release_changed)]
        if parts.settings.events.mqtt_install:
            works.append(parts.offers.run())
        if parts.agent is not None:
            works.append(parts.agent.run())
            if is_of_home(parts.settings.folder):
                broker = parts.settings.broker
                works.append(watch_home(parts.settings.folder, broker, lambda: parts.reached, self._move))
            if parts.settings.report.hearing:
                works.append(self._upkeep.report_hearing(parts.agent))
        return [loop.create_task(work) for work in works]

    async def _end(self, tasks: list[asyncio.Task[None]]) -> None:
        self.parts.capture.stop()
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        await asyncio.to_thread(self.parts.listener.join)
        await self.parts.outputs.stop()

    async def _release_changed(self) -> None:
        agent = self.parts.agent
        if agent is not None and agent.state != "new":  # who registers says it
            await agent.say_release()

    def _start_anew(self) -> None:
        """End, and start again with what was just installed."""
        self.starts_anew = True
        if self._over is not None and not self._over.done():
            self._over.set_result(None)

    def _move(self, broker: str) -> None:
        """End, and start again at this broker."""
        self.moved_to = broker
        self._start_anew()

    def _listening_ended(self, error: AuricleError | None) -> None:
        """From the listening thread: end the service, with the error if there is one."""

        def settle() -> None:
            assert self._over is not None
            if not self._over.done():
                self._over.set_result(None) if error is None else self._over.set_exception(error)

        if self._loop is not None:
            with contextlib.suppress(RuntimeError):
                self._loop.call_soon_threadsafe(settle)

    def _on_event(self, event: Event) -> None:
        self.questions.heard(event)
        self.parts.outputs.emit(event)
        if isinstance(event, Detection):
            self.parts.labeller.detected(event)

    # -- what listens

    def _learnt(self, plugin: Flat, result: RoundResult) -> None:
        """After a round: let the model that is best on the held-out clips listen."""
        parts = self.parts
        assert parts.agent is not None
        parts.rounds += 1
        self._upkeep.trained, held_out = time.monotonic(), parts.agent.trainer.data.held_out

        def choose() -> None:
            choice = parts.hearing.learnt(plugin, result.local.weights, held_out)
            self._listen()
            parts.labeller.recognise = choice.candidate.recognise
            reconsider(parts.store, choice.candidate.recognise, parts.settings.labels)
            log.info("%s", choice.reason)

        parts.labelling.submit(choose).add_done_callback(report)

    def _on_tune(self, _: int) -> None:
        """Another sensitivity: in the thread that also chooses what listens."""
        self._listen()

    def _listen(self) -> None:
        """Let the chosen model listen, at the thresholds of now."""
        parts = self.parts
        now, chosen = parts.hearing.now.candidate, parts.detect_now
        parts.detector.replace(now.recognise, now.name, chosen.thresholds, chosen.commands)
