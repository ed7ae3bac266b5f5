"""The microphones that are there now; asked of a fresh child each time, since PortAudio lists once a process."""

from __future__ import annotations

import re
from typing import Any

from auricle_edge.listening.capture.alsa_cards import Card, cards
from auricle_edge.listening.capture.microphone import default_input, inputs
from auricle_edge.listening.capture.piece import Refusal

_CARD_OF = re.compile(r"\(hw:(\d+),(\d+)\)")


def listing() -> list[dict[str, Any]]:
    """What PortAudio sees, or the sound cards alone where it is not installed; fields as in `frames.Device`."""
    plugged = cards()
    try:
        default = default_input()
    except Refusal:
        return [described(card, device) for card in plugged for device in card.inputs]
    return [of_portaudio(entry, entry["index"] == default, plugged) for entry in inputs()]


def described(card: Card, device: int) -> dict[str, Any]:
    """A sound card's device that arecord can open; what it can do is known when it is opened."""
    pcm = card.pcm(device)
    return {
        "name": card.name,
        "source": f"arecord:{pcm}",
        "alsa": pcm,
        "usb": card.usb,
        "channels": None,
        "rate": None,
        "default": False,
    }


def of_portaudio(entry: dict[str, Any], default: bool, plugged: list[Card]) -> dict[str, Any]:
    """An input of PortAudio, by its card's id where it is a card."""
    mark = _CARD_OF.search(entry["name"])
    card = next((card for card in plugged if mark and card.index == int(mark[1])), None)
    pcm = card.pcm(int(mark[2])) if card and mark else None
    return {
        "name": entry["name"],
        "source": f"alsa:{pcm.removeprefix('hw:')}" if pcm else f"mic:{entry['name']}",
        "alsa": pcm,
        "usb": card.usb if card else None,
        "channels": entry["max_input_channels"],
        "rate": round(entry["default_samplerate"]),
        "default": default,
    }
