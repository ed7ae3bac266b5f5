"""Updates as they come in: put together from their parts, checked, and counted."""

from __future__ import annotations

import asyncio
import logging
from collections import OrderedDict
from collections.abc import Sequence
from typing import Protocol

from auricle.wire.messages import Update
from auricle.wire.tensors import Flat, TensorTable
from auricle.wire.update_codec import MOVES
from auricle.wire.vectors import Declared
from auricle_cloud.link.admission import Receiver
from auricle_cloud.link.assembly import Assemblies
from auricle_cloud.link.ledger import Ledger
from auricle_cloud.link.update_checks import require_body, require_header
from auricle_cloud.settings import Limits
from auricle_cloud.states.verdict import Verdict
from auricle_cloud.storage.journal import About, Journal

log = logging.getLogger("auricle.cloud")

MOST_CONFLICTS = 4096
"""Devices and rounds of which it is remembered that a conflict was noted."""


class Assembling(Protocol):
    """Puts together updates that arrive in parts, in threads; see `Assemblies`."""

    size: int
    """Bytes held."""

    def add(self, update: Update, part: bytes) -> bytes | None:
        """Take in a part; the whole body once the last is there."""


class UpdateIntake:
    """Takes in the updates of one fleet.

    Parameters
    ----------
    table
        Tensor table of the plug-in.
    limits
        What a device may claim.
    ledger
        Where they are counted.
    journal
        Told of a device that sends two different ones for a round.
    receiver
        Has the models that updates started from, and knows what rounds ask for.
    declared
        As of `require_header`, for updates of rounds of which the receiver knows nothing.
    assemblies
        Puts updates together whose parts come to several processes; None: they all come here.
    """

    def __init__(
        self,
        table: TensorTable,
        limits: Limits,
        ledger: Ledger,
        journal: Journal,
        receiver: Receiver,
        declared: Sequence[Declared] = (),
        assemblies: Assembling | None = None,
    ) -> None:
        self._receiver, self._declared = receiver, declared
        self._table, self._limits, self._ledger, self._journal = table, limits, ledger, journal
        self._assemblies, self._shared = Assemblies(), assemblies
        self._conflicts: OrderedDict[tuple[str, str, int], None] = OrderedDict()

    @property
    def unfinished(self) -> int:
        """Bytes of updates that are not whole yet."""
        return self._assemblies.size if self._shared is None else self._shared.size

    async def take(self, update: Update, body: bytes) -> Verdict | None:
        """Take a part of an update; the verdict once it is whole and was judged, None before.

        Raises
        ------
        WireError
            The header or the whole body is not one that could count: `memory:` where it may be sent again.
        StorageError
            It could not be committed: the device must not be told anything, so that it sends again.
        """
        declared = await self._receiver.declared(update.task, update.round)
        declared = self._declared if declared is None else declared
        require_header(update, self._table, self._limits, declared)
        if self._shared is None or update.parts == 1:
            whole = self._assemblies.add(update, body)
        else:
            whole = await asyncio.to_thread(self._shared.add, update, body)
        if whole is None:
            return None
        base, row = self._receiver.base(update.base), self._ledger.row(update)

        def read() -> Flat | None:
            weights = require_body(update, whole, base, self._table, self._limits, declared, out=row)
            # Of what stands for a move from a model that is not at hand, the weights are not known yet.
            return weights if not update.vectors and (base is not None or update.codec not in MOVES) else None

        verdict = await self._ledger.count(update, whole, read)
        if verdict.code == "conflict":
            await self._note_conflict(update)
        return verdict

    async def _note_conflict(self, update: Update) -> None:
        """Note the first one that a device sends for a round: another one would cost a transaction and say no more."""
        known = (update.device, update.task, update.round)
        if known in self._conflicts:
            return
        self._conflicts[known] = None
        if len(self._conflicts) > MOST_CONFLICTS:
            self._conflicts.popitem(last=False)
        log.error("SECURITY: %s sent two different updates for round %d", update.device, update.round)
        what: About = {
            "device": update.device,
            "task": update.task,
            "number": update.round,
            "detail": "two different updates for one round",
        }
        await asyncio.to_thread(lambda: self._journal.note("conflict", **what))
