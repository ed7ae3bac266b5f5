"""What all operations stand on: store, files, task, and whose they are."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Protocol, TypeVar

import msgspec

from auricle.errors import NOT_FOUND, REFUSED_CODE, AuricleError, StorageError, nearest
from auricle_cloud.operations.waiting import coordinator_trouble
from auricle_cloud.storage.database_errors import SupersededError
from auricle_cloud.storage.rows import Row

if TYPE_CHECKING:
    from auricle.wire.tensors import TensorTable
    from auricle_cloud.storage.blobs import BlobStore
    from auricle_cloud.storage.claim_records import ClaimRecords
    from auricle_cloud.storage.database import Pulse
    from auricle_cloud.storage.listings import MemberRow
    from auricle_cloud.storage.store import Store

T = TypeVar("T", bound=msgspec.Struct)


class NotFoundError(StorageError):
    """What an operation is about does not exist."""

    exit_code = NOT_FOUND


class ConflictError(StorageError):
    """What an operation asks for does not go with how things are."""

    exit_code = REFUSED_CODE


class Certifier(Protocol):
    """What certifies devices: `auricle_cloud.identity.enrolment.Enrolment`."""

    records: ClaimRecords

    @property
    def pin(self) -> str:
        """SHA-256 of the root's certificate."""

    def free_names(self, prefix: str, count: int) -> list[str]:
        """Names that nobody has."""

    def tokens(
        self, devices: Sequence[str], seconds: float, *, who: str, replace: bool = False
    ) -> list[tuple[str, str, float]]:
        """Make claim tokens."""

    def draw_code(self, seconds: float, *, who: str) -> tuple[str, float]:
        """A code by which devices join for so long, and until when."""


def _no_table(_pack: str) -> TensorTable | None:
    return None


def _no_authority() -> Certifier | None:
    return None


class Operator:
    """Somebody who acts on one task of one coordinator.

    Parameters
    ----------
    store, blobs
        The coordinator's.
    task
        The task that rounds and models are of.
    wake
        Called after a change, so that the coordinator acts at once; in the thread of the operation.
    who
        Whose operations they are, for the events.
    table
        Finds the plug-in's tensor table by the pack's identity; None where the pack is not at hand.
    enrolment
        Opens what certifies devices; None where there is no authority.
    """

    def __init__(
        self,
        store: Store,
        blobs: BlobStore,
        task: str,
        wake: Callable[[], None] = lambda: None,
        who: str = "cli",
        table: Callable[[str], TensorTable | None] = _no_table,
        enrolment: Callable[[], Certifier | None] = _no_authority,
    ) -> None:
        self.store, self.blobs, self.task, self.who = store, blobs, task, who
        self._wake, self._table, self._enrolment = wake, table, enrolment
        self._list = store.listings

    @contextmanager
    def _changing(self) -> Iterator[None]:
        """What a record refuses is a conflict, unless it is the database that fails; then wake the coordinator."""
        try:
            yield
        except SupersededError:
            raise
        except StorageError as error:
            if error.__cause__ is not None or isinstance(error, (NotFoundError, ConflictError)):
                raise
            raise ConflictError(str(error)) from error
        self._wake()

    def _trouble(self, pulse: Pulse | None = None) -> list[str]:
        """Why nothing can happen now, by the coordinator's last sign of life."""
        return coordinator_trouble(pulse or self.store.database.pulse(), self._list.epoch())

    def _pack(self) -> str:
        """Identity of the task's pack; empty when no coordinator has begun the task."""
        return next((row.pack for row in self.store.models.tasks() if row.task == self.task), "")


def as_answer(kind: type[T], row: Row, **more: object) -> T:
    """A struct of `more`, and of the fields of a row that has the others."""
    names = kind.__struct_fields__
    return kind(**{name: more[name] if name in more else getattr(row, name) for name in names})


def outcome_state(row: MemberRow) -> str:
    """The state of an invitation, or whether the update which came of it counted."""
    if row.received is None:
        return row.state
    return "left_out" if row.left_out else "counted"


def absent(error: StorageError, hint: str = "") -> AuricleError:
    """What a record does not find, and what there is; a database that fails stays what it is."""
    return error if error.__cause__ is not None else NotFoundError(f"{error} {hint}".strip())


def unknown(what: str, name: str, known: Sequence[str]) -> NotFoundError:
    """The error that nothing has this name, with the nearest one that something has."""
    return NotFoundError(f'There is no {what} "{name}"; {nearest(name, known) if known else "none exists yet."}')
