"""What operators do on their page."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from auricle.wire.claims import read_token
from tests.cloud.api_server import Server
from tests.cloud.filled_store import TASK
from tests.system.page.store import ATTACKER, ROUNDS
from tests.system.page.visit import PHONE, Visiting, expect, rollout_of

pytestmark = pytest.mark.slow

UNDER_WAY = ROUNDS + 1
PLANNED = ROUNDS + 2
# -- what is sent and installed


def test_a_version_is_downloaded_by_whoever_may_look(still: Server, visit: Visiting, tmp_path: Path) -> None:
    one = visit(still, "viewer")
    one.open("#/models")
    with one.page.expect_download() as saved:
        one.button(f"Download version {ROUNDS}").click()
    saved.value.save_as(tmp_path / "model")
    assert saved.value.suggested_filename == f"model-{ROUNDS}.safetensors"
    _, content, _ = still.ask("GET", f"/v1/models/{ROUNDS}/file")
    assert (tmp_path / "model").read_bytes() == content


def test_a_rollout_is_read_paused_and_resumed(server: Server, visit: Visiting) -> None:
    one = visit(server, "operator")
    one.open("#/updates")
    expect(one.panel("Releases").get_by_role("row")).to_have_count(3)
    one.page.get_by_role("link", name=rollout_of(server)).click()
    one.loaded()
    expect(one.panel("Devices")).to_contain_text("asked")
    one.button("Pause").click()
    one.answer("Pause", "Monday")
    expect(one.said).to_contain_text("is paused.")
    expect(one.panel("How far it is")).to_contain_text("Monday")
    one.button("Resume").click()
    one.answer("Resume")
    expect(one.button("Pause")).to_be_visible()


def test_a_new_device_gets_a_token_that_is_saved_as_its_file(
    server: Server, visit: Visiting, tmp_path: Path, shots: Path
) -> None:
    one = visit(server)
    one.open("#/enrolment")
    one.button("New devices").click()
    one.page.get_by_label("Names begin with").fill("hall")
    one.page.get_by_label("How many").fill("2")
    one.answer("Make tokens")
    with one.page.expect_download() as saved:
        one.button("Save hall-001.token").click()
    saved.value.save_as(tmp_path / "token")
    one.page.screenshot(path=shots / "claim-tokens.png")
    assert saved.value.suggested_filename == "hall-001.token"
    assert len(read_token(tmp_path / "token")) > 40
    one.button("Close").click()
    expect(one.panel("Claim tokens that may still be used")).to_contain_text("hall-002")


def test_a_code_is_drawn_by_which_devices_join(server: Server, visit: Visiting) -> None:
    one = visit(server)
    one.open("#/enrolment")
    one.button("Let devices join").click()
    one.answer("Draw a code")
    shown = one.page.get_by_role("dialog").get_by_role("code")
    assert re.fullmatch("[0-9A-Z]{4}-[0-9A-Z]{4}", shown.inner_text())
    one.button("Close").click()
    assert [each.who for each in server.filled.store.journal.events(kind="join code drawn")] == ["the-admin"]


def test_all_devices_are_updated_by_one_button(server: Server, visit: Visiting) -> None:
    server.filled.store.rollouts.abort(rollout_of(server), who="test")
    one = visit(server, "operator")
    one.open("#/updates")
    one.button("Update all devices").click()
    one.answer("Update")
    expect(one.said).to_contain_text("has begun.")
    newest = server.ask("GET", "/v1/rollouts?limit=1")[1]["rollouts"][0]
    assert newest["stages"] == [100]
    releases = server.ask("GET", "/v1/updates/releases")[1]["releases"]
    assert newest["targets"] == [row["path"] for row in releases if row["version"] == "3.0.0"]


# -- what can be done


def test_rounds_are_aborted_and_the_abort_withdrawn(server: Server, visit: Visiting) -> None:
    one = visit(server, "operator")
    one.open(f"#/rounds/{UNDER_WAY}")
    one.button("Abort the round").click()
    expect(one.page.locator(":focus")).to_have_attribute("name", "reason")
    one.answer("Abort", "power cut")
    expect(one.panel("Progress")).to_contain_text("An abort was asked")
    assert server.filled.store.rounds.get(TASK, UNDER_WAY).request == "abort"
    one.button("Withdraw the abort").click()
    one.answer("Withdraw")
    expect(one.button("Abort the round")).to_be_visible()
    events = server.filled.store.journal.events(limit=2)
    assert [(event.kind, event.who) for event in events] == [("resumed", "the-operator"), ("abort", "the-operator")]
    assert events[1].detail == "power cut"


def test_devices_are_approved_quarantined_released_and_revoked(server: Server, visit: Visiting) -> None:
    one, name = visit(server, "admin"), "kitchen-023"
    one.open(f"#/devices/{name}")
    for button, standing in (
        (f"Approve {name}", "approved"),
        ("Quarantine", "quarantined"),
        (f"Release {name}", "approved"),
        ("Revoke", "revoked"),
    ):
        one.button(button).click()
        one.answer(button.split()[0], "seen")
        expect(one.panel("Standing").locator(".badge", has_text=standing)).to_be_visible()
        expect(one.page.get_by_role("dialog")).to_have_count(0)
        assert server.filled.store.devices.get(name).standing == standing
    expect(one.panel("Standing").get_by_role("button")).to_have_text(["Label"])


def test_devices_are_let_in_from_their_list(server: Server, visit: Visiting) -> None:
    server.filled.store.devices.set_standing(["kitchen-021", "kitchen-022"], "pending", who="test")
    one = visit(server, "operator")
    one.open("#/devices?standing=pending")
    part = one.panel("Devices by name")
    one.button("Approve kitchen-022").click()
    one.answer("Approve", "seen")
    expect(part.get_by_role("row")).to_have_count(3)
    one.button("Approve these 2").click()
    one.answer("Approve")
    expect(part).to_contain_text("No device is like that.")
    one.open(f"#/devices?search={ATTACKER}")
    one.button(f"Release {ATTACKER}").press("Enter")
    one.answer("Release")
    expect(part.locator(".badge", has_text="approved")).to_be_visible()
    assert server.filled.store.devices.get(ATTACKER).standing == "approved"


def test_a_device_gets_a_label_and_is_found_by_it(server: Server, visit: Visiting) -> None:
    one = visit(server, "operator")
    one.open("#/devices/kitchen-007")
    press = one.page.keyboard.press
    one.button("Label").focus()
    press("Enter")
    expect(one.page.locator(":focus")).to_have_attribute("name", "label")
    one.page.keyboard.type("Küche, Fenster")
    press("Enter")
    expect(one.panel("Standing")).to_contain_text("Küche, Fenster")
    one.open("#/devices")
    one.page.get_by_label("Name or label contains").fill("küche")
    press("Enter")
    one.loaded()
    expect(one.page).to_have_url(re.compile(r"\?search=k%C3%BCche$"))
    expect(one.panel("Devices by name").get_by_role("row")).to_have_count(2)
    one.page.get_by_role("link", name="kitchen-007").click()
    one.button("Label").click()
    expect(one.page.get_by_label("Label", exact=True)).to_have_value("Küche, Fenster")
    one.page.get_by_label("Label", exact=True).fill("")
    one.answer("Save")
    expect(one.said).to_contain_text("no label")
    assert server.filled.store.devices.get("kitchen-007").label == ""


def test_schedules_are_added_changed_and_removed_by_keyboard(server: Server, visit: Visiting, shots: Path) -> None:
    one = visit(server, "operator", viewport=PHONE)
    schedules = server.filled.store.schedules
    one.open("#/rounds")
    press, part = one.page.keyboard.press, one.panel("Schedules")

    one.button("Add a schedule").focus()
    press("Enter")
    one.page.keyboard.type("weekly.1")
    press("Tab")
    one.page.keyboard.type("25:00")
    press("Enter")
    assert one.page.get_by_role("dialog").locator(":invalid").count()
    one.page.screenshot(path=shots / "dialog-schedule-360.png")
    one.page.get_by_label("When: HH:MM").fill("always")
    one.page.get_by_label("Devices that must be ready").fill("20")
    press("Enter")
    expect(part.get_by_role("row").filter(has_text="weekly.1")).to_contain_text("at least 20")
    row = next(row for row in schedules.all() if row.name == "weekly.1")
    assert (row.at, row.idle, row.rounds) == ("always", 20, 1)

    one.button("Change weekly.1").click()
    one.page.get_by_label("When: HH:MM").fill("23:15")
    one.answer("Change")
    expect(part).to_contain_text("every day at 23:15")
    one.button("Remove weekly.1").press("Enter")
    expect(one.page.locator(":focus")).to_have_text("Cancel")
    one.answer("Remove")
    expect(part.get_by_role("row").filter(has_text="weekly.1")).to_have_count(0)
    assert [row.name for row in schedules.all()] == ["nightly"]


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.nightly
def test_a_token_is_shown_once_works_and_is_revoked(server: Server, visit: Visiting, shots: Path, scheme: str) -> None:
    other = visit(server, "operator")
    expect(other.page.get_by_role("link", name="Tokens")).to_have_count(0)
    other.open("#/tokens")
    expect(other.panel("Tokens by name")).to_contain_text("role admin")
    one = visit(server, color_scheme=scheme, viewport=PHONE, permissions=["clipboard-read", "clipboard-write"])
    expect(one.page.get_by_role("link", name="Tokens", exact=True)).to_be_visible()
    tabs = [link.bounding_box()["y"] for link in one.page.get_by_role("navigation").get_by_role("link").all()]
    assert len(set(tabs)) <= 2  # rows
    one.page.get_by_role("link", name="Tokens", exact=True).click()
    one.button("Create a token").click()
    one.page.get_by_label("Whose it is").fill("bob")
    one.page.get_by_label("Role").select_option("operator")
    one.page.get_by_label("Days").fill("7")
    one.answer("Create")

    secret = one.page.get_by_role("dialog").get_by_label("Token")
    expect(secret).to_be_focused()
    token = secret.input_value()
    one.button("Copy").click()
    expect(one.page.get_by_role("dialog").get_by_role("status")).to_have_text("Copied.")
    assert one.page.evaluate("navigator.clipboard.readText()") == token
    one.page.screenshot(path=shots / f"dialog-token-{scheme}-360.png")
    assert server.filled.store.tokens.holder(token) == ("bob", "operator")
    one.button("Close").click()
    expect(one.page.locator("dialog")).to_have_count(0)
    assert token not in one.page.content() and token not in one.page.url
    expect(one.page.get_by_role("row").filter(has_text="bob")).to_contain_text("operator")
    expect(one.button("Create a token")).to_be_focused()

    one.button("Create a token").click()
    one.page.get_by_label("Whose it is").fill("bob")
    one.answer("Create")
    expect(one.page.get_by_role("dialog").get_by_role("alert")).to_contain_text('already a token "bob"')
    one.answer("Cancel")
    one.button("Revoke bob").click()
    one.answer("Revoke")
    expect(one.page.get_by_role("row").filter(has_text="bob")).to_have_count(0)
    assert server.filled.store.tokens.holder(token) is None


def test_a_round_shows_the_devices_of_one_fate(still: Server, visit: Visiting) -> None:
    one = visit(still, "viewer")
    one.open("#/rounds/7")
    expect(one.panel("Cohort").get_by_role("row")).to_have_count(13)
    one.page.get_by_label("Devices that were").focus()
    one.page.get_by_label("Devices that were").select_option("pruned")
    one.loaded()
    expect(one.panel("Cohort").get_by_role("row")).to_have_count(7)
    expect(one.panel("Kept and pruned by layer").get_by_role("row")).to_have_count(7)
    expect(one.page.get_by_label("Devices that were")).to_be_focused()
    one.page.reload()
    one.loaded()
    expect(one.page.get_by_label("Devices that were")).to_have_value("pruned")
    expect(one.panel("Cohort").get_by_role("row")).to_have_count(7)
    one.page.get_by_label("Devices that were").select_option("late")
    expect(one.panel("Cohort")).to_contain_text("No invited device had this outcome.")


def test_models_are_promoted_and_rolled_back(server: Server, visit: Visiting) -> None:
    one, models = visit(server, "operator"), server.filled.store.models
    one.open("#/models")
    one.button("Roll back").click()
    one.answer("Cancel")
    assert models.current(TASK).version == ROUNDS
    expect(one.button("Roll back")).to_be_focused()
    one.button("Roll back").click()
    one.answer("Roll back", "it is worse")
    expect(one.page.get_by_role("row").filter(has_text="set aside")).to_have_count(1)
    assert models.current(TASK).version == ROUNDS - 1
    one.button("Promote version 5").click()
    one.answer("Promote")
    expect(one.page.get_by_role("row").filter(has_text="current line")).to_have_count(6)
    assert models.current(TASK).version == 5


def test_a_refusal_is_a_sentence_in_the_dialog(server: Server, visit: Visiting) -> None:
    one = visit(server, "operator")
    one.open(f"#/rounds/{UNDER_WAY}")
    one.button("Abort the round").click()
    store = server.filled.store
    store.rounds.move(TASK, UNDER_WAY, "collecting", "aborted", report=None)
    one.answer("Abort")
    alert = one.page.get_by_role("dialog").get_by_role("alert")
    expect(alert).to_contain_text("already aborted")
    one.page.keyboard.press("Escape")
    expect(one.page.get_by_role("dialog")).to_have_count(0)
