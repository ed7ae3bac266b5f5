"""What all parts of one coordinator process share."""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import Awaitable, Callable, Iterable, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Protocol, TypeVar

import msgspec

from auricle.errors import SettingsError
from auricle.packs.pack import Pack
from auricle.process.clock import SYSTEM_CLOCK, Clock
from auricle.wire.messages import Asked, Invite, Measure
from auricle.wire.plan import BAVD, FIXMATCH, METHODS, NOISE, SECURE_SUM, Plan
from auricle.wire.tensors import CODECS, Flat, decode
from auricle.wire.vectors import Declared
from auricle_cloud.evaluation.labelled_clips import LabelledClips
from auricle_cloud.link.messenger import Messenger
from auricle_cloud.observing.announcements import Announcements
from auricle_cloud.observing.metrics import Metrics
from auricle_cloud.rounds.arrived_weights import ArrivedWeights
from auricle_cloud.rounds.privacy import PrivacyLedger
from auricle_cloud.rounds.read_cohort import by_device, cohort_of
from auricle_cloud.settings import RoundDone, RunSettings
from auricle_cloud.states.selection import unfit
from auricle_cloud.storage.blobs import BlobStore
from auricle_cloud.storage.rows import DeviceRow, ModelRow, RoundRow, UpdateRow
from auricle_cloud.storage.store import Store
from auricle_learning.aggregation.bounded import BoundedRule
from auricle_learning.aggregation.cohort import Cohort, Float64Array
from auricle_learning.aggregation.compute.matrix import NumpyMatrix, Opener
from auricle_learning.aggregation.extras import NOTHING, Extras, PlannedSteps, RuleState
from auricle_learning.aggregation.inputs import ServerInputs, with_training
from auricle_learning.aggregation.next_model import NextModel
from auricle_learning.aggregation.server_optimizer import OptimizerState
from auricle_learning.aggregation.server_state import ServerState
from auricle_learning.methods.passes import planned_steps
from auricle_learning.methods.vectors import declared

log = logging.getLogger("auricle.cloud")

POLL = 1.0
"""Seconds after which a wait looks at the database, where operators write."""

T = TypeVar("T")

Watcher = Callable[[RoundDone], Awaitable[None]]


class Pace:
    """Keeps looks at the database to a fifth of the time, however many devices there are.

    Parameters
    ----------
    clock
        Whom it asks for the time.
    stirred
        Set where a look may find something else than the one before, of waits that every other change wakes in vain:
        without, it is looked at each change; with, also after `POLL` seconds, for other processes write as well.
    """

    def __init__(self, clock: Clock, stirred: asyncio.Event | None = None) -> None:
        self._clock, self._stirred, self._next, self._latest = clock, stirred, 0.0, 0.0

    @property
    def due(self) -> bool:
        """Whether it is time to look again."""
        now = self._clock.monotonic()
        return now >= self._next and (self._stirred is None or self._stirred.is_set() or now >= self._latest)

    async def look(self, work: Callable[[], T]) -> T:
        """Look, in a thread."""
        if self._stirred is not None:
            self._stirred.clear()
        began = self._clock.monotonic()
        found = await asyncio.to_thread(work)
        now = self._clock.monotonic()
        self._next, self._latest = now + min(POLL, 5 * (now - began)), now + POLL
        return found


class JointRounds(Protocol):
    """Rounds that are joined with those of other coordinators, see `auricle_cloud.rounds.regions`."""

    async def next_model(self, base: str, cohort: Cohort, look: Callable[[], Awaitable[None]]) -> NextModel:
        """Make the model of all regions; see `auricle_cloud.rounds.regions.member.RegionMember.next_model`."""


@dataclass
class RoundContext:
    """One coordinator's settings, memory and voice."""

    settings: RunSettings
    pack: Pack
    store: Store
    blobs: BlobStore
    rule: BoundedRule
    messenger: Messenger
    announcements: Announcements
    metrics: Metrics
    watcher: Watcher | None = None
    opener: Opener = NumpyMatrix
    """Where a cohort's matrix is computed with."""
    labelled: LabelledClips = field(default_factory=LabelledClips)
    """What rules may learn from."""
    changed: asyncio.Event = field(default_factory=asyncio.Event)
    """Set by whatever a round may wait for."""
    arrived: ArrivedWeights | None = None
    """Weights of the round under way."""
    joint: JointRounds | None = None
    """Who makes the model together with other regions; None: this coordinator alone."""
    stirred: asyncio.Event = field(default_factory=asyncio.Event)
    """Set when a device came or went, or an operator changed something: what rounds read in the database."""
    warned: set[str] = field(default_factory=set)
    presence_known: bool = False
    """Whether devices that were not heard since the coordinator started count as gone."""
    clock: Clock = SYSTEM_CLOCK
    """Whom all of them ask for the time."""

    @property
    def task(self) -> str:
        """Name of the task."""
        return self.settings.task

    @property
    def horizon(self) -> int:
        """Rounds over which rates change."""
        return self.settings.rounds or self.settings.horizon

    def weights(self, blob: str) -> Flat:
        """The weights (P,) of a stored model."""
        return decode(self.blobs.get(blob), self.pack.plugin_table.size)

    def cohort(self, row: RoundRow, counted: Sequence[UpdateRow], starts: Float64Array | None = None) -> Cohort:
        """A synchronous round's updates as arrays: put onto the repaired model where they were trained from another.

        With what rules may need beyond them: each device's steps and their size, the model it began with where that is
        its own (`starts`), and the rule's own state.
        """
        sent = (row.detection or {}).get("trained_from")
        base_of = None if sent is None else lambda _: self.weights(sent)
        start = self.weights(row.begun.base)
        plan = msgspec.msgpack.decode(row.begun.plan, type=Plan)
        extras = with_training(self.extras(row), self.rule, plan, counted, lambda: self._planned(plan), starts)
        return self.read(start, counted, base_of, extras)

    def _planned(self, plan: Plan) -> PlannedSteps | None:
        """How many steps a round's plan has devices take; None where its method is gone."""
        with contextlib.suppress(SettingsError):  # a method of a package that is not installed any more
            return planned_steps(self.pack, plan)
        return None

    def vectors_in(self, number: int) -> tuple[Declared, ...] | None:
        """The vectors that updates of a round may bring, as its plan had it when it began; None before that."""
        return read_declared(self.store, self.pack, self.task, number, self.warn)

    def extras(self, row: RoundRow) -> Extras:
        """What a rule may need that is not of the round's updates."""
        return ServerInputs(
            number=row.round,
            registered=self.store.devices.registered_of_all,
            state=lambda: self.rule_state_after(self.store.models.get(self.task, row.begun.version)),
            objectives=self.labelled.objectives,
            labelled=self.labelled.count,
        ).extras(self.rule)

    def read(
        self,
        start: Flat,
        counted: Sequence[UpdateRow],
        base_of: Callable[[int], Flat] | None = None,
        extras: Extras = NOTHING,
    ) -> Cohort:
        """Updates as arrays, a row a device, with what it registered; parameters as of `cohort_of`."""
        registered = self.store.devices.registered({row.device for row in counted})
        table, opener = self.pack.plugin_table, self.opener
        cohort = cohort_of(table, start, counted, self.blobs, base_of, opener, registered, extras, self.arrived)
        return by_device(cohort)

    def rule_state_after(self, model: ModelRow) -> RuleState | None:
        """The state that this coordinator's rule left with a model; None before its first round or after another's."""
        return self.state_after(model, self.rule.name)

    def state_after(self, model: ModelRow, rule: str) -> RuleState | None:
        """The state that a rule left with a model; None before its first round or after another's."""
        return self._server_state(model).of_rule(rule)

    def optimizer_after(self, model: ModelRow) -> OptimizerState | None:
        """The server optimizer's state after a model (its row); None before the first step."""
        return self._server_state(model).optimizer

    def optimizer_of(self, saved: bytes | None) -> OptimizerState | None:
        """A saved state of the server optimizer; None where a rule's state was kept alone."""
        return ServerState.from_bytes(saved, self.pack.plugin_table.size).optimizer

    def _server_state(self, model: ModelRow) -> ServerState:
        saved = None if model.optimizer is None else self.blobs.get(model.optimizer)
        return ServerState.from_bytes(saved, self.pack.plugin_table.size)

    @cached_property
    def privacy(self) -> PrivacyLedger | None:
        """Of rounds with noise on devices."""
        run = self.settings
        if run.privacy.clip is None:
            return None
        share = run.participation * run.over_selection
        return PrivacyLedger(run.privacy, self.store.rounds, task=run.task, quorum=run.quorum, sampling=share)

    @property
    def needs(self) -> list[str]:
        """What a device has to be able to do for the rounds of this coordinator."""
        plan, hides = self.settings.preset.plan, self.settings.secure_sum.on
        asks = [FIXMATCH] * bool(plan.fixmatch) + [BAVD] * bool(plan.bavd) + [METHODS] * bool(plan.method)
        return [NOISE] * (self.privacy is not None) + [SECURE_SUM] * hides + asks

    def eligible(self) -> tuple[list[DeviceRow], dict[str, str]]:
        """Devices that can be invited now, and why the others cannot."""
        rows = self.store.devices.all()
        resting = self.store.rounds.resting(self.task)
        why = {row.device: unfit(row, self.pack.identity, self.needs) or resting.get(row.device) for row in rows}
        fit = [row for row in rows if why[row.device] is None]
        return fit, {name: reason for name, reason in why.items() if reason is not None}

    async def for_each(self, message: Invite | Measure, devices: Iterable[str]) -> Callable[[str], Sequence[Asked]]:
        """What each of these devices is sent; one that is too old for the plan's codec is asked for float32."""
        plan = message.plan if isinstance(message, Invite) else None
        if plan is None or plan.codec in CODECS:
            return lambda device: [msgspec.structs.replace(message, device=device)]
        able = await asyncio.to_thread(self.store.devices.able, devices, plan.codec)
        plain = msgspec.structs.replace(plan, codec="float32")
        return lambda device: [msgspec.structs.replace(message, device=device, plan=plan if device in able else plain)]

    async def all_heard(self) -> bool:
        """Whether every device that was here before the coordinator started has been heard, or counts as gone."""
        return self.presence_known or not await asyncio.to_thread(self.store.devices.unheard)

    async def wait_change(self, timeout: float = POLL) -> None:
        """Wait until something happened, or for some seconds."""
        self.changed.clear()
        await self.clock.wait_set(self.changed, max(0.01, timeout))

    def warn(self, *sentences: str | None) -> None:
        """Log what a rule or detection has to say, each sentence once (A13)."""
        for sentence in sentences:
            if sentence and sentence not in self.warned:
                self.warned.add(sentence)
                log.warning("%s: %s", self.rule.name, sentence)


def read_declared(
    store: Store, pack: Pack, task: str, number: int, warn: Callable[[str], None]
) -> tuple[Declared, ...] | None:
    """See `RoundContext.vectors_in`; `warn` is told where a round's method is gone."""
    newest = store.rounds.newest(task)
    if newest is None or not 1 <= number <= newest.round:
        return None
    row = store.rounds.get(task, number)
    if row.plan is None:
        return None
    plan = msgspec.msgpack.decode(row.plan, type=Plan)
    try:
        return declared(plan, pack, gradients=row.lent is not None)
    except SettingsError as error:  # a method of a package that is not installed any more
        warn(f"round {number}: no vector of its updates is taken: {error}")
        return ()
