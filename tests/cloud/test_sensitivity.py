"""Sensitivity from operators: who is told, how often, and what devices say of it."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from pathlib import Path
from typing import Any, cast

import msgspec
import pytest
from tests.cloud.hearing_reports import approve

from auricle.errors import SettingsError
from auricle.process.clock import VirtualClock
from auricle.wire.messages import DeviceState
from auricle_cloud.api.remote import checked
from auricle_cloud.commands.answers import _sensitivity
from auricle_cloud.link.messenger import Messenger
from auricle_cloud.operations.operating import ConflictError, NotFoundError
from auricle_cloud.operations.operations import Operations
from auricle_cloud.rounds.upkeep import Tuner
from auricle_cloud.storage.blobs import Blobs
from auricle_cloud.storage.store import Store


@pytest.fixture
def do(store: Store, tmp_path: Path) -> Iterator[Operations]:
    approve(store, "dev-a", "dev-b", "dev-c")
    for device in ("dev-a", "dev-b"):
        store.devices.set_label(device, "room=kitchen", who="test")
        says(store, device, 0)
    yield checked(Operations(store, Blobs(tmp_path / "blobs"), "keywords", who="ana"))


def says(store: Store, device: str, step: int | None) -> None:
    """The device comes, and says what is in effect."""
    store.devices.presence(DeviceState(fleet="f", device=device, boot="boot-1", online=True, sensitivity=step))


def test_devices_or_a_label_are_told(store: Store, do: Operations) -> None:
    assert do.set_sensitivity(2, label="room=kitchen").devices == ["dev-a", "dev-b"]
    assert do.set_sensitivity(-1, ["dev-b", "dev-c"], reason="too much").refusing == ["dev-c"]

    rows = {row.device: (row.sensitivity, row.sensitivity_now) for row in do.list_devices().devices}
    assert rows == {"dev-a": (2, 0), "dev-b": (-1, 0), "dev-c": (-1, None)}
    assert store.devices.untuned() == {"dev-a": 2, "dev-b": -1}
    says(store, "dev-a", 2)
    assert store.devices.untuned() == {"dev-b": -1}
    events = do.list_events(kind="sensitivity", device="dev-b").events
    assert [(event.who, event.detail) for event in events] == [("ana", "-1 too much"), ("ana", "+2")]


def test_what_cannot_be_meant_is_refused(do: Operations) -> None:
    refused: list[tuple[type[Exception], str, int, dict[str, Any]]] = [
        (ConflictError, "one of them", 1, {}),
        (ConflictError, "one of them", 1, {"devices": ["dev-a"], "label": "room=kitchen"}),
        (NotFoundError, 'label "room=hall"', 1, {"label": "room=hall"}),
        (NotFoundError, 'mean "dev-a"', 1, {"devices": ["dev-a", "dev-aa"]}),
        *((SettingsError, "sensitivity", step, {"devices": ["dev-a"]}) for step in (3, -3)),
    ]
    for kind, noun, step, whom in refused:
        with pytest.raises(kind, match=noun):
            do.set_sensitivity(step, **whom)
    assert {row.sensitivity for row in do.list_devices().devices} == {0}


def test_a_device_is_told_until_it_says_so_and_again_when_it_comes_back(store: Store, do: Operations) -> None:
    told: list[tuple[str, int]] = []

    class Voice:
        """A messenger that writes down what it says."""

        async def tune(self, device: str, sensitivity: int) -> None:
            told.append((device, sensitivity))

    clock = VirtualClock()
    tuner = Tuner(store, cast(Messenger, Voice()), clock)

    def look() -> list[tuple[str, int]]:
        told.clear()
        tuner.wake()
        asyncio.run(tuner.look())
        return list(told)

    assert look() == []
    do.set_sensitivity(1, label="room=kitchen")
    assert look() == [("dev-a", 1), ("dev-b", 1)]
    assert look() == []  # it is on its way
    clock.sleep(59.0)
    assert look() == []
    clock.sleep(1.0)
    assert look() == [("dev-a", 1), ("dev-b", 1)]  # a minute without an answer
    tuner.came("dev-a")
    assert look() == [("dev-a", 1)]
    do.set_sensitivity(2, ["dev-b"])
    assert look() == [("dev-b", 2)]
    says(store, "dev-a", 1)
    says(store, "dev-b", None)  # its owner refuses it
    tuner.came("dev-b")
    assert look() == []


@pytest.mark.parametrize(
    ("wanted", "now", "said"),
    [
        (1, 1, "Sensitivity +1."),
        (1, -1, "Sensitivity +1 is wanted; -1 is in effect."),
        (0, None, "Sensitivity +0 is wanted; the device takes none"),
    ],
)
def test_a_device_is_shown_with_it(do: Operations, wanted: int, now: Any, said: str) -> None:
    row = msgspec.structs.replace(do.show_device("dev-a").row, sensitivity=wanted, sensitivity_now=now)
    assert _sensitivity(row).startswith(said)
