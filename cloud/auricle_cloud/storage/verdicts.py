"""What becomes of an update: judged by rounds, invitations and standings, read in a few queries for a whole batch."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from typing import Any

import sqlalchemy as sa

from auricle.wire.messages import Update
from auricle_cloud.states.round import TAKING, State
from auricle_cloud.states.verdict import Verdict, verdict_behind, verdict_in
from auricle_cloud.storage.rows import Mode, Row
from auricle_cloud.storage.schema import devices, invitations, models, rounds, sums, tasks, updates
from auricle_cloud.storage.sum_records import sum_of_plan

Place = tuple[str, int]
"""Task and round."""


class Began(Row, frozen=True):
    """What of a round's row decides about its updates."""

    state: State
    mode: Mode
    base: str | None
    base_version: int | None
    plan: bytes | None

    @property
    def sum(self) -> str | None:
        """The secure sum that its updates are parts of."""
        return sum_of_plan(self.plan)


class UpdateJudge:
    """Judges the updates of a batch.

    Parameters
    ----------
    tx
        The transaction in which everything is read.
    arrived
        All updates of the batch.
    stale_limit
        Of asynchronous rounds: how many models ago an update may have started.
    hold
        Keep the rounds that they would count in as they are until the commit.
    """

    def __init__(self, tx: sa.Connection, arrived: Sequence[Update], stale_limit: int, *, hold: bool = False) -> None:
        self._tx, self._stale_limit, self._hold = tx, stale_limit, hold
        self._rounds: dict[Place, Began | None] = {}
        self._counted: dict[tuple[Place, str], tuple[str, int]] = {}
        """Body, and the round it counts in."""
        self._standing: dict[tuple[Place, str], str] = {}
        """Of those that were invited."""
        self._bases: dict[tuple[Place, str], str] = {}
        """Models of their own that devices were asked to begin with."""
        self._sums: dict[Place, set[str]] = {}
        """Who is part of a round's secure sum."""
        self._open: dict[str, int | None] = {}
        self._newer: dict[tuple[str, int], int] = {}
        by_place: defaultdict[Place, set[str]] = defaultdict(set)
        for update in arrived:
            by_place[update.task, update.round].add(update.device)
        for place, names in sorted(by_place.items()):
            self._read(place, names)

    def _lock_rows(self, query: sa.Select[Any]) -> sa.Select[Any]:
        return query.with_for_update(read=True) if self._hold else query

    def _read(self, place: Place, names: set[str]) -> None:
        task, number = place
        of_round = (rounds.c.task == task) & (rounds.c.round == number)
        self._rounds[place] = Began.first(self._tx, self._lock_rows(Began.select(rounds).where(of_round)))
        columns = (updates.c.device, updates.c.body, updates.c.counted_in)
        same = (updates.c.task == task) & (updates.c.round == number) & updates.c.device.in_(names)
        for device, body, counted_in in self._tx.execute(sa.select(*columns).where(same)):
            self._counted[place, device] = (body, counted_in)
        asked = (invitations.c.task == task) & (invitations.c.round == number) & invitations.c.device.in_(names)
        known = devices.join(invitations, invitations.c.device == devices.c.device)
        standings = sa.select(devices.c.device, devices.c.standing, invitations.c.base).select_from(known).where(asked)
        for device, standing, base in self._tx.execute(standings):
            self._standing[place, device] = standing
            if base is not None:
                self._bases[place, device] = base
        began = self._rounds[place]
        if began is None or began.sum is None:
            self._sums[place] = set()
            return
        parts = sa.select(sums.c.device).where((sums.c.task == task) & (sums.c.round == number) & sums.c.part)
        self._sums[place] = set(self._tx.execute(parts.where(sums.c.device.in_(names))).scalars())

    def judge(self, update: Update) -> Verdict:
        """What counting this update would say."""
        place = (update.task, update.round)
        counted = self._counted.get((place, update.device))
        if counted is not None:
            body, counted_in = counted
            return Verdict("duplicate" if body == update.body else "conflict", counted_in=counted_in)
        return self._judge_first(update, self._rounds[place], self._standing.get((place, update.device)))

    def count(self, update: Update) -> Verdict:
        """Judge an update that is counted if it may be: those after it are judged accordingly."""
        verdict = self.judge(update)
        if verdict.counts:
            self._counted[(update.task, update.round), update.device] = (update.body, verdict.counted_in)
        return verdict

    def _judge_first(self, update: Update, row: Began | None, standing: str | None) -> Verdict:
        if row is None or row.base is None:
            return Verdict("rejected:round")
        if standing is None:
            return Verdict("rejected:not invited")
        if standing != "approved":
            return Verdict(f"rejected:{standing}")
        if update.base != self._bases.get(((update.task, update.round), update.device), row.base):
            return Verdict("rejected:base")
        if (update.sum or None) != row.sum:
            return Verdict("rejected:sum")
        if row.mode == "async":
            began = row.base_version
            return Verdict("rejected:round") if began is None else self._judge_asynchronous(update.task, began)
        if row.state in TAKING and row.sum and update.device not in self._sums[update.task, update.round]:
            return Verdict("rejected:sum")
        return verdict_in(row.state, update.round)

    def _judge_asynchronous(self, task: str, base_version: int) -> Verdict:
        """Count into the round that is open, as long as not too many models were made meanwhile."""
        if task not in self._open:
            of_task = (rounds.c.task == task) & (rounds.c.mode == "async") & rounds.c.state.in_(TAKING)
            query = sa.select(rounds.c.round).where(of_task).order_by(rounds.c.round.desc()).limit(1)
            self._open[task] = self._tx.execute(self._lock_rows(query)).scalar()
        number = self._open[task]
        newer = 0 if number is None else self._newer_models(task, base_version)
        return verdict_behind(newer, self._stale_limit, number)

    def _newer_models(self, task: str, base_version: int) -> int:
        key = (task, base_version)
        if key not in self._newer:
            current = sa.select(tasks.c.current).where(tasks.c.task == task).scalar_subquery()
            made = (models.c.task == task) & (models.c.version > base_version) & (models.c.version <= current)
            self._newer[key] = self._tx.execute(sa.select(sa.func.count()).where(made)).scalar() or 0
        return self._newer[key]
