"""A device that has left can be forgotten; alarms are what the coordinator found, not what an operator did."""

from __future__ import annotations

from pathlib import Path

import pytest
import sqlalchemy as sa
from tests.cloud.desk import ANA, BOB, register
from tests.cloud.filled_store import TASK, Filled
from tests.cloud.test_cloud_commands import auricle, here

from auricle.wire.identity import Identity
from auricle.wire.messages import DeviceState
from auricle_cloud.operations.operating import ConflictError, NotFoundError
from auricle_cloud.storage.schema import claims
from auricle_cloud.storage.store import Store


def test_a_device_that_left_is_forgotten_and_its_rounds_stay(filled: Filled) -> None:
    do = filled.operations()

    with pytest.raises(ConflictError, match="is online"):
        do.forget_device("dev-b")
    filled.store.devices.presence(DeviceState(fleet="f", device="dev-b", boot="boot-1", online=False))
    done = auricle("devices", "forget", "dev-b", "--yes", **here(filled))

    assert done.returncode == 0, done.stderr
    assert [row.device for row in do.list_devices().devices] == ["dev-a", "dev-c", "dev-d", "dev-e"]
    assert "dev-b" in {one.device for one in do.why_round(1).devices}
    assert filled.store.devices.refusals("dev-b") == []
    assert do.list_events(limit=1).events[0].kind == "forgotten"
    with pytest.raises(NotFoundError):
        do.forget_device("dev-b")
    do.revoke_devices(["dev-c"])
    with pytest.raises(ConflictError, match="revoked"):
        do.forget_device("dev-c")


def test_the_token_of_a_forgotten_device_approves_no_other(tmp_path: Path) -> None:
    store = Store(tmp_path / "c.db")
    with store.database.writing() as tx:
        row = {"created": 1.0, "expires": 2.0}
        tx.execute(sa.insert(claims).values(hash=b"1", device="dev-a", used=1.5, key="k", **row))
        tx.execute(sa.insert(claims).values(hash=b"2", device="dev-b", **row))

    def standing(key: Identity) -> str:
        with store.database.writing() as tx:
            assert store.devices.enter(tx, register("dev-a", key), "pending", approve_claimed=True)
        return store.devices.get("dev-a").standing

    first = standing(ANA)
    store.devices.presence(DeviceState(fleet="f", device="dev-a", boot="b1", online=False))
    store.devices.forget("dev-a", who="ana")

    assert (first, standing(BOB)) == ("approved", "pending")
    with store.database.reading() as tx:
        assert tx.execute(sa.select(claims.c.device)).scalars().all() == ["dev-b"]
    store.close()


def test_an_operators_own_acts_are_no_alarms(filled: Filled) -> None:
    do = filled.operations()
    before = do.overview().alarms

    do.quarantine_devices(["dev-a"])
    do.rollback_model()
    after = do.overview().alarms
    filled.store.journal.note("quarantined", device="dev-b", task=TASK, who="policy")

    assert [alarm.kind for alarm in before] == [alarm.kind for alarm in after] == ["alarm"]
    assert do.overview().alarms[0].device == "dev-b"
