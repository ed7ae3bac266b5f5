"""How often people are heard by packs of `auricle export wakeword`, as it was measured: what a new pack may expect.

The record beside this file, `people.json`, holds what `python bench/own_wake_word.py` printed of packs on recordings of
people, and `--record` writes a row of it; docs/wake-word.md has each command, with the same figures.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from pathlib import Path

import msgspec
from msgspec import UNSET

from auricle.hearing.intervals import Interval, share_interval
from auricle.packs.manifest import Manifest

_VOICES = "synthetic voices alone"
RECORD = Path(__file__).with_name("people.json")


class PeopleHearing(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What one pack heard of people."""

    phrase: str
    trained_on: int
    """Takes of people, others than those who judged, in its training; the rest of it were synthetic voices."""
    voices: tuple[str, ...] = ()
    """Sources of synthetic voices in it beside espeak-ng, by name."""
    frontend: str = ""
    """Network of its own front-end, by name; empty: log-mels."""
    vote: str = ""
    """Network of the front-end of its vote, by name; empty: it has no vote."""
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
        over = f" over the network {self.frontend}" if self.frontend else ""
        over += f" with a vote of the network {self.vote}" if self.vote else ""
        return (
            f'Trained with {with_what}, a pack{over} for "{self.phrase}" heard {100 * self.heard:.0f} % ({between}) '
            f"of {self.takes} takes by people at its own threshold."
        )


@cache
def people_record() -> tuple[PeopleHearing, ...]:
    """The record, the pack with the fewest takes of people in training first."""
    rows = msgspec.json.decode(RECORD.read_bytes(), type=list[PeopleHearing])
    return tuple(sorted(rows, key=lambda row: (row.trained_on, row.heard)))


def like(
    rows: Sequence[PeopleHearing], voices: Sequence[str], frontend: str = "", vote: str = ""
) -> tuple[PeopleHearing, ...]:
    """The rows of packs that were made as one is, in their order; all rows where there is none.

    Parameters
    ----------
    rows
        Of a record.
    voices
        Sources of synthetic voices beside espeak-ng, by name, in any order.
    frontend, vote
        Networks of its own front-end and of its vote, by name; empty where it has none.
    """
    made = ({*voices}, frontend, vote)
    alike = tuple(row for row in rows if ({*row.voices}, row.frontend, row.vote) == made)
    return alike or tuple(rows)


def networks_of(manifest: Manifest) -> tuple[str, str]:
    """Names of the networks of a pack's own front-end and of its vote; a vote without a network has its model's."""
    own, vote = manifest.task.frontend.network, manifest.vote
    if vote is UNSET:
        return ("" if own is UNSET else own.name), ""
    network = vote.frontend.network
    return ("" if own is UNSET else own.name), (vote.model if network is UNSET else network.name)
