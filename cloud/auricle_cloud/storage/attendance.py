"""What rounds running have brought of devices, as their invitations say: too late, refused, or nothing at all."""

from __future__ import annotations

from collections.abc import Collection
from typing import Any

import sqlalchemy as sa

from auricle_cloud.states.attendance import brought_nothing
from auricle_cloud.states.round import AGAINST, FINISHED, MISSING, NO_QUORUM
from auricle_cloud.storage.database import Database
from auricle_cloud.storage.schema import invitations, rounds, updates


class Attendance:
    """The invitations of devices since their last update that counted."""

    def __init__(self, database: Database) -> None:
        self._db = database

    def missed(self, task: str, number: int, names: Collection[str], back: int) -> dict[str, list[int]]:
        """The rounds before this one in which invited devices were silent or late, since they counted last.

        Of the `back` rounds before it those that were synchronous and made a model; devices without one are left out.
        """
        query = _since_counted(task, number, back, rounds.c.state == "published", MISSING)
        wanted, found = {*names}, dict[str, list[int]]()
        with self._db.reading() as tx:
            for device, missed, *_ in tx.execute(query):
                if device in wanted:
                    found.setdefault(device, []).append(missed)
        return found

    def nothing(self, task: str, number: int, names: Collection[str], back: int) -> dict[str, list[int]]:
        """The rounds before this one that speak against invited devices (`brought_nothing`), since they counted last.

        Of the `back` rounds before it those that were synchronous and have ended; devices without one are left out.
        """
        silent = (rounds.c.state == "aborted") & invitations.c.state.in_(MISSING)
        query = _since_counted(task, number, back, rounds.c.state.in_(FINISHED), (*AGAINST, *MISSING))
        query = query.where(invitations.c.state.in_(AGAINST) | silent)
        wanted, found = {*names}, dict[str, list[int]]()
        answered: dict[int, tuple[int, int]] = {}
        with self._db.reading() as tx:
            for device, one, state, reason in tx.execute(query).all():
                given_up = (reason or "").startswith(NO_QUORUM)
                if device not in wanted or (state in MISSING and not given_up):
                    continue
                if given_up and one not in answered:
                    answered[one] = _count_answers(tx, task, one)
                came, invited = answered.get(one, (0, 0))
                if brought_nothing(state, given_up=given_up, answered=came, invited=invited):
                    found.setdefault(device, []).append(one)
        return found


def _since_counted(
    task: str, number: int, back: int, ended: sa.ColumnElement[bool], states: Collection[str]
) -> sa.Select[Any]:
    """Device, round, state and the round's reason of invitations in these states since their device counted last."""
    near = (invitations.c.task == task) & invitations.c.round.between(number - back, number - 1)
    of_round = (rounds.c.task == task) & (rounds.c.mode == "sync") & ended
    last = (
        sa.select(updates.c.device, sa.func.max(updates.c.counted_in).label("round"))
        .where((updates.c.task == task) & (updates.c.counted_in >= number - back))
        .group_by(updates.c.device)
        .subquery()
    )
    aborted = sa.case((rounds.c.state == "aborted", rounds.c.report["reason"].as_string()))
    return (
        sa.select(invitations.c.device, invitations.c.round, invitations.c.state, aborted)
        .join(rounds, of_round & (rounds.c.round == invitations.c.round))
        .outerjoin(last, last.c.device == invitations.c.device)
        .where(near & invitations.c.state.in_(states))
        .where(invitations.c.round > sa.func.coalesce(last.c.round, 0))
        .order_by(invitations.c.round)
    )


def _count_answers(tx: sa.Connection, task: str, number: int) -> tuple[int, int]:
    """How many updates of a round came in time, and how many devices were invited to it."""
    tables = (updates, invitations)
    came, invited = (
        tx.execute(sa.select(sa.func.count()).where((table.c.task == task) & (table.c.round == number))).scalar() or 0
        for table in tables
    )
    return came, invited
