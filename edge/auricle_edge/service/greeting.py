"""What a device says when it starts: which words it listens for, which of them come first, and how to hear others."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from auricle.packs.manifest import SPECIAL_LABELS
from auricle.packs.pack import DEFAULT_PACK
from auricle_edge.listening.detect import DetectSettings

OTHER_WORDS = (
    "For other words name another pack: --pack gsc12-res hears the ten commands without a wake word, and a pack of "
    "your own hears your words (docs/service.md)."
)


@dataclass(frozen=True)
class Awaited:
    """The words that a device listens for."""

    wake: tuple[str, ...]
    """What counts while it waits; empty: the commands always count."""
    commands: tuple[str, ...]
    """All other keywords."""
    window: float
    """Seconds after a wake word in which commands count."""

    @property
    def sentence(self) -> str:
        """What to say to the device, without its beginning: `A listens for ...`."""
        if not self.wake:
            return f"{listed(self.commands)}."
        return f"{quoted(self.wake)} first, then hears for {self.window:g} s: {listed(self.commands)}."


def awaited(labels: Sequence[str], detect: DetectSettings) -> Awaited:
    """The words of a pack's labels, by what the detector works with."""
    words = (label for label in labels if label not in SPECIAL_LABELS)
    return Awaited(detect.wake, tuple(word for word in words if word not in detect.wake), detect.window)


def quoted(words: Sequence[str]) -> str:
    """`"computer" or "jarvis"`."""
    return " or ".join(f'"{word}"' for word in words)


def listed(words: Sequence[str]) -> str:
    """`yes, no or up`."""
    return " or ".join(filter(None, (", ".join(words[:-1]), *words[-1:])))


def other_words(pack: str) -> str | None:
    """How to hear other words, for the owner of a device that runs the default pack; None for one who chose another."""
    return OTHER_WORDS if pack == DEFAULT_PACK else None
