"""Outputs of detections: none holds up another, and none can be made to run what it was not told to."""

from __future__ import annotations

import ast
import asyncio
import dataclasses
import json
import os
import select
import sys
import threading
import time
from collections.abc import Coroutine
from concurrent.futures import Future
from contextlib import suppress
from pathlib import Path
from typing import Any, TypeVar
from unittest.mock import Mock

import msgspec
import pytest
from tests.home_broker import home_broker
from tests.recorder import Record
from tests.system.tls_site import NEEDS_MOSQUITTO

from auricle.errors import AuricleError, SettingsError
from auricle.mqtt_link.link import BrokerAddress, Delivery, LinkSettings, MqttLink
from auricle_edge.listening.events.chosen import Device, choose_outputs
from auricle_edge.listening.events.home_mqtt import HomeMqtt
from auricle_edge.listening.events.hook import Hook
from auricle_edge.listening.events.outputs import EventSettings, Outputs
from auricle_edge.listening.events.stdout import Stdout
from auricle_edge.listening.sound import Detection, Event, Feedback, Timeout

T = TypeVar("T")

YES = Detection("00112233aabb", "yes", 0.93, "personal", 0, 16000, 12000, 1_700_000_000.0, 0.25)
WAKE = Detection("aabbccddeeff", "computer", 0.97, "cascade", 0, 16000, 12000, 1_700_000_000.0, 0.25, "wake")
STOP = Detection(
    "00112233aabb", "stop", 0.51, "cascade", 0, 16000, 12000, 1_700_000_002.0, 0.25, "detection", WAKE.id, "computer"
)
CLOSED = Timeout(WAKE.id, "computer", 64_000, 1_700_000_003.25)
SAVE = "import sys, os; open(sys.argv[1], 'w').write(os.environ['AURICLE_WORD'] + ' ' + sys.stdin.read())"


class Done(msgspec.Struct):
    said: str


def run(work: Coroutine[Any, Any, T]) -> T:
    return asyncio.run(asyncio.wait_for(work, 30))


class Slow:
    def __init__(self, name: str, error: Exception | None = None) -> None:
        self.name, self.error = name, error
        self.got: list[Event] = []
        self.gate = asyncio.Event()

    async def open(self) -> None:
        """Nothing to do."""

    async def deliver(self, event: Event) -> None:
        await self.gate.wait()
        if self.error is not None:
            raise self.error
        self.got.append(event)

    async def close(self) -> None:
        """Nothing to do."""


async def until(condition: Any) -> None:
    while not condition():
        await asyncio.sleep(0.005)


def test_a_hanging_output_drops_its_oldest_and_holds_up_no_other() -> None:
    async def story() -> Outputs:
        hangs, works, fails = Slow("hangs"), Slow("works"), Slow("fails", AuricleError("no"))
        works.gate.set()
        fails.gate.set()
        outputs = Outputs([hangs, works, fails], waiting=2)
        await outputs.start()
        for number in range(5):
            thread = threading.Thread(target=outputs.emit, args=(YES,))
            thread.start()
            await until(lambda number=number: len(works.got) == number + 1)
            thread.join()
        await until(lambda: outputs.delivered["fails"].failed == 5)
        assert outputs.delivered["works"].sent == 5
        assert outputs.delivered["hangs"].dropped == 2  # one is being delivered, two wait
        hangs.gate.set()
        await until(lambda: len(hangs.got) == 3)
        await outputs.stop()
        outputs.emit(YES)
        return outputs

    run(story()).emit(YES)  # the loop has ended


async def deliver(output: Any, *events: Event) -> None:
    await output.open()
    for event in events:
        await output.deliver(event)


VARIABLES = ("AURICLE_EVENT", "AURICLE_WORD", "AURICLE_ID", "AURICLE_DEVICE")
TELL = f"import sys, os; open(sys.argv[1], 'a').write(' '.join(os.environ[n] or '-' for n in {VARIABLES}) + chr(10))"


def test_stdout_prints_one_json_object_a_line_that_says_what_it_is_and_belongs_to(
    capsys: pytest.CaptureFixture[str],
) -> None:
    run(deliver(Stdout("kitchen-1"), YES, WAKE, STOP, CLOSED))
    yes, wake, stop, closed = (json.loads(line) for line in capsys.readouterr().out.splitlines())
    found = {"type": "detection", "word": "yes", "score": 0.93, "at": 1_700_000_000.0, "latency": 0.25}
    assert yes == {"device": "kitchen-1", "id": "00112233aabb", "model": "personal", **found}
    assert (wake["type"], wake["id"], wake["word"], "wake" in wake) == ("wake", "aabbccddeeff", "computer", False)
    told = {"type": "detection", "word": "stop", "wake": "aabbccddeeff", "wake_word": "computer"}
    assert {name: stop[name] for name in told} == told
    ended = {"type": "timeout", "device": "kitchen-1", "at": 1_700_000_003.25}
    assert closed == {**ended, "wake": "aabbccddeeff", "wake_word": "computer"}


def test_stdout_for_a_person_is_time_words_and_score_and_nothing_that_a_terminal_obeys(
    capsys: pytest.CaptureFixture[str],
) -> None:
    hostile = dataclasses.replace(YES, word="yes\x1b[2J")
    run(deliver(Stdout("kitchen-1", readable=True), YES, WAKE, STOP, CLOSED, hostile))
    first, second = (time.strftime("%H:%M:%S", time.localtime(1_700_000_000 + more)) for more in (0, 2))
    assert capsys.readouterr().out.splitlines() == [
        f"{first}  yes  0.93",
        f"{first}  computer  0.97",
        f"{second}  computer -> stop  0.51",
        f"{second[:-1]}3  computer -> (no command)",
        f"{first}  yes?[2J  0.93",
    ]


def test_a_hook_is_told_of_every_event_what_it_is(tmp_path: Path) -> None:
    """After a timeout no word was heard, and what may be denied is the wake word."""
    out = tmp_path / "out"
    run(deliver(Hook((sys.executable, "-c", TELL, str(out)), 20, "kitchen-1"), WAKE, STOP, CLOSED))
    assert out.read_text().splitlines() == [
        "wake computer aabbccddeeff kitchen-1",
        "detection stop 00112233aabb kitchen-1",
        "timeout - aabbccddeeff kitchen-1",
    ]


def test_a_hook_gets_the_event_and_no_shell(tmp_path: Path) -> None:
    out = tmp_path / "out; touch sneaky"
    run(deliver(Hook((sys.executable, "-c", SAVE, str(out)), 20, "kitchen-1"), YES))
    word, _, line = out.read_text().partition(" ")
    assert (word, json.loads(line)["id"]) == ("yes", YES.id)
    assert not (tmp_path / "sneaky").exists()


@pytest.mark.slow
def test_a_hook_that_hangs_is_ended_with_its_children(tmp_path: Path) -> None:
    pid = tmp_path / "pid"
    child = (
        "import os, subprocess, sys, time; "
        "p = subprocess.Popen([sys.executable, '-c', 'import time; time.sleep(60)']); "
        f"open('{pid}.new', 'w').write(str(p.pid)); os.rename('{pid}.new', '{pid}'); time.sleep(60)"
    )
    for seconds in (2, 8, 16):  # two Pythons start more slowly on a busy machine
        with pytest.raises(AuricleError, match=f"longer than {seconds} s"):
            run(Hook((sys.executable, "-c", child), seconds, "kitchen-1").deliver(YES))
        if pid.exists():
            break
    with suppress(ProcessLookupError):
        ended = os.pidfd_open(int(pid.read_text()))
        assert select.select([ended], [], [], 10)[0] == [ended]
        os.close(ended)


def test_a_hook_inherits_no_secret_of_the_service(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    out = tmp_path / "out"
    hidden = [
        "AURICLE_PASSWORD",
        "AURICLE_TOKEN",
        "HOME_MQTT_PASSWORD",
        "AWS_SECRET_ACCESS_KEY",
        "CREDENTIALS_DIRECTORY",
    ]
    for name in hidden:
        monkeypatch.setenv(name, "hunter2")
    monkeypatch.setenv("AURICLE_STATE", "/var/lib/auricle-edge")
    monkeypatch.setenv("XKB_KEYBOARD", "de")
    write = "import sys, os; open(sys.argv[1], 'w').write(repr(dict(os.environ)))"
    run(Hook((sys.executable, "-c", write, str(out)), 20, "kitchen-1").deliver(YES))
    told = ast.literal_eval(out.read_text())
    assert "hunter2" not in told.values() and not set(hidden) & set(told)
    assert (told["AURICLE_STATE"], told["XKB_KEYBOARD"]) == ("/var/lib/auricle-edge", "de")
    assert "PATH" in told


def test_a_hook_whose_program_went_away_or_fails_says_how(tmp_path: Path) -> None:
    for wrong in (tmp_path / "gone", tmp_path):
        with pytest.raises(AuricleError, match=f"{wrong} cannot be run"):
            run(Hook((str(wrong),), 20, "kitchen-1").deliver(YES))
    with pytest.raises(AuricleError, match="with 3"):
        run(Hook((sys.executable, "-c", "raise SystemExit(3)"), 20, "kitchen-1").deliver(YES))


def test_a_hook_whose_program_is_missing_is_refused_at_the_start() -> None:
    with pytest.raises(SettingsError, match="no program"):
        run(Hook(("/no/such/program",), 1, "kitchen-1").open())


def test_topics_with_wildcards_and_hooks_with_nul_are_refused() -> None:
    for settings in ({"mqtt_topic": "home/#"}, {"hook": ["/bin/true", "a\0b"]}):
        with pytest.raises(msgspec.ValidationError):
            msgspec.convert(settings, EventSettings)
    with pytest.raises(SettingsError, match="field"):
        HomeMqtt(BrokerAddress("127.0.0.1"), "home/{room}", "kitchen-1", lambda _: Future())


def test_feedback_from_the_home_broker_is_not_even_subscribed_to_unless_asked() -> None:
    without = HomeMqtt(BrokerAddress("127.0.0.1"), "home", "kitchen-1", lambda _: Future())
    assert not without.link._subscriptions._handlers
    assert EventSettings().mqtt_feedback is False


PLACES = {
    "mqtt://home:secret@hub.lan": "mqtt://home@hub.lan:1883",
    "tcp://0.0.0.0:10400": "0.0.0.0 is open",
    "tcp://kitchen.lan:10400": "kitchen.lan is open",
}


def device() -> Device:
    return Device("kitchen-1", ("yes",), "gsc12", Mock(), Mock(), lambda: "the-token")


@pytest.mark.reliability("S8", load="a device's doors off loopback without TLS: it does not start")
@pytest.mark.parametrize("url", PLACES)
def test_an_open_door_is_refused_unless_it_is_asked_for(url: str, record_property: Record) -> None:
    name = "mqtt" if url.startswith("mqtt") else "wyoming"
    asked = {"mqtt": {"mqtt_plain": True}, "wyoming": {"wyoming_network": True}}[name]
    with pytest.raises(SettingsError, match=PLACES[url]):
        choose_outputs(msgspec.convert({"stdout": False, name: url}, EventSettings), device())
    made = [
        choose_outputs(msgspec.convert({"stdout": False, **settings}, EventSettings), device())
        for settings in ({name: url, **asked}, {"mqtt": "mqtts://hub.lan"}, {"mqtt": "mqtt://localhost"})
    ]
    record_property("safe ones that start", sum(map(len, made)))
    assert list(map(len, made)) == [1, 1, 1]


@NEEDS_MOSQUITTO
def test_the_home_broker_gets_detections_and_gives_feedback(tmp_path: Path) -> None:
    heard: list[bytes] = []
    answers: list[Feedback] = []
    told: list[dict[str, str]] = []

    async def listen(message: Delivery) -> None:
        heard.append(message.payload)

    async def hear_answer(message: Delivery) -> None:
        told.append(json.loads(message.payload))

    def answer(feedback: Feedback) -> Future[msgspec.Struct]:
        answers.append(feedback)
        done: Future[msgspec.Struct] = Future()
        if feedback.id is None:
            done.set_exception(AuricleError("Nothing was heard yet."))
        else:
            done.set_result(Done(said=f"Denied: yes, heard 3 s ago (id {feedback.id})."))
        return done

    async def story() -> None:
        process, address = await home_broker(tmp_path)
        output = HomeMqtt(address, "auricle-events/{device}", "kitchen-1", answer, "the-token")
        handlers = {"auricle-events/kitchen-1": listen, "auricle-events/kitchen-1/answer": hear_answer}
        async with MqttLink(LinkSettings(address, "hub"), handlers=handlers) as hub:
            await output.open()
            await hub.wait_connected(20)
            await output.link.wait_connected(20)
            for event in (YES, WAKE, STOP, CLOSED):
                await output.deliver(event)
            last = b'{"verdict": "deny", "token": "the-token"}'
            good = (last[:-1] + b', "id": "00112233aabb"}', last)
            forged = (b'{"verdict": "confirm"}', b'{"verdict": "confirm", "token": "the-tokem"}')
            for payload in (b"no json", b'{"verdict": "maybe"}', *forged, b"[" * 100_000, *good):
                await hub.publish("auricle-events/kitchen-1/feedback", payload)
            await until(lambda: len(heard) == 4 and len(told) == 2)
            await output.close()
        await process.stop()

    run(story())
    events = [json.loads(payload) for payload in heard]
    assert [event["type"] for event in events] == ["detection", "wake", "detection", "timeout"]
    assert events[0]["word"] == "yes" and "wake" not in events[0]
    assert events[2]["wake"] == events[3]["wake"] == events[1]["id"]
    assert answers == [Feedback("deny", "00112233aabb"), Feedback("deny")]
    assert told == [{"said": "Denied: yes, heard 3 s ago (id 00112233aabb)."}, {"error": "Nothing was heard yet."}]
