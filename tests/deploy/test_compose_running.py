"""compose.yaml and agent/compose.yaml, run as written but without an engine: a round over TLS, and monitoring."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from prometheus_client.parser import text_string_to_metric_families

from tests.arm64.wheels import CHECKOUT
from tests.deploy.composition import Composition
from tests.deploy.conftest import FLEET, Site
from tests.deploy.dashboard import alerts, expressions, filled, metric_names
from tests.deploy.engine import wait

pytestmark = [pytest.mark.slow, pytest.mark.nightly, pytest.mark.timeout(600)]

DEVICE = "nano-001"
EDGE = """
device = "{device}"
state = "/var/lib/auricle"
fleet = "{fleet}"
broker = "mqtts://mosquitto:8883"
coordinator = "{key}"
speech = "/speech"
"""


@pytest.fixture(scope="module")
def round_done(site: Site, speech_folder: Path) -> Iterator[int]:
    """A device enrolled with a token, its agent started from agent/compose.yaml, and one round with it."""
    folder = site.deploy / "agent"
    made = site.auricle("cloud", "enrol", "token", "--device", DEVICE)
    (folder / "claim").mkdir()
    token = folder / "claim" / "token"
    token.write_text(made["tokens"][0]["token"])
    for path in (folder / "claim", token):
        os.chown(path, 10001, 10001)
    key = (site.engine.running["coordinator"].said().split("coordinator ")[1]).split(",")[0]
    (folder / "edge.toml").write_text(EDGE.format(device=DEVICE, fleet=FLEET, key=key))
    variables = {"AURICLE_SERVER": "https://hub.lan:8443", "AURICLE_PIN": made["pin"]}
    device = Composition.read(folder / "compose.yaml", variables)

    site.engine.finish(device, "claim")
    assert not token.exists()
    speech_folder.chmod(0o755)
    agent = site.engine.start(device, "agent", extra={"/speech": str(speech_folder)})
    wait(lambda: site.auricle("cloud", "devices", "list")["devices"], 60, agent.said)
    assert site.auricle("cloud", "devices", "approve", DEVICE)["devices"] == [DEVICE]
    # Rates are of what comes after the first look.
    wait(lambda: site.value('up{job="auricle"}') == 1, 60)
    site.auricle("cloud", "rounds", "start", "--rounds", "1")

    def state() -> str:
        rounds = site.auricle("cloud", "rounds", "list")["rounds"]
        return str(rounds[0]["state"]) if rounds else ""

    wait(lambda: state() == "published", 120, lambda: f"{state()}: {agent.said()}")
    _speak_noise(site)
    yield 1


def _speak_noise(site: Site) -> None:
    """A frame in the device's name that is none: it has to be refused and counted."""
    identity = site.engine.volume("device") / "identity"
    with site.engine.network.entered():
        subprocess.run([sys.executable, "-m", "tests.deploy.noise", identity, FLEET, DEVICE], check=True, cwd=CHECKOUT)


def test_a_round_over_tls_counts_the_device(site: Site, round_done: int) -> None:
    shown = site.auricle("cloud", "rounds", "show", str(round_done))
    assert [(each["device"], each["state"]) for each in shown["cohort"]] == [(DEVICE, "counted")]
    # Noise under the agent's own name took its connection away for a moment.
    wait(lambda: site.auricle("cloud", "overview")["online"] == 1, 60)
    renewed = site.engine.run("agent", "auricle", "edge", "renew", "--state", "/var/lib/auricle", "--json")
    assert json.loads(renewed.stdout)["done"] == "not due"


REPORTED = ("auricle_hearing_level_dbfs", 'label!="all"')
"""What is there only once devices report what they hear, which takes them a quarter of an hour, and have labels. That
it is told then is a test of the coordinator (`tests/cloud/test_hearing_records.py`)."""


def _from_reports(expression: str) -> bool:
    return any(part in expression for part in REPORTED)


def test_every_metric_of_dashboard_and_alerts_is_told_and_prometheus_scraped_it(site: Site, round_done: int) -> None:
    assert site.coordinator("/metrics")[0] == 401
    _, text = site.coordinator("/metrics", (site.engine.volume("monitoring") / "token").read_text().strip())
    told = {sample.name for family in text_string_to_metric_families(text) for sample in family.samples}
    named = set().union(*map(metric_names, (*expressions().values(), *alerts().values())))
    named -= {name for name in named if _from_reports(name)}
    assert named and named <= told
    wait(lambda: named <= set(site.prometheus("label/__name__/values")), 60)


def test_every_panel_of_the_dashboard_shows_something(site: Site, round_done: int) -> None:
    begin = time.time() - 600
    empty = {title: expression for title, expression in expressions().items() if not _from_reports(expression)}

    def shown(expression: str) -> bool:
        found = site.prometheus(
            "query_range", query=filled(expression), start=str(begin), end=str(time.time()), step="5"
        )
        return any(value != "NaN" for series in found["result"] for _, value in series["values"])

    def all_shown() -> bool:
        for title in [title for title, expression in empty.items() if shown(expression)]:
            del empty[title]
        return not empty

    wait(all_shown, 90, lambda: f"nothing is shown by {empty}")


def test_alert_rules_are_evaluated_and_notice_a_coordinator_that_is_gone(site: Site, round_done: int) -> None:
    def rules() -> dict[str, dict[str, Any]]:
        groups = site.prometheus("rules")["groups"]
        return {rule["name"]: rule for group in groups for rule in group["rules"]}

    wait(lambda: all(rule["health"] == "ok" for rule in rules().values()), 60, lambda: str(rules()))
    assert rules().keys() == alerts().keys()
    wait(lambda: rules()["AuricleDown"]["state"] == "inactive", 60)
    assert site.engine.running["coordinator"].stop() == 0
    wait(lambda: rules()["AuricleDown"]["state"] != "inactive", 90, lambda: str(rules()["AuricleDown"]))

    site.engine.start(site.composition, "coordinator")
    site.engine.wait_healthy(site.composition, "coordinator")
    wait(lambda: rules()["AuricleDown"]["state"] == "inactive", 90)
    wait(lambda: site.auricle("cloud", "overview")["online"] == 1, 60)


def test_preparing_again_changes_nothing_and_secrets_are_in_no_volume_in_the_clear(site: Site, round_done: int) -> None:
    state, broker = site.engine.volume("state"), site.engine.volume("broker")
    kept = [
        state / "authority/root.pem",
        state / "api/server.pem",
        broker / "server.pem",
        site.engine.volume("monitoring") / "token",
        *(site.deploy / "secrets").iterdir(),
    ]
    before = {path: path.read_bytes() for path in kept}
    subprocess.run([site.deploy / "prepare", FLEET, "hub.lan", "192.0.2.7"], check=True, capture_output=True)
    site.engine.finish(site.composition, "first-start")
    assert {path: path.read_bytes() for path in kept} == before
    assert b"ENCRYPTED" in (state / "authority/issuing.key").read_bytes()
    assert (state / "pgpass").stat().st_mode & 0o777 == 0o600


def test_a_backup_of_the_running_coordinator_is_restored_to_a_machine_with_an_authority_of_its_own(
    site: Site, round_done: int
) -> None:
    file, state = "/var/lib/auricle/backup.tar.zst", site.engine.volume("state")
    broker, token = site.engine.volume("broker"), site.engine.volume("monitoring") / "token"
    made = site.auricle("cloud", "backup", file)
    assert made["lacks"] == ["the releases"]
    assert (state / "backup.tar.zst").stat().st_mode & 0o777 == 0o600
    before = site.auricle("cloud", "models", "list")["models"]
    root = (state / "authority" / "root.pem").read_bytes()
    site.auricle("cloud", "devices", "quarantine", DEVICE, "--yes")
    for name in ("coordinator", "mosquitto"):
        site.engine.running[name].stop()

    for lost in (state / "authority", state / "identity", state / "api"):
        shutil.rmtree(lost)
    for lost_file in (state / "coordinator.key", token, *broker.iterdir()):
        lost_file.unlink()
    _empty_database(site)
    site.engine.finish(site.composition, "first-start")
    assert (state / "authority" / "root.pem").read_bytes() != root
    _empty_database(site)
    site.engine.finish(site.composition, "coordinator", command=["auricle", "cloud", "restore", file, "--yes"])
    stale = ["/var/lib/auricle/api", "/etc/auricle/broker/server.pem", "/etc/auricle/monitoring/token"]
    site.engine.finish(site.composition, "first-start", command=["rm", "-rf", *stale])
    site.engine.finish(site.composition, "first-start")
    for name in ("mosquitto", "coordinator"):
        site.engine.start(site.composition, name)
        site.engine.wait_healthy(site.composition, name)

    assert (state / "authority" / "root.pem").read_bytes() == root
    assert (state / "authority.before-restore" / "root.pem").is_file()
    assert site.auricle("cloud", "models", "list")["models"] == before
    assert site.auricle("cloud", "devices", "show", DEVICE)["row"]["standing"] == "approved"
    wait(lambda: site.auricle("cloud", "overview")["online"] == 1, 90, lambda: site.engine.running["agent"].said())
    wait(lambda: site.value('up{job="auricle"}') == 1, 60)


def _empty_database(site: Site) -> None:
    for command in (["dropdb", "--force"], ["createdb"]):
        done = site.engine.run("postgres", *command, "--username=auricle", "auricle")
        assert done.returncode == 0, done.stderr
