"""Why a round does not start: one answer wherever an operator looks, with each device's reason."""

from __future__ import annotations

import time
from pathlib import Path

import pytest
from msgspec.structs import replace
from tests.cloud.filled_store import TASK, Filled, fill
from typer.testing import CliRunner

from auricle.wire.messages import DeviceState
from auricle_cloud.commands import app
from auricle_cloud.operations.operating import NotFoundError
from auricle_cloud.operations.waiting import NO_CLIPS, coordinator_trouble, planned_waits
from auricle_cloud.storage.database import Pulse


@pytest.fixture
def stuck(tmp_path: Path) -> Filled:
    """Round 2 is over and round 3 is planned, and nobody can be invited to it, each for another reason."""
    filled = fill(tmp_path)
    devices, rounds = filled.store.devices, filled.store.rounds
    rounds.move(TASK, 2, "collecting", "aborted", report={"invited": [], "reason": "no quorum at the deadline"})
    devices.presence(DeviceState(fleet="f", device="dev-a", boot="boot-1", online=False))
    hot = DeviceState(fleet="f", device="dev-b", boot="boot-1", online=True, gate="wait", gate_reason="It is 81 °C.")
    devices.presence(hot)
    devices.set_standing(["dev-d"], "quarantined", who="t", reason="noise")
    with filled.store.database.writing() as tx:
        tx.exec_driver_sql("UPDATE devices SET pack = ? WHERE device = 'dev-c'", ("d" * 64,))
    filled.store.database.beat(Pulse(time.time()))
    return filled


def test_each_device_has_its_reason_everywhere(stuck: Filled) -> None:
    do = stuck.operations()
    seen, shown, why = do.overview().waiting, do.show_round(3).waiting, do.why_round(3)

    assert seen is not None
    assert seen == shown
    assert seen.sentences == why.sentences
    assert seen.sentences[:2] == ["Round 3 is planned and has not begun.", "None of 5 devices can be invited."]
    assert "approve" in seen.sentences[2]
    reasons = {one.device: one.reason for one in seen.devices}
    assert reasons["dev-a"].startswith("is offline since 20")
    assert reasons["dev-b"] == "does not want to train now: It is 81 °C."
    assert reasons["dev-c"].startswith("has pack dddddddddddd, the task is of pack")
    assert reasons["dev-d"] == "is quarantined: noise"
    assert reasons["dev-e"] == "waits for an operator's approval"
    assert [device.sentences for device in why.devices] == [[f"{n} {r}".rstrip(".") + "."] for n, r in reasons.items()]
    assert [d.device for d in do.why_round(3, "dev-b").devices] == ["dev-b"]
    with pytest.raises(NotFoundError):
        do.why_round(3, "nobody")


@pytest.mark.parametrize("command", [["rounds", "show", "3"], ["rounds", "why"], ["why", "3"], ["overview"]])
def test_every_command_prints_the_reasons(stuck: Filled, command: list[str]) -> None:
    done = CliRunner().invoke(app, [*command, "--state", str(stuck.folder)])

    assert done.exit_code == 0, done.output
    for said in ("None of 5 devices", "dev-a is offline since", "dev-b does not want to train now: It is 81 °C."):
        assert said in done.output


def test_a_round_under_way_says_whom_it_waits_for(tmp_path: Path) -> None:
    do = fill(tmp_path).operations()
    do.store.devices.presence(DeviceState(fleet="f", device="dev-a", boot="boot-1", online=False))
    do.store.rounds.mark_failed(TASK, 2, "dev-b", "declined", "It has 0 labelled clips.")

    waiting, behind = do.why_round(2), do.show_round(3).waiting

    assert waiting.sentences[-1] == "It waits for dev-a, dev-c, dev-d, at most until its deadline."
    said = {one.device: one.sentences[0] for one in waiting.devices}
    assert "has not answered; it is offline since" in said["dev-a"]
    assert said["dev-b"] == "dev-b declined: It has 0 labelled clips."
    assert said["dev-c"].endswith("and has not answered.")
    assert behind is not None
    assert behind.sentences[1] == "Round 2 is under way: rounds come one after the other."


def test_no_devices_and_no_clips_are_said(tmp_path: Path) -> None:
    row = fill(tmp_path).store.devices.get("dev-a")

    silent = planned_waits(1, None, 1, [replace(row, samples=0)], row.pack, [])

    assert "No device has registered" in planned_waits(1, None, 1, [], "", []).sentences[1]
    assert [(one.device, one.reason) for one in silent.devices] == [("dev-a", NO_CLIPS)]


@pytest.mark.parametrize(
    ("pulse", "epoch", "says"),
    [
        (None, 0, ["No coordinator has run on this state yet: start auricle cloud serve."]),
        (None, 3, []),
        (Pulse(100.0), 3, []),
        (
            Pulse(100.0, connected=False, problem="refused"),
            3,
            ["The coordinator is not connected to its broker: refused."],
        ),
    ],
)
def test_what_keeps_the_coordinator_is_said(pulse: Pulse | None, epoch: int, says: list[str]) -> None:
    assert coordinator_trouble(pulse, epoch, now=110.0) == says


def test_a_coordinator_that_stopped_is_named() -> None:
    for pulse in (Pulse(100.0), Pulse(190.0, running=False)):
        (said,) = coordinator_trouble(pulse, 3, now=200.0)
        assert said.startswith("No coordinator has run on this state since 1970-01-01")
