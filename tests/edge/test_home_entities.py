"""What Home Assistant finds of a device, and what a press or a number there does to it, at a real broker."""

from __future__ import annotations

import json
from collections.abc import Awaitable, Callable, Mapping
from concurrent.futures import Future
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import msgspec
import pytest
from tests.edge.home_assistant_schemas import violations
from tests.edge.test_label_sources import Home
from tests.edge.test_outputs import WAKE, run, until
from tests.home_broker import home_broker
from tests.system.tls_site import NEEDS_MOSQUITTO

from auricle.errors import AuricleError, SettingsError, StorageError
from auricle.mqtt_link.link import Delivery, LinkSettings, MqttLink
from auricle_edge.listening.detect import DetectSettings
from auricle_edge.listening.events.chosen import require_asked
from auricle_edge.listening.events.home_assistant import Topics, event_payload, object_id, state_payload
from auricle_edge.listening.events.home_device import Figures, HomeDevice, HomeState
from auricle_edge.listening.events.home_entities import MOST_WORDS, discovery, presses
from auricle_edge.listening.events.home_mqtt import HomeMqtt
from auricle_edge.listening.events.outputs import EventSettings
from auricle_edge.listening.own_thresholds import FILE, OwnThresholds
from auricle_edge.listening.sound import Feedback

WORDS = ("computer", "hey robot", "größer", "stop")
WAKING = WORDS[:2]
STATE = HomeState(
    pack="home 0123",
    level=-40.0,
    word="stop",
    thresholds={"computer": 0.8, "hey robot": 0.9912},
    connected=False,
    fleet="round 5 trained, its update is accepted",
    model="personal",
    model_reason="It is better on the held-out clips.",
    problem="No sound comes from the microphone.",
    figures=Figures(47.6, 812.3, 20_480.0),
)
BASE = "auricle-events/kitchen-1"


def device(**changes: Any) -> HomeDevice:
    made = HomeDevice("kitchen-1", "home", WORDS, lambda: STATE, lambda on: None, WAKING, buttons=True)
    return replace(made, **changes)


def announced(state: HomeState = STATE, **changes: Any) -> dict[str, dict[str, Any]]:
    return discovery("homeassistant", device(**changes), Topics(BASE), state)


# -- what is announced


def test_home_assistant_takes_every_announcement_whole() -> None:
    configs = announced()
    assert [said for topic, config in configs.items() for said in violations(topic, config)] == []
    entities = [config for topic, config in configs.items() if "device_automation" not in topic]
    assert len({config["unique_id"] for config in entities}) == len(entities)


def test_a_satellite_is_one_device_with_its_entities() -> None:
    assert all("connections" not in config["device"] for config in announced().values())
    configs = announced(mac="02:00:00:00:00:01")
    assert all(config["device"]["connections"] == [["mac", "02:00:00:00:00:01"]] for config in configs.values())
    assert [said for topic, config in configs.items() for said in violations(topic, config)] == []


def test_only_a_device_that_is_allowed_to_install_has_a_button_for_it() -> None:
    async def install() -> None: ...

    topic = "homeassistant/update/kitchen-1/agent/config"
    assert not {"command_topic", "payload_install"} & announced()[topic].keys()
    config = announced(install=install)[topic]
    assert (config["command_topic"], config["payload_install"]) == (f"{BASE}/update/install", "INSTALL")
    assert list(violations(topic, config)) == []


def test_a_slip_in_an_announcement_is_seen() -> None:
    topic, config = next((t, c) for t, c in announced().items() if "/number/" in t)
    for changes in ({"comand_topic": "x"}, {"mode": "knob"}, {"min": 0.99}, {"state_topic": "a/#"}, {"unique_id": ""}):
        assert list(violations(topic, {**config, **changes})), changes
    assert list(violations(topic, {key: value for key, value in config.items() if key != "command_topic"}))
    assert list(violations("homeassistant/number/kitchen 1/x/config", config))


def test_each_template_finds_its_value() -> None:
    jinja = pytest.importorskip("jinja2").Environment(undefined=pytest.importorskip("jinja2").StrictUndefined)
    payloads = {
        f"{BASE}/state": state_payload(STATE),
        f"{BASE}/heard": event_payload(WAKE),
        f"{BASE}/answer": {"error": "Nothing was heard yet."},
    }
    shown = {}
    for topic, config in announced().items():
        if "value_template" in config:
            template, source = config["value_template"], config.get("topic", config.get("state_topic"))
            shown[topic.split("/")[-2]] = jinja.from_string(template).render(value_json=payloads[source])
    assert shown["threshold_computer"] == "0.8" and shown[f"threshold_{object_id('hey robot')}"] == "0.99"
    assert (shown["word"], shown["level"], shown["answer"]) == ("stop", "-40.0", "Nothing was heard yet.")
    assert [shown[name] for name in ("problem", "fleet", "model")] == ["ON", "OFF", "personal"]
    assert [shown[name] for name in ("temperature", "memory", "disk")] == ["48", "812", "20480"]
    assert "accepted" in shown["round"]
    assert shown["heard_stop"] == "computer", "of the word that was heard, which the payload is compared with"


def test_a_word_of_any_letters_has_a_topic_and_an_id_of_its_own() -> None:
    ids = {word: object_id(word) for word in (*WORDS, "hey_robot", "Hey robot", "hey robot!", "привет", "a/b", "+")}
    assert len(set(ids.values())) == len(ids)
    assert all(each.isascii() and each.replace("_", "").isalnum() for each in ids.values())
    assert ids["computer"] == "computer"


def test_an_automation_is_picked_by_word_and_a_pack_of_many_words_stays_within_what_is_taken_back() -> None:
    triggers = {c["subtype"]: c for t, c in announced().items() if "/device_automation/" in t}
    assert tuple(triggers) == WORDS
    assert triggers["hey robot"]["payload"] == "hey robot" and triggers["stop"]["topic"] == f"{BASE}/heard"
    many = tuple(f"word {number}" for number in range(300))
    configs = announced(HomeState(thresholds=dict.fromkeys(many, 0.8)), keywords=many, wake=many)
    assert sum("/device_automation/" in topic for topic in configs) == MOST_WORDS
    assert len(configs) < 240


def test_of_what_a_device_does_not_know_there_is_no_entity() -> None:
    bare = set(announced(HomeState()))
    more = {topic.split("/")[-2] for topic in set(announced()) - bare if "threshold" not in topic}
    assert more == {"fleet", "round", "model", "temperature", "memory", "disk"}
    hot = HomeState(figures=Figures(temperature=50.0))
    assert {topic.split("/")[-2] for topic in set(announced(hot)) - bare} == {"temperature"}


def test_a_problem_and_a_model_say_why_in_their_attributes() -> None:
    jinja = pytest.importorskip("jinja2").Environment()
    told = {}
    for topic, config in announced().items():
        if "json_attributes_template" in config:
            told[topic.split("/")[-2]] = json.loads(
                jinja.from_string(config["json_attributes_template"]).render(value_json=state_payload(STATE))
            )
    assert told == {
        "problem": {"problem": "No sound comes from the microphone."},
        "model": {"model": "personal", "reason": "It is better on the held-out clips."},
    }


def test_missed_is_a_button_of_each_wake_word_and_none_where_every_word_counts() -> None:
    pressed = {c["name"]: c["payload_press"] for t, c in announced().items() if "/button/" in t}
    assert pressed == {
        "Right": "confirm",
        "Wrong": "deny",
        "Missed computer": "missed computer",
        "Missed hey robot": "missed hey robot",
    }
    assert {payload.encode() for payload in pressed.values()} == set(presses(WAKING))
    assert sum("/button/" in topic for topic in announced(wake=())) == 2
    assert not any("/button/" in topic or "/answer/" in topic for topic in announced(buttons=False))
    assert not any("token" in json.dumps(config) for config in announced().values()), "everybody there reads it"


def test_buttons_need_the_settings_that_take_answers() -> None:
    for given in ({}, {"mqtt_feedback": True}, {"mqtt_discovery": True}):
        told = {"mqtt": "mqtt://127.0.0.1", "mqtt_buttons": True, **given}
        with pytest.raises(SettingsError, match="mqtt_buttons needs mqtt_discovery = true and mqtt_feedback = true"):
            require_asked(msgspec.convert(told, EventSettings))


# -- what the home does to it


@dataclass
class Hub:
    """Home Assistant's place at the broker."""

    link: MqttLink
    retained: dict[str, bytes] = field(default_factory=dict)
    answers: list[dict[str, Any]] = field(default_factory=list)

    @property
    def state(self) -> dict[str, Any]:
        return dict(json.loads(self.retained.get(f"{BASE}/state", b"{}")))

    async def say(self, topic: str, payload: bytes, *, retain: bool = False) -> None:
        await self.link.publish(f"{BASE}/{topic}", payload, retain=retain)

    async def hear(self, message: Delivery) -> None:
        if message.topic == f"{BASE}/answer":
            self.answers.append(json.loads(message.payload))
        elif message.payload:
            self.retained[message.topic] = message.payload
        else:
            self.retained.pop(message.topic, None)


def at_home(
    folder: Path,
    home: HomeDevice,
    answer: Callable[[Feedback], Future[msgspec.Struct]],
    story: Callable[[Hub], Awaitable[None]],
    retained: Mapping[str, bytes] | None = None,
) -> None:
    """Play a story with a device at a broker and Home Assistant's link to it."""

    async def whole() -> None:
        process, address = await home_broker(folder)
        hub = Hub(MqttLink(LinkSettings(address, "hub"), handlers={"#": lambda message: hub.hear(message)}))
        output = HomeMqtt(address, "auricle-events/{device}", home.name, answer, "token", home=(home, "homeassistant"))
        async with hub.link:
            await hub.link.wait_connected(20)
            for topic, payload in (retained or {}).items():
                await hub.say(topic, payload, retain=True)
            await output.open()
            await until(lambda: hub.retained.get(f"{BASE}/availability") == b"online")
            await story(hub)
            await output.close()
        await process.stop()

    run(whole())


def labels_of(home: Home) -> Callable[[Feedback], Future[msgspec.Struct]]:
    """Answers taken as a device takes them."""

    def answer(feedback: Feedback) -> Future[msgspec.Struct]:
        done: Future[msgspec.Struct] = Future()
        labeller = home.labeller
        verdicts = {
            "confirm": lambda: labeller.confirm(feedback.id),
            "deny": lambda: labeller.deny(feedback.id, feedback.word),
            "missed": lambda: labeller.missed(feedback.word),
        }
        try:
            done.set_result(verdicts[feedback.verdict]())
        except AuricleError as error:
            done.set_exception(error)
        return done

    return answer


@NEEDS_MOSQUITTO
def test_a_press_becomes_a_label_and_says_what_became_of_it(tmp_path: Path) -> None:
    home = Home(tmp_path / "clips", ambient_seconds=1e6)
    yes = device(wake=("yes",))

    async def story(hub: Hub) -> None:
        home.hears(1, "no")
        await hub.say("press", b"deny")
        await until(lambda: len(hub.answers) == 1)
        assert home.kept == [("_unknown_", "denied", 1.0)]
        home.hears(2, "yes", start=100_000)
        await hub.say("press", b"confirm")
        await until(lambda: len(hub.answers) == 2)
        await hub.say("press", b"confirm")
        await until(lambda: len(hub.answers) == 3)
        home.until(2.0)
        await hub.say("press", b"missed yes")
        await until(lambda: len(hub.answers) == 4)
        assert ["said" in answer for answer in hub.answers] == [True, True, False, True]
        assert "confirmed already" in hub.answers[2]["error"]

    at_home(tmp_path, yes, labels_of(home), story)
    assert {(word, source) for word, source, _ in home.kept} == {("yes", "confirmed"), ("yes", "missed")}


@NEEDS_MOSQUITTO
@pytest.mark.parametrize("buttons", [True, False])
def test_what_is_no_press_gives_no_label(tmp_path: Path, buttons: bool) -> None:
    asked: list[Feedback] = []

    def answer(feedback: Feedback) -> Future[msgspec.Struct]:
        asked.append(feedback)
        done: Future[msgspec.Struct] = Future()
        done.set_result(msgspec.defstruct("Said", [("said", str)])("Done."))
        return done

    async def story(hub: Hub) -> None:
        foreign = (b"missed stop", b"missed ", b"Confirm", b"", b"x" * 5000, b'{"verdict": "confirm"}')
        for payload in (*foreign, *([] if buttons else [b"confirm"])):
            await hub.say("press", payload)
        await hub.say("feedback", b'{"verdict": "deny", "token": "token"}')
        await until(lambda: hub.answers)

    at_home(tmp_path, device(buttons=buttons), answer, story, {"press": b"confirm"})
    assert asked == [Feedback("deny")]


@NEEDS_MOSQUITTO
def test_a_number_changes_the_threshold_at_once_and_the_next_start_has_it(tmp_path: Path) -> None:
    usual, applied = DetectSettings(threshold=0.8, wake=WAKING), []

    def own_thresholds() -> OwnThresholds:
        made = OwnThresholds(tmp_path, usual, WAKING)
        made.apply = lambda: applied.append(made.over(usual).thresholds)
        return made

    own = own_thresholds()
    kitchen = device(state=lambda: HomeState(thresholds=own.of(usual)), set_threshold=own.set)
    topic = Topics("").threshold("hey robot").lstrip("/")

    async def story(hub: Hub) -> None:
        assert hub.state["thresholds"] == {"computer": 0.8, object_id("hey robot"): 0.8}
        for payload in (b"1.5", b"0", b"NaN", b"", b"[0.5]", b"true", b'"0.5"', b"9" * 400):
            await hub.say(topic, payload)
        await hub.say("threshold/stop/set", b"0.5")
        await hub.say(topic, b"0.65")
        await until(lambda: hub.state["thresholds"][object_id("hey robot")] == 0.65)

    at_home(tmp_path, kitchen, lambda feedback: Future(), story, {topic: b"0.3"})
    assert applied == [{"hey robot": 0.65}]
    assert own_thresholds().of(usual) == {"computer": 0.8, "hey robot": 0.65}


def test_the_later_of_settings_and_number_counts(tmp_path: Path) -> None:
    usual = DetectSettings(threshold=0.8, wake=WAKING)
    OwnThresholds(tmp_path, usual, WAKING).set("computer", 0.5)
    moved = DetectSettings(threshold=0.8, thresholds={"computer": 0.72, "stop": 0.7}, wake=WAKING)
    assert OwnThresholds(tmp_path, usual, WAKING).over(moved).thresholds == {"computer": 0.5, "stop": 0.7}
    calibrated = DetectSettings(threshold=0.8, thresholds={"computer": 0.62}, wake=WAKING)
    newer = OwnThresholds(tmp_path, calibrated, WAKING)
    assert newer.over(calibrated) is calibrated, "somebody calibrated after that"
    with pytest.raises(SettingsError, match='"stop" is no word that counts'):
        newer.set("stop", 0.5)


@pytest.mark.parametrize("content", ["3", '{"computer": 0.5}', '{"computer": {"threshold": 1.5, "over": 0.8}}', ""])
def test_a_file_of_thresholds_with_anything_else_is_refused(tmp_path: Path, content: str) -> None:
    (tmp_path / FILE).write_text(content)
    with pytest.raises(StorageError, match="delete it"):
        OwnThresholds(tmp_path, DetectSettings(), ("computer",))
