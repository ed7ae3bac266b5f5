"""A region while it takes part in a joint round: what it says, what it is asked, what it is given in the end."""

from __future__ import annotations

import math
import threading
from dataclasses import dataclass, field

import numpy as np

from auricle.errors import AuricleError, WireError
from auricle.process.clock import SYSTEM_CLOCK, Clock
from auricle.wire.tensors import Flat
from auricle_cloud.link.region_messages import (
    Ask,
    JoinRound,
    Joint,
    MatrixQuestion,
    Reply,
    read_numbers,
    write_numbers,
)
from auricle_learning.aggregation.compute.distances import Float64Array
from auricle_learning.aggregation.compute.pieces import Spans

SILENCE_SECONDS = 30.0
"""Without a word of a region that is asked something, or waits: the others go on without it, if they are enough."""
QUESTION_SECONDS = 900.0
"""For the answer to one question, whatever else the region says meanwhile."""
RELATIVE_SLACK = 1e-3
"""Relative: by how much a region's numbers may be beyond what its updates can add up to, which float32 rounds."""


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
    start: Flat
    """(P,) the model that its updates were trained from."""
    norm: float
    """Farthest that an update may be from it."""
    turn: threading.Condition
    """Notified of whatever changes."""
    clock: Clock = SYSTEM_CLOCK
    heard: float = field(init=False)
    question: MatrixQuestion | None = None
    reply: bytes | None = None
    result: Joint | None = None
    gone: bool = False
    """Whether the region has joined anew, or the round goes on without it."""
    _asked: int = 0

    def __post_init__(self) -> None:
        """It was heard now."""
        self.heard = self.clock.monotonic()

    @property
    def is_here(self) -> bool:
        """Whether the region was heard a moment ago."""
        return not self.gone and self.clock.monotonic() < self.heard + SILENCE_SECONDS

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
        total = self._ask("sum", spans, share, self.start.size)
        away, most = 0.0, float(np.abs(share).max(axis=1, initial=0.0).sum()) * self.norm
        for layer, parts in enumerate(spans):
            weight = float(share[:, layer].sum())
            away += sum(float(np.square(total[span] - weight * self.start[span]).sum()) for span in parts)
        if not math.sqrt(away) <= most * (1 + RELATIVE_SLACK):
            raise self._wrong_answer(f"a sum of updates that are farther than {self.norm:g} from their model")
        return total

    def measure_rows(self, spans: Spans, centre: Float64Array) -> Float64Array:
        """Ask how far the region's updates are from a centre (P,) in each layer: (K_r, L)."""
        norms = self._ask("distances", spans, centre, len(self.join.rows), len(spans))
        apart = np.sqrt([sum(np.square(centre[span] - self.start[span]).sum() for span in parts) for parts in spans])
        if (norms < 0).any() or not (norms <= (apart + self.norm) * (1 + RELATIVE_SLACK)).all():
            raise self._wrong_answer("a distance that no update of it can have")
        return norms

    def _wrong_answer(self, sentence: str) -> RegionLostError:
        return RegionLostError(self.name, f"The region {self.name} gave a wrong answer: {sentence}.")

    def _ask(self, what: Ask, spans: Spans, numbers: Float64Array, *shape: int) -> Float64Array:
        with self.turn:
            self._asked += 1
            named = tuple(tuple((span.start, span.stop) for span in parts) for parts in spans)
            self.question, self.reply = MatrixQuestion(self._asked, what, named, write_numbers(numbers)), None
            self.turn.notify_all()
            until = self.clock.monotonic() + QUESTION_SECONDS
            while self.reply is None:
                if not self.is_here or self.clock.monotonic() > until:
                    raise RegionLostError(self.name, f"The region {self.name} does not answer any more.")
                self.turn.wait(1.0)
            data = self.reply
        try:
            return read_numbers(data, *shape)
        except WireError as error:
            raise self._wrong_answer(str(error).rstrip(".")) from error
