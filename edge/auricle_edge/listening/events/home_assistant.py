"""A device as Home Assistant finds it: what its MQTT discovery wants to be told, as pure messages.

Topics are `<prefix>/<component>/<node>/<object>/config`, the fields are those of the integration's components
(https://www.home-assistant.io/integrations/mqtt/#mqtt-discovery).
"""

from __future__ import annotations

import dataclasses
import hashlib
import re
from dataclasses import dataclass

from auricle import __version__
from auricle_edge.listening.events.home_device import HomeState
from auricle_edge.listening.sound import Detection

ONLINE, OFFLINE = b"online", b"offline"
ON, OFF = b"ON", b"OFF"
INSTALL = b"INSTALL"


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
    def install(self) -> str:
        """`INSTALL` is taken from here."""
        return f"{self.base}/update/install"

    @property
    def heard(self) -> str:
        """A word as Home Assistant's event entity takes it."""
        return f"{self.base}/heard"

    @property
    def mute(self) -> str:
        """`ON` and `OFF` are taken from here."""
        return f"{self.base}/mute/set"

    @property
    def feedback(self) -> str:
        """Answers that carry the device's token are taken from here."""
        return f"{self.base}/feedback"

    @property
    def press(self) -> str:
        """Which button was pressed; without a token."""
        return f"{self.base}/press"

    @property
    def answer(self) -> str:
        """What became of an answer or a press."""
        return f"{self.base}/answer"

    def threshold(self, word: str) -> str:
        """The threshold of a word is taken from here; of `+`, of every word."""
        return f"{self.base}/threshold/{word if word == '+' else object_id(word)}/set"


def object_id(word: str) -> str:
    """A word as a level of a topic and as an object id: of letters, digits and `_`, another one for each word."""
    plain = re.sub(r"[^a-z0-9]+", "_", word.lower()).strip("_")
    return plain if plain == word else f"{plain}_{hashlib.sha256(word.encode()).hexdigest()[:8]}"


def state_payload(state: HomeState) -> dict[str, object]:
    """A state as its topic has it."""
    return {
        "muted": (ON if state.muted else OFF).decode(),
        "level": state.level,
        "word": state.word,
        "rounds": state.rounds,
        "pack": state.pack,
        "connected": state.connected,
        "fleet": state.fleet,
        "listens": {"model": state.model, "reason": state.model_reason},
        "problem": state.problem,
        **{name: value and round(value) for name, value in dataclasses.asdict(state.figures).items()},
        "thresholds": {object_id(word): round(value, 2) for word, value in state.thresholds.items()},
    }


def update_payload(state: HomeState) -> dict[str, object]:
    """A state as the update entity wants it, which takes no other field."""
    return {
        "installed_version": state.version,
        "latest_version": state.latest or state.version,
        "in_progress": state.installing,
        "release_summary": state.reason[:255],
    }


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


def origin() -> dict[str, object]:
    """Who announces."""
    return {"name": "Auricle", "sw_version": __version__}
