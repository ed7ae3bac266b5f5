"""Pictures of a small real fleet for the README: its run as SVG, and the operator's page in Chromium as PNG.

    python tools/screenshots.py [--out docs/images]

Needs the environment of `make test`, Chromium and espeak-ng; takes some minutes.
"""

from __future__ import annotations

import argparse
import asyncio
import io
import os
import shutil
import sys
import tempfile
from pathlib import Path

from playwright.async_api import async_playwright
from rich.console import Console

from auricle_cloud.api.api_server import listening
from auricle_cloud.api.api_settings import ApiSettings
from auricle_cloud.operations.operations import Operations
from auricle_cloud.rounds.coordinator import Coordinator
from auricle_cloud.service import application
from auricle_fleet import FleetRun, FleetSettings, View

SETTINGS = FleetSettings()
"""Those of `make fleet`."""
SHOT_AFTER = SETTINGS.rounds - 3
"""Rounds after which the page is opened; the others go on meanwhile."""
WIDTH, HEIGHT, COLUMNS = 1280, 900, 80


def _chromium() -> str:
    found = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)
    if found is None:
        sys.exit("Chromium is not installed: apt install chromium.")
    return found


async def _page(coordinator: Coordinator, picture: Path) -> None:
    """Sign in at the page of a running coordinator, and keep what it shows of the fleet."""
    desk = Operations(coordinator.store, coordinator.blobs, coordinator.settings.task)
    token = (await asyncio.to_thread(desk.create_token, "screenshots", "viewer")).token
    settings = ApiSettings(port=0)
    async with listening(application(coordinator, settings), settings) as url, async_playwright() as running:
        arguments = ["--no-sandbox"] if os.geteuid() == 0 else []
        browser = await running.chromium.launch(executable_path=_chromium(), args=arguments)
        page = await browser.new_page(viewport={"width": WIDTH, "height": HEIGHT})
        await page.goto(url)
        await page.get_by_label("Token").fill(token)
        await page.get_by_role("button", name="Sign in").click()
        await page.locator("main h1").wait_for()
        await page.locator("[aria-busy=true]").first.wait_for(state="detached")
        await page.screenshot(path=picture)
        await browser.close()


async def _pictures(out: Path, folder: Path) -> None:
    view, enough = View(), asyncio.Event()

    def done(row: object) -> None:
        if len(view.rows) >= SHOT_AFTER:
            enough.set()

    fleet = FleetRun(SETTINGS, folder, on_round=done, view=view)
    run = asyncio.create_task(fleet.run_async())
    waiting = asyncio.create_task(enough.wait())
    await asyncio.wait({run, waiting}, return_when=asyncio.FIRST_COMPLETED)
    if not run.done():
        assert fleet.coordinator is not None
        await _page(fleet.coordinator, out / "page.png")
    await run
    console = Console(record=True, width=COLUMNS, file=io.StringIO())
    console.print("$ make fleet", highlight=False)
    console.print(view.rendered())
    console.save_svg(str(out / "run.svg"), title="auricle fleet run")


def main() -> int:
    """Make both pictures."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, default=Path("docs/images"))
    out = parser.parse_args().out
    out.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory() as folder:
        asyncio.run(_pictures(out, Path(folder) / "run"))
    print(f"{out}/page.png and {out}/run.svg are made.")
    return 0


if __name__ == "__main__":
    sys.exit(main())
