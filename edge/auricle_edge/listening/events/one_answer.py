"""One answer when several devices of a home hear the same word: settled on the home's broker, by level over noise.

Each device publishes a bid, a number of decibels and no sound, and everybody sees all bids in the order in which the
broker passes them on. The first bid for a word opens a round; 150 ms later who has bid says that it is closed. The
first such word closes it for everybody: bids before it in the broker's order count, later ones do not, so all devices
find the same winner whatever their clocks say and however long a message takes.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections import deque
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field

import msgspec

from auricle.errors import AuricleError
from auricle.mqtt_link.settings import Delivery
from auricle.wire.kinds import UNDECODABLE, DeviceId
from auricle_edge.listening.events.bids import Bid, Close, Message, winner
from auricle_edge.listening.sound import Detection, Event

log = logging.getLogger("auricle.events")

WINDOW = 0.15
"""Seconds from the first bid until the round is closed."""
LIMIT = 0.3
"""Seconds after which a device decides by the bids that it has seen, where the broker says no more."""
LATE = 1.0
"""Seconds after a round in which a bid of another device is for the same utterance, and too late."""
LARGEST = 1024
"""Bytes of a message."""
MOST_BIDS = 64
"""Of a round: no home has as many devices that hear one word."""
KEPT = 2 * LIMIT + LATE
"""Seconds after which nothing that comes belongs to a round any more."""


@dataclass
class Round:
    """The bids for one word."""

    opened: str
    """Id of the first bid."""
    began: float
    bids: list[Bid] = field(default_factory=list)
    ended: float | None = None


class OneAnswer:
    """Decides which of its events a device answers.

    Parameters
    ----------
    device
        Its name; of equal bids the name that comes first in the alphabet wins.
    publish
        Publishes a message at the home's broker, which passes it on to everybody, this device included.
    connected
        Whether the broker is reached; where not, the device answers at once.
    clock
        Seconds that never go back; of this device alone.
    """

    def __init__(
        self,
        device: DeviceId,
        publish: Callable[[bytes], Awaitable[None]],
        connected: Callable[[], bool],
        *,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._device, self._publish, self._connected, self._clock = device, publish, connected, clock
        self._rounds: dict[str, Round] = {}
        self._waiting: dict[str, asyncio.Future[bool]] = {}
        """Own bids that are not decided, by id."""
        self._left: deque[str] = deque(maxlen=64)
        """Wake words that another device answers."""
        self._tasks: set[asyncio.Task[None]] = set()
        self.left = 0
        """Words that were left to another device."""

    async def answers(self, event: Event) -> bool:
        """Whether this device answers an event, known within `LIMIT`: a command after a wake word as the wake word."""
        if event.wake is not None:
            return event.wake not in self._left
        assert isinstance(event, Detection)
        if not self._connected():
            return True
        bid = Bid(self._device, event.word, event.id, event.over_noise or 0.0)
        decided = self._waiting[bid.id] = asyncio.get_running_loop().create_future()
        try:
            self._say(bid)
            mine: bool = await asyncio.wait_for(asyncio.shield(decided), LIMIT)
        except (asyncio.TimeoutError, TimeoutError):
            mine = self._guess(bid)
        finally:
            del self._waiting[bid.id]
        if not mine:
            self.left += 1
            self._left.append(bid.id)
            log.info("%s was heard, and another device answers.", bid.word)
        return mine

    def heard(self, arrived: Delivery) -> None:
        """Take in a message of the broker, in the order in which they come; pass over what is not a bid or an end."""
        if arrived.retain or len(arrived.payload) > LARGEST:
            return
        try:
            said: Bid | Close = msgspec.json.decode(arrived.payload, type=Message)
        except UNDECODABLE:
            log.warning("A message on %s was ignored: it is no bid.", arrived.topic)
            return
        self._take(said) if isinstance(said, Bid) else self._close(said)

    def close(self) -> None:
        """Let go of what is under way."""
        for task in tuple(self._tasks):
            task.cancel()

    def _take(self, bid: Bid) -> None:
        now = self._clock()
        current = self._rounds.get(bid.word)
        if current is None or self._over(current, bid, now):
            self._rounds = {word: each for word, each in self._rounds.items() if each.began + KEPT > now}
            current = self._rounds[bid.word] = Round(bid.id, now)
        if current.ended is None:
            if len(current.bids) >= MOST_BIDS or any(other.device == bid.device for other in current.bids):
                return
            current.bids.append(bid)
            if bid.id in self._waiting:
                self._later(current, bid.word)
        elif bid.id in self._waiting:
            self._decide(bid.id, mine=False)

    def _over(self, current: Round, bid: Bid, now: float) -> bool:
        """Whether a bid is for another utterance than this round: time has passed, or its device was in that one."""
        if current.ended is None:
            return current.began + 2 * LIMIT < now
        return current.ended + LATE < now or any(other.device == bid.device for other in current.bids)

    def _close(self, said: Close) -> None:
        current = self._rounds.get(said.word)
        if current is None or current.opened != said.opened or current.ended is not None:
            return
        current.ended = self._clock()
        best = winner(current.bids)
        for bid in current.bids:
            if bid.id in self._waiting:
                self._decide(bid.id, mine=bid.id == best.id)

    def _decide(self, identity: str, *, mine: bool) -> None:
        if not self._waiting[identity].done():
            self._waiting[identity].set_result(mine)

    def _guess(self, bid: Bid) -> bool:
        """What to do when the broker was too slow: the best of what was seen answers."""
        current = self._rounds.get(bid.word)
        if current is None or bid not in current.bids:
            return True
        return winner(current.bids).id == bid.id

    def _later(self, current: Round, word: str) -> None:
        """Say that a round is closed once its window has passed; the first who says it closes it."""
        left = max(0.0, current.began + WINDOW - self._clock())

        def say() -> None:
            if current.ended is None:
                self._say(Close(self._device, word, current.opened))

        asyncio.get_running_loop().call_later(left, say)

    def _say(self, message: Bid | Close) -> None:
        task = asyncio.get_running_loop().create_task(self._published(msgspec.json.encode(message)))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _published(self, payload: bytes) -> None:
        try:
            await self._publish(payload)
        except AuricleError as error:
            log.warning("The home's broker was not told what was heard: %s", error)
