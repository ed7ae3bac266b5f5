"""Every struct of a row says what its table holds: names, types, and what may be missing."""

from __future__ import annotations

from pathlib import Path
from types import NoneType, UnionType
from typing import Any, Literal, Union, get_args, get_origin, get_type_hints

import pytest
import sqlalchemy as sa

from auricle.errors import StorageError
from auricle_cloud.storage import access_rows, release_records, rows, schema
from auricle_cloud.storage.personal_records import PersonalRow
from auricle_cloud.storage.rows import EventRow, InvitationRow, Row
from auricle_cloud.storage.store import Store

TABLES: dict[type[Row], sa.Table] = {
    rows.TaskRow: schema.tasks,
    rows.DeviceRow: schema.devices,
    rows.RoundGlance: schema.rounds,
    rows.RoundRow: schema.rounds,
    rows.InvitationRow: schema.invitations,
    rows.LossRow: schema.losses,
    rows.UpdateRow: schema.updates,
    rows.ModelRow: schema.models,
    PersonalRow: schema.personal_models,
    rows.OutgoingRow: schema.outbox,
    rows.EventRow: schema.events,
    rows.RefusalRow: schema.refusals,
    access_rows.TokenRow: schema.tokens,
    access_rows.ScheduleRow: schema.schedules,
    access_rows.ClaimRow: schema.claims,
    access_rows.PendingClaim: schema.claims,
    access_rows.CertificateGlance: schema.certificates,
    access_rows.CertificateRow: schema.certificates,
    release_records.ReleaseRow: schema.releases,
    release_records.InstallationRow: schema.installations,
    release_records.RolloutRow: schema.rollouts,
    release_records.RolloutDeviceRow: schema.rollout_devices,
}
LEFT_OUT = {
    rows.InvitationRow: {"base"},
    rows.RoundGlance: {"plan", "report"},
    access_rows.TokenRow: {"hash"},
    access_rows.PendingClaim: {"hash", "used", "key"},
    access_rows.CertificateGlance: {"key", "chain"},
}
KINDS: dict[type[Any], tuple[Any, ...]] = {sa.Text: (str,), sa.Integer: (int,), sa.Float: (float,)}
KINDS |= {sa.Boolean: (bool,), sa.LargeBinary: (bytes,), sa.JSON: (dict, list)}


def held(annotation: Any) -> tuple[type[Any], bool]:
    """The type of a field's values, and whether None is one."""
    parts = get_args(annotation) if get_origin(annotation) in (Union, UnionType) else (annotation,)
    (kind,) = (part for part in parts if part is not NoneType)
    if get_origin(kind) is Literal:
        (kind,) = {type(value) for value in get_args(kind)}
    return get_origin(kind) or kind, NoneType in parts


@pytest.mark.parametrize("kind", TABLES, ids=lambda kind: kind.__name__)
def test_a_struct_has_the_columns_of_its_table_and_their_types(kind: type[Row]) -> None:
    table, hints = TABLES[kind], get_type_hints(kind)
    names = set(kind.__struct_fields__)

    assert names | LEFT_OUT.get(kind, set()) == {column.name for column in table.columns}
    assert not names & LEFT_OUT.get(kind, set())
    for name in names:
        column, (of, may_miss) = table.c[name], held(hints[name])
        known = next(kinds for base, kinds in KINDS.items() if isinstance(column.type, base))
        assert of in known, f"{name} is {of.__name__}, the column {column.type}"
        assert may_miss == bool(column.nullable), name


def test_a_query_with_other_columns_or_another_order_is_refused(tmp_path: Path) -> None:
    store = Store(tmp_path / "c.db")
    turned = sa.select(*reversed(list(schema.events.columns)))
    missing = sa.select(schema.events.c.id)

    with store.database.reading() as tx:
        assert EventRow.read(tx, EventRow.select(schema.events)) == []
        assert EventRow.first(tx, EventRow.select(schema.events)) is None
        for query in (turned, missing):
            for read in (EventRow.read, EventRow.first):
                with pytest.raises(TypeError, match="EventRow"):
                    read(tx, query)
    store.close()


def test_a_row_is_what_was_entered(tmp_path: Path) -> None:
    store = Store(tmp_path / "c.db")
    with store.database.writing() as tx:
        values = {"task": "t", "round": 3, "reason": None, "state": "failed", "invited": 1.5}
        for device in ("dev-b", "dev-a"):
            tx.execute(schema.invitations.insert().values(device=device, **values))

    invited = store.rounds.invited("t", 3)

    assert list(invited) == ["dev-a", "dev-b"]
    assert invited["dev-b"] == InvitationRow("t", 3, "dev-b", None, "failed", 1.5)
    with pytest.raises(AttributeError, match="immutable"):
        invited["dev-b"].state = "declined"  # type: ignore[misc]
    store.close()


def test_a_round_that_has_not_begun_says_so(tmp_path: Path) -> None:
    store = Store(tmp_path / "c.db")
    store.rounds.plan("t", 1)

    with pytest.raises(StorageError, match="Round 1 of t has not begun"):
        _ = store.rounds.get("t", 1).begun
    store.rounds.move("t", 1, "planned", "inviting", base="f" * 64, base_version=7, plan=b"p")
    assert store.rounds.get("t", 1).begun == rows.Begun(7, "f" * 64, b"p")
    store.close()
