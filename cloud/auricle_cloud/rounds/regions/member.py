"""A region's side: brings the updates of its closed round to where the regions meet, and takes the model of all.

The updates stay: what is asked of them is sums and distances. As long as nobody answers, or others are missing, the
round waits in the state `closing`, in which a coordinator that is started again takes it up.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
from collections.abc import Awaitable, Callable
from dataclasses import replace

import msgspec

from auricle.errors import AuricleError
from auricle.process.clock import SYSTEM_CLOCK, Clock
from auricle.wire.tensors import Flat, decode
from auricle_cloud.link.region_messages import (
    Again,
    FromMeeting,
    FromRegion,
    JoinRound,
    Joint,
    Later,
    Leave,
    MatrixQuestion,
    Reply,
    Wait,
    method_text,
    read_message,
    read_numbers,
    spans_in,
    write_numbers,
)
from auricle_cloud.rounds.regions.joint_cohort import aggregate_of, summarise
from auricle_learning.aggregation.bounded import BoundedRule
from auricle_learning.aggregation.cohort import Cohort
from auricle_learning.aggregation.compute.distances import Float64Array
from auricle_learning.aggregation.next_model import NextModel
from auricle_learning.aggregation.rules.average import unchanged

log = logging.getLogger("auricle.cloud")

ALIVE_SECONDS = 10.0
"""Between two signs of life while an answer takes long."""
AGAIN_SECONDS = 2.0
"""Between two tries to reach the other regions."""
LATE = (
    "the other regions have gone on without this one's updates, which came too late or from another model: this is "
    "their model"
)

Post = Callable[[bytes], bytes]
"""Sends a message to where regions meet, and returns the answer; it may block for a while. AuricleError: it cannot."""


class RegionMember:
    """One region of several.

    Parameters
    ----------
    post
        How the others are reached.
    pack
        Identity of the pack.
    rule
        That all of them run.
    clock
        Whom it asks for the time.
    """

    def __init__(self, post: Post, pack: str, rule: BoundedRule, clock: Clock = SYSTEM_CLOCK) -> None:
        self._post, self._pack, self._method, self._clock = post, pack, method_text(rule), clock
        self._said = ""

    async def next_model(self, base: str, cohort: Cohort, look: Callable[[], Awaitable[None]]) -> NextModel:
        """Have a round counted with those of the other regions, and return the model that all of them made.

        Parameters
        ----------
        base
            SHA-256 of the model that the round began with.
        cohort
            Its updates.
        look
            Awaited between two messages; what it raises ends the wait.
        """
        rows = summarise(cohort)
        join = JoinRound(os.urandom(8).hex(), base, self._pack, self._method, rows, cohort.dropped)
        message: FromRegion = join
        while True:
            try:
                await look()
            except AuricleError:
                with contextlib.suppress(AuricleError):
                    await asyncio.to_thread(self._exchange, Leave(join.join))
                raise
            try:
                answer = await self._keep_place(join, message, cohort)
                if isinstance(answer, NextModel):
                    return answer
                if answer is join:
                    await self._clock.pause(AGAIN_SECONDS)
                message = answer
            except AuricleError as error:  # it is mended there or here, and the updates wait for it
                self._say(f"the round waits: {error}")
                await self._clock.pause(AGAIN_SECONDS)
                message = join = msgspec.structs.replace(join, join=os.urandom(8).hex())

    async def _keep_place(self, join: JoinRound, message: FromRegion, cohort: Cohort) -> FromRegion | NextModel:
        """`answer`, and a sign of life every few seconds while it takes long."""
        work = asyncio.ensure_future(asyncio.to_thread(self.answer, join, message, cohort))
        try:
            while not (await asyncio.wait({work}, timeout=ALIVE_SECONDS))[0]:
                with contextlib.suppress(AuricleError):
                    await asyncio.to_thread(self._exchange, Wait(join.join, busy=True))
        except asyncio.CancelledError:
            work.cancel()
            raise
        return work.result()

    def _exchange(self, message: FromRegion) -> FromMeeting:
        # The union is one of tagged structs: the tag says which.
        return read_message(self._post(msgspec.msgpack.encode(message)), FromMeeting)  # type: ignore[arg-type]

    def answer(self, join: JoinRound, message: FromRegion, cohort: Cohort) -> FromRegion | NextModel:
        """Send a message, and make the next one of what is answered; or the model, where it is there.

        Raises
        ------
        AuricleError
            Nobody answers, or not what was asked.
        """
        answer = self._exchange(message)
        if isinstance(answer, Joint):
            return _model(answer, cohort)
        if isinstance(answer, Later):
            self._say(f"the round waits for other regions: {answer.here} of {answer.wanted} are here")
            return Wait(join.join)
        if isinstance(answer, Again):
            return join
        return Reply(join.join, answer.number, write_numbers(_reply(answer, cohort)))

    def _say(self, sentence: str) -> None:
        if sentence != self._said:
            self._said = sentence
            log.warning("%s", sentence)


def _reply(question: MatrixQuestion, cohort: Cohort) -> Float64Array:
    """Compute what is asked of the region's updates."""
    spans, count = spans_in(question.spans, cohort.start.size), len(cohort.ids)
    if question.ask == "sum":
        return cohort.matrix.weighted_sum(read_numbers(question.numbers, count, len(spans)), spans)
    return cohort.matrix.layer_norms(spans, centre=read_numbers(question.numbers, cohort.start.size))


def _model(joint: Joint, cohort: Cohort) -> NextModel:
    weights: Flat = decode(joint.weights, cohort.start.size)
    if joint.part is None:
        stay = unchanged(cohort, LATE) if cohort.ids else unchanged(cohort)
        return NextModel(weights, None, replace(stay, weights=weights))
    others = ", ".join(joint.regions)
    log.info("joint round %d of %s", joint.number, others)
    return NextModel(weights, None, aggregate_of(joint.part, cohort, weights))
