"""Who holds a sound card that is busy, as the kernel tells it; the child imports this, so it needs next to nothing."""

from __future__ import annotations

import os

from auricle_edge.listening.capture.child_parts import Refusal


def busy(name: str, place: tuple[int, int] | None, root: str = "/") -> Refusal:
    """The refusal of a card that somebody else holds, who is named where the kernel says it.

    Parameters
    ----------
    name
        Of the source, for the user.
    place
        Index of the card and number of its device; None where it is no card: the holder is then unknown.
    root
        Of the file system.
    """
    who = None if place is None else holder(*place, root)
    held = "another program" if who is None else f"{who[1]} (process {who[0]})"
    return Refusal("busy", f"{name} is busy: {held} records from it. End that program; until then it is tried again.")


def holder(card: int, device: int, root: str = "/") -> tuple[int, str] | None:
    """Process id and name of who records from a card's device; None where nobody does, or it cannot be known.

    The kernel writes the thread that opened a substream as `owner_pid` into its `status`.
    """
    root = root.rstrip("/")
    place = f"{root}/proc/asound/card{card}/pcm{device}c"
    try:
        subs = sorted(os.listdir(place))  # noqa: PTH208 - pathlib makes the child bigger
    except OSError:
        return None
    for sub in subs:
        for line in _text(f"{place}/{sub}/status").splitlines():
            key, _, value = line.partition(":")
            if key.strip() == "owner_pid" and value.strip().isdigit():
                pid = int(value)
                return pid, _text(f"{root}/proc/{pid}/comm").strip() or "a program"
    return None


def _text(path: str) -> str:
    try:
        with open(path, encoding="utf-8", errors="replace") as file:  # noqa: PTH123 - pathlib makes the child bigger
            return file.read()
    except OSError:
        return ""
