"""Models of single devices in the database: which one each device begins its next round with, by version of the model.

A rule that makes a model for each device leaves them with the version that its round made, whole: those of the round's
devices, and of all others those of the version that the round began with. So going back to a version goes back to the
models of its devices, and a coordinator that is killed finds both or neither.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping

import sqlalchemy as sa
from msgspec import Struct

from auricle_cloud.states.round import FINISHED
from auricle_cloud.storage.database import Database
from auricle_cloud.storage.rows import Row
from auricle_cloud.storage.schema import invitations, personal_models, rounds


class MadeModel(Struct, frozen=True):
    """What a round made for a device."""

    cluster: int
    """Number of its group in that round."""
    blob: str


class PersonalRow(Row, frozen=True):
    """A row of `personal_models`."""

    task: str
    version: int
    device: str
    round: int
    cluster: int
    blob: str


class PersonalModels:
    """The models of single devices, of all tasks of one coordinator."""

    def __init__(self, database: Database) -> None:
        self._db = database

    def of(self, task: str, version: int, device: str | None = None) -> dict[str, PersonalRow]:
        """The models that belong to a version, by device: of all that have one, or of one device."""
        key = (personal_models.c.task == task) & (personal_models.c.version == version)
        key = key if device is None else key & (personal_models.c.device == device)
        with self._db.reading() as tx:
            return {row.device: row for row in PersonalRow.read(tx, PersonalRow.select(personal_models).where(key))}

    def enter(
        self,
        tx: sa.Connection,
        task: str,
        version: int,
        *,
        parent: int,
        number: int,
        made: Mapping[str, MadeModel],
    ) -> None:
        """Enter what belongs to a new version, in the transaction that makes it.

        Parameters
        ----------
        version, parent
            The new version, and the one that its round began with.
        number, made
            The round, and what it made by device; the other devices keep what they had with `parent`.
        """
        columns = [column.name for column in personal_models.columns]
        of_parent = (personal_models.c.task == task) & (personal_models.c.version == parent)
        kept = [
            {**row, "version": version}
            for row in tx.execute(sa.select(personal_models).where(of_parent)).mappings()
            if row["device"] not in made
        ]
        fresh = [
            dict(zip(columns, (task, version, device, number, each.cluster, each.blob), strict=True))
            for device, each in sorted(made.items())
        ]
        self._db.insert_all_missing(tx, personal_models, [*kept, *fresh])

    def asked(self, task: str, number: int) -> dict[str, str]:
        """The models that devices were asked to begin a round with, by device, where it is not the round's own."""
        key = (invitations.c.task == task) & (invitations.c.round == number) & invitations.c.base.is_not(None)
        with self._db.reading() as tx:
            found = tx.execute(sa.select(invitations.c.device, invitations.c.base).where(key))
            return {device: str(base) for device, base in found}


def personal_files(tx: sa.Connection, task: str | None = None) -> set[str]:
    """Files of a task's models of devices, or of all tasks'; with those that rounds under way began with."""
    kept, asked = sa.select(personal_models.c.blob), _files_in_rounds()
    if task is not None:
        kept, asked = kept.where(personal_models.c.task == task), asked.where(invitations.c.task == task)
    return {*tx.execute(kept.distinct()).scalars(), *tx.execute(asked.distinct()).scalars()}


def drop_personal(tx: sa.Connection, task: str, versions: Collection[int]) -> set[str]:
    """Forget the models of devices that belong to these versions; the files that some of them had."""
    key = (personal_models.c.task == task) & personal_models.c.version.in_(list(versions))
    files = set(tx.execute(sa.select(personal_models.c.blob).where(key).distinct()).scalars())
    tx.execute(sa.delete(personal_models).where(key))
    return files


def _files_in_rounds() -> sa.Select[tuple[str]]:
    """Files that the devices of rounds under way were asked to begin with."""
    same = (rounds.c.task == invitations.c.task) & (rounds.c.round == invitations.c.round)
    joined = sa.select(invitations.c.base).join(rounds, same)
    return joined.where(invitations.c.base.is_not(None) & rounds.c.state.not_in(FINISHED))
