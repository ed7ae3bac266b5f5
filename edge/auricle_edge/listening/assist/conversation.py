"""A run of Home Assistant's assistant as the device sees it: from a wake word over the sound to the answer.

    idle -> listening -> thinking -> answering -> idle, or listening again where Home Assistant goes on

What fails on the way is one sentence in the log, and the device is idle again. All methods are for the event loop's
thread.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Mapping, Sequence

from aioesphomeapi import api_pb2 as pb
from aioesphomeapi.model import VoiceAssistantCommandFlag
from aioesphomeapi.model import VoiceAssistantEventType as Kind

from auricle.errors import AuricleError
from auricle.mqtt_link.tasks import start_task
from auricle_edge.listening.assist.answer_source import AnswerOrigin
from auricle_edge.listening.assist.peer import AssistRun, Peer
from auricle_edge.listening.assist.player import Player
from auricle_edge.listening.assist.settings import AssistSettings
from auricle_edge.listening.assist.state_hook import AssistState
from auricle_edge.listening.assist.stream import SoundStream

log = logging.getLogger("auricle.events")

ANOTHER_ANSWERS = "duplicate_wake_up_detected"
"""Home Assistant's code for a word that two of its satellites heard at once."""


class Conversation:
    """The state of the satellite.

    Parameters
    ----------
    settings
        Times, and from where answers may come.
    stream
        The device's sound.
    player
        The loudspeaker.
    changed
        Called with each new state.
    """

    def __init__(
        self, settings: AssistSettings, stream: SoundStream, player: Player, changed: Callable[[AssistState], None]
    ) -> None:
        self._settings, self._stream, self._player, self._on_state = settings, stream, player, changed
        self._run: AssistRun | None = None
        self._timer: asyncio.TimerHandle | None = None
        self._answering: asyncio.Task[None] | None = None
        """Plays an answer; it ends with the player."""
        self.assistant: Peer | None = None
        """Who gets the sound."""
        self.state: AssistState = "idle"
        self.muted = False

    @property
    def runs(self) -> bool:
        """Whether a command is heard, thought about or answered."""
        return self._run is not None

    # -- what begins a run

    def begin(self, first: int | None, phrase: str, wake: str | None = None) -> None:
        """Have a command understood.

        Parameters
        ----------
        first
            Sample from which on the sound is sent; None: from now on.
        phrase
            The wake word; empty where none was said.
        wake
            Its id.
        """
        if self.muted or (self._run is not None and self._stream.runs):
            return
        self.abandon()
        self._player.stop()
        peer = self.assistant
        if peer is None:
            log.warning("%s, and no Home Assistant is connected: nobody was asked.", phrase or "Start was pressed")
            self._fail()
            return
        run = self._run = AssistRun(peer, wake)
        peer.send(
            pb.VoiceAssistantRequest(start=True, flags=VoiceAssistantCommandFlag.USE_VAD, wake_word_phrase=phrase)
        )
        self.say("listening")
        self._later(self._settings.listen_seconds, self._cut)
        self._stream.start(
            self._stream.newest if first is None else first,
            lambda samples: run.peer.send(pb.VoiceAssistantAudio(data=samples)),
        )

    def device_command(self, word: str, wake: str | None) -> None:
        """The device has answered the command itself: Home Assistant is asked no more."""
        run = self._run
        if run is not None and wake is not None and run.wake == wake and not run.answers:
            log.info("%s is a command of this device: Home Assistant is not asked.", word)
            self.abandon()
            self.say("idle")

    # -- what Home Assistant says

    def refuse(self, peer: Peer) -> None:
        """It cannot take the run."""
        if self._run is not None and self._run.peer is peer:
            log.warning("Home Assistant at %s could not begin: see its log.", peer.address)
            self._over(failed=True)

    def event(self, peer: Peer, kind: int, data: Mapping[str, str]) -> None:
        """What becomes of the run."""
        run = self._run
        if run is None or run.peer is not peer:
            return
        if kind == Kind.VOICE_ASSISTANT_RUN_START:
            run.began, run.url = True, data.get("url", "")
        elif not run.began:
            return
        elif kind in (Kind.VOICE_ASSISTANT_STT_VAD_END, Kind.VOICE_ASSISTANT_STT_END):
            self._think()
        elif kind == Kind.VOICE_ASSISTANT_INTENT_PROGRESS and data.get("tts_start_streaming") == "1" and run.url:
            self._answer(run, run.url)
        elif kind == Kind.VOICE_ASSISTANT_INTENT_END:
            run.goes_on = data.get("continue_conversation") == "1"
        elif kind == Kind.VOICE_ASSISTANT_TTS_END and data.get("url"):
            self._answer(run, data["url"])
        elif kind == Kind.VOICE_ASSISTANT_ERROR:
            self._error(data.get("code", "")[:80], data.get("message", "")[:300])
        elif kind == Kind.VOICE_ASSISTANT_RUN_END and not run.answers:
            self._over(failed=False)

    def lose(self, peer: Peer) -> None:
        """A connection is over."""
        if self.assistant is peer:
            self.assistant = None
        run = self._run
        if run is not None and run.peer is peer and not run.answers:
            log.warning("The connection to Home Assistant at %s was lost in a run: it is over.", peer.address)
            self._over(failed=True)

    # -- for who has something else to say

    async def speak(self, peer: Peer, urls: Sequence[str]) -> bool:
        """Play answers, one after the other; whether all came to their end. What cannot be played is in the log."""
        self.say("answering")
        try:
            for url in urls:
                if not await self.play(peer, url, self._settings.play_seconds):
                    return False
        except AuricleError as error:
            log.warning("The answer was not played: %s.", error)
            return False
        return True

    async def play(self, peer: Peer, url: str, seconds: float | None) -> bool:
        """Play what somebody named, as `Player.play`."""
        return await self._player.play(
            url, AnswerOrigin(peer.address, peer.encrypted, self._settings.answers_from), seconds
        )

    def go_on(self, listen: bool) -> None:
        """What was said is over: be idle, or listen without a wake word."""
        self.say("idle")
        if listen:
            self.begin(None, "")

    def abandon(self) -> None:
        """End the run here and at Home Assistant."""
        self._stream.stop()
        self._stop_timer()
        run, self._run = self._run, None
        if run is not None and run.answers:
            self._player.stop()
            run.peer.send(pb.VoiceAssistantAnnounceFinished(success=False))
        elif run is not None:
            run.peer.send(pb.VoiceAssistantRequest(start=False))

    def say(self, state: AssistState) -> None:
        """Be in another state."""
        now: AssistState = "muted" if self.muted and state == "idle" else state
        if now != self.state:
            self.state = now
            self._on_state(now)

    # -- what happens to the device

    def microphone(self, *, muted: bool, running: bool) -> None:
        """The microphone was closed or opened, or gives no more sound."""
        changed, self.muted = self.muted != muted, muted
        if self._stream.runs and (muted or not running):
            why = "muted" if muted else "lost"
            log.warning("The microphone was %s while Home Assistant listened: the run is over.", why)
            self.abandon()
            self.say("idle")
        elif changed and self.state in ("idle", "muted"):
            self.say("idle")

    def stop(self) -> None:
        """End what is heard or said."""
        self.abandon()
        self._player.stop()
        self.say("idle")

    def close(self) -> None:
        """Let go of everything."""
        self.abandon()
        self._player.stop()

    # -- inside a run

    def _cut(self) -> None:
        """Home Assistant has not said that the command is over."""
        assert self._run is not None
        log.info("Home Assistant was sent %g s of sound: that is all.", self._settings.listen_seconds)
        self._run.peer.send(pb.VoiceAssistantAudio(end=True))
        self._think()

    def _think(self) -> None:
        """The command is over, and its answer is waited for."""
        if self._stream.runs:
            self._stream.stop()
            self.say("thinking")
            self._later(self._settings.answer_seconds, self._give_up)

    def _give_up(self) -> None:
        log.warning("Home Assistant gave no answer within %g s.", self._settings.answer_seconds)
        self.abandon()
        self._fail()

    def _error(self, code: str, reason: str) -> None:
        if code == ANOTHER_ANSWERS:
            log.info("Home Assistant has heard the word of another device, too, and answers there.")
        else:
            log.warning("Home Assistant did not understand: %s (%s)", reason, code)
        self._over(failed=code != ANOTHER_ANSWERS)

    def _answer(self, run: AssistRun, url: str) -> None:
        if run.answers:
            return
        self._stream.stop()
        self._stop_timer()
        run.answers = True

        async def answer() -> None:
            said = await self.speak(run.peer, [url])
            if self._run is run:
                run.peer.send(pb.VoiceAssistantAnnounceFinished(success=said))
                self._run = None
                self.go_on(said and run.goes_on)

        self._answering = start_task(answer(), log, "The answer")

    def _over(self, *, failed: bool) -> None:
        """The run has ended at Home Assistant."""
        self._stream.stop()
        self._stop_timer()
        goes_on, self._run = self._run is not None and self._run.goes_on, None
        if failed:
            self._fail()
        else:
            self.go_on(goes_on)

    def _fail(self) -> None:
        self.say("error")
        self.say("idle")

    def _later(self, seconds: float, act: Callable[[], None]) -> None:
        self._stop_timer()
        self._timer = asyncio.get_running_loop().call_later(seconds, act)

    def _stop_timer(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
