"""What a report takes from the microphone: the one place that knows the capture's state."""

from __future__ import annotations

from dataclasses import dataclass

from auricle_edge.listening.capture.state import CaptureState


@dataclass(frozen=True)
class Reading:
    """A moment of the microphone."""

    level: float | None
    """dB of full scale; None while no sound comes."""
    full_scale: float
    """Share of samples at full scale."""
    noise: float | None = None
    """Noise floor in dB of full scale; None while no sound comes."""
    offset: float | None = None
    """Mean of the samples, of full scale; None while no sound comes."""


def reading_of(state: CaptureState) -> Reading:
    """What the capture says now."""
    hears = state.running and not state.muted
    if not hears:
        return Reading(level=None, full_scale=state.clipping)
    return Reading(state.level_dbfs, state.clipping, noise=state.noise_floor_dbfs, offset=state.dc_offset)
