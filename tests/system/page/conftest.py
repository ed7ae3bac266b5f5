"""A browser, the fleets that it looks at, and whoever looks."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from tests.cloud.api_server import Server
from tests.system.page.store import served

if TYPE_CHECKING:
    from tests.system.page.visit import Visit, Visiting


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    program = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)
    if program is None:
        pytest.skip("Chromium is not installed")
    arguments = ["--no-sandbox"] if os.geteuid() == 0 else []
    playwright = pytest.importorskip("playwright.sync_api", reason="playwright is not installed")
    with playwright.sync_playwright() as running:
        started = running.chromium.launch(executable_path=program, args=arguments)
        yield started
        started.close()


@pytest.fixture
def server(tmp_path: Path) -> Iterator[Server]:
    """A fleet of 24 devices after eight rounds, for tests that change it."""
    with served(tmp_path) as running:
        yield running


@pytest.fixture(scope="module")
def still(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """The same for tests that only look."""
    with served(tmp_path_factory.mktemp("still")) as running:
        yield running


@pytest.fixture
def shots(tmp_path: Path) -> Path:
    folder = Path(os.environ.get("AURICLE_SCREENSHOTS") or tmp_path)
    folder.mkdir(parents=True, exist_ok=True)
    return folder


@pytest.fixture
def visit(browser: Any) -> Iterator[Visiting]:
    """Open a page signed in by role; in the end nothing may have gone wrong and nothing come from outside."""
    from tests.system.page.visit import WIDE, Visit, expect, watch

    visits: list[Visit] = []
    with ExitStack() as stack:

        def begin(server: Server, role: str | None = "admin", **options: Any) -> Visit:
            context = browser.new_context(**{"viewport": WIDE, "locale": "en-GB", **options})
            stack.callback(context.close)
            one = Visit(server.url, context.new_page())
            visits.append(one)
            watch(one)
            if role is not None:
                one.sign_in(server.tokens[role])
                expect(one.button("Sign out")).to_be_visible()
                one.loaded()
            return one

        yield begin
    assert [sentence for one in visits for sentence in one.wrong] == []
