"""Which clips have to go: the oldest of the least valuable, and those past their age."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from auricle_edge.clips.record import VALUE, WORDLESS, Clip
from auricle_edge.clips.settings import ClipSettings

DAY = 86_400.0


def aged(clips: Sequence[Clip], settings: ClipSettings, now: float) -> list[Clip]:
    """Clips past their age: held-out ones too, for the age is a promise to whoever speaks."""
    longest = settings.days * DAY if settings.days is not None else float("inf")
    limits = dict.fromkeys(WORDLESS, min(longest, settings.unlabelled_days * DAY))
    return [c for c in clips if now - c.record.created > limits.get(c.record.source, longest)]


def surplus(clips: Sequence[Clip], new: Clip, settings: ClipSettings) -> set[str] | None:
    """Ids of the clips that a new one displaces; None: they are all worth more than it.

    Damaged clips go first, then by source from the least valuable, then the oldest; the new one counts as the youngest,
    whatever the clock says. A label's held-out clips stay while it has no more than `held_out_least` of them.

    Parameters
    ----------
    clips
        All that are kept.
    new
        The one that comes.
    """
    limit = int(settings.megabytes * 1e6)
    total = new.bytes + sum(clip.bytes for clip in clips)
    of_label = Counter(clip.record.word for clip in (*clips, new))
    held = Counter(clip.record.word for clip in clips if clip.record.held_out)
    gone: set[str] = set()
    for clip in sorted(clips, key=_worth):
        word = clip.record.word
        if total <= limit and (word != new.record.word or of_label[word] <= settings.clips_per_label):
            continue
        if clip.record.held_out and not clip.damaged and held[word] <= settings.held_out_least:
            continue
        if not clip.damaged and VALUE.index(clip.record.source) > VALUE.index(new.record.source):
            return None
        gone.add(clip.id)
        total -= clip.bytes
        of_label[word] -= 1
        held[word] -= clip.record.held_out
    return None if total > limit or of_label[new.record.word] > settings.clips_per_label else gone


def _worth(clip: Clip) -> tuple[bool, int, float, str]:
    return (not clip.damaged, VALUE.index(clip.record.source), clip.record.created, clip.id)
