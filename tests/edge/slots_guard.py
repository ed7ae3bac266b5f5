"""A device, two bundles for it, and its guard, as the tests of the slots use them."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.edge.slots_bundle import Device, identity, make_bundle, quick_folder

from auricle_edge.ota.slots.commands import main as guard

Say = pytest.CaptureFixture[str]


@pytest.fixture
def folder() -> Iterator[Path]:
    with quick_folder() as made:
        yield made


@pytest.fixture
def device(folder: Path) -> Device:
    return Device(folder / "device")


@pytest.fixture
def old(folder: Path) -> Path:
    return make_bundle(folder / "old", "1.0")


@pytest.fixture
def new(folder: Path) -> Path:
    return make_bundle(folder / "new", "2.0")


def run(device: Device, command: str, *arguments: object) -> int:
    return guard([command, "--root", str(device.root), *map(str, arguments)])


def on_trial(device: Device, old: Path, new: Path, *options: object) -> None:
    assert run(device, "install", old) == 0
    assert run(device, "stage", new, "--identity", identity(new)) == 0
    assert run(device, "try", "--rollout", "r7", *options) == 0
