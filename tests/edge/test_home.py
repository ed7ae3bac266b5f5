"""Devices at the home's broker: found by Home Assistant, and one answer where several hear the same word."""

from __future__ import annotations

import asyncio
import dataclasses
import json
import logging
import time
from concurrent.futures import Future
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import pytest
from tests.edge.bid_attacks import ATTACKS, answers_under, false_answer
from tests.edge.test_outputs import CLOSED, STOP, WAKE, YES, Slow, run, until
from tests.home_broker import home_broker
from tests.system.tls_site import NEEDS_MOSQUITTO

from auricle.errors import DataError, SettingsError
from auricle.mqtt_link.link import BrokerAddress, Delivery, LinkSettings, MqttLink
from auricle_edge.listening.detect.loudness import loudness
from auricle_edge.listening.events.announced import FILE, Announced
from auricle_edge.listening.events.bids import MOST_SILENT, Answer, Answerers, Bid, Close, decode, encode, winner
from auricle_edge.listening.events.chosen import bids_key, require_asked
from auricle_edge.listening.events.home_assistant import Topics, event_payload, update_payload
from auricle_edge.listening.events.home_device import HomeDevice, HomeState
from auricle_edge.listening.events.home_entities import discovery
from auricle_edge.listening.events.home_mqtt import HomeMqtt
from auricle_edge.listening.events.one_answer import OneAnswer
from auricle_edge.listening.events.outputs import EventSettings, Outputs
from auricle_edge.listening.events.sparse_log import SparseLog
from auricle_edge.listening.sound import RATE, Detection

TOPIC = "auricle-events/{device}"


def no_answer(_: object) -> Future[msgspec.Struct]:
    return Future()


# -- level over noise


def test_a_word_is_as_loud_as_its_loudest_three_tenths_and_stands_out_from_the_quietest_tenth() -> None:
    noise = np.tile(np.array([33, -33], np.int16), 2 * RATE)  # 20 lg (33 / 32768) = -59.9
    word = np.tile(np.array([3277, -3277], np.int16), 3 * RATE // 20)  # 0.3 s of -20.0
    samples = np.concatenate((noise, word, noise[: RATE // 2]))
    assert loudness(samples, RATE) == (-20.0, 39.9)
    assert loudness(np.concatenate((np.zeros(RATE, np.int16), samples)), RATE) == (-20.0, 39.9), "gaps are no noise"
    assert loudness(samples[:100], RATE) == (-120.0, 0.0)
    assert loudness(np.zeros(RATE, np.int16), RATE) == (-120.0, 0.0)


# -- Home Assistant


def test_discovery_has_the_fields_that_home_assistant_reads() -> None:
    topics = Topics("auricle-events/kitchen-1")
    device = HomeDevice("kitchen-1", "home", ("computer", "stop"), HomeState, lambda on: None)
    found = discovery("homeassistant", device, topics, HomeState(thresholds={"computer": 0.8}))
    assert set(found) == {
        "homeassistant/switch/kitchen-1/mute/config",
        "homeassistant/sensor/kitchen-1/word/config",
        "homeassistant/sensor/kitchen-1/level/config",
        "homeassistant/sensor/kitchen-1/rounds/config",
        "homeassistant/sensor/kitchen-1/pack/config",
        "homeassistant/event/kitchen-1/heard/config",
        "homeassistant/update/kitchen-1/agent/config",
        "homeassistant/binary_sensor/kitchen-1/problem/config",
        "homeassistant/number/kitchen-1/threshold_computer/config",
        "homeassistant/device_automation/kitchen-1/heard_computer/config",
        "homeassistant/device_automation/kitchen-1/heard_stop/config",
    }
    for topic, config in found.items():
        assert config["device"]["identifiers"] == ["auricle_kitchen-1"]  # type: ignore[index]
        assert config["origin"]["name"] == "Auricle"  # type: ignore[index]
        if "device_automation" not in topic:
            assert config["availability_topic"] == "auricle-events/kitchen-1/availability"
    switch = found["homeassistant/switch/kitchen-1/mute/config"]
    assert switch["command_topic"] == "auricle-events/kitchen-1/mute/set"
    assert found["homeassistant/event/kitchen-1/heard/config"]["event_types"] == ["computer", "stop"]
    update = found["homeassistant/update/kitchen-1/agent/config"]
    assert update["state_topic"] == "auricle-events/kitchen-1/update" and "command_topic" not in update
    assert event_payload(STOP)["event_type"] == "stop"


def test_a_rollout_under_way_is_a_newer_version() -> None:
    idle = update_payload(HomeState(version="1.2.0"))
    assert (idle["installed_version"], idle["latest_version"], idle["in_progress"]) == ("1.2.0", "1.2.0", False)
    moving = update_payload(HomeState(version="1.2.0", latest="1.3.0", installing=True))
    assert (moving["latest_version"], moving["in_progress"]) == ("1.3.0", True)


def test_a_home_without_its_broker_is_refused() -> None:
    for name in ("mqtt_discovery", "mqtt_one_answer"):
        with pytest.raises(SettingsError, match=f"events.{name} needs the home's broker: say mqtt"):
            require_asked(msgspec.convert({name: True}, EventSettings))


@NEEDS_MOSQUITTO
def test_home_assistant_finds_a_device_again_after_either_starts_and_sees_it_go(tmp_path: Path) -> None:
    seen: list[tuple[str, str, bool]] = []
    state, muted = [HomeState(pack="home 0123", level=-40.0)], []

    async def listen(message: Delivery) -> None:
        seen.append((message.topic, message.payload.decode(), message.retain))

    def mute(on: bool) -> None:
        muted.append(on)
        state[0] = dataclasses.replace(state[0], muted=on)

    def of(topic: str) -> list[str]:
        return [payload for there, payload, _ in seen if there == topic]

    async def story() -> None:
        process, address = await home_broker(tmp_path)
        device = HomeDevice("kitchen-1", "home", ("yes", "stop"), lambda: state[0], mute)
        output = HomeMqtt(address, TOPIC, "kitchen-1", no_answer, home=(device, "homeassistant"))
        base = "auricle-events/kitchen-1"
        handlers = {"homeassistant/#": listen, "auricle-events/#": listen}
        async with MqttLink(LinkSettings(address, "first"), handlers=handlers) as hub:
            await hub.wait_connected(20)
            await output.open()
            await until(lambda: of(f"{base}/availability") == ["online"])
        seen.clear()
        async with MqttLink(LinkSettings(address, "hub"), handlers=handlers) as hub:
            await hub.wait_connected(20)
            await until(lambda: len(seen) == 13)
            own = {topic.removeprefix(f"{base}/") for topic, *_ in seen if base in topic}
            assert own == {"availability", "state", "update"}
            assert all(kept for topic, _, kept in seen if topic.endswith("/config")), "retained"
            first = [json.loads(payload) for topic, payload, _ in seen if topic.endswith("/config")]
            assert len(first) == 10
            seen.clear()
            await hub.publish("homeassistant/status", b"online")
            await until(lambda: of(f"{base}/availability") == ["online"])
            again = [json.loads(payload) for topic, payload, _ in seen if topic.endswith("/config")]
            assert sorted(map(str, again)) == sorted(map(str, first)), "all of it, at the birth message"
            await output.deliver(YES)
            await until(lambda: of(f"{base}/heard"))
            assert json.loads(of(f"{base}/heard")[0])["event_type"] == "yes"
            await until(lambda: json.loads(of(f"{base}/state")[-1])["word"] == "yes")
            for payload in (b"on", b"ON"):
                await hub.publish(f"{base}/mute/set", payload)
            await until(lambda: json.loads(of(f"{base}/state")[-1])["muted"] == "ON")
            assert muted == [True]
            state[0] = dataclasses.replace(state[0], rounds=3)
            await until(lambda: json.loads(of(f"{base}/state")[-1])["rounds"] == 3)
            seen.clear()
            connection: Any = output.link._connection
            connection.drop("pulled out")
            await until(lambda: of(f"{base}/availability")[:2] == ["offline", "online"])
            seen.clear()
            await output.close()
            await until(lambda: of(f"{base}/availability") == ["offline"])
        await process.stop()

    run(story())


@NEEDS_MOSQUITTO
def test_what_was_announced_under_another_name_or_is_no_more_is_taken_back(tmp_path: Path) -> None:
    """Renamed, with another prefix, switched off: the broker keeps nothing of what was said before."""
    state, kept = tmp_path / "state", dict[str, bytes]()

    async def listen(message: Delivery) -> None:
        if message.payload:
            kept[message.topic] = message.payload
        else:
            kept.pop(message.topic, None)

    def home(address: BrokerAddress, name: str, prefix: str | None) -> HomeMqtt:
        device = HomeDevice(name, "home", ("yes", "stop"), HomeState, lambda on: None)
        known = Announced(state, f"{address.host}:{address.port}")
        told = None if prefix is None else (device, prefix)
        return HomeMqtt(address, TOPIC, name, no_answer, home=told, announced=known)

    def of(name: str) -> set[str]:
        return {topic for topic in kept if f"/{name}/" in topic}

    async def story() -> None:
        process, address = await home_broker(tmp_path)
        async with MqttLink(LinkSettings(address, "hub"), handlers={"#": listen}) as hub:
            await hub.wait_connected(20)
            first = home(address, "kitchen-1", "homeassistant")
            await first.open()
            await until(lambda: len(of("kitchen-1")) == 13)
            await first.close()
            second = home(address, "hall-1", "homeassistant")
            await second.open()
            await until(lambda: len(of("hall-1")) == 13 and not of("kitchen-1"))
            await second.close()
            third = home(address, "hall-1", "other")
            await third.open()
            await until(lambda: len(of("hall-1")) == 13 and not any(topic.startswith("home") for topic in kept))
            await third.close()
            without = home(address, "hall-1", None)
            await without.open()
            await until(lambda: not kept and json.loads((state / FILE).read_bytes()) == {})
            await without.close()
            assert not kept
            never = home(address, "attic-1", None)
            (state / FILE).unlink()
            await never.open()
            await never.link.wait_connected(20)
            await never.close()
            assert not (state / FILE).exists(), "nothing is written where nothing was announced"
        await process.stop()

    run(story())


# -- one answer


def heard_by(device: int, over_noise: float, word: str = "computer", number: int = 0) -> Detection:
    return dataclasses.replace(WAKE, id=f"{number:06x}{device:06x}", word=word, over_noise=over_noise)


def test_the_bid_that_stands_out_most_wins_and_of_equal_ones_the_first_name() -> None:
    bids = [Bid("lamp-2", "yes", "000000000001", 12.0), Bid("hall-1", "yes", "000000000002", 12.0)]
    assert winner(bids).device == "hall-1"
    assert winner([*bids, Bid("room-3", "yes", "000000000003", 12.1)]).device == "room-3"


def test_who_wins_ten_times_and_answers_none_is_passed_over_until_it_answers() -> None:
    real, loud = Bid("hall-1", "yes", "000000000001", 20.0), Bid("loud-1", "yes", "000000000002", 120.0)
    house = Answerers()
    assert [house.silent("loud-1") for _ in range(MOST_SILENT - 1)] == [False] * (MOST_SILENT - 1)
    assert house.first([real, loud]) is loud
    assert house.silent("loud-1"), "the tenth"
    assert house.first([real, loud]) is real and house.first([loud]) is loud
    house.answered("loud-1")
    assert house.first([real, loud]) is loud


def test_where_the_first_does_not_answer_names_that_never_answered_are_not_waited_for() -> None:
    own = Bid("room-3", "yes", "00000000000a", 5.0)
    near = Bid("hall-1", "yes", "00000000000b", 20.0)
    forged = [Bid(f"new-{number}", "yes", f"{number:012x}", 120.0) for number in range(40)]
    house = Answerers()
    assert house.second([*forged, near, own], own) is own, "nobody is known yet"
    house.answered("hall-1")
    assert house.second([*forged, near, own], own) is near
    assert house.second([near, own], own) is own, "the first was asked already"


def test_a_bid_counts_where_it_is_signed_with_the_key_of_the_home(tmp_path: Path) -> None:
    bid, key = Bid("hall-1", "yes", "000000000001", 20.0), b"a secret of the home"
    signed = encode(bid, key)
    assert decode(signed, key) == bid and decode(encode(bid, None), None) == bid
    with pytest.raises(DataError, match="not signed"):
        decode(signed.replace(b"hall-1", b"hall-2"), key)
    with pytest.raises(DataError, match="not signed"):
        decode(encode(bid, b"another secret"), key)
    for payload in (encode(bid, None), b"no json"):
        with pytest.raises(msgspec.MsgspecError):
            decode(payload, key)
    file = tmp_path / "bids.key"
    file.write_text("short")
    with pytest.raises(SettingsError, match=r"fewer than 16 characters.*openssl rand"):
        bids_key(EventSettings(mqtt_one_answer_key_file=str(file)))
    file.write_text("0123456789abcdef\n")
    assert bids_key(EventSettings(mqtt_one_answer_key_file=str(file))) == b"0123456789abcdef"


def test_what_a_stranger_can_cause_is_said_once_a_minute(caplog: pytest.LogCaptureFixture) -> None:
    now = [0.0]
    sparse = SparseLog(logging.getLogger("auricle.events"), lambda: now[0])
    for second in range(130):
        now[0] = float(second)
        sparse.warning("A message on %s was ignored: 100 %% %s.", "topic", second)
    assert [record.getMessage() for record in caplog.records] == [
        "A message on topic was ignored: 100 % 0.",
        "A message on topic was ignored: 100 % 60. (59 more like it since it was last said.)",
        "A message on topic was ignored: 100 % 120. (59 more like it since it was last said.)",
    ]


async def homes(address: BrokerAddress, names: list[str]) -> list[HomeMqtt]:
    outputs = [HomeMqtt(address, TOPIC, name, no_answer, bids="auricle-bids") for name in names]
    for output in outputs:
        await output.open()
    for output in outputs:
        await output.link.wait_connected(20)
    return outputs


async def answer(output: HomeMqtt, event: Detection, after: float = 0.0) -> tuple[bool, float]:
    await asyncio.sleep(after)
    begun = time.monotonic()
    assert output.one_answer is not None
    return await output.one_answer.answers(event), time.monotonic() - begun


@NEEDS_MOSQUITTO
@pytest.mark.parametrize("devices", [2, 3, 5])
def test_of_devices_that_hear_a_word_exactly_one_answers_and_it_is_the_nearest(
    tmp_path: Path, devices: int, record_property: Any
) -> None:
    draw = np.random.default_rng(devices)
    names = [f"room-{number}" for number in range(devices)]
    words = [f"word-{number}" for number in range(12)]

    async def story() -> list[tuple[int, list[tuple[bool, float]]]]:
        process, address = await home_broker(tmp_path)
        outputs = await homes(address, names)
        found = []
        for number, word in enumerate(words):
            levels = draw.uniform(3, 40, devices).round(1)
            late = draw.uniform(0, 0.1, devices)
            told = await asyncio.gather(
                *(
                    answer(output, heard_by(at, float(levels[at]), word, number), float(late[at]))
                    for at, output in enumerate(outputs)
                )
            )
            found.append((int(np.argmax(levels)), told))
        for output in outputs:
            await output.close()
        await process.stop()
        return found

    found = run(story())
    for best, told in found:
        assert [at for at, (mine, _) in enumerate(told) if mine] == [best]
    seconds = sorted(took for _, told in found for _, took in told)
    record_property("decided_ms", [round(1000 * s) for s in (seconds[len(seconds) // 2], seconds[-1])])


@NEEDS_MOSQUITTO
def test_who_is_silent_gone_or_late_holds_up_nobody(tmp_path: Path) -> None:
    async def story() -> None:
        process, address = await home_broker(tmp_path)
        near, far, silent = await homes(address, ["near-1", "far-12", "silent-1"])
        await silent.close()
        async with MqttLink(LinkSettings(address, "gone")) as gone:
            await gone.wait_connected(20)
            # who bids less and is gone: the round is closed by who is left
            await gone.publish(
                "auricle-bids", msgspec.json.encode(Bid("gone-1", "computer", "00000000aaaa", 1.0)), qos=0
            )
            told = await asyncio.gather(answer(near, heard_by(1, 20.0)), answer(far, heard_by(2, 10.0)))
            assert [mine for mine, _ in told] == [True, False]
            assert (await answer(far, heard_by(9, 50.0)))[0], "who was in that round hears another utterance"
            assert not (await answer(near, heard_by(8, 90.0)))[0], "too late, however loud"
            # what is no bid is passed over
            for payload in (b"no json", b'{"type":"bid"}', b"x" * 5000):
                await gone.publish("auricle-bids", payload)
            assert (await answer(near, heard_by(7, 5.0, "other")))[0]
        for output in (near, far):
            await output.close()
        await process.stop()

    run(story())


def test_a_device_whose_broker_is_away_answers_at_once_and_a_slow_one_by_what_it_has_seen() -> None:
    async def nothing(_: bytes) -> None: ...

    async def story() -> None:
        alone = OneAnswer("kitchen-1", nothing, lambda: False)
        assert await alone.answers(heard_by(1, 1.0))
        slow = OneAnswer("kitchen-1", nothing, lambda: True)
        assert await slow.answers(heard_by(1, 1.0)), "not even its own bid came back"
        said: list[bytes] = []

        async def keep(payload: bytes) -> None:
            said.append(payload)

        seen = OneAnswer("kitchen-1", keep, lambda: True)
        deciding = asyncio.create_task(seen.answers(heard_by(1, 1.0)))
        await asyncio.sleep(0)
        await asyncio.sleep(0)
        louder = Bid("hall-1", "computer", "00000000aaaa", 2.0)
        answer = Answer("hall-1", "computer", louder.id)
        for payload in (said[0], *map(msgspec.json.encode, (louder, answer))):
            seen.heard(Delivery("auricle-bids", payload, 0, False, False, 0, 0))
        assert not await deciding, "no close came, and another was louder and answers"
        assert msgspec.json.decode(said[1], type=Close).opened == heard_by(1, 1.0).id

    run(story())


@NEEDS_MOSQUITTO
def test_a_command_is_answered_by_who_answered_its_wake_word(tmp_path: Path) -> None:
    async def story() -> tuple[Slow, Slow]:
        process, address = await home_broker(tmp_path)
        near, far = await homes(address, ["near-1", "far-12"])
        told = Slow("near"), Slow("far")
        rooms = []
        for output, sink in zip((near, far), told, strict=True):
            sink.gate.set()
            assert output.one_answer is not None
            rooms.append(Outputs([sink], answers=output.one_answer.answers))
            await rooms[-1].start()
        for number, (room, over_noise) in enumerate(zip(rooms, (30.0, 12.0), strict=True)):
            wake = heard_by(number, over_noise)
            room.emit(wake)
            room.emit(dataclasses.replace(STOP, wake=wake.id))
            room.emit(dataclasses.replace(CLOSED, wake=wake.id))
        await until(lambda: len(told[0].got) == 3)
        passed = far.one_answer
        assert passed is not None
        await until(lambda: passed.left == 1)
        for room in rooms:
            await room.stop()
        for output in (near, far):
            await output.close()
        await process.stop()
        return told

    near, far = run(story())
    assert [getattr(event, "word", None) for event in near.got] == ["computer", "stop", None]
    assert far.got == []


@NEEDS_MOSQUITTO
@pytest.mark.slow
@pytest.mark.nightly
@pytest.mark.parametrize(("attack", "key"), [*((attack, None) for attack in ATTACKS), ("false answers", b"key" * 6)])
def test_who_may_publish_bids_silences_no_house(
    tmp_path: Path, attack: str, key: bytes | None, caplog: pytest.LogCaptureFixture
) -> None:
    """Every word is answered, and a stranger's noise is a few lines of log."""

    async def story() -> list[int]:
        process, address = await home_broker(tmp_path)
        try:
            return await answers_under(address, ATTACKS.get(attack, false_answer), key)
        finally:
            await process.stop()

    assert all(run(story())), "each word is answered, the first ones perhaps by more than one device"
    assert len(caplog.records) < 20
