"""Models for operators: seen, chosen, fetched."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from auricle.errors import StorageError
from auricle.process.times import Time
from auricle_cloud.operations.operating import ConflictError, NotFoundError, Operator, absent, as_answer
from auricle_cloud.operations.types import Answer, File, Form, HearingHours, Limit, Number, Reason
from auricle_cloud.states.hearing_comparison import compare, worse
from auricle_cloud.storage import rows

if TYPE_CHECKING:
    from auricle.wire.tensors import TensorTable


class ModelRow(Answer, frozen=True, kw_only=True):
    """A version of the model."""

    task: str
    version: int
    current: bool
    blob: str
    """SHA-256 of its weights as float32."""
    origin: str
    """first, round, or repair."""
    round: int | None
    parent: int | None
    created: Time
    accuracy: float | None
    """On the operator's validation set, 0 to 1."""
    loss: float | None


class ModelPage(Answer, frozen=True, kw_only=True):
    """The newest models first."""

    models: list[ModelRow]
    next: int | None
    """Give it as `before` for the next page."""


class Judged(Answer, frozen=True, kw_only=True):
    """How good a model is on a validation set."""

    version: int
    accuracy: float
    loss: float
    clips: int
    kept: bool
    """Whether it was written to the model's row."""

    @property
    def done(self) -> str:
        """It in one sentence."""
        kept = ", and that is kept" if self.kept else ""
        return (
            f"Version {self.version}: accuracy {self.accuracy:.4f}, loss {self.loss:.4g} on {self.clips} clips{kept}."
        )


class ModelOperations(Operator):
    """What operators can do with models."""

    def _model(self, version: int) -> rows.ModelRow:
        try:
            return self.store.models.get(self.task, version)
        except StorageError as error:
            newest = self._list.models(self.task, limit=1, before=None)
            hint = f"The newest is version {newest[0].version}." if newest else "No coordinator has begun it yet."
            raise absent(error, hint) from error

    def list_models(self, limit: Limit = 50, before: Number | None = None) -> ModelPage:
        """List the model's versions, the newest first."""
        found = self._list.models(self.task, limit=limit + 1, before=before)
        current = self._list.current().get(self.task)
        shown = [as_answer(ModelRow, row, current=row.version == current) for row in found[:limit]]
        return ModelPage(models=shown, next=shown[-1].version if len(found) > limit else None)

    def show_model(self, version: Number) -> ModelRow:
        """Show a version of the model."""
        row = self._model(version)
        return as_answer(ModelRow, row, current=self._list.current().get(self.task) == version)

    def promote_model(
        self, version: Number, reason: Reason = "", hearing_hours: HearingHours | None = None
    ) -> ModelRow:
        """Make a version current: it is sent out, and the next round begins with it."""
        row = self._model(version)
        if hearing_hours is not None:
            self._require_heard(row, hearing_hours)
        with self._changing():
            self.store.models.promote(self.task, version, who=self.who, reason=reason)
        return self.show_model(version)

    def _require_heard(self, row: rows.ModelRow, hours: float) -> None:
        """ConflictError: devices with this version hear worse than with the current one, or have not said enough."""
        now = self._list.current().get(self.task)
        if now is None or now == row.version:
            return
        told = [[t.heard for t in self.store.hearing.totals(0, base=m.blob)] for m in (row, self._model(now))]
        compared = compare(*told)
        if compared.lacks(hours):
            raise ConflictError(
                f"Devices have reported {compared.after.hours:.4g} h with version {row.version} and "
                f"{compared.before.hours:.4g} h with version {now}, and {hours:g} h of each are needed: wait, or "
                "promote it without --hold-on-hearing."
            )
        if compared.is_worse:
            raise ConflictError(worse(compared, f"Devices with version {row.version}", f"version {now}"))

    def rollback_model(self, version: Number | None = None, reason: Reason = "") -> ModelRow:
        """Go back to an earlier version: the one that the current was made from, or a given one."""
        now = self._list.current().get(self.task)
        if now is None:
            raise NotFoundError(f"There is no task {self.task} yet: no coordinator has begun it.")
        to = self._model(now).parent if version is None else version
        if to is None or to >= now:
            raise ConflictError(f"Version {now} is current: there is no earlier one to go back to, or it is not that.")
        self._model(to)
        with self._changing():
            self.store.models.promote(self.task, to, who=self.who, kind="rolled back", reason=reason)
        return self.show_model(to)

    def download_model(self, version: Number, form: Form = "safetensors") -> File:
        """Download a version's weights: named tensors, or the raw float32 numbers that travel."""
        row = self._model(version)
        data, name = self.blobs.get(row.blob), f"{self.task}-{version}"
        if form == "raw":
            return File(name=f"{_plain(name)}.f32", content_type="application/octet-stream", content=data)
        pack = self._pack()
        table = self._table(pack)
        if table is None:
            raise ConflictError(f"The pack {pack[:12]} is not at hand, which names the tensors: name it, or take raw.")
        content = _safetensors(table, data, f"{self.task} version {version} of pack {pack}")
        return File(name=f"{_plain(name)}.safetensors", content_type="application/octet-stream", content=content)

    def public_blob(self, sha256: str) -> File:
        """Read what devices download: a current model, or one that a round under way began with."""
        if sha256 not in self._list.public():
            raise NotFoundError("There is no current model of this hash.")
        return File(name=sha256, content_type="application/octet-stream", content=self.blobs.get(sha256))


def _plain(name: str) -> str:
    return re.sub(r"[^A-Za-z0-9_.-]", "_", name)


def _safetensors(table: TensorTable, block: bytes, title: str) -> bytes:
    """Named tensors; one title, for more would stand in any order."""
    import numpy as np
    from safetensors.numpy import save

    from auricle.wire.tensors import decode

    flat = decode(block, table.size)
    tensors = {spec.name: np.ascontiguousarray(table.tensor(flat, spec.name)) for spec in table.specs}
    return save(tensors, {"title": title})
