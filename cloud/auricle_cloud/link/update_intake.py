"""Updates as they come in: put together from their parts, checked, and counted."""

from __future__ import annotations

import asyncio
import logging
import math
from collections.abc import Callable, Sequence

import numpy as np

from auricle.errors import WireError
from auricle.wire.messages import Update
from auricle.wire.tensors import CODECS, Flat, decode, digest
from auricle_cloud.link.assembly import Assemblies
from auricle_cloud.link.batch import Batcher
from auricle_cloud.link.ledger import Ledger
from auricle_cloud.settings import Limits
from auricle_cloud.states.verdict import Verdict
from auricle_cloud.storage.journal import About, Journal

log = logging.getLogger("auricle.cloud")

PAUSE = 0.03
"""Seconds that updates wait for others when many come: those that are checked together are counted together."""

Arrival = tuple[Update, bytes, "Flat | None"]
"""An update, its body, and the model (P,) it started from if that is at hand."""


class UpdateIntake:
    """Takes in the updates of one fleet.

    Parameters
    ----------
    size
        Weights of the plug-in.
    limits
        What a device may claim.
    ledger
        Where they are counted.
    journal
        Told of a device that sends two different ones for a round.
    base
        The model (P,) of a hash, if it is at hand.
    """

    def __init__(
        self, size: int, limits: Limits, ledger: Ledger, journal: Journal, base: Callable[[str], Flat | None]
    ) -> None:
        self._size, self._limits, self._ledger, self._journal, self._base = size, limits, ledger, journal, base
        self._assemblies = Assemblies()
        # The mathematics of a large model would hold up everybody else's messages.
        self._checks = Batcher[Arrival, WireError | None](self._complaints, PAUSE)

    @property
    def unfinished(self) -> int:
        """Bytes of updates that are not whole yet."""
        return self._assemblies.size

    async def take(self, update: Update, body: bytes) -> Verdict | None:
        """Take a part of an update; the verdict once it is whole and was judged, None before.

        Raises
        ------
        WireError
            The header or the whole body is not one that could count: `memory:` where it may be sent again.
        StorageError
            It could not be committed: the device must not be told anything, so that it sends again.
        """
        self._require_header(update)
        whole = self._assemblies.add(update, body)
        if whole is None:
            return None
        complaint = await self._checks.add((update, whole, self._base(update.base)))
        if complaint is not None:
            raise complaint
        verdict = await self._ledger.count(update, whole)
        if verdict.code == "conflict":
            await self._note_conflict(update)
        return verdict

    async def _note_conflict(self, update: Update) -> None:
        log.error("SECURITY: %s sent two different updates for round %d", update.device, update.round)
        what: About = {
            "device": update.device,
            "task": update.task,
            "number": update.round,
            "detail": "two different updates for one round",
        }
        await asyncio.to_thread(lambda: self._journal.note("conflict", **what))

    def _require_header(self, update: Update) -> None:
        """Refuse by the signed header alone, before any memory is given to the body."""
        limits = self._limits
        if update.codec not in CODECS:
            raise WireError("codec: unknown")
        if update.length != self._size * CODECS[update.codec].itemsize:
            raise WireError("shape: not the plug-in's number of weights")
        if not 1 <= update.samples <= limits.samples:
            raise WireError("samples: none, or more than a device can have")
        if not 0 <= update.loss <= limits.loss:
            raise WireError("loss: not a finite number of at least 0")
        if update.part >= update.parts:
            raise WireError("part: beyond the last")

    def _complaints(self, arrived: Sequence[Arrival]) -> list[WireError | None]:
        complaints: list[WireError | None] = []
        for update, body, base in arrived:
            try:
                self._require_body(update, body, base)
                complaints.append(None)
            except WireError as error:
                complaints.append(error)
        return complaints

    def _require_body(self, update: Update, body: bytes, base: Flat | None) -> None:
        if len(body) != update.length or digest(body) != update.body:
            raise WireError("hash: the body is not the one the header names")
        try:
            weights = decode(body, self._size, update.codec)
        except WireError as error:
            raise WireError(f"values: {error}") from error
        if np.abs(weights).max(initial=0.0) > self._limits.weight:
            raise WireError("values: a weight no model learns")
        # A sum of squares and no dot product, for which BLAS would wake a thread on every core.
        if base is not None and math.sqrt(float(np.square(weights - base, dtype=np.float64).sum())) > self._limits.norm:
            raise WireError(f"norm: further from the round's model than {self._limits.norm:g}")
