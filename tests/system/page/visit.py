"""Somebody's page in a browser, and the fleet that it shows."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import urlsplit

import pytest

from tests.cloud.api_server import Server

playwright = pytest.importorskip("playwright.sync_api", reason="playwright is not installed")
expect = playwright.expect
expect.set_options(timeout=30_000)

WIDE, PHONE = {"width": 1280, "height": 900}, {"width": 360, "height": 740}


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
        expect(self.page.locator("main h1")).to_be_visible()
        expect(self.page.locator("[aria-busy=true]")).to_have_count(0)

    def sign_in(self, token: str) -> None:
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
        dialog = self.page.get_by_role("dialog")
        if reason:
            dialog.get_by_label("Reason").fill(reason)
        dialog.get_by_role("button", name=button, exact=True).click()

    @property
    def said(self) -> Any:
        """What was said about the last action."""
        return self.page.locator("#said")


Visiting = Callable[..., Visit]


def watch(one: Visit) -> None:
    """Note what goes wrong in a page, and what it asks of another server."""

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


def rollout_of(server: Server) -> str:
    (rollout,) = server.ask("GET", "/v1/rollouts")[1]["rollouts"]
    return str(rollout["rollout"])
