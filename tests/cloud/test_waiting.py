"""Why a round does not start: one answer wherever an operator looks, with each device's reason."""

from __future__ import annotations

import time
from pathlib import Path

import pytest
from msgspec.structs import replace
from tests.cloud.filled_store import TASK, Filled, fill
from typer.testing import CliRunner

from auricle.errors import NOT_FOUND
from auricle.wire.messages import SECURE_SUM, DeviceState
from auricle.wire.secure_sum.kinds import FEWEST
from auricle_cloud.commands import app
from auricle_cloud.operations.operating import NotFoundError
from auricle_cloud.operations.waiting import NO_CLIPS, Wanted, coordinator_trouble, planned_waits
from auricle_cloud.storage.claim_records import ClaimRecords
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

    silent = planned_waits(1, None, 1, [replace(row, samples=0)], Wanted(row.pack), [])

    assert "the coordinator's key" in planned_waits(1, None, 1, [], Wanted(), []).sentences[1]
    assert [(one.device, one.reason) for one in silent.devices] == [("dev-a", NO_CLIPS)]


@pytest.mark.parametrize(
    ("wanted", "says"),
    [
        (Wanted(), "start agents with this fleet's name, its broker and the coordinator's key"),
        (Wanted(by_claim=True), "make a token for each with auricle cloud enrol token, run auricle edge claim"),
        (Wanted(by_claim=True, tokens=1), "and 1 token is not used yet: run auricle edge claim on the device"),
        (Wanted(by_claim=True, tokens=3), "and 3 tokens are not used yet"),
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
    ClaimRecords(filled.store.database).create(["pi-001"], 7 * 86_400)

    assert "1 token is not used yet" in " ".join(do.why_round(3).sentences)
    (event,) = [row for row in do.list_events().events if row.kind == "claim token created"]
    assert event.detail == "for 7 days"


def test_a_secure_sum_needs_three_devices_that_can_do_it(tmp_path: Path) -> None:
    row = replace(fill(tmp_path).store.devices.get("dev-a"), standing="approved", online=True, gate="train", samples=9)
    wanted = Wanted(row.pack, needs=[SECURE_SUM], fewest=FEWEST)
    able = [replace(row, device=f"dev-{n}", capabilities=SECURE_SUM) for n in "abc"]
    old = replace(row, device="dev-d", capabilities="")

    two = planned_waits(1, None, 1, [*able[:2], old], wanted, [])

    assert two.sentences[1:] == [
        "2 of 3 devices can be invited, and a secure sum needs 3 at least: it begins when that many can."
    ]
    assert [(one.device, one.reason) for one in two.devices] == [
        ("dev-d", "has an agent that is too old for secure-sum: update it")
    ]
    assert planned_waits(1, None, 1, able, wanted, []).sentences[1:] == [
        "3 of 3 devices can be invited: it is about to begin."
    ]


def test_a_planned_round_knows_what_its_coordinator_needs(tmp_path: Path) -> None:
    filled = fill(tmp_path)
    filled.store.rounds.move(TASK, 2, "collecting", "aborted", report={"invited": [], "reason": "x"})
    filled.store.database.beat(Pulse(time.time(), fewest=FEWEST, needs=(SECURE_SUM,)))

    waiting = filled.operations().why_round(3)

    assert "None of 5 devices can be invited." in waiting.sentences
    assert "dev-a has an agent that is too old for secure-sum: update it." in waiting.devices[0].sentences


@pytest.mark.parametrize("command", [["rounds", "why"], ["why"], ["rounds", "wait"], ["rounds", "why", "dev-a"]])
def test_without_a_round_the_reason_is_said(tmp_path: Path, command: list[str]) -> None:
    filled = fill(tmp_path)
    with filled.store.database.writing() as tx:
        tx.exec_driver_sql("DELETE FROM rounds")

    done = CliRunner().invoke(app, [*command, "--state", str(filled.folder)])

    assert isinstance(done.exception, NotFoundError)
    assert done.exception.exit_code == NOT_FOUND
    said = str(done.exception)
    assert said.startswith("There is no round yet: nobody has started one (auricle cloud rounds start).")
    assert said.endswith("of 5 devices could be invited now.")


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
    assert str(both.exception) == '"dev-b" is not the number of a round: auricle cloud rounds why 3 dev-b'


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
