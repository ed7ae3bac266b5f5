"""Settings of keyword detection: what the table `[detect]` may say, and what a detector works with."""

from __future__ import annotations

from typing import Annotated, Literal

import msgspec

from auricle.hearing.proposal import PROPOSAL_SHARE
from auricle.packs.manifest import LevelDrop

Share = Annotated[float, msgspec.Meta(ge=0, le=1)]
Hop = Annotated[float, msgspec.Meta(ge=0.01, le=0.5)]
Windows = Annotated[int, msgspec.Meta(ge=1, le=50)]
Seconds = Annotated[float, msgspec.Meta(ge=0.5, le=30)]
Refractory = Annotated[float, msgspec.Meta(ge=0, le=60)]
Hangover = Annotated[float, msgspec.Meta(ge=0, le=10)]
SecondStage = Literal["auto", "off", "on"]
VoteUse = Literal["auto", "off", "on"]
ANY_DROP = 120.0
"""Decibels from full scale to silence: no command is fainter by more."""


class DeviceSettings(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """What no pack says: it depends on the device and where it stands."""

    second_stage: SecondStage = "auto"
    """Whether the device's own model judges what the plug-in proposes; `auto`: where that is known to be better."""
    vote: VoteUse = "auto"
    """Whether the pack's vote has its share in every posterior; `auto`: where the pack has one."""
    proposal: Share = PROPOSAL_SHARE
    """Share of a keyword's threshold from which the plug-in proposes it to the second stage."""
    follow: bool = True
    """Whether thresholds of the pack move with the model that listens, so that it is as strict as the pack's was."""
    vad: Literal["energy", "silero", "off"] = "energy"
    """What opens the gate: energy above the noise floor, Silero's network, or nothing: every window is judged."""
    vad_margin: Annotated[float, msgspec.Meta(ge=0.1, le=60)] = 6.0
    """Decibels, averaged over the mel bands, by which speech stands out from the noise floor (`energy`)."""
    vad_memory: Annotated[float, msgspec.Meta(ge=1, le=60)] = 8.0
    """Seconds in which the noise floor is looked for (`energy`)."""
    vad_probability: Share = 0.5
    """Probability from which Silero's network hears speech (`silero`)."""
    ring: Annotated[float, msgspec.Meta(ge=2, le=120)] = 12.0
    """Seconds of sound that are kept in memory."""


class DetectSettings(DeviceSettings, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """How windows are judged and when a keyword counts as heard: what a detector works with."""

    refractory: Refractory = 1.0
    """Seconds after a keyword in which it cannot be heard again."""
    hangover: Hangover = 1.0
    """Seconds for which the gate stays open after the last speech."""
    hop: Hop = 0.1
    """Seconds from one judged window to the next; a multiple of the front-end's hop."""
    smoothing: Windows = 3
    """Windows whose posteriors are averaged."""
    patience: Windows = 2
    """Windows in a row whose average must reach the threshold."""
    threshold: Share = 0.8
    """Smoothed posterior from which a keyword counts."""
    thresholds: dict[str, Share] = {}
    """The same for single keywords."""
    wake: tuple[str, ...] = ()
    """Wake words: only these count while the device waits. Empty: every keyword always counts."""
    window: Seconds = 3.0
    """Seconds after a wake word in which all other keywords, the commands, count."""
    commands: dict[str, Share] = {}
    """Thresholds of single commands in that time; the others keep their usual ones."""
    command_drop: LevelDrop = ANY_DROP
    """Decibels by which a command may be fainter than its wake word; with each further one its threshold is higher."""


class DetectTable(DeviceSettings, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """The table `[detect]`: None where the pack decides (`detect_settings`)."""

    refractory: Refractory | None = None
    """None: as long as the pack's window, and at least a second; so is `hangover`."""
    hangover: Hangover | None = None
    hop: Hop | None = None
    smoothing: Windows | None = None
    patience: Windows | None = None
    threshold: Share | None = None
    """For every keyword without one in `thresholds`; the pack's thresholds then count no more."""
    thresholds: dict[str, Share] = {}
    wake: tuple[str, ...] | None = None
    window: Seconds | None = None
    commands: dict[str, Share] = {}
    command_drop: LevelDrop | None = None
