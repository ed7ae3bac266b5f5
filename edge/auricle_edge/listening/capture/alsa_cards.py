"""ALSA's sound cards by what does not change when they are plugged again: card id and USB number.

The kernel lists them in `/proc/asound`: `cards` with index, id and name, `card<n>/usbid` with vendor and product, `pcm`
with the devices of each. The child imports this, so it needs next to nothing.
"""

from __future__ import annotations

import re

_CARD = re.compile(r"^\s*(\d+) \[(\S+)\s*\]: (?:.*? - )?(.*)$")
_CAPTURE = re.compile(r"^(\d+)-(\d+): .*\bcapture \d+")


class Card:
    """A sound card that is plugged in now."""

    def __init__(self, index: int, id: str, name: str, usb: str | None, inputs: list[int]) -> None:
        self.index = index
        self.id = id
        self.name = name
        self.usb = usb
        self.inputs = inputs
        """Numbers of its devices that record."""

    def pcm(self, device: int) -> str:
        """The device's name by card id."""
        return f"hw:CARD={self.id},DEV={device}"


def cards(root: str = "/") -> list[Card]:
    """List the cards that are plugged in; empty where the system has none.

    Parameters
    ----------
    root
        Of the file system.
    """
    place = root.rstrip("/") + "/proc/asound"
    inputs: dict[int, list[int]] = {}
    for line in _lines(f"{place}/pcm"):
        if match := _CAPTURE.match(line):
            inputs.setdefault(int(match[1]), []).append(int(match[2]))
    found = []
    for line in _lines(f"{place}/cards"):
        if match := _CARD.match(line):
            index = int(match[1])
            usb = _lines(f"{place}/card{index}/usbid")
            found.append(Card(index, match[2], match[3], usb[0] if usb else None, inputs.get(index, [])))
    return found


def find_card(target: str, plugged: list[Card]) -> tuple[Card, int] | None:
    """The card and device that `CARD=ID`, `hw:CARD=ID`, `usb=VVVV:PPPP`, each with or without `,DEV=n`, means now."""
    name, _, device = target.removeprefix("plug").removeprefix("hw:").partition(",DEV=")
    kind, _, value = name.partition("=")
    for card in plugged:
        if (kind == "CARD" and card.id == value) or (kind == "usb" and card.usb == value.lower()):
            return card, int(device) if device else (card.inputs or [0])[0]
    return None


def _lines(path: str) -> list[str]:
    try:
        with open(path, encoding="utf-8", errors="replace") as file:  # noqa: PTH123 - pathlib makes the child bigger
            return file.read().splitlines()
    except OSError:
        return []
