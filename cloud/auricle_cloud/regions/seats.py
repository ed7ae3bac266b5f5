"""A region while it takes part in a joint round: what it says, what it is asked, what it is given in the end."""

from __future__ import annotations

import threading
import time
from dataclasses import dataclass, field

from auricle.errors import AuricleError, WireError
from auricle_cloud.regions.messages import Ask, JoinRound, Joint, MatrixQuestion, Reply, read_numbers, write_numbers
from auricle_learning.aggregation.compute.distances import Float64Array
from auricle_learning.aggregation.compute.pieces import Spans

SILENCE_SECONDS = 30.0
"""Without a word of a region that is asked something, or waits: the others go on without it, if they are enough."""


class RegionLostError(AuricleError):
    """A region does not answer any more, or gives a wrong answer.

    Parameters
    ----------
    name
        The region's.
    sentence
        What is wrong.
    """

    def __init__(self, name: str, sentence: str) -> None:
        super().__init__(sentence)
        self.name = name


@dataclass(eq=False)
class Seat:
    """One region in one joint round; the `MatrixPart` that it computes. All is guarded by `turn`."""

    name: str
    join: JoinRound
    size: int
    """P."""
    turn: threading.Condition
    """Notified of whatever changes."""
    heard: float = field(default_factory=time.monotonic)
    question: MatrixQuestion | None = None
    reply: bytes | None = None
    result: Joint | None = None
    gone: bool = False
    """Whether the region has joined anew, or the round goes on without it."""
    _asked: int = 0

    @property
    def is_here(self) -> bool:
        """Whether the region was heard a moment ago."""
        return not self.gone and time.monotonic() < self.heard + SILENCE_SECONDS

    @property
    def next_question(self) -> MatrixQuestion | None:
        """What it has still to answer."""
        return self.question if self.reply is None else None

    def take(self, reply: Reply) -> None:
        """Take an answer; one to an earlier question says nothing."""
        if self.question is not None and self.question.number == reply.question and self.reply is None:
            self.reply = reply.numbers
            self.turn.notify_all()

    # -- as a part of a matrix

    def sum_rows(self, share: Float64Array, spans: Spans) -> Float64Array:
        """Ask for the sum of the region's updates with these weights (K_r, L): (P,)."""
        return self._ask("sum", spans, share, self.size)

    def measure_rows(self, spans: Spans, centre: Float64Array) -> Float64Array:
        """Ask how far the region's updates are from a centre (P,) in each layer: (K_r, L)."""
        return self._ask("distances", spans, centre, len(self.join.rows), len(spans))

    def _ask(self, what: Ask, spans: Spans, numbers: Float64Array, *shape: int) -> Float64Array:
        with self.turn:
            self._asked += 1
            named = tuple(tuple((span.start, span.stop) for span in parts) for parts in spans)
            self.question, self.reply = MatrixQuestion(self._asked, what, named, write_numbers(numbers)), None
            self.turn.notify_all()
            while self.reply is None:
                if not self.is_here:
                    raise RegionLostError(self.name, f"The region {self.name} does not answer any more.")
                self.turn.wait(1.0)
            data = self.reply
        try:
            values = read_numbers(data, *shape)
        except WireError as error:
            raise RegionLostError(self.name, f"The region {self.name} gave a wrong answer: {error}") from error
        if what != "sum" and (values < 0).any():
            raise RegionLostError(self.name, f"The region {self.name} gave a wrong answer: a distance below 0.")
        return values
