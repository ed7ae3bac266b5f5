"""What may be set about labels: table `[labels]`."""

from __future__ import annotations

from typing import Annotated

import msgspec
from msgspec import Meta

Weight = Annotated[float, Meta(ge=0, le=1)]
Decibels = Annotated[float, Meta(ge=-120, le=0)]


class LabelSettings(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """How long a person may answer, what the device labels by itself, and what each label weighs in training."""

    confirm_seconds: Annotated[float, Meta(gt=0, le=600)] = 15.0
    """Seconds after a detection in which it can be confirmed or denied."""
    missed_seconds: Annotated[float, Meta(ge=1, le=60)] = 5.0
    """Seconds before "missed" in which the word is looked for."""
    missed_word: str | None = None
    """The word that "missed" means where none is named: that of a button."""
    pseudo: bool = True
    """Keep detections that nobody denied, and windows of speech, of whose word the model is sure."""
    pseudo_threshold: Annotated[float, Meta(gt=0.5, le=1)] = 0.95
    """Posterior from which the model is sure (FixMatch's tau)."""
    ambient_seconds: Annotated[float, Meta(ge=1, le=1e6)] = 600.0
    """Mean seconds between two looks for a negative, at random moments; at least a quarter of it lies between two."""
    automatic_per_hour: Annotated[int, Meta(ge=0, le=3600)] = 12
    """Most clips an hour that the device keeps by itself; 0: none."""
    enrolled_weight: Weight = 1.0
    confirmed_weight: Weight = 1.0
    denied_weight: Weight = 1.0
    missed_weight: Weight = 0.8
    """Less than 1: the word may not be the loudest sound."""
    ambient_weight: Weight = 0.5
    """Half: a word that was not recognised may be in it."""
    pseudo_weight: Weight = 0.5
    """Half: the model's opinion."""
    attempts: Annotated[int, Meta(ge=1, le=10)] = 3
    """Attempts at each take of an enrolment."""
    take_seconds: Annotated[float, Meta(ge=2, le=30)] = 4.0
    """Seconds after the prompt in which a take must be spoken."""
    early_seconds: Annotated[float, Meta(ge=0, le=1)] = 0.1
    """A word that has begun this soon after the prompt was begun before it."""
    quiet_dbfs: Decibels = -36.0
    """Peak level in dB of full scale below which a take is too quiet."""
    clipping: Annotated[float, Meta(ge=0, le=1)] = 0.001
    """Part of a word's samples at full scale above which it is too loud."""
    noise_db: Annotated[float, Meta(ge=0, le=60)] = 12.0
    """Decibels that a word must be above the room."""
    sounds_like: Weight = 0.5
    """Smoothed posterior of the wanted word from which a take is that word."""
    sounds_other: Weight = 0.9
    """Smoothed posterior of another keyword from which takes that agree with each other are refused, too."""
    takes_agree: Annotated[float, Meta(ge=0, le=2)] = 0.7
    """Distance up to which two takes agree: 0 the same sound, about 1 two words with nothing in common."""
    doubts: Annotated[int, Meta(ge=1, le=20)] = 4
    """Most times that a take is asked for again since it did not sound like the word."""
    near_share: Annotated[float, Meta(gt=0, le=1)] = 0.6
    """Share of its threshold from which a keyword was almost heard."""
    near_seconds: Annotated[float, Meta(ge=1, le=60)] = 8.0
    """Seconds after a word was almost heard in which it may be said again; silence denies it."""
    near_per_hour: Annotated[int, Meta(ge=0, le=3600)] = 6
    """Most clips an hour that are kept of words that were almost heard; 0: none."""
    near_weight: Weight = 0.25
    """Of such a clip once a later model has agreed: a quarter, since nobody said what it was."""
