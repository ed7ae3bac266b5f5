"""What the loudspeaker says outside of a run: announcements, a timer that is over, and music."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Coroutine, Sequence
from typing import Any

import numpy as np
from aioesphomeapi import api_pb2 as pb
from numpy.typing import NDArray

from auricle.errors import AuricleError
from auricle.mqtt_link.tasks import start_task
from auricle_edge.listening.assist.conversation import Conversation
from auricle_edge.listening.assist.peer import Peer
from auricle_edge.listening.assist.player import Player
from auricle_edge.listening.sound import RATE

log = logging.getLogger("auricle.events")

RING_SECONDS = 60.0
"""For so long a timer rings that nobody ends."""
_TONES = ((880.0, 0.12), (0.0, 0.06), (1320.0, 0.12), (0.0, 0.7))
"""Hz and seconds of what a timer plays; 0 Hz is a pause."""
_LEVEL, _EDGE = 8_000.0, 0.01


class Announcer:
    """Says things in turn; what begins ends what was before.

    Parameters
    ----------
    conversation
        Which run it interrupts.
    player
        The loudspeaker.
    on_music
        Called when `music` has become another.
    """

    def __init__(self, conversation: Conversation, player: Player, on_music: Callable[[], None]) -> None:
        self._conversation, self._player, self._on_music = conversation, player, on_music
        self._task: asyncio.Task[None] | None = None
        self.music = False
        """Whether something is played that is not said."""

    def announce(self, peer: Peer, urls: Sequence[str], *, tell: bool = True, listen: bool = False) -> None:
        """Play announcements, one after the other; tell who asked when that is over, and listen, where wished."""

        async def announce() -> None:
            whole = await self._conversation.speak(peer, urls)
            if tell:
                peer.send(pb.VoiceAssistantAnnounceFinished(success=whole))
            self._end(task, listen=whole and listen)

        task = self._start(announce())

    def ring(self) -> None:
        """A timer is over: say so until somebody ends it."""

        async def ring() -> None:
            self._conversation.say("timer")
            until = asyncio.get_running_loop().time() + RING_SECONDS
            try:
                while await self._player.play_samples(_chime()) and not self._player.silent:
                    if asyncio.get_running_loop().time() > until:
                        break
            except AuricleError as error:
                log.warning("A timer is over, and was not heard: %s.", error)
            self._end(task)

        task = self._start(ring())

    def play(self, peer: Peer, url: str) -> None:
        """Play music or the like, until it ends or is stopped."""

        async def play() -> None:
            self._conversation.say("idle")
            self.music = True
            self._on_music()
            try:
                await self._conversation.play(peer, url, None)
            except AuricleError as error:
                log.warning("Nothing was played: %s.", error)
            self._end(task)

        task = self._start(play())

    def _start(self, work: Coroutine[Any, Any, None]) -> asyncio.Task[None]:
        self._conversation.abandon()
        self._player.stop()
        self.music = False
        self._task = start_task(work, log, "The loudspeaker")
        return self._task

    def _end(self, task: asyncio.Task[None], *, listen: bool = False) -> None:
        """One of them is over; where another has begun, or a run has, that goes on."""
        if self._task is task:
            self._task, self.music = None, False
            self._on_music()
            if not self._conversation.runs:
                self._conversation.go_on(listen)


def _chime() -> NDArray[np.int16]:
    """Samples (n,) of a timer's two tones."""
    made = []
    for hertz, seconds in _TONES:
        times = np.arange(round(seconds * RATE)) / RATE
        edges = np.minimum(1.0, np.minimum(times, times[::-1]) / _EDGE)
        made.append(_LEVEL * edges * np.sin(2 * np.pi * hertz * times))
    return np.concatenate(made).astype(np.int16)
