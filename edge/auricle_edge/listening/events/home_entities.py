"""The entities of a device in Home Assistant, and the triggers that an automation is picked from."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple

from auricle import __version__
from auricle_edge.listening.detect.rules import LEAST, MOST
from auricle_edge.listening.events.home_assistant import INSTALL, Topics, object_id, origin
from auricle_edge.listening.events.home_device import HomeDevice, HomeState
from auricle_edge.listening.sound import Feedback

MOST_WORDS = 60
"""Words that have a trigger and a threshold of their own; the event `Heard` has every word of a larger pack."""

FIGURES = (
    ("temperature", "Temperature", "temperature", "°C"),
    ("memory", "Free memory", "data_size", "MiB"),
    ("disk", "Free disk", "data_size", "MiB"),
)
"""Field of `Figures`, name, device class and unit."""

Fields = dict[str, object]


class Announcement(NamedTuple):
    """What stands for a device at one topic of Home Assistant's discovery."""

    component: str
    name: str
    """The object id."""
    fields: Mapping[str, object]
    """What it has of its own."""


def discovery(prefix: str, device: HomeDevice, topics: Topics, state: HomeState) -> dict[str, Fields]:
    """The configuration messages by topic, each to be published retained.

    Parameters
    ----------
    prefix
        Home Assistant's discovery prefix.
    device
        Who is announced: its name is node id and part of every unique id.
    topics
        Where it speaks.
    state
        How it is: of what it does not know there is no entity.
    """
    about: Fields = {
        "device": {
            "identifiers": [f"auricle_{device.name}"],
            "name": device.name,
            "manufacturer": "Auricle",
            "model": device.model,
            "sw_version": __version__,
            **({} if device.mac is None else {"connections": [["mac", device.mac]]}),
        },
        "origin": origin(),
    }
    available = {"availability_topic": topics.availability}
    configs: dict[str, Fields] = {}
    for component, name, fields in _entities(device, topics, state):
        own = {"unique_id": f"auricle_{device.name}_{name}", **available, **fields, **about}
        configs[f"{prefix}/{component}/{device.name}/{name}/config"] = own
    for component, name, fields in _triggers(device.keywords[:MOST_WORDS], topics):
        configs[f"{prefix}/{component}/{device.name}/{name}/config"] = {**fields, **about}
    return configs


def presses(wake: Sequence[str]) -> Mapping[bytes, Feedback]:
    """What each button of a device with these wake words says, by what is published when it is pressed."""
    missed = {f"missed {word}".encode(): Feedback("missed", word=word) for word in wake}
    return {b"confirm": Feedback("confirm"), b"deny": Feedback("deny"), **missed}


def _entities(device: HomeDevice, topics: Topics, state: HomeState) -> Iterator[Announcement]:
    of_state: Fields = {"state_topic": topics.state}
    diagnostic: Fields = {**of_state, "entity_category": "diagnostic"}
    mute = {"name": "Mute", "icon": "mdi:microphone-off", "command_topic": topics.mute, **of_state}
    level = {"name": "Level", "unit_of_measurement": "dBFS", "state_class": "measurement", **diagnostic}
    rounds = {"name": "Rounds trained", "state_class": "total_increasing", **diagnostic}
    heard = {"name": "Heard", "state_topic": topics.heard, "event_types": list(device.keywords)}
    agent = {"name": "Agent", "title": "Auricle", "state_topic": topics.update, "entity_category": "diagnostic"}
    if device.install is not None:
        agent |= {"entity_category": "config", "command_topic": topics.install, "payload_install": INSTALL.decode()}
    yield Announcement("switch", "mute", {**mute, "value_template": "{{ value_json.muted }}"})
    yield Announcement("sensor", "word", {"name": "Last word", **of_state, "value_template": "{{ value_json.word }}"})
    yield Announcement("sensor", "level", {**level, "value_template": "{{ value_json.level }}"})
    yield Announcement("sensor", "rounds", {**rounds, "value_template": "{{ value_json.rounds }}"})
    yield Announcement("sensor", "pack", {"name": "Pack", **diagnostic, "value_template": "{{ value_json.pack }}"})
    yield Announcement("event", "heard", heard)
    yield Announcement("update", "agent", agent)
    yield from _diagnostics(diagnostic, state)
    yield from _thresholds(topics, dict(list(state.thresholds.items())[:MOST_WORDS]))
    if device.buttons:
        yield from _buttons(device.wake[:MOST_WORDS], topics)


def _diagnostics(diagnostic: Fields, state: HomeState) -> Iterator[Announcement]:
    """What else an owner has to know: of a fleet where there is one, of the board what it can say."""
    problem = {
        "name": "Problem",
        "device_class": "problem",
        **diagnostic,
        "value_template": "{{ 'ON' if value_json.problem else 'OFF' }}",
        "json_attributes_topic": diagnostic["state_topic"],
        "json_attributes_template": "{{ {'problem': value_json.problem} | tojson }}",
    }
    yield Announcement("binary_sensor", "problem", problem)
    if state.connected is not None:
        connected = "{{ 'ON' if value_json.connected else 'OFF' }}"
        link = {"name": "Fleet", "device_class": "connectivity", **diagnostic, "value_template": connected}
        yield Announcement("binary_sensor", "fleet", link)
        last = {"name": "Last round", **diagnostic, "value_template": "{{ value_json.fleet[:250] }}"}
        yield Announcement("sensor", "round", last)
        model = {
            "name": "Model",
            **diagnostic,
            "value_template": "{{ value_json.listens.model }}",
            "json_attributes_topic": diagnostic["state_topic"],
            "json_attributes_template": "{{ value_json.listens | tojson }}",
        }
        yield Announcement("sensor", "model", model)
    for name, label, kind, unit in FIGURES:
        if getattr(state.figures, name) is not None:
            figure = {"name": label, "device_class": kind, "unit_of_measurement": unit, "state_class": "measurement"}
            template = f"{{{{ value_json.{name} }}}}"
            yield Announcement("sensor", name, {**figure, **diagnostic, "value_template": template})


def _thresholds(topics: Topics, now: Mapping[str, float]) -> Iterator[Announcement]:
    """A number each word that counts while the device waits."""
    for word, value in now.items():
        number = {
            "name": f"Threshold of {word}",
            "icon": "mdi:tune-vertical",
            "entity_category": "config",
            "command_topic": topics.threshold(word),
            "state_topic": topics.state,
            "value_template": f"{{{{ value_json.thresholds['{object_id(word)}'] }}}}",
            "min": min(LEAST, value),
            "max": max(MOST, value),
            "step": 0.01,
            "mode": "slider",
        }
        yield Announcement("number", f"threshold_{object_id(word)}", number)


def _buttons(wake: Sequence[str], topics: Topics) -> Iterator[Announcement]:
    """Right, Wrong and, of each wake word, Missed; and what became of the newest press."""
    pressed: Fields = {"command_topic": topics.press}
    right = {"name": "Right", "icon": "mdi:thumb-up", "payload_press": "confirm", **pressed}
    wrong = {"name": "Wrong", "icon": "mdi:thumb-down", "payload_press": "deny", **pressed}
    yield Announcement("button", "right", right)
    yield Announcement("button", "wrong", wrong)
    for word in wake:
        missed = {"name": f"Missed {word}", "icon": "mdi:ear-hearing-off", "payload_press": f"missed {word}", **pressed}
        yield Announcement("button", f"missed_{object_id(word)}", missed)
    said = "{{ (value_json.error | default(value_json.said, true))[:250] }}"
    answer = {"name": "Last answer", "state_topic": topics.answer, "entity_category": "diagnostic"}
    yield Announcement("sensor", "answer", {**answer, "value_template": said})


def _triggers(words: Sequence[str], topics: Topics) -> Iterator[Announcement]:
    """`"stop" heard`, for each word."""
    for word in words:
        trigger: Fields = {
            "automation_type": "trigger",
            "type": "heard",
            "subtype": word,
            "topic": topics.heard,
            "value_template": "{{ value_json.event_type }}",
            "payload": word,
        }
        yield Announcement("device_automation", f"heard_{object_id(word)}", trigger)
