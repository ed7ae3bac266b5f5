"""Who the operator's page lets in, by keyboard alone, in every light and on a phone."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests.cloud.api_server import Server
from tests.cloud.rolling import PATH
from tests.system.page.store import ATTACKER, PRUNED, ROUNDS
from tests.system.page.visit import PHONE, WIDE, Visiting, expect, rollout_of

pytestmark = pytest.mark.slow

UNDER_WAY = ROUNDS + 1
PLANNED = ROUNDS + 2
ACTS = (
    "Start rounds, Abort the round, Roll back, Promote version 3, Label, Quarantine, Revoke, Approve kitchen-023, "
    "Add a schedule, Remove nightly, Create a token, Pause, End, New devices, Replace a board, "
    "Let devices join, Update all devices"
)
PLACES = "/ rounds rounds/7 devices models updates enrolment events tokens rounds/7?outcome=pruned devices?search=wind"
PAGES = [
    f"#/{place.lstrip('/')}"
    for place in (*PLACES.split(), f"rounds/{UNDER_WAY}", f"rounds/7/{PRUNED}", f"devices/{PRUNED}")
]

# -- signing in


def test_a_token_is_entered_once_and_stays_in_the_tab(still: Server, visit: Visiting) -> None:
    one = visit(still, None)
    one.sign_in("auricle_wrong")
    expect(one.page.get_by_role("alert").filter(has_text="token is unknown")).to_be_visible()
    one.sign_in(still.tokens["viewer"])
    expect(one.page.get_by_role("heading", level=1)).to_have_text("Fleet")
    one.page.reload()
    expect(one.page.get_by_role("heading", level=1)).to_have_text("Fleet")
    assert one.page.evaluate("[localStorage.length, document.cookie]") == [0, ""]
    assert still.tokens["viewer"] not in one.page.url
    one.button("Sign out").click()
    expect(one.page.get_by_role("heading", level=1)).to_have_text("Sign in")
    one.page.reload()
    expect(one.page.get_by_role("heading", level=1)).to_have_text("Sign in")


def test_a_revoked_token_leads_back_to_the_sign_in(server: Server, visit: Visiting) -> None:
    one = visit(server, "operator")
    server.filled.store.tokens.revoke("the-operator")
    # By its address: the stream of events may have noticed before, and then there is no link to click any more.
    one.page.evaluate("location.hash = '#/devices'")
    expect(one.page.get_by_role("heading", level=1)).to_have_text("Sign in")
    expect(one.page.get_by_role("alert").filter(has_text="revoked")).to_be_visible()
    expect(one.page.get_by_role("navigation")).to_have_count(0)


def test_roles_see_what_they_may_do(still: Server, visit: Visiting) -> None:
    acts = {*ACTS.split(", "), f"Release {ATTACKER}", f"Roll out {PATH}"}

    def offered(role: str) -> set[str]:
        one = visit(still, role)
        found = set()
        for place in (*PAGES, f"#/updates/{rollout_of(still)}"):
            one.open(place)
            found |= {name for name in acts if one.button(name).count()}
        return found

    assert offered("viewer") == set()
    assert offered("operator") == acts - {
        "Revoke",
        "Create a token",
        "New devices",
        "Replace a board",
        "Let devices join",
    }
    assert offered("admin") == acts


# -- by keyboard


def test_the_page_is_used_by_keyboard_alone(server: Server, visit: Visiting) -> None:
    one = visit(server, None)
    press, focused = one.page.keyboard.press, one.page.locator(":focus")
    one.page.goto(server.url)
    expect(focused).to_have_id("token")
    one.page.keyboard.type(server.tokens["operator"])
    press("Enter")
    expect(focused).to_have_text("Fleet")
    one.loaded()

    one.page.reload()
    one.loaded()
    expect(focused).to_have_text("Fleet")
    order = []
    for _ in range(9):
        press("Shift+Tab")
        order.append(focused.inner_text())
        assert focused.evaluate("element => getComputedStyle(element).outlineStyle") == "solid"
    pages = ["Fleet", "Rounds", "Devices", "Models", "Updates", "Enrolment", "Events"]
    assert order[::-1] == ["Skip to the content", *pages, "Sign out"]
    press("Enter")
    expect(focused).to_have_id("main")

    start = one.button("Start rounds")
    start.focus()
    press("Enter")
    expect(one.page.get_by_role("dialog", name="Start rounds?")).to_be_visible()
    expect(focused).to_have_attribute("name", "count")
    press("Escape")
    expect(one.page.get_by_role("dialog")).to_have_count(0)
    expect(start).to_be_focused()
    press("Enter")
    one.page.keyboard.type("2")
    press("Enter")
    expect(one.said).to_have_text(f"Rounds {PLANNED + 1} to {PLANNED + 2} are planned.")
    expect(one.page.get_by_text("3 planned rounds")).to_be_visible()


def test_every_control_and_part_has_a_name(still: Server, visit: Visiting) -> None:
    one = visit(still)
    for place in PAGES:
        one.open(place)
        for summary in one.page.locator("summary").all():
            summary.press("Enter")
        nameless = one.page.evaluate("""() => [
            ...[...document.querySelectorAll("input, select")].filter((field) => !field.labels.length),
            ...[...document.querySelectorAll("button, a, summary, th")].filter((one) => !one.textContent.trim()),
            ...[...document.querySelectorAll("table")].filter((one) => !one.caption?.textContent),
            ...[...document.querySelectorAll("[role=img], progress")].filter((one) => !one.ariaLabel),
            ...[...document.querySelectorAll("section")].filter((one) =>
                !document.getElementById(one.getAttribute("aria-labelledby"))?.textContent),
        ].map((one) => one.outerHTML.slice(0, 200))""")
        twice = one.page.evaluate("""() => {
            const ids = [...document.querySelectorAll("[id]")].map(({ id }) => id);
            return ids.filter((id, i) => ids.indexOf(id) !== i);
        }""")
        assert (nameless, twice) == ([], []), place
        assert one.page.locator("h1").count() == 1
        assert one.page.title().endswith(" · Auricle")


# -- in every light and on a phone


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("size", [WIDE, PHONE], ids=["desk", "phone"])
@pytest.mark.nightly
def test_no_page_scrolls_sideways(
    still: Server, visit: Visiting, shots: Path, scheme: str, size: dict[str, int]
) -> None:
    one = visit(still, color_scheme=scheme, viewport=size)
    for place in (*PAGES, f"#/updates/{rollout_of(still)}"):
        one.open(place)
        wide = one.page.evaluate("document.documentElement.scrollWidth - innerWidth")
        name = re.sub(r"[^a-z0-9]+", "-", place.replace(rollout_of(still), "rollout")).strip("-") or "fleet"
        one.page.screenshot(path=shots / f"{name}-{scheme}-{size['width']}.png", full_page=True)
        assert wide <= 0, place
    one.open("#/")
    one.button("Start rounds").click()
    box = one.page.get_by_role("dialog").bounding_box()
    one.page.screenshot(path=shots / f"dialog-{scheme}-{size['width']}.png")
    assert box["x"] >= 0
    assert box["x"] + box["width"] <= size["width"]


def test_colours_and_motion_follow_the_reader(still: Server, visit: Visiting) -> None:
    ground = "getComputedStyle(document.body).backgroundColor"
    light, dark = visit(still, color_scheme="light"), visit(still, color_scheme="dark", reduced_motion="reduce")
    assert light.page.evaluate(ground) == "rgb(245, 246, 248)"
    assert dark.page.evaluate(ground) == "rgb(17, 21, 27)"
    moving = "[...document.querySelectorAll('*')].filter((e) => getComputedStyle(e).transitionDuration !== '0s').length"
    assert dark.page.evaluate(moving) == 0
