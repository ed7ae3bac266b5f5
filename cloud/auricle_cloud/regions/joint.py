"""Where regions meet: it waits until enough are here, runs the method over all their updates, and keeps the model.

Each model is on disk before a region is given it, with what the round made of its updates: a region that was cut off
asks again and is given the same. One that comes too late, or with updates of another model, is given the newest.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path

from auricle.errors import SettingsError, WireError
from auricle.packs.pack import Pack
from auricle.wire.tensors import Flat, decode, digest, encode
from auricle_cloud.regions.joint_cohort import joint_cohort, part_of
from auricle_cloud.regions.joint_model import KEPT, JointState, read_joint_state
from auricle_cloud.regions.messages import (
    Again,
    FromMeeting,
    FromRegion,
    JoinRound,
    Joint,
    Later,
    RegionPart,
    Reply,
    method_text,
)
from auricle_cloud.regions.seats import RegionLostError, Seat
from auricle_cloud.rounds.model_check import UnsoundModelError, make_model
from auricle_cloud.settings import Limits
from auricle_learning.aggregation.bounded import BoundedRule
from auricle_learning.aggregation.claims import ENOUGH
from auricle_learning.aggregation.cohort import Cohort, layers_of
from auricle_learning.aggregation.inputs import ServerInputs
from auricle_learning.aggregation.next_model import NextModel, next_model
from auricle_learning.aggregation.rules.average import unchanged
from auricle_learning.aggregation.rules.rule import check_composes, check_needs
from auricle_learning.aggregation.server_state import ServerState
from auricle_learning.presets import Preset

log = logging.getLogger("auricle.cloud")

HOLD_SECONDS = 5.0
"""A region that has to wait is answered after so long at the latest."""
TOO_FEW = f"fewer than {ENOUGH} devices in all regions together: the model is unchanged"


@dataclass(frozen=True)
class JointSettings:
    """How regions meet."""

    folder: Path
    regions: tuple[str, ...]
    """Names of those that may take part."""
    preset: Preset
    quorum: int
    """Regions without which no model is made."""
    patience: float = 60.0
    """Seconds that a quorum waits for the other regions."""
    limits: Limits = field(default_factory=Limits)
    horizon: int = 200
    """Rounds over which a preset's rates change."""

    def __post_init__(self) -> None:
        """Refuse what no model could be made with; SettingsError."""
        if not 1 <= self.quorum <= len(self.regions):
            raise SettingsError(
                f"{self.quorum} of {len(self.regions)} regions cannot meet: the quorum is 1 to {len(self.regions)}."
            )
        if not 0 <= self.patience <= 1e9:
            raise SettingsError("The patience for regions is 0 to 1e9 seconds.")
        rule = self.preset.method.get_rule()
        check_needs(rule)
        check_composes(rule)


class Meeting:
    """The joint rounds of one task; call it from any thread.

    Parameters
    ----------
    settings, pack
        How they meet, and over which models.
    start
        (P,) the first model.

    Raises
    ------
    SettingsError
        What is kept in the folder is of another pack.
    DataError
        What is kept there cannot be read.
    """

    def __init__(self, settings: JointSettings, pack: Pack, start: Flat) -> None:
        self.settings, self._pack, self._table = settings, pack, pack.plugin_table
        preset, limits = settings.preset, settings.limits
        self.rule = BoundedRule(preset.method.get_rule(), limits.share, limits.prune_few)
        self._layers = layers_of((spec.name, spec.size, spec.layer) for spec in self._table.specs)
        self._turn = threading.Condition()
        self._seats: dict[str, Seat] = {}
        self._stopping = False
        self._quorum_at: float | None = None
        self._path = settings.folder / KEPT
        self._kept = read_joint_state(self._path, pack, start)
        self._newest = digest(self._kept.weights)

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
            seat.heard = time.monotonic()
            if isinstance(message, Reply):
                seat.take(message)
            until = seat.heard + HOLD_SECONDS
            self._turn.notify_all()
            while not self._stopping and not seat.gone:
                if seat.result is not None:
                    return seat.result
                if seat.next_question is not None:
                    return seat.next_question
                if (left := until - time.monotonic()) <= 0:
                    return Later(len(self._here()), len(self.settings.regions))
                self._turn.wait(left)
            return Again()

    def _sit_down(self, name: str, join: JoinRound) -> Joint | None:
        """Note that a region is here; or what it is given at once."""
        self._check_region(name, join)
        kept, devices = self._kept, tuple(row.device for row in join.rows)
        if join.base != self._newest or not join.rows:
            same = join.base == kept.base and kept.devices.get(name) == devices
            return self._joint(kept.parts.get(name) if same else None)
        before = self._seats.get(name)
        if before is not None and before.join.join == join.join and not before.gone:
            return None
        if before is not None:
            before.gone = True
        self._seats[name] = Seat(name, join, self._table.size, self._turn)
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
        limits = self.settings.limits
        if any(row.samples > limits.samples or abs(row.loss or 0.0) > limits.loss for row in join.rows):
            raise WireError(
                "An update has more clips or a larger loss than [limits] allows: give all regions the same."
            )

    def _joint(self, part: RegionPart | None) -> Joint:
        kept = self._kept
        return Joint(kept.number, tuple(sorted(kept.devices)), kept.weights, part)

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
                here, now = self._here(), time.monotonic()
                if len(here) < self.settings.quorum:
                    self._quorum_at = None
                else:
                    self._quorum_at = self._quorum_at or now
                    if len(here) == len(self.settings.regions) or now >= self._quorum_at + self.settings.patience:
                        self._quorum_at = None
                        return here
                self._turn.wait(1.0)
        return None

    def _make(self, seats: Sequence[Seat]) -> None:
        began, before = time.monotonic(), self._kept
        number, start = before.number + 1, decode(before.weights, self._table.size)
        state = ServerState.from_bytes(before.server, self._table.size)
        joins = {seat.name: seat.join for seat in seats}
        registered = [row.registered or 0.0 for join in joins.values() for row in join.rows]
        server = ServerInputs(number, lambda: registered, lambda: state.of_rule(self.rule.name))
        extras = replace(server.extras(self.rule), rate=self.settings.preset.plan.rate)
        rows, cohort = joint_cohort(joins, seats, start, self._layers, extras)
        made = self._next_model(cohort, start, state)
        kept = JointState(
            number=number,
            pack=before.pack,
            base=self._newest,
            weights=encode(made.weights),
            server=made.kept,
            devices={name: tuple(row.device for row in join.rows) for name, join in joins.items()},
            parts={name: part_of(made.aggregate, mine) for name, mine in zip(joins, rows, strict=True)},
        )
        kept.write(self._path)
        for sentence in filter(None, (*made.aggregate.warnings, made.aggregate.flag)):
            log.warning("%s: %s", self.rule.name, sentence)
        seconds = time.monotonic() - began
        log.info("joint round %d: %d updates of %s in %.1f s", number, len(cohort.ids), ", ".join(joins), seconds)
        with self._turn:
            self._kept, self._newest = kept, digest(kept.weights)
            for seat in self._seats.values():
                if seat.result is None:
                    seat.result = self._joint(kept.parts[seat.name] if seat in seats else None)
            self._turn.notify_all()

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
        except UnsoundModelError as error:
            return stay(str(error))
