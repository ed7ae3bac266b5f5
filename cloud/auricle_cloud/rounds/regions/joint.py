"""Where regions meet: it waits until enough are here, runs the method over all their updates, and keeps the model.

Each model is on disk before a region is given it, with what the round made of its updates: a region that was cut off
asks again and is given the same. One that comes too late, or with updates of another model, is given the newest.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Sequence
from dataclasses import replace
from functools import partial

from auricle.errors import SettingsError, WireError
from auricle.packs.pack import Pack
from auricle.process.clock import SYSTEM_CLOCK, Clock
from auricle.wire.tensors import Flat, decode, digest, encode
from auricle_cloud.link.region_messages import (
    Again,
    FromMeeting,
    FromRegion,
    JoinRound,
    Joint,
    Later,
    Leave,
    Reply,
    Wait,
    method_text,
)
from auricle_cloud.rounds.model_check import UnsoundModelError, make_model
from auricle_cloud.rounds.regions.joint_cohort import joint_cohort, part_of
from auricle_cloud.rounds.regions.joint_model import KEPT, JointState, read_joint_state
from auricle_cloud.rounds.regions.seats import RegionLostError, Seat
from auricle_cloud.settings import JointSettings
from auricle_learning.aggregation.bounded import BoundedRule
from auricle_learning.aggregation.claims import ENOUGH
from auricle_learning.aggregation.cohort import Cohort, CohortError, layers_of
from auricle_learning.aggregation.inputs import ServerInputs
from auricle_learning.aggregation.next_model import NextModel, next_model
from auricle_learning.aggregation.rules.average import unchanged
from auricle_learning.aggregation.server_state import ServerState
from auricle_learning.methods.passes import planned_steps

log = logging.getLogger("auricle.cloud")

HOLD_SECONDS = 5.0
"""A region that has to wait is answered after so long at the latest."""
TOO_FEW = f"fewer than {ENOUGH} devices in all regions together: the model is unchanged"


class Meeting:
    """The joint rounds of one task; call it from any thread.

    Parameters
    ----------
    settings, pack
        How they meet, and over which models.
    start
        (P,) the first model.
    clock
        Whom it asks for the time.

    Raises
    ------
    SettingsError
        What is kept in the folder is of another pack.
    DataError
        What is kept there cannot be read.
    """

    def __init__(self, settings: JointSettings, pack: Pack, start: Flat, clock: Clock = SYSTEM_CLOCK) -> None:
        self.settings, self._pack, self._table, self._clock = settings, pack, pack.plugin_table, clock
        preset, limits = settings.preset, settings.limits
        self.rule = BoundedRule(preset.method.get_rule(), limits.share, limits.prune_few)
        self._layers = layers_of((spec.name, spec.size, spec.layer) for spec in self._table.specs)
        self._turn = threading.Condition()
        self._seats, self._stopping = dict[str, Seat](), False
        self._quorum_at: float | None = None
        self._path = settings.folder / KEPT
        self._go_on(read_joint_state(self._path, pack, start))

    @property
    def number(self) -> int:
        """Joint rounds so far."""
        return self._kept.number

    # -- what regions say

    def take(self, name: str, message: FromRegion) -> FromMeeting:
        """Answer a region, after `HOLD_SECONDS` at the latest.

        Raises
        ------
        WireError
            Two of its updates are of one device.
        SettingsError
            It has another pack or method.
        """
        with self._turn:
            if isinstance(message, JoinRound):
                given = self._sit_down(name, message)
                if given is not None:
                    return given
            seat = self._seats.get(name)
            if seat is None or seat.gone or seat.join.join != message.join:
                return Again()
            if isinstance(message, Leave):
                seat.gone = True
                self._turn.notify_all()
                return Again()
            seat.heard = self._clock.monotonic()
            if isinstance(message, Wait) and message.busy:
                return self._later()
            if isinstance(message, Reply):
                seat.take(message)
            until = seat.heard + HOLD_SECONDS
            self._turn.notify_all()
            while not self._stopping and not seat.gone:
                if seat.result is not None:
                    return seat.result
                if seat.next_question is not None:
                    return seat.next_question
                if (left := until - self._clock.monotonic()) <= 0:
                    return self._later()
                self._turn.wait(left)
            return Again()

    def _sit_down(self, name: str, join: JoinRound) -> Joint | None:
        """Note that a region is here; or what it is given at once."""
        self._check_region(name, join)
        if join.base != self._newest or not join.rows:
            return self._joint(name, join)
        before = self._seats.get(name)
        if before is not None and before.join.join == join.join and not before.gone:
            return None
        if before is not None:
            if before.is_here and before.result is None:
                log.warning("the region %s joins again: another process may have its token", name)
            before.gone = True
        self._seats[name] = Seat(name, join, self._start, self.settings.limits.norm, self._turn, self._clock)
        log.info("the region %s is here with %d updates", name, len(join.rows))
        return None

    def _check_region(self, name: str, join: JoinRound) -> None:
        mine = method_text(self.rule)
        if join.pack != self._pack.identity:
            raise SettingsError(
                f"The region {name} has the pack {join.pack[:12]}, and the regions meet with "
                f"{self._pack.identity[:12]}: give all of them the same."
            )
        if join.method != mine:
            raise SettingsError(
                f"The region {name} runs the method {join.method}, and the regions meet with {mine}: give all of them "
                "the same [rounds] and [limits]."
            )
        devices = [row.device for row in join.rows]
        if devices != sorted({*devices}):
            raise WireError("The updates of a region are not in the order of their devices, or one device has two.")
        if "steps" in self.rule.rule.needs and any(row.steps is None for row in join.rows):
            raise WireError(f"The method {self.rule.name} needs each device's steps: update the region's coordinator.")
        limits = self.settings.limits
        if any(row.samples > limits.samples or abs(row.loss or 0.0) > limits.loss for row in join.rows):
            raise WireError(
                "An update has more clips or a larger loss than [limits] allows: give all regions the same."
            )

    def _joint(self, name: str, join: JoinRound) -> Joint:
        """The newest model, with what its round made of a region's updates where they are in it."""
        kept = self._kept
        same = join.base == kept.base and kept.devices.get(name) == tuple(row.device for row in join.rows)
        return Joint(kept.number, tuple(sorted(kept.devices)), kept.weights, kept.parts[name] if same else None)

    def _later(self) -> Later:
        return Later(len(self._here()), len(self.settings.regions))

    def _here(self) -> list[Seat]:
        return [seat for _, seat in sorted(self._seats.items()) if seat.is_here and seat.result is None]

    # -- rounds

    def run(self) -> None:
        """Make a model whenever enough regions are here, until `stop`. StorageError: the folder cannot be written."""
        while (seats := self._wait_for_regions()) is not None:
            try:
                self._make(seats)
            except RegionLostError as error:
                log.warning("%s", error)
                with self._turn:
                    next(seat for seat in seats if seat.name == error.name).gone = True
                    self._lost.add(error.name)
                    self._turn.notify_all()

    def stop(self) -> None:
        """Let `run` and all that wait return."""
        with self._turn:
            self._stopping = True
            for seat in self._seats.values():
                seat.gone = True
            self._turn.notify_all()

    def _wait_for_regions(self) -> list[Seat] | None:
        """Those that meet now; None when it is to stop."""
        with self._turn:
            while not self._stopping:
                here, now = self._here(), self._clock.monotonic()
                # Who was lost in this round is asked again only where the others are too few.
                sound = [seat for seat in here if seat.name not in self._lost]
                chosen = sound if len(sound) >= self.settings.quorum else here
                if len(chosen) < self.settings.quorum:
                    self._quorum_at = None
                else:
                    self._quorum_at = self._quorum_at or now
                    missing = {*self.settings.regions} - {seat.name for seat in here} - self._lost
                    if not missing or now >= self._quorum_at + self.settings.patience:
                        self._quorum_at = None
                        return chosen
                self._turn.wait(1.0)
        return None

    def _make(self, seats: Sequence[Seat]) -> None:
        began, before = self._clock.monotonic(), self._kept
        number, start = before.number + 1, self._start
        state = ServerState.from_bytes(before.server, self._table.size)
        joins = {seat.name: seat.join for seat in seats}
        registered = [row.registered or 0.0 for join in joins.values() for row in join.rows]
        server = ServerInputs(number, lambda: registered, lambda: state.of_rule(self.rule.name))
        plan = self.settings.preset.plan
        extras = replace(server.extras(self.rule), rate=plan.rate, planned=planned_steps(self._pack, plan))
        rows, cohort = joint_cohort(joins, seats, start, self._layers, extras)
        made = self._next_model(cohort, start, state)
        kept = JointState(
            number,
            before.pack,
            base=self._newest,
            weights=encode(made.weights),
            server=made.kept,
            devices={name: tuple(row.device for row in join.rows) for name, join in joins.items()},
            parts={name: part_of(made.aggregate, mine) for name, mine in zip(joins, rows, strict=True)},
        )
        kept.write(self._path)
        for sentence in filter(None, (*made.aggregate.warnings, made.aggregate.flag)):
            log.warning("%s: %s", self.rule.name, sentence)
        seconds = self._clock.monotonic() - began
        log.info("joint round %d: %d updates of %s in %.1f s", number, len(cohort.ids), ", ".join(joins), seconds)
        with self._turn:
            self._go_on(kept)
            for name, seat in self._seats.items():
                seat.result = seat.result or self._joint(name, seat.join)
            self._turn.notify_all()

    def _go_on(self, kept: JointState) -> None:
        """Have regions go on from a model."""
        self._kept, self._newest, self._lost = kept, digest(kept.weights), set[str]()
        self._start = decode(kept.weights, self._table.size)

    def _next_model(self, cohort: Cohort, start: Flat, state: ServerState) -> NextModel:
        """The model of all regions; the one before, with a flag, where there is none that could be published."""
        server = self.settings.preset.server_for(self._kept.number + 1, self.settings.horizon)

        def stay(why: str) -> NextModel:
            return NextModel(start, state.optimizer, replace(unchanged(cohort, why), state=cohort.extras.state))

        if len(cohort.ids) < ENOUGH:
            return stay(TOO_FEW)
        make = partial(next_model, cohort, self.rule, server, state.optimizer)
        try:
            return make_model(make, start, self.settings.limits, self.rule.name)
        except (UnsoundModelError, CohortError) as error:
            return stay(str(error))
