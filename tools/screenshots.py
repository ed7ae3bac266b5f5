"""Pictures for the README and the pages, of real runs.

    python tools/screenshots.py listen [--out docs/images]    listen.svg: a terminal in which a device hears words
    python tools/screenshots.py fleet [--out docs/images]     run.svg: a fleet's run; page.png: the operator's page

Needs the environment of `make test` and espeak-ng; `listen` takes half a minute. `fleet` needs Chromium, and minutes.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import fcntl
import io
import os
import shlex
import shutil
import struct
import subprocess
import sys
import tempfile
import termios
from pathlib import Path

import numpy as np
import soundfile
from playwright.async_api import async_playwright
from rich.console import Console

from auricle.speech.audio import SAMPLE_RATE
from auricle.speech.synthesis import SynthesisSettings, synthesise
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
WIDTH, HEIGHT, COLUMNS = 1280, 700, 80
SPOKEN = (("computer", "stop"), ("jarvis", "yes"), ("computer",))
"""Wake words with and without a command, said to the device by synthetic voices."""


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


def _kitchen(file: Path) -> None:
    """Write a recording of the words, in faint noise."""
    words = sorted({word for together in SPOKEN for word in together})
    speech = synthesise(SynthesisSettings(words=",".join(words), speakers=4, takes=2))
    clips = {label: speech.audio[speech.targets == target] for target, label in enumerate(speech.labels)}
    rng = np.random.default_rng(0)
    sound = [rng.normal(0, 20, 2 * SAMPLE_RATE)]
    for together in SPOKEN:
        for word in together:
            sound += [clips[word][4], rng.normal(0, 20, SAMPLE_RATE // 3)]
        sound.append(rng.normal(0, 20, 3 * SAMPLE_RATE))
    soundfile.write(file, np.concatenate(sound).astype(np.int16), SAMPLE_RATE)


def _listening(picture: Path, folder: Path) -> None:
    """Let a device hear the recording at a terminal, and keep what that shows."""
    _kitchen(folder / "kitchen.wav")
    command = shlex.split("auricle edge run --device kitchen-1 --state kitchen --source file:kitchen.wav")
    master, terminal = os.openpty()
    fcntl.ioctl(terminal, termios.TIOCSWINSZ, struct.pack("4H", 24, COLUMNS, 0, 0))
    environment = os.environ | {"PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}"}
    output = b""
    with subprocess.Popen(command, cwd=folder, env=environment, stdout=terminal, stderr=terminal) as process:
        os.close(terminal)
        with contextlib.suppress(OSError):  # the terminal is gone once nobody holds it
            while piece := os.read(master, 4096):
                output += piece
    if process.returncode:
        sys.exit(f"auricle edge run ended with {process.returncode}: {output.decode()}")
    console = Console(record=True, width=COLUMNS, file=io.StringIO())
    console.print(f"$ {' '.join(command)}", highlight=False)
    console.print(output.decode().replace("\r", ""), end="", highlight=False, markup=False)
    console.save_svg(str(picture), title="auricle edge run")


async def _fleet(out: Path, folder: Path) -> None:
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
    """Make the pictures."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("of", choices=("listen", "fleet"))
    parser.add_argument("--out", type=Path, default=Path("docs/images"))
    given = parser.parse_args()
    given.out.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory() as folder:
        if given.of == "listen":
            _listening(given.out / "listen.svg", Path(folder))
        else:
            asyncio.run(_fleet(given.out, Path(folder) / "run"))
    return 0


if __name__ == "__main__":
    sys.exit(main())
