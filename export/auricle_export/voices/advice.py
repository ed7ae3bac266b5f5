"""Who speaks in a training, and what would bring better voices: the first lines of `auricle export wakeword`."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from auricle_export.voices.interface import VoiceSource
from auricle_export.voices.kokoro import Kokoro
from auricle_export.voices.sources import ESPEAK, code_of


@dataclass(frozen=True)
class Who:
    """The voices of a training."""

    speaks: tuple[tuple[str, str], ...]
    """Name and description of each source, espeak-ng last."""
    more: str
    """What would bring better voices, as a sentence; empty where the best are there."""

    @property
    def lines(self) -> tuple[str, ...]:
        """For people."""
        said = "; ".join(about for _, about in self.speaks)
        return (f"Voices: {said}.", *((self.more,) if self.more else ()))

    def facts(self) -> dict[str, object]:
        """As plain JSON values."""
        return {"speaks": [name for name, _ in self.speaks], "more": self.more}


def who_speaks(sources: Sequence[VoiceSource], language: str) -> Who:
    """What is said before a training.

    Parameters
    ----------
    sources
        Who speaks beside espeak-ng.
    language
        Of the phrase.
    """
    speaks = tuple((source.name, source.about) for source in sources)
    kokoro = Kokoro()
    lacking = not sources and code_of(language) in kokoro.languages() and kokoro.missing() is not None
    more = f"auricle export voices add kokoro brings natural voices ({kokoro.to_bring()})." if lacking else ""
    return Who((*speaks, (ESPEAK, "espeak-ng, formant voices")), more)
