"""The service as its owner meets it: words are said in a room, commands ask and answer."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from auricle_edge.control import ControlClient
from tests.system.command_lines import run
from tests.system.conftest import Command
from tests.system.virtual_room import VirtualRoom

pytestmark = [pytest.mark.slow, pytest.mark.timeout(300)]


def ask(state: Path, *arguments: str, code: int = 0) -> dict[str, Any]:
    """Run an `auricle edge` command with --json and read its answer."""
    command = [sys.executable, "-m", "auricle", "edge", *arguments, "--state", str(state), "--json"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60)
    assert done.returncode == code, done.stderr
    assert "Traceback" not in done.stderr
    answer: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return answer


@pytest.fixture(scope="module")
def spoken() -> dict[str, list[NDArray[np.int16]]]:
    """Takes of two words by synthetic voices."""
    from auricle.speech.synthesis import SynthesisSettings, synthesise

    speech = synthesise(SynthesisSettings(words="yes,stop", speakers=3, takes=2))
    return {
        label: [speech.audio[i] for i in np.flatnonzero(speech.targets == target)]
        for target, label in enumerate(speech.labels)
    }


def begun(tmp_path: Path, room: VirtualRoom, start: Callable[..., Command], told: str) -> Command:
    """A device that listens in the room, with these settings."""
    config, state = tmp_path / "edge.toml", tmp_path / "state"
    config.write_text(f'pack = "gsc12"\n[labels]\nconfirm_seconds = 120\n{told}')
    command = start(*run(config=config, device="kitchen-1", state=state, source=room.source))
    deadline = time.monotonic() + 60
    while not (state / "control.sock").exists() or not ControlClient(state).get("/v1/status")["capture"]["running"]:
        assert time.monotonic() < deadline, command.errors
        time.sleep(0.1)
    return command


@pytest.fixture
def service(tmp_path: Path, room: VirtualRoom, start: Callable[..., Command]) -> Command:
    return begun(tmp_path, room, start, "missed_seconds = 40\n[detect]\nring = 60\n")


@pytest.mark.nightly
def test_words_are_heard_answered_and_kept(
    tmp_path: Path, room: VirtualRoom, service: Command, spoken: dict[str, list[NDArray[np.int16]]]
) -> None:
    state = tmp_path / "state"
    room.say(*spoken["yes"])
    heard = service.wait_line(lambda line: line.get("word") == "yes")
    assert heard["device"] == "kitchen-1"
    assert ask(state, "status")["listening"]["detections"] >= 1
    kept = ask(state, "confirm", heard["id"])
    assert (kept["word"], kept["source"], kept["detection"]) == ("yes", "confirmed", heard["id"])
    room.say(np.random.default_rng(1).normal(0, 3000, 8000).astype(np.int16))
    missed = ask(state, "missed", "stop")
    assert missed["word"] == "stop" and missed["clip"] != kept["clip"] and missed["seconds_ago"] < 20
    rows = ask(state, "clips", "list")["clips"]
    assert {row["source"] for row in rows} >= {"confirmed", "missed"}


def test_a_wake_word_opens_the_window_for_a_command_and_a_muted_device_closes_it(
    tmp_path: Path, room: VirtualRoom, start: Callable[..., Command], spoken: dict[str, list[NDArray[np.int16]]]
) -> None:
    """`yes` wakes it; what was said of it is on standard output, in the status and in the labels."""
    state = tmp_path / "state"
    told = "[detect]\nwake = ['yes']\nwindow = 20.0\nthreshold = 0.6\n[detect.commands]\nstop = 0.3\n"
    command = begun(tmp_path, room, start, told)
    assert ask(state, "status")["state"] == "asleep"
    room.say(*spoken["stop"], *spoken["yes"])
    wake = command.wait_line(lambda line: "word" in line)
    assert (wake["type"], wake["word"]) == ("wake", "yes")
    assert ask(state, "status")["state"] == "awake"
    room.say(*spoken["stop"])
    stop = command.wait_line(lambda line: line.get("type") == "detection")
    assert stop["word"] == "stop" and stop["wake_word"] == "yes"
    assert ask(state, "status")["listening"]["wakes"] >= 1
    denied = ask(state, "deny", wake["id"])
    assert denied["detection"] == wake["id"] and denied["word"] == "_unknown_"
    assert ask(state, "confirm", stop["id"])["word"] == "stop"
    room.say(*spoken["yes"])
    again = command.wait_line(lambda line: line.get("type") == "wake" and line["at"] > stop["at"])
    ask(state, "mute")
    closed = command.wait_line(lambda line: line.get("type") == "timeout")
    assert closed["wake_word"] == "yes" and closed["at"] >= again["at"]
    assert ask(state, "status")["state"] == "asleep"


@pytest.mark.nightly
def test_a_muted_device_hears_nothing_and_says_so(tmp_path: Path, room: VirtualRoom, service: Command) -> None:
    state = tmp_path / "state"
    assert ask(state, "mute") == {"muted": True}
    before = ask(state, "status")
    assert before["capture"]["muted"]
    room.say(np.zeros(16000, np.int16))
    assert ask(state, "status")["listening"]["hours"] == before["listening"]["hours"]
    assert ask(state, "unmute") == {"muted": False}
    room.say(np.zeros(16000, np.int16))
    after = ask(state, "status")
    assert after["capture"]["running"]
    assert after["listening"]["hours"] > before["listening"]["hours"]


@pytest.mark.nightly
def test_it_enrols_a_word_take_by_take(
    tmp_path: Path, room: VirtualRoom, service: Command, spoken: dict[str, list[NDArray[np.int16]]]
) -> None:
    state = tmp_path / "state"
    enrolling = subprocess.Popen(
        [sys.executable, "-m", "auricle", "edge", "enroll", "yes", "--takes", "2", "--state", str(state), "--json"],
        stdout=subprocess.PIPE,
        text=True,
    )
    assert enrolling.stdout is not None
    takes = iter(spoken["yes"])
    steps = []
    for line in enrolling.stdout:
        steps.append(json.loads(line))
        if steps[-1]["step"] == "say":
            room.say(np.concatenate((np.zeros(3200, np.int16), next(takes))))
    assert enrolling.wait(30) == 0
    assert steps[-1]["step"] == "done"
    rows = ask(state, "clips", "list")["clips"]
    assert [row["word"] for row in rows if row["source"] == "enrolled"] == ["yes", "yes"]


def test_a_second_service_in_its_folder_is_refused_and_sigterm_ends_the_first_cleanly(
    tmp_path: Path, room: VirtualRoom, service: Command, start: Callable[..., Command]
) -> None:
    state = tmp_path / "state"
    second = start(*run(device="kitchen-2", state=state, source=room.source))
    assert second.end(60) == 2
    assert "Another service" in second.errors
    assert ask(state, "status")["device"] == "kitchen-1"
    service.signal(signal.SIGTERM)
    assert service.end(30) == 0
    assert not (state / "control.sock").exists()
    assert "No service" in ask(state, "status", code=2)["error"]


def test_a_missing_hook_is_one_sentence(tmp_path: Path, room: VirtualRoom, start: Callable[..., Command]) -> None:
    (tmp_path / "edge.toml").write_text('[events]\nhook = ["/no/such/program", "--token", "hunter2"]\n')
    command = start(
        *run(config=tmp_path / "edge.toml", device="kitchen-1", state=tmp_path, source=room.source, json=None)
    )
    assert command.end(60) == 2
    assert "events.hook" in command.errors and "/no/such/program" in command.errors
    assert "Traceback" not in command.errors and "hunter2" not in command.errors
