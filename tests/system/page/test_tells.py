"""What the operator's page tells of a fleet, also while it changes and where it is large."""

from __future__ import annotations

import re
import time
from pathlib import Path

import pytest

from auricle_cloud.storage.database import Pulse
from tests.cloud.api_server import Server
from tests.cloud.filled_store import TASK, update
from tests.system.page.store import ATTACKER, PRUNED, ROUNDS, served
from tests.system.page.visit import Visiting, expect

pytestmark = pytest.mark.slow

UNDER_WAY = ROUNDS + 1
PLANNED = ROUNDS + 2
# -- what it tells


def test_the_fleet_is_seen_at_a_glance(still: Server, visit: Visiting) -> None:
    one = visit(still, "viewer")
    expect(one.page.get_by_role("link", name="24 known")).to_be_visible()
    expect(one.panel("Round")).to_contain_text("3 counted of 12 invited devices")
    waiting = one.panel("Round").locator("ul.plain > li")
    expect(waiting).to_have_count(4)
    expect(waiting.last.get_by_role("link", name="6 more devices")).to_be_visible()
    expect(one.panel("Model")).to_contain_text(f"Version {ROUNDS}")
    expect(one.panel("Alarms").get_by_role("row")).to_have_count(4)
    chart = one.page.get_by_role("img", name="Accuracy over rounds")
    expect(chart.locator("path.curve")).to_have_count(3)
    one.page.get_by_text("Accuracy over rounds (%) as a table").click()
    rows = one.panel("Learning").get_by_role("table", name="Accuracy over rounds").get_by_role("row")
    expect(rows).to_have_count(UNDER_WAY + 1)


def test_a_pruned_device_is_found_in_the_map_and_read_about(still: Server, visit: Visiting) -> None:
    one = visit(still, "viewer")
    one.open("#/rounds/7")
    row = one.panel("Kept and pruned by layer").get_by_role("row").filter(has_text=PRUNED)
    cells = row.get_by_role("cell")
    expect(cells).to_have_count(4)
    expect(cells.nth(0)).to_have_text(re.compile("^✕pruned, too far from the mean, deviation 20.00, 1 of 10"))
    expect(cells.nth(3)).to_have_text(re.compile(r"^5\.6 %kept with weight 5\.6 %"))
    near = one.panel("Kept and pruned by layer").get_by_role("row").filter(has_text="kitchen-002")
    expect(near.get_by_role("cell").nth(0)).to_have_text(re.compile("^≈pruned, too near the mean"))
    row.get_by_role("link").click()
    expect(one.page.get_by_role("heading", level=1)).to_have_text(f"{PRUNED} in round 7")
    expect(one.panel("Why")).to_contain_text("deviation 20, the farthest of 10")
    expect(one.panel("Why")).to_contain_text("pruned in 3 of 4 layers")


def test_detection_shows_losses_and_shapley_values_with_their_errors(still: Server, visit: Visiting) -> None:
    one = visit(still, "viewer")
    one.open("#/rounds/7")
    part = one.panel("Detection")
    expect(part).to_contain_text(f"Named harmful: {ATTACKER}.")
    expect(part.get_by_role("img", name="reference: 0.950")).to_be_visible()
    expect(part.get_by_role("img", name=f"{ATTACKER} (harmful)").locator("path.error-bar")).to_have_count(12)
    part.get_by_text("Shapley value in round 6 as a table").click()
    expect(part.get_by_role("row").filter(has_text="-0.3100")).to_contain_text("0.0200")


def test_a_devices_history_has_its_rounds_hearing_refusals_and_events(
    still: Server, visit: Visiting, shots: Path
) -> None:
    one = visit(still, "viewer")
    one.open("#/devices")
    one.page.get_by_label("Name or label contains").fill("BY THE window")
    one.button("Search").click()
    one.loaded()
    expect(one.panel("Devices by name").get_by_role("row")).to_have_count(2)
    one.page.get_by_role("link", name=PRUNED).click()
    one.loaded()
    expect(one.page.get_by_role("heading", level=1)).to_have_text(PRUNED)
    expect(one.panel("Standing")).to_contain_text("Kitchen, by the window")
    expect(one.panel("Participation").get_by_role("row")).to_have_count(UNDER_WAY + 1)
    expect(one.panel("Refused frames")).to_contain_text("91.2, at most 50")
    expect(one.panel("Its last finished round")).to_contain_text("head: kept with weight")
    expect(one.panel("Events")).to_contain_text("labelled")
    heard = one.panel("What it hears")
    for fact in ("Heard in a week6.0 h", "Denied an hour0.33", "Missed an hour1.00", "-28 dB", "-52 dB"):
        expect(heard).to_contain_text(fact)
    expect(heard.get_by_role("row")).to_have_count(7)
    heard.screenshot(path=shots / "hearing.png")
    one.open("#/devices/kitchen-0000")
    expect(one.panel("Standing")).to_contain_text('There is no device "kitchen-0000"')


def test_what_a_device_or_operator_writes_is_text(server: Server, visit: Visiting) -> None:
    markup = "<img src=x onerror=alert(1)><script>alert(2)</script>"
    server.filled.store.devices.set_label(PRUNED, markup, who=markup)
    server.filled.store.devices.add_refusals({(PRUNED, markup): (1, markup)})
    server.filled.store.journal.note("alarm", task=TASK, number=7, detail=markup)
    one = visit(server)
    for place in ("#/", "#/devices", f"#/devices/{PRUNED}", "#/events"):
        one.open(place)
        expect(one.page.get_by_text(markup).first).to_be_visible()
        assert one.page.locator("main img, main script").count() == 0
    expect(one.page.get_by_text("● live")).to_be_visible()
    server.tell("alarm", round=7, sentence=markup)
    expect(one.page.locator("#notices")).to_contain_text(markup)
    assert one.page.locator("#notices img").count() == 0


# -- live


def test_a_rounds_progress_is_live_and_keeps_the_focus(server: Server, visit: Visiting) -> None:
    one = visit(server, "operator")
    one.open(f"#/rounds/{UNDER_WAY}")
    expect(one.page.get_by_text("● live")).to_be_visible()
    expect(one.panel("Progress")).to_contain_text("3 counted of 12 invited devices")
    one.panel("Progress").get_by_role("link", name="All rounds").focus()
    base = server.filled.store.rounds.get(TASK, UNDER_WAY).base
    fourth = update("kitchen-003", base, "a" * 64, round=UNDER_WAY)
    server.filled.store.updates.count([fourth])
    server.tell("update", device="kitchen-003", round=UNDER_WAY, verdict="accepted")
    expect(one.panel("Progress")).to_contain_text("4 counted of 12 invited devices")
    expect(one.panel("Cohort").get_by_role("row").filter(has_text="kitchen-003")).to_contain_text("counted")
    expect(one.panel("Progress").get_by_role("link", name="All rounds")).to_be_focused()
    server.tell("progress", round=UNDER_WAY, done=64, total=1024)
    expect(one.page.get_by_text("Judging devices: 64 of at most 1,024 coalitions")).to_be_visible()
    server.tell("alarm", round=UNDER_WAY, sentence="5 of 12 losses are above the reference.")
    expect(one.page.get_by_role("alert").filter(has_text="5 of 12 losses")).to_be_visible()
    one.button("Dismiss").click()
    expect(one.page.locator("#notices")).to_be_empty()


def test_a_coordinator_that_is_gone_is_said_and_found_again(tmp_path: Path, visit: Visiting) -> None:
    with served(tmp_path) as server:
        one = visit(server)
        expect(one.page.get_by_text("● live")).to_be_visible()
    expect(one.page.get_by_text("○ not live")).to_be_visible(timeout=15_000)
    one.page.get_by_role("link", name="Models", exact=True).click()
    expect(one.panel("Versions, the newest first")).to_contain_text("not answer")


def test_that_no_coordinator_runs_comes_first(server: Server, visit: Visiting, shots: Path) -> None:
    """Another process than the coordinator's serves the page here, as behind a load balancer."""
    server.filled.store.database.beat(Pulse(time.time() - 100))
    one = visit(server, "viewer")
    first = one.panel("Round").locator("p").first
    expect(first).to_contain_text("No coordinator has run on this state since")
    expect(first).to_contain_text("auricle cloud serve")
    one.page.screenshot(path=shots / "no-coordinator.png")


# -- large fleets


def test_a_thousand_devices_are_paged(tmp_path: Path, visit: Visiting, shots: Path) -> None:
    with served(tmp_path, devices=1000, cohort=1000, rounds=1) as server:
        one = visit(server)
        one.open("#/devices")
        part = one.panel("Devices by name")
        expect(part.get_by_role("row")).to_have_count(51)
        one.button("Next page of Devices by name").click()
        expect(part.get_by_role("row").nth(1)).to_contain_text("kitchen-050")
        expect(part).to_contain_text("Page 2")
        one.button("Previous page of Devices by name").click()
        expect(part.get_by_role("row").nth(1)).to_contain_text("kitchen-000")
        one.page.get_by_label("Standing").select_option("pending")
        one.loaded()
        expect(part.get_by_role("row")).to_have_count(2)
        one.open("#/rounds/1")
        grid = one.panel("Kept and pruned by layer")
        expect(grid.get_by_role("row")).to_have_count(26)
        one.button("Next page of Kept and pruned by layer").click()
        expect(grid.get_by_role("row").nth(1)).to_contain_text("kitchen-025")
        expect(one.panel("Cohort").get_by_role("row")).to_have_count(51)
        assert one.page.locator("*").count() < 4000
        one.page.screenshot(path=shots / "round-of-a-thousand.png", full_page=True)
