"""A coordinator's state as it is after two rounds, made by the records' own methods."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from tests.cloud import arrivals

from auricle.packs.pack import Pack, load_pack
from auricle.wire.messages import Register, Update
from auricle.wire.tensors import encode
from auricle_cloud.identity.enrolment import Enrolment, open_enrolment
from auricle_cloud.operations.operations import Operations
from auricle_cloud.storage.blobs import Blobs
from auricle_cloud.storage.store import FILE, Store

TASK = "keywords"
DEVICES = ("dev-a", "dev-b", "dev-c", "dev-d", "dev-e")
"""All but the last are invited to round 1; dev-e waits for approval."""


@dataclass
class Filled:
    """Store, blobs and pack."""

    folder: Path
    store: Store
    blobs: Blobs
    pack: Pack

    def operations(self, who: str = "tester") -> Operations:
        """Operations on it."""
        return Operations(self.store, self.blobs, TASK, who=who, table=self.table, enrolment=self.enrolment)

    def enrolment(self) -> Enrolment | None:
        """What certifies devices, once there is an authority."""
        return open_enrolment(self.folder, self.store.database)

    def table(self, pack: str) -> Any:
        """The plug-in's table of its one pack."""
        return self.pack.plugin_table if pack == self.pack.identity else None


def register(device: str, pack: str) -> Register:
    """A device's first message."""
    return arrivals.register(device, public_key=device.encode().ljust(32, b"k"), pack=pack)


def update(device: str, base: str, body: str, **changes: Any) -> Update:
    """A trained update for round 1."""
    values = {"task": TASK, "base": base, "body": body, "samples": 10, "steps": 3, "seconds": 2.0}
    judged = {"plugin_accuracy": 0.5, "personal_accuracy": 0.75, "held_out": 4}
    return arrivals.update(device, **{**values, **judged, **changes})


def _layer(layer: str, kept: list[str], high: list[str], share: dict[str, float], deviation: Any) -> dict[str, Any]:
    pruned: dict[str, Any] = {"pruned_low": [], "pruned_high": high}
    return {"layer": layer, "kept": kept, **pruned, "share": share, "deviation": deviation}


REPORT: dict[str, Any] = {
    "invited": ["dev-a", "dev-b", "dev-c", "dev-d"],
    "failed": {"dev-c": "the disk is full"},
    "refused": {},
    "rule": "lpa",
    "rule_options": {"prune_high": 0.34, "prune_low": 0.0},
    "layers": [
        _layer("conv", ["dev-a"], ["dev-b"], {"dev-a": 1.0, "dev-b": 0.0}, {"dev-a": 0.25, "dev-b": 4.0}),
        _layer("head", ["dev-a", "dev-b"], [], {"dev-a": 0.25, "dev-b": 0.75}, None),
    ],
    "flag": None,
    "dropped": [],
    "warnings": ["two clients are few"],
}


def fill(folder: Path, place: Path | str | None = None) -> Filled:
    """Make it: round 1 is published, round 2 collects, round 3 is planned, version 1 is current."""
    store, blobs, pack = Store(place or folder / FILE), Blobs(folder / "blobs"), load_pack("digits")
    weights = pack.plugin_table.initial(0)
    first, second = blobs.put(encode(weights)), blobs.put(encode(weights + np.float32(0.5)))
    store.database.take_over()
    for device in DEVICES:
        store.devices.register(register(device, pack.identity), "pending" if device == "dev-e" else "approved")
    store.models.begin(TASK, pack.identity, first)
    store.rounds.plan(TASK, 3, who="tester")
    bodies = [blobs.put(encode(weights + np.float32(0.25))), blobs.put(encode(weights + np.float32(0.75)))]
    _open(store, 1, first, 0)
    arrived = [update("dev-a", first, bodies[0]), update("dev-b", first, bodies[1], samples=30, loss=0.5)]
    assert [verdict.code for verdict in store.updates.count(arrived)] == ["accepted", "accepted"]
    store.rounds.mark_failed(TASK, 1, "dev-c", "failed", "the disk is full")
    store.rounds.move(TASK, 1, "collecting", "closing")
    report = {**REPORT, "updates": store.updates.counted(TASK, 1)}
    with store.rounds.moving(TASK, 1, "closing", "aggregated", report=report) as tx:
        store.models.add(tx, TASK, second, optimizer=None, origin="round", number=1, accuracy=0.75, loss=0.6)
    store.rounds.move(TASK, 1, "aggregated", "published")
    _open(store, 2, second, 1)
    store.devices.add_refusals({("dev-b", "schema"): (3, "bad frame")})
    store.journal.note("alarm", task=TASK, number=1, detail="losses rose")
    return Filled(folder, store, blobs, pack)


def _open(store: Store, number: int, base: str, version: int) -> None:
    with store.rounds.moving(TASK, number, "planned", "inviting", base=base, base_version=version, plan=b"") as tx:
        store.rounds.invite(tx, TASK, number, DEVICES[:4])
    store.rounds.move(TASK, number, "inviting", "collecting")
