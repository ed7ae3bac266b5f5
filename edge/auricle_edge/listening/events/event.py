"""What an output says of a detection, and of a window that closed without one."""

from __future__ import annotations

import json

from auricle_edge.listening.sound import Detection, Event


def event_of(event: Event, device: str) -> dict[str, object]:
    """An event as names and values for JSON; no sound and no posteriors but its score."""
    if not isinstance(event, Detection):
        said = {"wake": event.wake, "wake_word": event.wake_word, "at": round(event.at, 3)}
        return {"type": "timeout", "device": device, **said}
    opened = {} if event.wake is None else {"wake": event.wake, "wake_word": event.wake_word}
    return {
        "type": event.kind,
        "device": device,
        "id": event.id,
        "word": event.word,
        "score": round(event.score, 4),
        "model": event.model,
        "at": round(event.at, 3),
        "latency": round(event.latency, 3),
        **opened,
    }


def line_of(event: Event, device: str) -> str:
    """The event as one line of JSON."""
    return json.dumps(event_of(event, device))
