"""The suite on the brokers that Auricle starts, each with the configuration generated for it, and on its own rules."""

from __future__ import annotations

import asyncio
import json
import subprocess
import sys
from collections.abc import AsyncIterator, Iterable, Mapping
from contextlib import asynccontextmanager
from importlib.util import find_spec
from pathlib import Path

import pytest

from auricle.mqtt_link.mosquitto_program import find_mosquitto
from auricle_fleet.broker.broker import start_broker
from tests.brokers import page
from tests.brokers.__main__ import main
from tests.brokers.check import COORDINATOR, ONE, ROLES, Outcome, Target
from tests.brokers.own_brokers import run_broker
from tests.brokers.suite import check_names, failures, outcomes
from tests.recorder import Record

CROWD = 10_000
GROUPS = {
    "of a group each message reaches one member",
    "what a dead member held reaches another: its session ends with it",
    "what a dead member held reaches another: its session is kept",
    "who may not read takes nothing from a group",
}
LOST_OF_GROUPS = GROUPS - {"of a group each message reaches one member"}
OF_FIVE = {
    "a session ends with its expiry",
    "a message ends with its expiry",
    "a will waits for its delay",
    "MQTT 5",
    "3.1.1 beside 5",
    "it says its Maximum Packet Size",
    "Receive Maximum is kept",
}


@asynccontextmanager
async def broker(kind: str, folder: Path, crowd: int) -> AsyncIterator[Target]:
    if not (find_spec("amqtt") if kind == "amqtt" else find_mosquitto()):
        pytest.skip(f"{kind} is not installed")
    async with run_broker(kind, folder, crowd) as target:
        target.crowd = crowd
        yield target


def names(results: Iterable[Outcome], verdict: str) -> set[str]:
    return {one.name for one in results if one.verdict == verdict}


async def try_all(target: Target, only: Iterable[str] = ()) -> list[Outcome]:
    return [one async for one in outcomes(target, only)]


@pytest.mark.slow
@pytest.mark.nightly
@pytest.mark.timeout(1500)
@pytest.mark.parametrize(
    ("kind", "crowd"), [("mosquitto", CROWD), ("mosquitto-tls", 200), ("mosquitto-tls-passwords", 50)]
)
async def test_mosquitto_as_it_is_generated_holds_all_but_what_groups_lose(
    tmp_path: Path, kind: str, crowd: int, record_property: Record
) -> None:
    async with broker(kind, tmp_path, crowd) as target:
        results = await try_all(target)
    assert failures(results) == []
    assert names(results, "missed") <= LOST_OF_GROUPS
    assert names(results, "not offered") == names(results, "not tried") == set()
    record_property("held", len(names(results, "held")))


@pytest.mark.slow
@pytest.mark.nightly
@pytest.mark.timeout(1500)
async def test_amqtt_holds_what_is_required_and_says_what_it_does_not_have(tmp_path: Path) -> None:
    async with broker("amqtt", tmp_path, 500) as target:
        results = await try_all(target)
    assert failures(results) == []
    assert names(results, "not offered") == OF_FIVE | GROUPS
    assert names(results, "missed") <= {
        "retained messages survive a restart",
        "what is not acknowledged comes again",
        "a packet over the maximum is refused",
    }


async def test_a_broker_without_an_access_list_is_seen(tmp_path: Path) -> None:
    """Checks can fail: where everybody may do everything, and a client is who it says, each of these is missed."""
    if find_mosquitto() is None:
        pytest.skip("mosquitto is not installed")
    users = {name: f"{name}-password" for name in ROLES}
    async with await start_broker(tmp_path, users, fleet="f", kind="mosquitto") as running:
        config = tmp_path / "broker" / "mosquitto.conf"
        left_out = ("acl_file", "use_username_as_clientid", "allow_anonymous")
        lines = [line for line in config.read_text().splitlines() if not line.startswith(left_out)]
        config.write_text("\n".join(["allow_anonymous true", *lines, ""]))
        await running.restart()
        target = Target({name: running.address(name) for name in users}, "f")
        only = [
            "nobody without a name",
            "a device writes nothing but its own",
            "a forbidden subscription delivers nothing",
            "a will obeys the rights",
            "nobody takes over another's session",
        ]
        results = await try_all(target, only)
    assert failures(results) == only
    assert all(one.sentence.endswith(".") for one in results)


async def test_what_cannot_be_looked_at_is_not_held(tmp_path: Path) -> None:
    if find_mosquitto() is None:
        pytest.skip("mosquitto is not installed")
    async with await start_broker(tmp_path, {ONE: "p"}, fleet="f", kind="mosquitto") as running:
        target = Target(dict.fromkeys(ROLES, running.address(ONE)), "f", named=False)
        results = await try_all(target, ["nobody takes over another's session", "a crowd is connected"])
    assert [one.verdict for one in results] == ["not tried", "not tried"]


def command(*arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "tests.brokers", *arguments], cwd=page.ROOT, capture_output=True, text=True, check=False
    )


@pytest.mark.slow
async def test_a_broker_is_tried_by_its_url(tmp_path: Path) -> None:
    """As somebody with a broker of their own types it, with names and passwords in a file."""
    if find_mosquitto() is None:
        pytest.skip("mosquitto is not installed")
    users = {name: f"{name}-password" for name in ROLES}
    (file := tmp_path / "passwords.json").write_text(json.dumps(users))
    async with await start_broker(tmp_path, users, fleet="home", kind="mosquitto") as running:
        given = ("--url", f"mqtt://127.0.0.1:{running.port}", "--passwords", str(file), "--fleet", "home", "--json")
        only = ("--only", "nobody without a name", "--only", "everybody gets what is theirs")
        done = await asyncio.to_thread(command, *given, *only)
    told: Mapping[str, list[Mapping[str, object]]] = json.loads(done.stdout)
    assert done.returncode == 0, done.stderr
    assert [one["verdict"] for one in told["checks"]] == ["held", "held"]


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (["--url", "mqtt://127.0.0.1:1", "--only", "no such"], 'There is no check "no such"'),
        (["--url", "mqtt://127.0.0.1:1", "--cert", "dev-a"], '"dev-a" is not a valid --cert'),
        (["--url", "mqtt://127.0.0.1:1", "--passwords", "/dev/null"], "not a valid file of passwords"),
        (["--url", "mqtt://127.0.0.1:1"], "does not let the coordinator in"),
    ],
)
def test_a_mistake_is_one_sentence(capsys: pytest.CaptureFixture[str], arguments: list[str], sentence: str) -> None:
    assert main(arguments) == 2
    said = capsys.readouterr().err
    assert sentence in said
    assert said.count("\n") == 1


def test_a_role_without_a_name_of_its_own_is_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (file := tmp_path / "passwords.json").write_text(json.dumps({COORDINATOR: "c", ONE: "a"}))
    assert main(["--url", "mqtt://127.0.0.1:1", "--passwords", str(file)]) == 2
    assert "dev-b has neither a password nor a certificate" in capsys.readouterr().err


def test_the_page_is_made_of_what_is_recorded() -> None:
    assert page.PAGE.read_text(encoding="utf-8") == page.text()


def test_every_recorded_run_has_every_check() -> None:
    runs = json.loads(page.RECORDED.read_text(encoding="utf-8"))["runs"]
    assert {"mosquitto", "mosquitto, TLS", "amqtt"} <= runs.keys()
    assert all([one["name"] for one in run["checks"]] == check_names(()) for run in runs.values())
