"""One answer when several devices of a home hear the same word: settled on the home's broker, by level over noise.

Each device publishes a bid, a number of decibels and no sound, and everybody sees all bids in the order in which the
broker passes them on. The first bid for a word opens a round; 150 ms later who has bid says that it is closed. The
first such word closes it for everybody: bids before it in the broker's order count, later ones do not, so all devices
find the same winner whatever their clocks say and however long a message takes. Who wins says that it answers.

Whoever may publish at the topic can bid. So nobody is silent because another bid more, only because another said that
it answers: where the winner does not within 300 ms, the best of those that have answered before does, and 300 ms later
everybody who still waits.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections import deque
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field

from auricle.errors import AuricleError, DataError
from auricle.mqtt_link.settings import Delivery
from auricle.mqtt_link.tasks import start_task
from auricle.wire.kinds import UNDECODABLE, DeviceId
from auricle_edge.listening.events.bids import (
    MOST_SILENT,
    Answer,
    Answerers,
    Bid,
    Close,
    Message,
    decode,
    encode,
)
from auricle_edge.listening.events.sparse_log import SparseLog
from auricle_edge.listening.sound import Detection, Event

log = logging.getLogger("auricle.events")

WINDOW_SECONDS = 0.15
"""Seconds from the first bid until the round is closed."""
LIMIT_SECONDS = 0.3
"""Seconds after which a device decides by the bids that it has seen, where the broker says no more."""
ANSWER_SECONDS = 0.3
"""Seconds from the end of a round in which its winner says that it answers, or the second does, and so on."""
LATE_SECONDS = 1.0
"""Seconds after a round in which a bid of another device is for the same utterance, and too late."""
LARGEST_BYTES = 1024
"""Bytes of a message."""
MOST_BIDS = 64
"""Of a round: no home has as many devices that hear one word."""
MOST_IDS = 4096
"""Ids of bids that are remembered: one that comes a second time was recorded by somebody."""
KEPT = 2 * LIMIT_SECONDS + LATE_SECONDS
"""Seconds after which nothing that comes belongs to a round any more."""


@dataclass
class Round:
    """The bids for one word."""

    opened: str
    """Id of the first bid."""
    began: float
    bids: list[Bid] = field(default_factory=list)
    late: list[Bid] = field(default_factory=list)
    """Those that came after its end."""
    ended: float | None = None
    answered: asyncio.Event = field(default_factory=asyncio.Event)
    """Set when a device that bid has said that it answers."""


@dataclass
class Waiting:
    """An own bid that is not decided."""

    bid: Bid
    decided: asyncio.Future[bool]
    """Whether it has won its round."""
    round: Round | None = None
    """The one that it came to, once it has come back from the broker."""


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
    key
        That the devices of the home share: what is not signed with it is passed over.
    clock
        Seconds that never go back; of this device alone.
    """

    def __init__(
        self,
        device: DeviceId,
        publish: Callable[[bytes], Awaitable[None]],
        connected: Callable[[], bool],
        *,
        key: bytes | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._device, self._publish, self._connected, self._clock = device, publish, connected, clock
        self._key = key
        self._rounds: dict[str, Round] = {}
        self._waiting: dict[str, Waiting] = {}
        """Own bids that are not decided, by id."""
        self._ids: dict[str, None] = {}
        """Of the last bids, the oldest first."""
        self._answerers = Answerers()
        self._sparse = SparseLog(log, clock)
        self._left: deque[str] = deque(maxlen=64)
        """Wake words that another device answers."""
        self._tasks: set[asyncio.Task[None]] = set()
        self.left = 0
        """Words that were left to another device."""

    async def answers(self, event: Event) -> bool:
        """Whether this device answers an event: a command after a wake word as the wake word.

        Known within `LIMIT_SECONDS` where the winner answers, and within `LIMIT_SECONDS + 2 * ANSWER_SECONDS` where
        nobody does.
        """
        if event.wake is not None:
            return event.wake not in self._left
        assert isinstance(event, Detection)
        if not self._connected():
            return True
        bid = Bid(self._device, event.word, event.id, event.over_noise or 0.0)
        waiting = self._waiting[bid.id] = Waiting(bid, asyncio.get_running_loop().create_future())
        try:
            self._say(bid)
            mine = await self._wins(waiting) or not await self._other_answers(waiting)
        finally:
            del self._waiting[bid.id]
        if mine:
            self._say(Answer(self._device, bid.word, bid.id))
        else:
            self.left += 1
            self._left.append(bid.id)
            log.info("%s was heard, and another device answers.", bid.word)
        return mine

    def heard(self, arrived: Delivery) -> None:
        """Take in a message of the broker, in the order in which they come; pass over what is not a bid or an end."""
        if arrived.retain or len(arrived.payload) > LARGEST_BYTES:
            return
        try:
            said = decode(arrived.payload, self._key)
        except (*UNDECODABLE, DataError):
            what = "a bid" if self._key is None else "a bid that is signed with the key of this home"
            self._sparse.warning("A message on %s was ignored: it is not %s.", arrived.topic, what)
            return
        if isinstance(said, Bid):
            self._take(said)
        elif isinstance(said, Close):
            self._close(said)
        else:
            self._take_answer(said)

    def close(self) -> None:
        """Let go of what is under way."""
        for task in tuple(self._tasks):
            task.cancel()

    async def _wins(self, waiting: Waiting) -> bool:
        """Whether an own bid wins its round; where the broker is too slow, whether it is the best of what was seen."""
        try:
            return await asyncio.wait_for(asyncio.shield(waiting.decided), LIMIT_SECONDS)
        except (asyncio.TimeoutError, TimeoutError):
            return waiting.round is None or self._first(waiting.round).id == waiting.bid.id

    async def _other_answers(self, waiting: Waiting) -> bool:
        """Whether another device says that it answers, as long as it is not this one's turn."""
        current = waiting.round
        assert current is not None, "who has not lost a round has won"
        ended = self._clock() if current.ended is None else current.ended
        if await _within(current.answered, ended + ANSWER_SECONDS - self._clock()):
            return True
        first = self._first(current)
        if self._answerers.silent(first.device):
            self._sparse.warning(
                "Another device has won %d words in a row and answered none: %s is passed over until it does. Who may "
                "publish at mqtt_one_answer_topic?",
                MOST_SILENT,
                first.device,
            )
        second = self._answerers.second([*current.bids, *current.late], waiting.bid)
        return second.id != waiting.bid.id and await _within(current.answered, ANSWER_SECONDS)

    def _first(self, current: Round) -> Bid:
        return self._answerers.first(current.bids)

    def _take(self, bid: Bid) -> None:
        waiting = self._waiting.get(bid.id)
        if not self._is_new(bid, waiting):
            return
        now = self._clock()
        current = self._rounds.get(bid.word)
        if current is None or self._over(current, bid, now):
            self._rounds = {word: each for word, each in self._rounds.items() if each.began + KEPT > now}
            current = self._rounds[bid.word] = Round(bid.id, now)
        bids = current.bids if current.ended is None else current.late
        if waiting is None and (len(bids) >= MOST_BIDS or any(other.device == bid.device for other in bids)):
            return
        bids.append(bid)
        if waiting is not None:
            waiting.round = current
            if current.ended is None:
                self._later(current, bid.word)
            elif not waiting.decided.done():
                waiting.decided.set_result(False)

    def _is_new(self, bid: Bid, waiting: Waiting | None) -> bool:
        """Whether a bid is what it says: not of this device where this one did not bid, and not a second time."""
        if bid.device == self._device and (waiting is None or bid != waiting.bid):
            self._sparse.warning("Somebody bids on the home's broker in this device's name.")
            return False
        if bid.id in self._ids:
            return False
        self._ids[bid.id] = None
        if len(self._ids) > MOST_IDS:
            del self._ids[next(iter(self._ids))]
        return True

    def _over(self, current: Round, bid: Bid, now: float) -> bool:
        """Whether a bid is for another utterance than this round: time has passed, or its device was in that one."""
        if current.ended is None:
            return current.began + 2 * LIMIT_SECONDS < now
        return current.ended + LATE_SECONDS < now or any(other.device == bid.device for other in current.bids)

    def _close(self, said: Close) -> None:
        current = self._rounds.get(said.word)
        if current is None or current.opened != said.opened or current.ended is not None:
            return
        current.ended = self._clock()
        best = self._first(current)
        for bid in current.bids:
            waiting = self._waiting.get(bid.id)
            if waiting is not None and not waiting.decided.done():
                waiting.decided.set_result(bid.id == best.id)

    def _take_answer(self, said: Answer) -> None:
        """Another device answers: who waits in a round in which that one bid leaves it the word."""
        if said.device == self._device:
            return
        for current in (self._rounds.get(said.word), *(own.round for own in self._waiting.values())):
            bids = () if current is None else (*current.bids, *current.late)
            if current is not None and any((bid.device, bid.id) == (said.device, said.id) for bid in bids):
                current.answered.set()
                self._answerers.answered(said.device)

    def _later(self, current: Round, word: str) -> None:
        """Say that a round is closed once its window has passed; the first who says it closes it."""
        left = max(0.0, current.began + WINDOW_SECONDS - self._clock())

        def say() -> None:
            if current.ended is None:
                self._say(Close(self._device, word, current.opened))

        asyncio.get_running_loop().call_later(left, say)

    def _say(self, message: Message) -> None:
        task = start_task(self._publish_bid(encode(message, self._key)), log, "A message to the home's broker")
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _publish_bid(self, payload: bytes) -> None:
        try:
            await self._publish(payload)
        except AuricleError as error:
            log.warning("The home's broker was not told what was heard: %s", error)


async def _within(happened: asyncio.Event, seconds: float) -> bool:
    """Whether it happens within so many seconds."""
    try:
        return await asyncio.wait_for(happened.wait(), max(0.0, seconds))
    except (asyncio.TimeoutError, TimeoutError):
        return happened.is_set()
