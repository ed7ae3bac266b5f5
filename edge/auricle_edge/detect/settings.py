"""Settings of keyword detection: the table `[detect]`."""

from __future__ import annotations

from typing import Annotated, Literal

import msgspec

Share = Annotated[float, msgspec.Meta(ge=0, le=1)]


class DetectSettings(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """How windows are judged and when a keyword counts as heard."""

    hop: Annotated[float, msgspec.Meta(ge=0.01, le=0.5)] = 0.1
    """Seconds from one judged window to the next; a multiple of the front-end's hop."""
    smoothing: Annotated[int, msgspec.Meta(ge=1, le=50)] = 3
    """Windows whose posteriors are averaged."""
    patience: Annotated[int, msgspec.Meta(ge=1, le=50)] = 2
    """Windows in a row whose average must reach the threshold."""
    threshold: Share = 0.8
    """Smoothed posterior from which a keyword counts."""
    thresholds: dict[str, Share] = {}
    """The same for single keywords."""
    refractory: Annotated[float, msgspec.Meta(ge=0, le=60)] = 1.0
    """Seconds after a keyword in which it cannot be heard again."""
    vad: Literal["energy", "silero", "off"] = "energy"
    """What opens the gate: energy above the noise floor, Silero's network, or nothing: every window is judged."""
    vad_margin: Annotated[float, msgspec.Meta(ge=0.1, le=60)] = 6.0
    """Decibels, averaged over the mel bands, by which speech stands out from the noise floor (`energy`)."""
    vad_memory: Annotated[float, msgspec.Meta(ge=1, le=60)] = 8.0
    """Seconds in which the noise floor is looked for (`energy`)."""
    vad_probability: Share = 0.5
    """Probability from which Silero's network hears speech (`silero`)."""
    hangover: Annotated[float, msgspec.Meta(ge=0, le=10)] = 1.0
    """Seconds for which the gate stays open after the last speech."""
    ring: Annotated[float, msgspec.Meta(ge=2, le=120)] = 12.0
    """Seconds of sound that are kept in memory."""
