"""Which clips are never trained on: drawn once, when a clip comes, label by label."""

from __future__ import annotations

from collections.abc import Sequence

from auricle.packs.manifest import SILENCE
from auricle_edge.clips.record import JUDGING, Clip, Source


def holds_out(clips: Sequence[Clip], word: str | None, source: Source, share: float, drawn: float) -> bool:
    """Whether a new clip is held out.

    With n clips of its label of which h are held out, the chance is share (n + 1) - h, cut to 0..1: the held-out part
    stays within one clip of its share or comes back to it, and nobody can tell which clip is next. The first clip of a
    label that nothing is trained on yet is trained on.

    Parameters
    ----------
    clips
        All that are kept.
    word, source
        Of the new clip; only clips whose label a person gave, or in which nobody speaks, may judge a model.
    share
        Part to hold out, 0 to 0.5.
    drawn
        Uniform in [0, 1).
    """
    if word is None or source not in JUDGING or (source == "ambient" and word != SILENCE):
        return False
    same = [c.record.held_out for c in clips if c.record.word == word and c.record.source in JUDGING]
    if not same or all(same):
        return False
    return drawn < share * (len(same) + 1) - sum(same)
