"""Every command that prints a table, on a terminal of 80 columns."""

from __future__ import annotations

import json
import time
from collections.abc import Sequence
from datetime import datetime
from types import SimpleNamespace

import pytest
from msgspec.structs import replace
from tests.cloud.arrivals import register
from tests.cloud.filled_store import TASK, Filled, fill
from tests.cloud.hearing_reports import report
from typer.testing import CliRunner

from auricle.process.times import time_zone
from auricle.wire.messages import DeviceState
from auricle_cloud.commands import answer_tables, app
from auricle_cloud.commands.answers import _parts
from auricle_cloud.operations.round_answers import ScheduleList, ScheduleRow

LONG = "kitchen-window-left-of-door-17"


@pytest.fixture(scope="module")
def filled(tmp_path_factory: pytest.TempPathFactory) -> Filled:
    filled = fill(tmp_path_factory.mktemp("state"))
    pack, devices = filled.pack.identity, filled.store.devices
    devices.register(register(LONG, pack=pack, boot="b", agent="0.1.0", samples=12345), "approved")
    devices.set_label(LONG, "the kitchen, at the window", who="cli:anna")
    why = "The battery is at 10 % and nothing charges it since yesterday."
    devices.presence(DeviceState(fleet="f", device=LONG, boot="b", online=True, gate="decline", gate_reason=why))
    devices.add_refusals({(LONG, "signature"): (12345, "not made by the owner of this name")})
    with filled.store.rounds.moving(TASK, 3, "planned", "inviting", base="0" * 64, base_version=1, plan=b"") as tx:
        filled.store.rounds.invite(tx, TASK, 3, ["dev-a", LONG])
    filled.store.rounds.move(TASK, 3, "inviting", "collecting")
    filled.store.rounds.mark_failed(TASK, 3, LONG, "declined", why)
    with filled.store.database.writing() as tx:
        for period in (1, 2):
            assert filled.store.hearing.enter(tx, report(LONG, period, pack=pack), time.time()) is None
    filled.store.tokens.create("anna-on-her-laptop-at-home", "operator", days=30, who="cli")
    filled.store.schedules.set("every-night-in-winter", task=TASK, at="02:30", idle=20, rounds=5, who="cli")
    return filled


COMMANDS: Sequence[tuple[Sequence[str], Sequence[str]]] = [
    (["devices", "list"], [LONG, "dev-e", "standing", "battery"]),
    (["devices", "show", LONG], [LONG, "signature", "12345"]),
    (["devices", "logs", LONG], [LONG, "registered", "signature"]),
    (["devices", "hearing"], [LONG]),
    (["devices", "hearing", LONG], [LONG]),
    (["rounds", "list"], ["collecting", "published"]),
    (["rounds", "show", "3"], [LONG, "declined", "yesterday."]),
    (["rounds", "schedule", "list"], ["every-night-in-winter", "02:30"]),
    (["rounds", "schedule", "list"], [f"{time_zone()}."]),
    (["models", "list"], ["version", "origin"]),
    (["journal"], [LONG, "registered", "losses", "rose"]),
    (["overview"], ["alarm"]),
    (["tokens", "list"], ["anna-on-her-laptop-at-home", "operator"]),
]


@pytest.mark.parametrize(("command", "whole"), COMMANDS, ids=lambda value: " ".join(value)[:30])
def test_nothing_is_cut_at_80_columns(
    filled: Filled, command: Sequence[str], whole: Sequence[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("auricle.process.table.UNSEEN_WIDTH", 80)

    done = CliRunner().invoke(app, [*command, "--state", str(filled.folder)])

    assert done.exit_code == 0, done.output
    words = done.output.split()
    for word in whole:
        assert any(word in found for found in words), done.output
    tables = [line for line in done.output.splitlines() if "  " in line.strip()]
    assert tables
    assert max(map(len, tables)) <= 80, done.output


TABLES = {
    "releases": answer_tables.RELEASE,
    "rollouts": answer_tables.ROLLOUT,
    "cohort": answer_tables.MEMBER,
    "rounds": answer_tables.ROUND,
    "models": answer_tables.MODEL,
    "devices": answer_tables.DEVICE,
    "journal": answer_tables.EVENT,
    "certificates": ("name", "kind", "serial", "expires", "revoked", "reason"),
    "claims": ("device", "created", "expires", "replaces"),
}
LONGEST = {
    "path": "bundles/home/pi5/raspios-13/auricle-0.2.0-ab12cd34ef56.tar",
    "rollout": "r12-3f9a",
    "device": LONG,
    "name": LONG,
    "serial": "5b" * 20,
    "reason": "Two of three devices went back to the version before: their microphones were silent.",
    "identity": "ab" * 32,
    "ineligible": "is offline since 2026-11-23 14:05 CET",
    "detail": "3 rounds",
}


@pytest.mark.parametrize("name", TABLES)
def test_what_has_to_be_typed_is_whole_in_every_table(name: str) -> None:
    columns = TABLES[name]
    row = SimpleNamespace(**{column: LONGEST.get(column, 1_700_000_000.5) for column in columns})

    lines = answer_tables.table([row], columns).lines(80)

    typed = [LONGEST[column] for column in columns if column in ("path", "rollout", "device", "name")]
    assert all(text in lines[1] for text in typed), lines
    assert max(map(len, lines)) <= max(80, sum(len(text) + 2 for text in typed)), lines
    said = " ".join(" ".join(lines).split())
    assert "reason" not in columns or all(word in said for word in LONGEST["reason"].split())


def test_a_schedule_says_when_it_last_ran_and_of_whose_clock(filled: Filled, monkeypatch: pytest.MonkeyPatch) -> None:
    """Setting it is not a run; JSON has the time in ISO 8601."""
    listed = ["rounds", "schedule", "list", "--json", "--state", str(filled.folder)]
    (before,) = json.loads(CliRunner().invoke(app, listed).stdout)["schedules"]
    filled.store.rounds.plan(TASK, 1, who="schedule every-night-in-winter")
    (after,) = json.loads(CliRunner().invoke(app, listed).stdout)["schedules"]
    assert before["last"] is None
    assert datetime.fromisoformat(after["last"]).tzinfo is not None
    elsewhere = ScheduleList(schedules=[replace(SCHEDULED, zone="UTC+05:45")])
    *_, said = _parts(elsewhere)
    assert said == f"at: the coordinator's clock, UTC+05:45; last: this machine's, {time_zone()}."


SCHEDULED = ScheduleRow(name="a", task=TASK, at="02:30", idle=1, rounds=1, last=None, zone="UTC+00:00")
