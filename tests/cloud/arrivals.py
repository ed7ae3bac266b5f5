"""What devices send and rounds they send it to, for tests of the store."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Literal

import msgspec
import sqlalchemy as sa

from auricle.wire.messages import Register, Update
from auricle.wire.plan import Plan
from auricle_cloud.states.round import State
from auricle_cloud.storage.rows import RoundChanges
from auricle_cloud.storage.schema import rounds
from auricle_cloud.storage.store import Store

TASK = "t"
BASE, BODY, PACK = "a" * 64, "b" * 64, "c" * 64


def register(device: str = "dev-a", **changes: Any) -> Register:
    """A device's first message."""
    who = {"fleet": "f", "device": device, "boot": "boot-1", "public_key": b"k" * 32, "agent": "1"}
    what = {"pack": PACK, "architecture": "crnn-lite", "codecs": ("float32",), "samples": 5}
    return Register(**{**who, **what, **changes})


def update(device: str = "dev-a", **changes: Any) -> Update:
    """A trained update for round 1."""
    which = {"fleet": "f", "device": device, "boot": "boot-1", "task": TASK, "round": 1, "attempt": 1, "epoch": 1}
    what = {"base": BASE, "body": BODY, "length": 8, "codec": "float32", "samples": 5, "loss": 1.5}
    return Update(**{**which, **what, **changes})


def begin(store: Store, devices: Iterable[str] = ("dev-a", "dev-b")) -> None:
    """A task with its first model, and registered devices."""
    store.models.begin(TASK, PACK, BASE)
    for device in devices:
        store.devices.register(register(device), "approved")


def open_round(
    store: Store,
    devices: Iterable[str],
    number: int = 1,
    *,
    mode: Literal["sync", "async"] = "sync",
    base: str = BASE,
    version: int = 0,
    task: str = TASK,
    plan: bytes = msgspec.msgpack.encode(Plan()),
) -> None:
    """A round that collects, with these devices in its cohort."""
    store.rounds.plan_up_to(task, number, mode=mode)
    values: RoundChanges = {"base": base, "base_version": version, "plan": plan, "opened": 1.0}
    with store.rounds.moving(task, number, "planned", "inviting", **values) as tx:
        store.rounds.invite(tx, task, number, devices)
    store.rounds.move(task, number, "inviting", "collecting")


def end_round(store: Store, number: int, blob: str, task: str = TASK) -> int:
    """Take a round that collects to its end with this model; the model's version."""
    store.rounds.move(task, number, "collecting", "closing")
    with store.rounds.moving(task, number, "closing", "aggregated", report={"made": True}) as tx:
        version = store.models.add(tx, task, blob, optimizer=None, origin="round", number=number)
    store.rounds.move(task, number, "aggregated", "published")
    return version


def bring_to(store: Store, number: int, state: State, task: str = TASK) -> None:
    """Write a state straight into a planned round, whatever way led there."""
    with store.database.writing() as tx:
        tx.execute(sa.update(rounds).where((rounds.c.task == task) & (rounds.c.round == number)).values(state=state))
