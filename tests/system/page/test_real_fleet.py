"""The operator's page on a real fleet."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

from tests.system.page.visit import WIDE, Visit, expect, watch

pytestmark = pytest.mark.slow


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
    watch(one)
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
