"""What an output says of a detection."""

from __future__ import annotations

import json

from auricle_edge.sound import Detection


def event_of(detection: Detection, device: str) -> dict[str, object]:
    """A detection as names and values for JSON; no sound and no posteriors but its score."""
    return {
        "type": "detection", "device": device, "id": detection.id, "word": detection.word,
        "score": round(detection.score, 4), "model": detection.model, "at": round(detection.at, 3),
        "latency": round(detection.latency, 3),
    }  # fmt: skip


def line_of(detection: Detection, device: str) -> str:
    """The event as one line of JSON."""
    return json.dumps(event_of(detection, device))
