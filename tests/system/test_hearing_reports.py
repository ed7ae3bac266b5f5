"""What a device hears reaches its coordinator through a real broker, in counts, and its sensitivity comes back."""

from __future__ import annotations

import asyncio
import json
import signal
import time
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from auricle.errors import AuricleError
from auricle.packs.pack import load_pack, pack_bytes
from auricle_cloud.storage.store import FILE, Store
from auricle_edge.control import ControlClient
from tests.system.command_lines import FLEET, home
from tests.system.conftest import DEADLINE, Command
from tests.system.test_nothing_private_leaves import Wiretap
from tests.system.virtual_room import RATE, VirtualRoom

pytestmark = [pytest.mark.slow, pytest.mark.timeout(300)]

DEVICE = "kitchen-1"
WORDS = ("marzipanschwein", "quokkaparade", "_unknown_", "_silence_")  # words that are in no message by chance
QUARTER = 1.0  # seconds that stand for a quarter of an hour: a report of 15 minutes comes every second


def until(found: Callable[[], Any], what: str) -> Any:
    """What is looked for, as soon as it is there."""
    end = time.monotonic() + DEADLINE
    while time.monotonic() < end:
        value = found()
        if value:
            return value
        time.sleep(0.1)
    raise AssertionError(f"never came: {what}")


def _answered(control: ControlClient) -> dict[str, Any] | None:
    """The status of a service; None while it is still starting."""
    try:
        answer: dict[str, Any] = control.get("/v1/status")
    except AuricleError:
        return None
    return answer


def tone() -> np.ndarray:
    """Half a second of a tone that stands out of the room's noise as a word does."""
    return (6000 * np.sin(2 * np.pi * 500 * np.arange(RATE // 2) / RATE)).astype(np.int16)


class Place:
    """A coordinator's folder, its commands, and a device's settings."""

    def __init__(self, folder: Path, start: Callable[..., Command]) -> None:
        self.folder, self._start = folder, start
        self.state, self.pack = folder / "coordinator", folder / "private.tar.zst"
        self.pack.write_bytes(pack_bytes(load_pack("gsc12").with_labels(WORDS, "private")))

    def command(self, *arguments: str) -> dict[str, Any]:
        command = self._start("cloud", "devices", *arguments, "--state", str(self.state), "--json")
        assert command.end() == 0, command.errors
        return command.lines[-1]

    def configure(self, broker: str, coordinator: str, source: str, more: str) -> Path:
        values = {"device": DEVICE, "state": str(self.folder / "device"), "fleet": FLEET, "broker": broker}
        values |= {"coordinator": coordinator, "pack": str(self.pack), "local": "crnn-lite"}
        text = "".join(f"{name} = {json.dumps(value)}\n" for name, value in values.items())
        file = self.folder / "edge.toml"
        file.write_text(f"{text}[capture]\nsource = {json.dumps(source)}\n[gate]\nload = 100\n{more}")
        return file


@pytest.mark.nightly
def test_reports_and_sensitivity_go_both_ways_and_an_owner_who_refuses_is_heard(
    tmp_path: Path, start: Callable[..., Command]
) -> None:
    place, room = Place(tmp_path, start), VirtualRoom(tmp_path / "microphone")
    device, control = tmp_path / "device", ControlClient(tmp_path / "device")

    def child(config: Path) -> Command:
        command = start(str(config), str(QUARTER), module="tests.system.hearing_child")
        command.wait_line(lambda line: "words" in line)
        return command

    def end(running: Command) -> None:
        running.signal(signal.SIGTERM)
        assert running.end() == 0, running.errors

    def status() -> dict[str, Any]:
        """What the device says of itself, as soon as its service answers."""
        answer: dict[str, Any] = until(lambda: _answered(control), "the service's answer")
        return answer

    def follow(config: Path, store: Store) -> None:
        """Reports come, feedback is in them, the sensitivity is taken, kept, and refused."""
        running = child(config)
        total = until(lambda: store.hearing.totals(0), "a first report")[0]
        assert total.device == DEVICE and total.level is not None and -70 < total.level < -50

        room.say(tone())
        status()
        control.post("/v1/feedback", {"verdict": "missed", "word": WORDS[0]})
        until(lambda: sum(row.missed for row in store.hearing.reports(DEVICE, limit=1000)) == 1, "the missed word")
        shown = place.command("hearing", DEVICE)
        assert shown["row"]["missed"] > 0
        assert set(shown["reports"][0]["words"]) == set(WORDS[:2])
        assert control.get("/v1/status")["report"]["last"]["span"] >= 1

        assert place.command("sensitivity", DEVICE, "--step", "2")["refusing"] == []
        until(lambda: control.get("/v1/status")["sensitivity"] == {"step": 2, "remote": True}, "the step")
        until(lambda: store.devices.get(DEVICE).sensitivity_now == 2, "the device's word")
        end(running)

        running = child(config)
        assert control.get("/v1/status")["sensitivity"]["step"] == 2  # kept
        before = store.hearing.reports(DEVICE, limit=1)[0].period
        until(lambda: store.hearing.reports(DEVICE, limit=1)[0].period > before, "a report after the restart")
        end(running)

        config.write_text(
            config.read_text().replace("hearing = true", "hearing = false") + "[remote]\nsensitivity = false\n"
        )
        running = child(config)
        until(lambda: store.devices.get(DEVICE).sensitivity_now is None, "the owner's refusal")
        told = status()
        assert told["sensitivity"] == {"step": 0, "remote": False} and not told["report"]["hearing"]
        end(running)

    async def story() -> bytes:
        async with home(start, tmp_path, DEVICE) as here, Wiretap(here.broker.port) as tap:
            coordinator = await here.coordinator(pack=place.pack)
            url = f"mqtt://{DEVICE}:{here.broker.address(DEVICE).password}@127.0.0.1:{tap.port}"
            more = "[report]\nhearing = true\nwords = true\nminutes = 15\n[labels]\nmissed_seconds = 30\n"
            config = place.configure(url, here.key, room.source, more)
            with closing(Store(place.state / FILE, must_exist=True)) as store:
                await asyncio.to_thread(follow, config, store)
            coordinator.signal(signal.SIGTERM)
            await asyncio.to_thread(coordinator.end)
            return bytes(tap.heard)

    room.open()
    try:
        heard = asyncio.run(story())
    finally:
        room.close()

    assert b"hearingreport" in heard
    assert not any(word.encode() in heard for word in WORDS[:2])
    assert (device / "hearing-report").is_file()
