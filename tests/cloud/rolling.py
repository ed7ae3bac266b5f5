"""A store with releases and devices that have said what they run, and a coordinator's steps by the hand of a test."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

from tests.cloud.arrivals import register

from auricle.wire.messages import DeviceState, Release
from auricle_cloud.states.rollout import Released
from auricle_cloud.storage.database import Database
from auricle_cloud.storage.release_records import RolloutRow
from auricle_cloud.storage.rollout_records import Rollouts
from auricle_cloud.storage.store import Store

FLEET = "home"
OLD, NEW, NEWER, OTHER, PACK, NEXT_PACK = (digit * 64 for digit in "0123cd")


def release_row(identity: str, board: str = "pi5", version: str = "2.0.0", **changes: Any) -> Released:
    values: dict[str, Any] = {"kind": "bundle", "board": board, "os": "trixie", "fleet": FLEET, "version": version}
    values |= {
        "path": f"bundle/{board}/trixie/{identity[:12]}.tar",
        "identity": identity,
        "sha256": "f" * 64,
        "size": 10,
    }
    values |= changes
    return Released(**values)


PACK_ROW = release_row(NEXT_PACK, "", "1", path=f"pack/{NEXT_PACK[:12]}.tar.zst", kind="pack", os="", fleet="")
ROWS = [release_row(NEW), release_row(NEWER, version="3.0.0"), release_row(OTHER, "pi4"), PACK_ROW]
PATH = ROWS[0].path
START: dict[str, Any] = {"label": None, "stages": [10.0, 50.0, 100.0], "errors": 0.2, "minimum": 3, "soak": 60.0}
START |= {"deadline": 600.0, "replacing": False, "who": "ana"}


def release(device: str, **changes: Any) -> Release:
    values = {"fleet": FLEET, "device": device, "boot": "boot-1", "board": "pi5", "os": "trixie"}
    values |= {"bundle": OLD, "version": "1.0.0", "pack": PACK, "confirmed": True}
    return Release(**{**values, **changes})


class Rolling:
    """Rollouts on a store, with a clock of the test's own."""

    def __init__(self, store: Store, devices: int = 20) -> None:
        self.store, self.rollouts = store, store.rollouts
        self.names = [f"dev-{number:02}" for number in range(devices)]
        self.later = 0.0
        store.releases.mirror(ROWS, who="test")
        with store.database.writing() as tx:
            for name in self.names:
                store.devices.enter(
                    tx, register(name, fleet=FLEET, pack=PACK, public_key=name.encode().ljust(32, b"k")), "approved"
                )
                self.rollouts.enter(tx, release(name))

    def add(self, name: str, standing: Any = "approved", **said: Any) -> None:
        """Another device, which says what it runs."""
        self.store.devices.register(
            register(name, fleet=FLEET, pack=PACK, public_key=name.encode().ljust(32, b"k")), standing
        )
        self.says(name, **said)

    def says(self, name: str, **said: Any) -> list[tuple[str, str]]:
        """What a device says of itself."""
        with self.store.database.writing() as tx:
            return self.rollouts.enter(tx, release(name, **said))

    def goes(self, name: str) -> None:
        """A device goes offline."""
        self.store.devices.presence(DeviceState(fleet=FLEET, device=name, boot="boot-1", online=False))

    def comes(self, name: str) -> None:
        self.store.devices.presence(DeviceState(fleet=FLEET, device=name, boot="boot-1", online=True))

    def start(self, *identities: str, **changes: Any) -> str:
        chosen = [row for row in ROWS if row.identity in (identities or (NEW,))]
        return self.rollouts.start(chosen, **{**START, **changes})

    def begun(self, *identities: str, **changes: Any) -> tuple[str, list[str]]:
        """One that has asked its first devices, and who they are."""
        name = self.start(*identities, **changes)
        self.steps(name)
        return name, self.asked()

    def passes(self, name: str) -> RolloutRow:
        """All that were asked update, and the stage soaks."""
        self.answer(name)
        self.steps(name)
        return self.steps(name, 61)

    def steps(self, name: str, seconds: float = 0.0, rollouts: Rollouts | None = None) -> RolloutRow:
        """All steps that are due so much later; the rollout."""
        self.later += seconds
        while (rollouts or self.rollouts).step(name, self.now, FLEET):
            pass
        return self.rollouts.get(name)

    @property
    def now(self) -> float:
        return time.time() + self.later

    def asked(self) -> list[str]:
        return [row.device for row in self.rollouts.asked()]

    def states(self, name: str) -> dict[str, str]:
        return {device: member.state for device, member in self.rollouts.whole(name)[1].items()}

    def answer(self, name: str, **said: Any) -> list[str]:
        """All that are asked say the same: that they are updated, or what is given."""
        asked, values = self.asked(), {"bundle": NEW, "rollout": name, "state": "confirmed", **said}
        with self.store.database.writing() as tx:
            for device in asked:
                self.rollouts.enter(tx, release(device, **values))
        return asked


class Killed(BaseException):
    """The process is gone."""


def killing(place: Path | str, point: str) -> Rollouts:
    """Rollouts of a process that ends at this point."""

    def probe(where: str) -> None:
        if where == point:
            raise Killed(point)

    return Rollouts(Database(place, probe=probe))
