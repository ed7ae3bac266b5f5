"""Why a round does not start: one answer wherever an operator looks, with each device's reason."""

from __future__ import annotations

import time
from pathlib import Path

import pytest
from msgspec.structs import replace
from tests.cloud.filled_store import TASK, Filled, fill
from typer.testing import CliRunner

from auricle.errors import NOT_FOUND
from auricle.wire.messages import DeviceState
from auricle.wire.plan import SECURE_SUM
from auricle.wire.secure_sum.kinds import FEWEST_DEVICES
from auricle_cloud.commands import app
from auricle_cloud.operations.operating import NotFoundError
from auricle_cloud.operations.waiting import NO_CLIPS, Wanted, coordinator_trouble, planned_waits
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


@pytest.mark.slow
def test_each_device_has_its_reason_everywhere(stuck: Filled) -> None:
    do = stuck.operations()
    seen, shown, why = do.overview().waiting, do.show_round(3).waiting, do.why_round(3)

    assert seen is not None
    assert seen == shown
    assert seen.sentences == why.sentences
    assert "None of 5 devices" in seen.sentences[1] and "approve" in seen.sentences[2]
    reasons = {one.device: one.reason for one in seen.devices}
    said = ("offline since 20", "It is 81 °C.", "pack dddddddddddd", "quarantined: noise", "approval")
    assert all(noun in reason for noun, reason in zip(said, reasons.values(), strict=True)), reasons
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

    assert "dev-a, dev-c, dev-d" in waiting.sentences[-1]
    said = {one.device: one.sentences[0] for one in waiting.devices}
    assert "offline since" in said["dev-a"] and "0 labelled clips" in said["dev-b"]
    assert said["dev-c"].endswith("has not answered.")
    assert behind is not None and "Round 2" in behind.sentences[1]


def test_no_devices_and_no_clips_are_said(tmp_path: Path) -> None:
    row = fill(tmp_path).store.devices.get("dev-a")

    silent = planned_waits(1, None, 1, [replace(row, samples=0)], Wanted(row.pack), [])

    assert "the coordinator's key" in planned_waits(1, None, 1, [], Wanted(), []).sentences[1]
    assert [(one.device, one.reason) for one in silent.devices] == [("dev-a", NO_CLIPS)]


@pytest.mark.parametrize(
    ("wanted", "says"),
    [
        (Wanted(), "coordinator's key"),
        (Wanted(by_claim=True), "auricle cloud enrol token"),
        (Wanted(by_claim=True, tokens=1), "1 token is not used yet"),
        (Wanted(by_claim=True, tokens=3), "3 tokens are not used yet"),
    ],
)
def test_where_keys_come_by_claim_nobody_is_told_to_type_one(wanted: Wanted, says: str) -> None:
    assert says in planned_waits(1, None, 1, [], wanted, []).sentences[1]


@pytest.mark.slow
def test_tokens_that_were_made_are_known(tmp_path: Path) -> None:
    filled = fill(tmp_path)
    do = filled.operations()
    with filled.store.database.writing() as tx:
        tx.exec_driver_sql("DELETE FROM devices")
    filled.store.claims.create(["pi-001"], 7 * 86_400)

    assert "1 token is not used yet" in " ".join(do.why_round(3).sentences)
    (event,) = [row for row in do.list_events().events if row.kind == "claim token created"]
    assert event.detail == "for 7 days"


def test_a_secure_sum_needs_three_devices_that_can_do_it(tmp_path: Path) -> None:
    row = replace(fill(tmp_path).store.devices.get("dev-a"), standing="approved", online=True, gate="train", samples=9)
    wanted = Wanted(row.pack, needs=[SECURE_SUM], fewest=FEWEST_DEVICES)
    able = [replace(row, device=f"dev-{n}", capabilities=SECURE_SUM) for n in "abc"]
    old = replace(row, device="dev-d", capabilities="")

    two = planned_waits(1, None, 1, [*able[:2], old], wanted, [])

    (said,), (left,) = two.sentences[1:], two.devices
    assert "2 of 3 devices" in said and "needs 3" in said
    assert left.device == "dev-d" and "too old" in left.reason
    (whole,) = planned_waits(1, None, 1, able, wanted, []).sentences[1:]
    assert "3 of 3 devices" in whole


def test_a_planned_round_knows_what_its_coordinator_needs(tmp_path: Path) -> None:
    filled = fill(tmp_path)
    filled.store.rounds.move(TASK, 2, "collecting", "aborted", report={"invited": [], "reason": "x"})
    filled.store.database.beat(Pulse(time.time(), fewest=FEWEST_DEVICES, needs=(SECURE_SUM,)))

    waiting = filled.operations().why_round(3)

    assert "None of 5 devices can be invited." in waiting.sentences
    assert "too old" in waiting.devices[0].sentences[0]


@pytest.mark.parametrize("command", [["rounds", "why"], ["why"], ["rounds", "wait"], ["rounds", "why", "dev-a"]])
def test_without_a_round_the_reason_is_said(tmp_path: Path, command: list[str]) -> None:
    filled = fill(tmp_path)
    with filled.store.database.writing() as tx:
        tx.exec_driver_sql("DELETE FROM rounds")

    done = CliRunner().invoke(app, [*command, "--state", str(filled.folder)])

    assert isinstance(done.exception, NotFoundError)
    assert done.exception.exit_code == NOT_FOUND
    assert "no round yet" in str(done.exception) and "of 5 devices" in str(done.exception)


def test_who_waits_for_a_round_that_is_aborted_is_told_why(stuck: Filled) -> None:
    done = CliRunner().invoke(app, ["rounds", "wait", "2", "--state", str(stuck.folder)])

    assert "It ended because of this: no quorum at the deadline." in done.output


def test_a_device_in_the_place_of_a_round_is_taken_for_one(stuck: Filled) -> None:
    at = ["--state", str(stuck.folder)]

    alone = CliRunner().invoke(app, ["rounds", "why", "dev-b", *at])
    both = CliRunner().invoke(app, ["rounds", "why", "dev-b", "3", *at])

    assert alone.exit_code == 0
    assert "dev-b does not want to train now: It is 81 °C." in alone.output
    assert "dev-c" not in alone.output
    assert "rounds why 3 dev-b" in str(both.exception)


@pytest.mark.parametrize(
    ("pulse", "epoch", "now", "noun"),
    [
        (None, 0, 110.0, "auricle cloud serve"),
        (None, 3, 110.0, None),
        (Pulse(100.0), 3, 110.0, None),
        (Pulse(100.0, connected=False, problem="refused"), 3, 110.0, "refused"),
        (Pulse(100.0), 3, 200.0, "since 1970-01-01"),
        (Pulse(190.0, running=False), 3, 200.0, "since 1970-01-01"),
    ],
)
def test_what_keeps_the_coordinator_is_said(pulse: Pulse | None, epoch: int, now: float, noun: str | None) -> None:
    said = coordinator_trouble(pulse, epoch, now=now)
    assert said == [] if noun is None else len(said) == 1 and noun in said[0]
