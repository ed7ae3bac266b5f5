"""The operator's page in Chromium: against a filled store behind the real API, and on a real fleet.

Screenshots go to the folder named by AURICLE_SCREENSHOTS, or to the test's own.
"""

from __future__ import annotations

import os
import re
import shutil
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest

from auricle.wire.claims import read_token
from tests.cloud.api_server import Server, serving
from tests.cloud.filled_store import TASK, update
from tests.cloud.rolling import PATH
from tests.system.page_store import ATTACKER, PRUNED, ROUNDS, fill_fleet

playwright = pytest.importorskip("playwright.sync_api", reason="playwright is not installed")
expect = playwright.expect
expect.set_options(timeout=30_000)

pytestmark = pytest.mark.slow

UNDER_WAY = ROUNDS + 1
PLANNED = ROUNDS + 2
PAGES = (
    "#/",
    "#/rounds",
    "#/rounds/7",
    f"#/rounds/{UNDER_WAY}",
    f"#/rounds/7/{PRUNED}",
    "#/devices",
    f"#/devices/{PRUNED}",
    "#/models",
    "#/updates",
    "#/enrolment",
    "#/events",
    "#/tokens",
    "#/rounds/7?outcome=pruned",
    "#/devices?search=wind",
)
WIDE, PHONE = {"width": 1280, "height": 900}, {"width": 360, "height": 740}


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    """The system's Chromium."""
    program = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)
    if program is None:
        pytest.skip("Chromium is not installed")
    arguments = ["--no-sandbox"] if os.geteuid() == 0 else []
    with playwright.sync_playwright() as running:
        started = running.chromium.launch(executable_path=program, args=arguments)
        yield started
        started.close()


@pytest.fixture
def server(tmp_path: Path) -> Iterator[Server]:
    """A fleet of 24 devices after eight rounds, for tests that change it."""
    with _served(tmp_path) as running:
        yield running


@pytest.fixture(scope="module")
def still(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """The same for tests that only look."""
    with _served(tmp_path_factory.mktemp("still")) as running:
        yield running


@contextmanager
def _served(folder: Path, **sizes: int) -> Iterator[Server]:
    filled = fill_fleet(folder, **sizes)
    try:
        with serving(filled) as running:
            yield running
    finally:
        filled.store.close()


@pytest.fixture
def shots(tmp_path: Path) -> Path:
    """Where screenshots go."""
    folder = Path(os.environ.get("AURICLE_SCREENSHOTS") or tmp_path)
    folder.mkdir(parents=True, exist_ok=True)
    return folder


@dataclass
class Visit:
    """Somebody's page in a browser, with everything that went wrong in it."""

    url: str
    page: Any
    wrong: list[str] = field(default_factory=list)

    def open(self, place: str) -> None:
        """Open a page and wait until all its parts are loaded."""
        # The page listens longer than this: when both are told, its parts are there and busy.
        self.page.evaluate(
            """place => new Promise((done) => {
              if (location.hash === place) return done();
              addEventListener("hashchange", () => done(), { once: true });
              location.hash = place;
            })""",
            place,
        )
        self.loaded()

    def loaded(self) -> None:
        """Wait until all parts are loaded."""
        expect(self.page.locator("main h1")).to_be_visible()
        expect(self.page.locator("[aria-busy=true]")).to_have_count(0)

    def sign_in(self, token: str) -> None:
        """Enter a token."""
        self.page.goto(self.url)
        self.page.get_by_label("Token").fill(token)
        self.page.get_by_role("button", name="Sign in").click()

    def button(self, name: str) -> Any:
        """A button by its exact name, on the page or, while one is open, in the dialog."""
        return self.page.get_by_role("button", name=name, exact=True)

    def panel(self, name: str) -> Any:
        """A part of the page by its heading."""
        return self.page.get_by_role("region", name=name, exact=True)

    def answer(self, button: str, reason: str = "") -> None:
        """Answer the open dialog."""
        dialog = self.page.get_by_role("dialog")
        if reason:
            dialog.get_by_label("Reason").fill(reason)
        dialog.get_by_role("button", name=button, exact=True).click()

    @property
    def said(self) -> Any:
        """What was said about the last action."""
        return self.page.locator("#said")


Visiting = Callable[..., Visit]


@pytest.fixture
def visit(browser: Any) -> Iterator[Visiting]:
    """Open a page signed in by role; in the end nothing may have gone wrong and nothing come from outside."""
    visits: list[Visit] = []
    with ExitStack() as stack:

        def begin(server: Server, role: str | None = "admin", **options: Any) -> Visit:
            context = browser.new_context(**{"viewport": WIDE, "locale": "en-GB", **options})
            stack.callback(context.close)
            one = Visit(server.url, context.new_page())
            visits.append(one)
            _watch(one)
            if role is not None:
                one.sign_in(server.tokens[role])
                expect(one.button("Sign out")).to_be_visible()
                one.loaded()
            return one

        yield begin
    assert [sentence for one in visits for sentence in one.wrong] == []


def _watch(one: Visit) -> None:
    def console(message: Any) -> None:
        # The browser itself logs every refusal of the API; pages say them as sentences.
        if message.type in ("error", "warning") and not message.text.startswith("Failed to load resource"):
            one.wrong.append(message.text)

    def asked(request: Any) -> None:
        if urlsplit(request.url).netloc != urlsplit(one.url).netloc:
            one.wrong.append(f"asked for {request.url}")

    one.page.on("console", console)
    one.page.on("pageerror", lambda error: one.wrong.append(str(error)))
    one.page.on("request", asked)


# -- signing in


def test_a_token_is_entered_once_and_stays_in_the_tab(still: Server, visit: Visiting) -> None:
    one = visit(still, None)
    one.sign_in("auricle_wrong")
    expect(one.page.get_by_role("alert").filter(has_text="This token is unknown or has expired")).to_be_visible()

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
    expect(one.page.get_by_role("alert").filter(has_text="expired or was revoked: sign in again")).to_be_visible()
    expect(one.page.get_by_role("navigation")).to_have_count(0)


def test_roles_see_what_they_may_do(still: Server, visit: Visiting) -> None:
    acts = {
        "Start rounds",
        "Abort the round",
        "Roll back",
        "Promote version 3",
        "Label",
        "Quarantine",
        "Revoke",
        "Approve kitchen-023",
        f"Release {ATTACKER}",
        "Add a schedule",
        "Remove nightly",
        "Create a token",
        f"Roll out {PATH}",
        "Pause",
        "End",
        "New devices",
        "Replace a board",
    }

    def offered(role: str) -> set[str]:
        one = visit(still, role)
        found = set()
        for place in (*PAGES, f"#/updates/{rollout_of(still)}"):
            one.open(place)
            found |= {name for name in acts if one.button(name).count()}
        return found

    assert offered("viewer") == set()
    assert offered("operator") == acts - {"Revoke", "Create a token", "New devices", "Replace a board"}
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


def rollout_of(server: Server) -> str:
    """The name of its one rollout."""
    (rollout,) = server.ask("GET", "/v1/rollouts")[1]["rollouts"]
    return str(rollout["rollout"])


def test_a_rollout_is_read_paused_and_resumed(server: Server, visit: Visiting) -> None:
    one = visit(server, "operator")
    one.open("#/updates")
    expect(one.panel("Releases").get_by_role("row")).to_have_count(3)
    one.page.get_by_role("link", name=rollout_of(server)).click()
    one.loaded()
    expect(one.panel("Devices")).to_contain_text("was asked, and it has not answered yet")

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


# -- in every light and on a phone


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("size", [WIDE, PHONE], ids=["desk", "phone"])
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


# -- what it tells


def test_the_fleet_is_seen_at_a_glance(still: Server, visit: Visiting) -> None:
    one = visit(still, "viewer")

    expect(one.page.get_by_role("link", name="24 known")).to_be_visible()
    expect(one.panel("Round")).to_contain_text("3 counted of 12 invited devices")
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
    expect(one.panel("Why")).to_contain_text(
        "conv.0: pruned as too far from the mean (deviation 20, the farthest of 10)."
    )
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
    expect(one.panel("Refused frames")).to_contain_text("the update's norm is 91.2, at most 50 is allowed")
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
    with _served(tmp_path) as server:
        one = visit(server)
        expect(one.page.get_by_text("● live")).to_be_visible()
    expect(one.page.get_by_text("○ not live")).to_be_visible(timeout=15_000)

    one.page.get_by_role("link", name="Models", exact=True).click()
    expect(one.panel("Versions, the newest first")).to_contain_text("The coordinator does not answer")


# -- what can be done


def test_rounds_are_aborted_and_the_abort_withdrawn(server: Server, visit: Visiting) -> None:
    one = visit(server, "operator")
    one.open(f"#/rounds/{UNDER_WAY}")

    one.button("Abort the round").click()
    expect(one.page.locator(":focus")).to_have_attribute("name", "reason")
    one.answer("Abort", "power cut")
    expect(one.said).to_have_text(f"The coordinator is asked to abort round {UNDER_WAY}.")
    expect(one.panel("Progress")).to_contain_text("An abort was asked")
    assert server.filled.store.rounds.get(TASK, UNDER_WAY).request == "abort"

    one.button("Withdraw the abort").click()
    one.answer("Withdraw")
    expect(one.button("Abort the round")).to_be_visible()
    events = server.filled.store.journal.events(limit=2)
    assert [(event.kind, event.who) for event in events] == [
        ("resumed", "the-operator"),
        ("abort", "the-operator"),
    ]
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
    expect(one.said).to_have_text("kitchen-022 is approved.")
    expect(part.get_by_role("row")).to_have_count(3)
    one.button("Approve these 2").click()
    one.answer("Approve")
    expect(one.said).to_have_text("2 devices are approved.")
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
    expect(one.said).to_have_text("kitchen-007 is labelled Küche, Fenster.")
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
    expect(one.said).to_have_text("kitchen-007 has no label.")
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
    expect(one.said).to_have_text("The schedule weekly.1 is set.")
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
    expect(one.said).to_have_text("The schedule weekly.1 is removed.")
    expect(part.get_by_role("row").filter(has_text="weekly.1")).to_have_count(0)
    assert [row.name for row in schedules.all()] == ["nightly"]


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_a_token_is_shown_once_works_and_is_revoked(server: Server, visit: Visiting, shots: Path, scheme: str) -> None:
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
    expect(one.said).to_have_text("The token bob is revoked.")
    expect(one.page.get_by_role("row").filter(has_text="bob")).to_have_count(0)
    assert server.filled.store.tokens.holder(token) is None


def test_tokens_are_an_admins_alone(still: Server, visit: Visiting) -> None:
    one = visit(still, "operator")
    expect(one.page.get_by_role("link", name="Tokens")).to_have_count(0)

    one.open("#/tokens")
    expect(one.panel("Tokens by name")).to_contain_text("This needs the role admin")


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
    expect(one.said).to_have_text(f"Version {ROUNDS - 1} is current again.")
    line = one.page.get_by_role("row").filter(has_text="set aside")
    expect(line).to_have_count(1)
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
    expect(alert).to_have_text(f"Round {UNDER_WAY} of {TASK} is already aborted.")
    one.page.keyboard.press("Escape")
    expect(one.page.get_by_role("dialog")).to_have_count(0)


# -- large fleets


def test_a_thousand_devices_are_paged(tmp_path: Path, visit: Visiting, shots: Path) -> None:
    with _served(tmp_path, devices=1000, cohort=1000, rounds=1) as server:
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


# -- a real fleet


@pytest.fixture
def fleet(request: pytest.FixtureRequest) -> Any:
    """A running coordinator with idle devices whose rule prunes: `url`, and the `token` of an operator."""
    try:
        return request.getfixturevalue("live_fleet")
    except pytest.FixtureLookupError:
        pytest.skip("there is no live fleet here")


@pytest.mark.timeout(400)
def test_a_round_is_started_watched_and_its_pruned_device_understood(fleet: Any, browser: Any, shots: Path) -> None:
    context = browser.new_context(viewport=WIDE, locale="en-GB")
    one = Visit(fleet.url, context.new_page())
    _watch(one)
    one.sign_in(fleet.token)
    expect(one.button("Sign out")).to_be_visible()
    one.loaded()
    expect(one.page.get_by_text("● live")).to_be_visible()

    # A round of toys may be over before anybody looks: the page itself listens for what it says.
    one.page.evaluate(
        """() => {
          const said = document.querySelector("#said");
          window.planned = new Promise((heard) => {
            const listen = () => { if (/^Round \\d+ is planned\\.$/.test(said.textContent)) heard(said.textContent); };
            new MutationObserver(listen).observe(said, { childList: true });
          });
        }"""
    )
    one.button("Start rounds").click()
    one.answer("Start")
    number = int(re.findall(r"\d+", one.page.evaluate("() => window.planned"))[0])
    one.page.get_by_role("link", name="Rounds", exact=True).click()
    one.page.get_by_role("link", name=f"Round {number}", exact=True).click()
    progress = one.panel("Progress")
    expect(progress).to_contain_text(re.compile(r"\d+ counted of \d+ invited"), timeout=120_000)
    one.page.screenshot(path=shots / "live-under-way.png", full_page=True)
    expect(progress).to_contain_text("published", timeout=240_000)
    grid = one.panel("Kept and pruned by layer")
    expect(grid).to_be_visible(timeout=20_000)
    one.page.screenshot(path=shots / "live-finished.png", full_page=True)

    pruned = grid.get_by_role("row").filter(has=one.page.locator("td.pruned_far, td.pruned_near")).first
    device = pruned.get_by_role("link").inner_text()
    pruned.get_by_role("link").click()
    expect(one.page.get_by_role("heading", level=1)).to_have_text(f"{device} in round {number}")
    expect(one.panel("Why")).to_contain_text(re.compile("pruned as too (far from|close to) the mean"))
    one.page.screenshot(path=shots / "live-why.png", full_page=True)
    context.close()
    assert one.wrong == []
