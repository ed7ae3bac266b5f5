"""What is wrong with a microphone, and what to do about it: each in one sentence."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from auricle.process.checkup import Finding, Verdict, finding
from auricle_edge.listening.capture.levels import Levels
from auricle_edge.listening.listening_status import CaptureState

QUIET_DBFS = -65.0
"""dBFS: a microphone in a room hears more than this."""
LOUD_SHARE = 0.001
"""Share of samples at full scale from which speech is distorted."""
NOISY_DBFS = -40.0
"""dBFS of the quietest moments from which words at some distance do not stand out."""
OFFSET_SHARE = 0.02
"""Share of full scale from which an offset costs room for the sound."""
HUMS_SHARE = 0.5
"""Share of a quiet second that is hum from which it is told."""
HEARD_DBFS = -60.0
"""dBFS of the quietest moments below which hum disturbs nobody."""


def level(samples: NDArray[np.int16]) -> tuple[Verdict, str]:
    """How loud samples (n,) are."""
    if not len(samples) or not samples.any():
        return "bad", "The microphone gives nothing but zeros: it is muted, or not the one that is plugged in."
    return loudness(float(20 * np.log10(np.sqrt(np.mean(np.square(samples, dtype=np.float64))) / 32768 + 1e-9)))


def loudness(dbfs: float) -> tuple[Verdict, str]:
    """Whether a level is that of a room."""
    sentence = f"The sound is at {dbfs:.0f} dBFS."
    if dbfs < QUIET_DBFS:
        return "doubtful", f"{sentence} That is quieter than a room: raise the capture level with alsamixer."
    return "good", sentence


def clipping(samples: NDArray[np.int16]) -> tuple[Verdict, str]:
    """How much of samples (n,) is cut off."""
    return judge_clipping(float(np.mean(np.abs(samples.astype(np.int32)) >= 32767)))


def judge_clipping(share: float) -> tuple[Verdict, str]:
    """Whether a share of samples at full scale is too much."""
    sentence = f"{share:.2%} of the samples are at full scale."
    if share > LOUD_SHARE:
        return "doubtful", f"{sentence} Speech is distorted: lower the capture level with alsamixer."
    return "good", sentence


def noise(floor: float) -> tuple[Verdict, str]:
    """Whether the quietest moments are quiet."""
    sentence = f"Its quietest moments are at {floor:.0f} dBFS."
    if floor > NOISY_DBFS:
        return "doubtful", (
            f"{sentence} Words at some distance do not stand out: move it away from fans and loudspeakers, or lower "
            "the capture level with alsamixer if the room is quiet."
        )
    return "good", sentence


def offset(share: float) -> tuple[Verdict, str]:
    """Whether the samples have a constant offset."""
    sentence = f"The samples have an offset of {abs(share):.1%} of full scale."
    if abs(share) > OFFSET_SHARE:
        return "doubtful", (
            f"{sentence} It leaves less room for loud words: try another sound card or input. high_pass in [capture] "
            "keeps it from what is listened to."
        )
    return "good", sentence


def hum(share: float, mains: int, floor: float) -> tuple[Verdict, str]:
    """Whether the mains can be heard."""
    sentence = f"{share:.0%} of its quietest second is hum of {mains} Hz mains."
    if share > HUMS_SHARE and floor > HEARD_DBFS:
        return "doubtful", (
            f"{sentence} Use another power supply or a shorter cable, keep it away from mains leads, "
            "or set high_pass = 80 in [capture]."
        )
    return "good", sentence


def examine_channels(problem: str | None, note: str | None) -> list[Finding]:
    """What the capture itself says of sound that comes: another pace than its rate, or channels to choose from."""
    told: tuple[tuple[str, Verdict, str | None], ...] = (("pace", "bad", problem), ("channels", "doubtful", note))
    return [Finding(check=name, verdict=verdict, sentence=said) for name, verdict, said in told if said is not None]


def examine_levels(levels: Levels) -> list[Finding]:
    """Noise, offset and hum; nothing before a second was heard."""
    floor, share = levels.noise_floor_dbfs, levels.dc_offset
    if floor is None or share is None or levels.hum_share is None or levels.hum_hz is None:
        return []
    hums, mains = levels.hum_share, levels.hum_hz
    return [
        finding("noise", lambda: noise(floor)),
        finding("offset", lambda: offset(share)),
        finding("hum", lambda: hum(hums, mains, floor)),
    ]


def examine_state(state: CaptureState) -> list[Finding]:
    """The same of a microphone that somebody else listens to, with its level and clipping."""
    found = [] if state.level_dbfs is None else [finding("level", lambda: loudness(state.level_dbfs or 0.0))]
    found.append(finding("clipping", lambda: judge_clipping(state.clipping)))
    levels = Levels(state.noise_floor_dbfs, state.dc_offset, state.hum_share, state.hum_hz)
    return found + examine_levels(levels) + examine_channels(state.problem, state.note)
