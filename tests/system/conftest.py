"""Real processes: a broker, a coordinator and agents, started from the command line."""

from __future__ import annotations

import asyncio
import inspect
import json
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from tests.system.full_disk import small_disk as small_disk
from tests.system.virtual_room import VirtualRoom

DEADLINE = 60.0


@pytest.hookimpl(tryfirst=True)
def pytest_pyfunc_call(pyfuncitem: pytest.Function) -> bool | None:
    """Run a test that is `async def`, in an event loop of its own."""
    if not inspect.iscoroutinefunction(pyfuncitem.obj):
        return None
    asyncio.run(pyfuncitem.obj(**{name: pyfuncitem.funcargs[name] for name in pyfuncitem._fixtureinfo.argnames}))
    return True


class Command:
    """A running `auricle` command, or another module, whose JSON lines are collected while it runs."""

    def __init__(self, *arguments: str, env: dict[str, str] | None = None, module: str = "auricle") -> None:
        self.process = subprocess.Popen(
            [sys.executable, "-m", module, *arguments],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            env={**os.environ, **(env or {})},
        )
        self.lines: list[dict[str, Any]] = []
        self.errors = ""
        self._news = threading.Condition()
        self._readers = [threading.Thread(target=self._read_lines), threading.Thread(target=self._read_errors)]
        for reader in self._readers:
            reader.start()

    def _read_lines(self) -> None:
        assert self.process.stdout is not None
        for text in self.process.stdout:
            with self._news:
                self.lines.append(json.loads(text))
                self._news.notify_all()
        with self._news:
            self._news.notify_all()

    def _read_errors(self) -> None:
        assert self.process.stderr is not None
        for text in self.process.stderr:
            self.errors += text

    def wait_line(self, wanted: Callable[[dict[str, Any]], bool], timeout: float = DEADLINE) -> dict[str, Any]:
        """The first line that is wanted; fails when the process ends or the time is over before."""
        until = time.monotonic() + timeout
        with self._news:
            while True:
                for line in self.lines:
                    if wanted(line):
                        return line
                left = until - time.monotonic()
                if left <= 0 or (self.process.poll() is not None and not self._readers[0].is_alive()):
                    raise AssertionError(f"no such line; said {self.lines[-3:]}, errors: {self.errors[-2000:]}")
                self._news.wait(min(left, 1.0))

    def end(self, timeout: float = DEADLINE) -> int:
        """Wait for the end; the exit code."""
        code = self.process.wait(timeout)
        for reader in self._readers:
            reader.join(10)
        return code

    def signal(self, number: int) -> None:
        """Send a signal to this process only."""
        self.process.send_signal(number)


@pytest.fixture
def start() -> Iterator[Callable[..., Command]]:
    """Start commands; what is still running at the end is killed."""
    started: list[Command] = []

    def begin(*arguments: str, env: dict[str, str] | None = None, module: str = "auricle") -> Command:
        started.append(Command(*arguments, env=env, module=module))
        return started[-1]

    yield begin
    for command in started:
        if command.process.poll() is None:
            command.signal(signal.SIGKILL)
            command.end()


@pytest.fixture
def room(tmp_path: Path) -> Iterator[VirtualRoom]:
    """A room that makes sound as fast as time passes."""
    made = VirtualRoom(tmp_path / "microphone")
    made.open()
    yield made
    made.close()


@pytest.fixture(scope="session")
def speech_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Synthetic speech of five speakers and four words as a Speech Commands folder."""
    import soundfile

    from auricle.speech.synthesis import SynthesisSettings, synthesise

    speech = synthesise(SynthesisSettings(words="yes,no,up,down", speakers=5, takes=6))
    root = tmp_path_factory.mktemp("speech")
    for i, (target, speaker) in enumerate(zip(speech.targets, speech.speakers, strict=True)):
        folder = root / speech.labels[target]
        folder.mkdir(exist_ok=True)
        name = speech.speaker_names[speaker]
        soundfile.write(folder / f"{name}_nohash_{i}.wav", speech.audio[i], 16000)
    return root


@dataclass
class LiveFleet:
    """A coordinator with API and page, and four agents, for tests in another thread; the token is an operator's."""

    url: str = ""
    token: str = ""


@pytest.fixture
def live_fleet(tmp_path: Path) -> Iterator[LiveFleet]:
    """A real coordinator with real agents, all approved; LPA leaves one of four out of every layer."""
    from auricle.packs.pack import load_pack
    from auricle_cloud.api.api_server import listening
    from auricle_cloud.api.api_settings import ApiSettings
    from auricle_cloud.service import application
    from auricle_cloud.settings import Detection
    from auricle_learning.runtimes import StepRuntime
    from tests.cloud.coordinator_site import DEVICES, LPA, Site, run

    found, ready = LiveFleet(), threading.Event()
    stop: list[Callable[[], object]] = []
    failed: list[BaseException] = []

    async def case(site: Site) -> None:
        coordinator = site.coordinator(None, LPA, devices=4, detection=Detection(wait=10.0))
        site.start_agents(coordinator, DEVICES)
        api, over = ApiSettings(port=0), asyncio.Event()
        async with listening(application(coordinator, api), api) as found.url:
            found.token = coordinator.store.tokens.create("op", "operator")
            running = asyncio.ensure_future(coordinator.run())
            loop = asyncio.get_running_loop()
            stop.append(lambda: loop.call_soon_threadsafe(over.set))
            while len(coordinator.store.devices.all()) < len(DEVICES):
                await coordinator.site.wait_change(0.2)
            ready.set()
            await over.wait()
            running.cancel()
            await asyncio.gather(running, return_exceptions=True)

    def work() -> None:
        try:
            run(case, StepRuntime(load_pack("digits")), tmp_path, 390.0)
        except BaseException as error:  # noqa: BLE001 - raised in the thread of the test
            failed.append(error)
        ready.set()

    thread = threading.Thread(target=work)
    thread.start()
    assert ready.wait(DEADLINE)
    if failed:
        raise failed[0]
    yield found
    stop[0]()
    thread.join(DEADLINE)
    if failed:
        raise failed[0]
