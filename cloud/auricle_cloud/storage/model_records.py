"""Models in the database: their versions, which one is current, and which files they need."""

from __future__ import annotations

import time

import sqlalchemy as sa

from auricle.errors import StorageError
from auricle_cloud.states.round import FINISHED
from auricle_cloud.storage.database import Database
from auricle_cloud.storage.journal import note, put_out
from auricle_cloud.storage.personal_records import drop_personal, personal_files
from auricle_cloud.storage.rows import LENT, VECTORS, ModelRow, TaskRow, lent_in, vectors_in
from auricle_cloud.storage.schema import models, rounds, tasks, updates


class Models:
    """The models of all tasks of one coordinator."""

    def __init__(self, database: Database) -> None:
        self._db = database

    def begin(self, task: str, pack: str, blob: str) -> None:
        """Enter a task with its first model; does nothing where both are there.

        Raises
        ------
        StorageError
            The task is of another pack.
        """
        with self._db.writing() as tx:
            known = tx.execute(sa.select(tasks.c.pack).where(tasks.c.task == task)).scalar()
            if known not in (None, pack):
                raise StorageError(
                    f"{task} is a task of pack {known[:12]}, not of {pack[:12]}: go on with the pack that it had "
                    "(--pack), or choose another --task or --state."
                )
            first = {"blob": blob, "created": time.time(), "origin": "first"}
            self._db.insert_missing(tx, models, task=task, version=0, **first)
            newest = tx.execute(sa.select(sa.func.max(models.c.version)).where(models.c.task == task)).scalar()
            self._db.insert_missing(tx, tasks, task=task, pack=pack, current=newest)

    def add(
        self,
        tx: sa.Connection,
        task: str,
        blob: str,
        *,
        optimizer: str | None,
        origin: str,
        number: int | None,
        accuracy: float | None = None,
        loss: float | None = None,
        parent: int | None = None,
    ) -> int:
        """Enter a model, make it current and have it published, in the transaction that decides it; its version."""
        current = tx.execute(sa.select(tasks.c.current).where(tasks.c.task == task)).scalar()
        newest = tx.execute(sa.select(sa.func.max(models.c.version)).where(models.c.task == task)).scalar()
        version = 0 if newest is None else newest + 1
        made = {"blob": blob, "optimizer": optimizer, "created": time.time(), "origin": origin, "round": number}
        judged = {"accuracy": accuracy, "loss": loss}
        row = {**made, **judged, "parent": current if parent is None else parent}
        tx.execute(models.insert().values(task=task, version=version, **row))
        self._point(tx, task, version)
        return version

    def promote(self, task: str, version: int, *, who: str, kind: str = "promoted", reason: str = "") -> None:
        """Make a version current: the next round begins with it. StorageError when it is not there."""
        row = self.get(task, version)
        with self._db.writing() as tx:
            self._point(tx, task, row.version)
            note(tx, kind, task=task, who=who, detail=f"version {version} {reason}".strip())

    def before(self, task: str, version: int) -> int | None:
        """The version that a round made the newest one from, if `version` is that; None where it is another or is gone.

        A model that an operator chose is not the newest one, or was made by no round.
        """
        key = models.c.task == task
        newest = sa.select(sa.func.max(models.c.version)).where(key).scalar_subquery()
        made = key & (models.c.version == version) & (models.c.version == newest) & (models.c.origin == "round")
        parent = sa.select(models.c.parent).where(made).scalar_subquery()
        with self._db.reading() as tx:
            found = tx.execute(sa.select(models.c.version).where(key & (models.c.version == parent))).scalar()
        return None if found is None else int(found)

    def go_back(self, tx: sa.Connection, task: str, version: int, number: int, detail: str) -> None:
        """Make an earlier version current and have it published, in the transaction that ends a round for it."""
        self._point(tx, task, version)
        note(tx, "rolled back", task=task, number=number, who="devices", detail=f"version {version}: {detail}")

    @staticmethod
    def _point(tx: sa.Connection, task: str, version: int) -> None:
        tx.execute(sa.update(tasks).where(tasks.c.task == task).values(current=version))
        put_out(tx, "model", task, version=version)

    def get(self, task: str, version: int) -> ModelRow:
        """One model; StorageError when it is not there."""
        query = ModelRow.select(models).where((models.c.task == task) & (models.c.version == version))
        with self._db.reading() as tx:
            row = ModelRow.first(tx, query)
        if row is None:
            raise StorageError(f"There is no version {version} of the model of {task}.")
        return row

    def current(self, task: str) -> ModelRow:
        """The current model of a task; StorageError when the task was never begun."""
        is_current = (tasks.c.task == models.c.task) & (tasks.c.current == models.c.version)
        query = ModelRow.select(models).join(tasks, is_current).where(models.c.task == task)
        with self._db.reading() as tx:
            row = ModelRow.first(tx, query)
        if row is None:
            raise StorageError(f"There is no task {task} yet: no coordinator has begun it.")
        return row

    def all(self, task: str, limit: int = 50) -> list[ModelRow]:
        """The newest models first."""
        query = ModelRow.select(models).where(models.c.task == task).order_by(models.c.version.desc()).limit(limit)
        with self._db.reading() as tx:
            return ModelRow.read(tx, query)

    def of_round(self, task: str, number: int) -> ModelRow | None:
        """The model that a round made."""
        key = (models.c.task == task) & (models.c.round == number) & (models.c.origin == "round")
        with self._db.reading() as tx:
            return ModelRow.first(tx, ModelRow.select(models).where(key))

    def judged(self, task: str, version: int, accuracy: float, loss: float) -> None:
        """Note how a model does on the operator's validation set."""
        key = (models.c.task == task) & (models.c.version == version)
        with self._db.writing() as tx:
            tx.execute(sa.update(models).where(key).values(accuracy=accuracy, loss=loss))

    def tasks(self) -> list[TaskRow]:
        """All tasks."""
        with self._db.reading() as tx:
            return TaskRow.read(tx, TaskRow.select(tasks).order_by(tasks.c.task))

    def superseded(self, task: str, keep: int) -> list[int]:
        """Versions that retention gives up: all but the first, the current one and the `keep` newest."""
        with self._db.reading() as tx:
            current = tx.execute(sa.select(tasks.c.current).where(tasks.c.task == task)).scalar()
            query = sa.select(models.c.version).where(models.c.task == task).order_by(models.c.version.desc())
            versions = list(tx.execute(query).scalars())
        return [version for version in versions[keep:] if version not in (0, current)]

    def drop(self, task: str, versions: list[int]) -> set[str]:
        """Forget models, and those of single devices with them: the files of the latter, some of them still in use."""
        with self._db.writing() as tx:
            tx.execute(sa.delete(models).where((models.c.task == task) & models.c.version.in_(versions)))
            return drop_personal(tx, task, versions)

    def in_use_by_any(self) -> set[str]:
        """Files that are still needed by any task."""
        return {name for row in self.tasks() for name in self.in_use(row.task)}

    def in_use(self, task: str) -> set[str]:
        """Files that are still needed.

        Those of every model and of single devices' models, what rounds lend that are not finished, and the bodies of
        updates in these, or in the one that made the current model: detection may ask for them.
        """
        with self._db.reading() as tx:
            files = tx.execute(sa.select(models.c.blob, models.c.optimizer).where(models.c.task == task)).all()
            open_rounds = (rounds.c.task == task) & rounds.c.state.not_in(FINISHED)
            bases = tx.execute(sa.select(rounds.c.base).where(open_rounds)).scalars().all()
            noted = tx.execute(sa.select(rounds.c.report[LENT], rounds.c.report[VECTORS]).where(open_rounds)).all()
            numbers = list(tx.execute(sa.select(rounds.c.round).where(open_rounds)).scalars())
            current = (tasks.c.task == models.c.task) & (tasks.c.current == models.c.version)
            made = sa.select(models.c.round).join(tasks, current).where(models.c.task == task)
            numbers += [number for number in tx.execute(made).scalars() if number is not None]
            counted = (updates.c.task == task) & updates.c.counted_in.in_(numbers)
            bodies = tx.execute(sa.select(updates.c.body).where(counted)).scalars().all()
            personal = personal_files(tx, task)
        models_of_all = {name for row in files for name in row if name}
        lent = {prior.blob for each, _ in noted if (prior := lent_in(each)) is not None}
        lent |= {vector.blob for _, each in noted for vector in vectors_in(each)}
        return models_of_all | {base for base in bases if base} | set(bodies) | personal | lent
