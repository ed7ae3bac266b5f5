"""Rows of the coordinator's tables as structs: a field a column, in the order of the query that reads them."""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING, Any, Literal, TypedDict, TypeVar, get_args

import msgspec

from auricle.errors import StorageError
from auricle.wire.plan import Lent
from auricle.wire.vector_headers import LentVector, VectorHeader
from auricle_cloud.states.report import Document
from auricle_cloud.states.round import State

if TYPE_CHECKING:
    import sqlalchemy as sa

R = TypeVar("R", bound="Row")

Standing = Literal["pending", "approved", "quarantined", "revoked"]
STANDINGS: tuple[Standing, ...] = get_args(Standing)
Mode = Literal["sync", "async"]

LENT = "lent"
"""In a round's report: hash, length and chunks of what the round lends to tune classifiers by."""
VECTORS = "vectors"
"""In a round's report: what its method has go out with the model, a `LentVector` each."""


class Row(msgspec.Struct, frozen=True):
    """Base of all rows."""

    @classmethod
    def select(cls, table: sa.FromClause) -> sa.Select[Any]:
        """A query for the columns of this struct, in its order."""
        return _select(table, cls.__struct_fields__)

    @classmethod
    def read(cls: type[R], tx: sa.Connection, query: sa.Select[Any]) -> list[R]:
        """All rows of a query.

        Raises
        ------
        TypeError
            The query has other columns than this struct, or has them in another order.
        """
        return [cls(*row) for row in cls._run(tx, query)]

    @classmethod
    def first(cls: type[R], tx: sa.Connection, query: sa.Select[Any]) -> R | None:
        """The first row of a query; None where it finds nothing. Raises as `read` does."""
        row = cls._run(tx, query).first()
        return None if row is None else cls(*row)

    @classmethod
    def _run(cls, tx: sa.Connection, query: sa.Select[Any]) -> sa.CursorResult[Any]:
        result = tx.execute(query)
        if tuple(result.keys()) != cls.__struct_fields__:
            raise TypeError(f"{cls.__name__} cannot be read from the columns {', '.join(result.keys())}.")
        return result


@cache
def _select(table: sa.FromClause, names: tuple[str, ...]) -> sa.Select[Any]:
    """Made once: what is added to a query makes another; a whole table is compiled fastest."""
    whole = table.select()
    return whole if names == tuple(table.c.keys()) else whole.with_only_columns(*(table.c[name] for name in names))


class TaskRow(Row, frozen=True):
    """A row of `tasks`."""

    task: str
    pack: str
    current: int


class DeviceRow(Row, frozen=True):
    """A row of `devices`."""

    device: str
    public_key: bytes
    boot: str
    online: bool
    pack: str
    architecture: str
    samples: int
    first_seen: float
    last_seen: float
    agent: str
    standing: Standing
    reason: str
    label: str
    gate: str
    gate_reason: str
    selected: int
    harmful_count: int
    sensitivity: int
    sensitivity_now: int | None
    offline_since: float | None
    capabilities: str
    left_out_rounds: int = 0


class RoundGlance(Row, frozen=True):
    """A row of `rounds` without what is long: plan and report."""

    task: str
    round: int
    state: State
    mode: Mode
    asked_by: str
    planned: float
    opened: float | None
    closed: float | None
    base_version: int | None
    base: str | None
    detection: Document | None
    request: str | None


class Begun(msgspec.Struct, frozen=True):
    """What a round began with."""

    version: int
    base: str
    plan: bytes
    """A `Plan` as MessagePack."""


class RoundRow(RoundGlance, frozen=True):
    """A row of `rounds`."""

    plan: bytes | None
    report: Document | None
    """Of a round under way: notes for it."""

    @property
    def begun(self) -> Begun:
        """What the round began with; StorageError where it has not begun."""
        if self.base_version is None or self.base is None or self.plan is None:
            raise StorageError(f"Round {self.round} of {self.task} has not begun.")
        return Begun(self.base_version, self.base, self.plan)

    @property
    def lent(self) -> Lent | None:
        """What its devices were lent to tune their classifiers by, as `LENT` of the report names it; None: nothing."""
        return lent_in((self.report or {}).get(LENT))

    @property
    def vectors(self) -> tuple[LentVector, ...]:
        """What its method had go out with the model, as `VECTORS` of the report names it."""
        return vectors_in((self.report or {}).get(VECTORS))

    @property
    def everything_lent(self) -> tuple[Lent, ...]:
        """All that went out beside the model."""
        return (*self.vectors, *(() if self.lent is None else (self.lent,)))


def vectors_in(noted: object) -> tuple[LentVector, ...]:
    """The vectors that a round's report names; StorageError where they cannot be read."""
    try:
        return msgspec.convert(noted or (), tuple[LentVector, ...])
    except msgspec.ValidationError as error:
        raise StorageError("What a round lent cannot be read from its report: restore a backup.") from error


def lent_in(noted: object) -> Lent | None:
    """What a round's report names as lent, None where it names nothing; StorageError where that cannot be read."""
    try:
        return msgspec.convert(noted, Lent | None)
    except msgspec.ValidationError as error:
        raise StorageError("What a round lent cannot be read from its report: restore a backup.") from error


class RoundChanges(TypedDict, total=False):
    """Columns of `rounds` that change together with its state."""

    opened: float
    closed: float
    base_version: int
    base: str
    plan: bytes
    detection: Document
    report: Document


class InvitationRow(Row, frozen=True):
    """A row of `invitations`."""

    task: str
    round: int
    device: str
    reason: str | None
    state: str
    invited: float


class LossRow(Row, frozen=True):
    """A row of `losses`."""

    task: str
    round: int
    device: str
    base: str
    loss: float | None
    samples: int
    received: float


class SumRow(Row, frozen=True):
    """A row of `sums`."""

    task: str
    round: int
    device: str
    boxes: bytes
    masks: bytes
    seat: int | None
    near: list[int] | None
    shares: bytes | None
    part: bool
    own: bytes | None
    lost: bytes | None


class UpdateRow(Row, frozen=True):
    """A row of `updates`; a round's report keeps those that it counted."""

    task: str
    round: int
    device: str
    counted_in: int
    staleness: int
    attempt: int
    body: str
    codec: str
    samples: int
    loss: float | None
    steps: int
    seconds: float
    personal_accuracy: float | None
    plugin_accuracy: float | None
    held_out: int
    received: float
    unsupervised: int | None = None
    left_out: bool = False
    vectors: list[Document] | None = None

    @property
    def headers(self) -> tuple[VectorHeader, ...]:
        """Of what follows the weights in its body; StorageError where they cannot be read."""
        try:
            return msgspec.convert(self.vectors or (), tuple[VectorHeader, ...])
        except msgspec.ValidationError as error:
            raise StorageError("The vectors of an update cannot be read: restore a backup.") from error


class ModelRow(Row, frozen=True):
    """A row of `models`."""

    task: str
    version: int
    blob: str
    optimizer: str | None
    """Blob of the `ServerState` kept with it: the server optimizer's state, the rule's, or both."""
    created: float
    parent: int | None
    origin: str
    round: int | None
    accuracy: float | None
    loss: float | None


class OutgoingRow(Row, frozen=True):
    """A row of `outbox`."""

    id: int
    kind: str
    subject: str
    content: Document
    created: float


class EventRow(Row, frozen=True):
    """A row of `events`."""

    id: int
    at: float
    kind: str
    device: str
    task: str
    round: int | None
    who: str
    detail: str


class RefusalRow(Row, frozen=True):
    """A row of `refusals`."""

    device: str
    code: str
    count: int
    last: float
    detail: str
