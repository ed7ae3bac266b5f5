"""How much a device keeps of its clips: the table `[clips]`, which are never trained on, and which have to go."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated, Literal

import msgspec
from msgspec import Meta

from auricle.packs.manifest import SILENCE
from auricle_edge.clips.record import JUDGING, WORDLESS, Clip, Record, Source, value


class ClipSettings(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """How much is kept, in what form, and what of it is trained on."""

    keep: Literal["audio", "features"] = "audio"
    """`features`: mel energies only, for devices that must not keep sound. Such clips cannot be played."""
    key_file: str | None = None
    """Encrypt clips and labels with the key in this file; drawn when the store is made and there is none yet."""
    megabytes: Annotated[float, Meta(ge=0.25, le=1 << 20)] = 64.0
    """Most megabytes (10^6 bytes) of clips, and of what a network made of them, which goes first; then the least
    valuable and then the oldest clips."""
    days: Annotated[float, Meta(gt=0, le=36_500)] | None = 180.0
    """Most days that a clip is kept, whatever it is; None: no limit."""
    unlabelled_days: Annotated[float, Meta(gt=0, le=36_500)] = 2.0
    """Most days that a clip without a label waits for a model that is sure of it."""
    clips_per_label: Annotated[int, Meta(ge=10, le=100_000)] = 200
    """Most clips of one label; `unlabelled` counts as a label."""
    held_out: Annotated[float, Meta(ge=0, le=0.5)] = 0.2
    """Part of each label's clips that is never trained on."""
    held_out_least: Annotated[int, Meta(ge=0, le=1000)] = 5
    """No quota takes a label's held-out clips below this count."""
    training_clips: Annotated[int, Meta(ge=1, le=100_000)] = 500
    """Most clips that a round trains on; bounds its memory: 32 kB a clip."""
    largest_boost: Annotated[float, Meta(ge=1, le=100)] = 4.0
    """Most by which the clips of a rare label are weighted up."""
    patience: Annotated[float, Meta(gt=0, le=600)] = 10.0
    """Seconds to wait for another process that uses the store."""


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


DAY_SECONDS = 86_400.0


def past_age(clips: Sequence[Clip], settings: ClipSettings, now: float) -> list[Clip]:
    """Clips past their age: held-out ones too, for the age is a promise to whoever speaks."""
    longest = settings.days * DAY_SECONDS if settings.days is not None else float("inf")
    limits = dict.fromkeys(WORDLESS, min(longest, settings.unlabelled_days * DAY_SECONDS))
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
        if not clip.damaged and value(clip.record.source) > value(new.record.source):
            return None
        gone.add(clip.id)
        total -= clip.bytes
        of_label[word] -= 1
        held[word] -= clip.record.held_out
    return None if total > limit or of_label[new.record.word] > settings.clips_per_label else gone


def _worth(clip: Clip) -> tuple[bool, int, float, str]:
    return (not clip.damaged, value(clip.record.source), clip.record.created, clip.id)


SANE = 1_735_689_600.0
"""2025-01-01: a clock that is behind it was never set."""
JUMP_SECONDS = 86_400.0
"""Seconds: more than that between two looks, or back by a minute, is a jump (or the device was off)."""
STEADY_SECONDS = 3_600.0
"""Seconds without a jump after which clips may be deleted for their age."""


@dataclass(frozen=True)
class Clock:
    """What the store has seen of the clock."""

    seen: float
    """`time.time()` when it last looked."""
    since: float
    """Since when it goes on without a jump."""

    def looked(self, now: float) -> Clock:
        """The next look."""
        jumped = now < self.seen - 60 or now - self.seen > JUMP_SECONDS
        return Clock(now, now if jumped else self.since)

    @property
    def steady(self) -> bool:
        """Whether ages may be believed."""
        return self.seen > SANE and self.seen - self.since >= STEADY_SECONDS


def has_wrong_date(record: Record, now: float) -> bool:
    """Whether a clip was dated by a clock that was wrong: before 2025, or in the future."""
    return now > SANE and not SANE <= record.created <= now + JUMP_SECONDS
