"""Which speakers of a source of voices train, which validate, and which judge.

Of the speakers of a source every ninth judges and every ninth validates: a take that judges is by nobody, and by no
mixture of anybody, who was trained on. A source of fewer than nine speakers trains alone.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from auricle.hearing.splits import PARTS, Part
from auricle_export.voices.interface import VoiceSource

NINTH = 9
VALIDATES, JUDGES = 4, 8
"""Which of nine speakers validates, and which judges."""

Groups = Mapping[Part, Sequence[str]]
"""Speakers by part."""


def parts_of(speakers: Sequence[str]) -> dict[Part, tuple[str, ...]]:
    """Who trains, validates and judges; who is alike stands side by side."""
    if len(speakers) < NINTH:
        return {"train": tuple(speakers), "validation": (), "test": ()}
    groups: dict[Part, list[str]] = {part: [] for part in PARTS}
    for place, name in enumerate(speakers):
        turn = place % NINTH
        groups["validation" if turn == VALIDATES else "test" if turn == JUDGES else "train"].append(name)
    return {part: tuple(names) for part, names in groups.items()}


def speakers_for(source: VoiceSource, language: str, own: str, groups: Groups, part: Part) -> tuple[str, ...]:
    """Who of one part may say a text of a language.

    Parameters
    ----------
    source
        Whose speakers they are.
    language
        Of the text, as the source names it.
    own
        The language that `groups` divides the speakers of: its texts are said by those of the part.
    groups
        As `parts_of` gives them.
    part
        Which. In another language whoever speaks it speaks, but nobody of another part.

    Returns
    -------
    tuple[str, ...]
        Empty where nobody of the part speaks the language.
    """
    if language == own:
        return tuple(groups[part])
    others = {name for other, names in groups.items() if other != part for name in names}
    return tuple(name for name in source.speakers(language) if name not in others)
