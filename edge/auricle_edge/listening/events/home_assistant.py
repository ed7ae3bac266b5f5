"""A device as Home Assistant finds it: what its MQTT discovery wants to be told, as pure messages.

Topics are `<prefix>/<component>/<node>/<object>/config`, the fields are those of the integrations `switch.mqtt`,
`sensor.mqtt`, `event.mqtt` and `update.mqtt` (https://www.home-assistant.io/integrations/mqtt/#mqtt-discovery).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from auricle import __version__
from auricle.wire.kinds import DeviceId
from auricle_edge.listening.sound import Detection

ONLINE, OFFLINE = b"online", b"offline"
ON, OFF = b"ON", b"OFF"


@dataclass(frozen=True)
class HomeState:
    """What the home is told of a device beside its events."""

    muted: bool = False
    level: float | None = None
    """dBFS of the last half second; None while nothing is heard."""
    word: str | None = None
    """The last word that it answered."""
    rounds: int = 0
    """Rounds that it trained since its start."""
    pack: str = ""
    """Name and beginning of the identity."""
    version: str = __version__
    """Of the bundle that runs, or of the package."""
    rollout: str | None = None
    """Name of a rollout that is on its way here; None: nothing is."""
    reason: str = ""
    """What is to be said of that rollout."""

    def payload(self) -> dict[str, object]:
        """As the state topic has it."""
        return {
            "muted": (ON if self.muted else OFF).decode(),
            "level": self.level,
            "word": self.word,
            "rounds": self.rounds,
            "pack": self.pack,
        }

    def update(self) -> dict[str, object]:
        """As the update entity wants it, which takes no other field."""
        return {
            "installed_version": self.version,
            "latest_version": self.rollout or self.version,
            "in_progress": self.rollout is not None,
            "release_summary": self.reason,
        }


@dataclass(frozen=True)
class Topics:
    """Where a device says what, below the topic of its events."""

    base: str

    @property
    def availability(self) -> str:
        """`online` or `offline`, retained; the will says the latter."""
        return f"{self.base}/availability"

    @property
    def state(self) -> str:
        """`HomeState` as JSON, retained."""
        return f"{self.base}/state"

    @property
    def update(self) -> str:
        """The version, retained."""
        return f"{self.base}/update"

    @property
    def heard(self) -> str:
        """A word as Home Assistant's event entity takes it."""
        return f"{self.base}/heard"

    @property
    def mute(self) -> str:
        """`ON` and `OFF` are taken from here."""
        return f"{self.base}/mute/set"


def discovery(
    prefix: str, device: DeviceId, topics: Topics, words: Sequence[str], model: str
) -> dict[str, dict[str, object]]:
    """The configuration messages by topic, each to be published retained.

    Parameters
    ----------
    prefix
        Home Assistant's discovery prefix.
    device
        Name of the device, which is node id and part of every unique id.
    topics
        Where it speaks.
    words
        Every keyword that it may hear: the types of its events.
    model
        Name of its pack.
    """
    common: dict[str, object] = {
        "availability_topic": topics.availability,
        "device": {
            "identifiers": [f"auricle_{device}"],
            "name": device,
            "manufacturer": "Auricle",
            "model": model,
            "sw_version": __version__,
        },
        "origin": {"name": "Auricle", "sw_version": __version__},
    }
    found: dict[str, dict[str, object]] = {}
    for component, name, fields in _entities(topics, words):
        own = {"unique_id": f"auricle_{device}_{name}", **fields, **common}
        found[f"{prefix}/{component}/{device}/{name}/config"] = own
    return found


def _entities(topics: Topics, words: Sequence[str]) -> list[tuple[str, str, dict[str, object]]]:
    """Component, object id and what each has of its own."""
    state: dict[str, object] = {"state_topic": topics.state}
    diagnostic = {**state, "entity_category": "diagnostic"}
    mute = {"name": "Mute", "icon": "mdi:microphone-off", "command_topic": topics.mute, **state}
    level = {"name": "Level", "unit_of_measurement": "dBFS", "state_class": "measurement", **diagnostic}
    rounds = {"name": "Rounds trained", "state_class": "total_increasing", **diagnostic}
    return [
        ("switch", "mute", {**mute, "value_template": "{{ value_json.muted }}"}),
        ("sensor", "word", {"name": "Last word", **state, "value_template": "{{ value_json.word }}"}),
        ("sensor", "level", {**level, "value_template": "{{ value_json.level }}"}),
        ("sensor", "rounds", {**rounds, "value_template": "{{ value_json.rounds }}"}),
        ("sensor", "pack", {"name": "Pack", **diagnostic, "value_template": "{{ value_json.pack }}"}),
        ("event", "heard", {"name": "Heard", "state_topic": topics.heard, "event_types": list(words)}),
        ("update", "agent", {"name": "Agent", "title": "Auricle", **diagnostic, "state_topic": topics.update}),
    ]


def event_payload(detection: Detection) -> dict[str, object]:
    """A word as the event entity takes it: its type is the word, the rest are attributes."""
    return {
        "event_type": detection.word,
        "kind": detection.kind,
        "id": detection.id,
        "score": round(detection.score, 4),
        "level": detection.level,
        "over_noise": detection.over_noise,
        "wake_word": detection.wake_word,
    }
