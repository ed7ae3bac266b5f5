"""What Home Assistant's discovery takes, as facts: keys, topics and values of its schemas (2026.2, `components/mqtt`).

It drops keys that it does not know without a word, so a slip in a name is seen by nobody: here it is a violation.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

DISCOVERY_TOPIC = re.compile(r"[^/+#]+(/[^/+#]+)*?/(?P<component>\w+)/([a-zA-Z0-9_-]+/)?[a-zA-Z0-9_-]+/config\Z")
"""`discovery.TOPIC_MATCHER`."""


def keys(names: str) -> frozenset[str]:
    return frozenset(names.split())


BASE = keys("qos encoding")
ENTITY = keys(
    "availability_topic availability_template payload_available payload_not_available device entity_picture origin "
    "enabled_by_default entity_category icon json_attributes_topic json_attributes_template default_entity_id "
    "object_id unique_id name device_class"
)
"""`schemas.MQTT_ENTITY_COMMON_SCHEMA`, with what every entity's own schema adds."""
READ = keys("state_topic value_template")
WRITE = keys("command_topic optimistic retain state_topic")


@dataclass(frozen=True)
class Schema:
    """Of one component."""

    optional: frozenset[str]
    required: frozenset[str]
    read_only: bool = False
    """Whether Home Assistant refuses the entity category `config` for it."""
    entity: bool = True


SCHEMAS = {
    "binary_sensor": Schema(
        READ | keys("expire_after force_update off_delay payload_off payload_on"), keys("state_topic"), read_only=True
    ),
    "button": Schema(keys("command_template payload_press retain"), keys("command_topic")),
    "device_automation": Schema(
        keys("payload value_template origin"), keys("automation_type device subtype topic type"), entity=False
    ),
    "event": Schema(READ, keys("state_topic event_types"), read_only=True),
    "number": Schema(
        WRITE | keys("command_template max min mode payload_reset step unit_of_measurement value_template"),
        keys("command_topic"),
    ),
    "sensor": Schema(
        READ
        | keys("expire_after force_update last_reset_value_template options suggested_display_precision state_class")
        | keys("unit_of_measurement"),
        keys("state_topic"),
        read_only=True,
    ),
    "switch": Schema(
        WRITE | keys("command_template payload_off payload_on state_off state_on value_template"),
        keys("command_topic"),
    ),
    "update": Schema(
        READ
        | keys("command_topic display_precision latest_version_template latest_version_topic payload_install")
        | keys("release_summary release_url retain title"),
        keys("state_topic"),
    ),
}
DEVICE = keys(
    "identifiers connections manufacturer model model_id name hw_version serial_number sw_version via_device "
    "suggested_area configuration_url"
)
CLASSES = {
    "binary_sensor": {"connectivity": None, "problem": None},
    "sensor": {"temperature": {"°C", "°F", "K"}, "data_size": {"B", "kB", "MB", "GB", "MiB", "GiB"}},
    "update": {"firmware": None},
}
"""Device classes that we use, with the units that Home Assistant takes for them."""
UPDATE_FIELDS: dict[str, Callable[[Any], bool]] = {
    "installed_version": lambda value: isinstance(value, str),
    "latest_version": lambda value: isinstance(value, str),
    "title": lambda value: isinstance(value, str),
    "release_summary": lambda value: isinstance(value, str) and len(value) <= 255,
    "in_progress": lambda value: isinstance(value, bool),
    "update_percentage": lambda value: value is None or 0 <= value <= 100,
}
"""`update.MQTT_JSON_UPDATE_SCHEMA`, of the fields that we use: any other key refuses the whole message."""


def violations(topic: str, config: Mapping[str, Any]) -> Iterator[str]:
    """Why Home Assistant would refuse an announcement, or drop a part of it."""
    matched = DISCOVERY_TOPIC.match(topic)
    if matched is None or matched["component"] not in SCHEMAS:
        yield f"{topic} is no topic of discovery"
        return
    component, schema = matched["component"], SCHEMAS[matched["component"]]
    known = BASE | schema.optional | schema.required | (ENTITY if schema.entity else frozenset())
    yield from (f"{component} knows no {key}" for key in config.keys() - known)
    yield from (f"{component} lacks {key}" for key in schema.required - config.keys())
    if schema.entity and not config.get("unique_id"):
        yield "without unique_id nothing of it can be changed"
    if not config["device"].get("identifiers") or config["device"].keys() - DEVICE:
        yield f"device {config['device']}"
    if "name" not in config.get("origin", {"name": ""}):
        yield "origin without a name"
    for key, value in config.items():
        yield from _wrong_value(component, key, value, config)


def _wrong_value(component: str, key: str, value: Any, config: Mapping[str, Any]) -> Iterator[str]:
    right = True
    if key.endswith("topic"):
        right = isinstance(value, str) and bool(value) and not re.search(r"[+#\x00-\x1f]", value)
    elif key == "entity_category":
        right = value == "diagnostic" or (value == "config" and not SCHEMAS[component].read_only)
    elif key == "device_class":
        units = CLASSES.get(component, {}).get(value, set())
        right = units is None or config.get("unit_of_measurement") in units
    elif key == "icon":
        right = value.startswith("mdi:")
    elif key == "event_types":
        right = isinstance(value, list) and all(isinstance(each, str) for each in value)
    elif key == "state_class":
        right = value in ("measurement", "total", "total_increasing")
    elif key in ("min", "max", "step"):
        right = isinstance(value, float) and config["min"] < config["max"] and config["step"] >= 0.001
    elif key == "mode":
        right = value in ("auto", "box", "slider")
    elif key == "automation_type":
        right = value == "trigger"
    elif key not in ("device", "origin"):
        right = isinstance(value, str)
    if not right:
        yield f"{component}: {key} = {value!r}"


def update_violations(payload: bytes) -> list[str]:
    """Why Home Assistant would pass over a state of an update entity."""
    state = json.loads(payload)
    return [key for key, value in state.items() if not UPDATE_FIELDS.get(key, lambda value: False)(value)]
