"""How often people are heard by packs of `auricle export wakeword`, as it was measured: what a new pack may expect.

The record beside this file, `people.json`, holds what `python bench/own_wake_word.py` printed of packs on recordings of
people, and `--record` writes a row of it; docs/wake-word.md has each command, with the same figures.
"""

from __future__ import annotations

from functools import cache
from pathlib import Path

import msgspec

from auricle.hearing.intervals import Interval, share_interval

_VOICES = "synthetic voices alone"
RECORD = Path(__file__).with_name("people.json")


class PeopleHearing(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What one pack heard of people."""

    phrase: str
    trained_on: int
    """Takes of people, others than those who judged, in its training; the rest of it were synthetic voices."""
    voices: tuple[str, ...] = ()
    """Sources of synthetic voices in it beside espeak-ng, by name."""
    takes: int
    """By people, that judged."""
    heard: float
    """Share of these takes at the pack's own threshold, the mean over noise, speech and words around them, 0 to 1."""
    hours: float
    """Of sound without the phrase."""
    false_accepts: int
    """There."""

    @property
    def interval(self) -> Interval:
        """Clopper-Pearson interval of the share, 95 %, each take counted once."""
        return share_interval(round(self.heard * self.takes), self.takes)

    @property
    def sentence(self) -> str:
        """What was measured, with its interval."""
        between = f"{100 * self.interval.low:.0f} to {100 * self.interval.high:.0f} %"
        voices = f"synthetic voices alone, of {' and '.join((*self.voices, 'espeak-ng'))}" if self.voices else ""
        with_what = f"{self.trained_on} takes of other people" if self.trained_on else voices or _VOICES
        return (
            f'Trained with {with_what}, a pack for "{self.phrase}" heard {100 * self.heard:.0f} % ({between}) '
            f"of {self.takes} takes by people at its own threshold."
        )


@cache
def people_record() -> tuple[PeopleHearing, ...]:
    """The record, the pack with the fewest takes of people in training first."""
    rows = msgspec.json.decode(RECORD.read_bytes(), type=list[PeopleHearing])
    return tuple(sorted(rows, key=lambda row: (row.trained_on, row.heard)))
