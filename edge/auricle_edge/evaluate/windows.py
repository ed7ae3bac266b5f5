"""What models say of a recording hop by hop, all windows at once: the detector's own front-end, gate and order."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import msgspec
import numpy as np
from numpy.typing import NDArray

from auricle.hearing.proposal import PROPOSAL_SHARE
from auricle.hearing.second_stage import Levels, cascade, levels_of, proposals
from auricle.hearing.vote import add_vote
from auricle.speech.features import Energies, LogMel
from auricle_edge.listening.detect.hops import hop_frames
from auricle_edge.listening.detect.recognisers import Cascade, Posteriors, Recognise
from auricle_edge.listening.detect.rules import make_rules
from auricle_edge.listening.detect.settings import DetectSettings
from auricle_edge.listening.detect.voice import make_gate
from auricle_edge.listening.detect.vote import Voter

Heard = tuple[Posteriors, NDArray[np.bool_]]
_AT_ONCE = 256
"""Windows that are finished and recognised together: 4 MB of features."""


@dataclass(frozen=True, eq=False)
class Said:
    """What is said of every window of a recording: by one model or a mean of several, or by both stages of two."""

    first: Posteriors
    """(hops, L); 0 where the gate was closed."""
    second: Posteriors | None = None
    """The same by the second stage, of all windows; None without one."""
    share: float = PROPOSAL_SHARE
    """Share of its threshold from which a keyword is proposed."""

    def counted(self, levels: Levels, smoothing: int) -> Posteriors:
        """The posteriors (hops, L) that count on a device with these thresholds (L,), infinite for what does not."""
        if self.second is None:
            return self.first
        return cascade(self.first, self.second, levels, smoothing, self.share)

    def proposed(self, levels: Levels, smoothing: int) -> NDArray[np.bool_]:
        """Which windows (hops,) the second stage judges on such a device."""
        if self.second is None:
            return np.zeros(len(self.first), np.bool_)
        return proposals(self.first, self.second, levels, smoothing, self.share)


def waiting_levels(labels: Sequence[str], settings: DetectSettings) -> Levels:
    """Thresholds (L,) while a device waits: of the wake words, or of every keyword where there are none."""
    rule = make_rules(labels, settings).waiting
    return levels_of(labels, {label: rule.thresholds[i] for i, label in enumerate(labels) if rule.active[i]})


def judge_windows(
    samples: NDArray[np.int16],
    frontend: LogMel,
    recognisers: Sequence[Recognise],
    settings: DetectSettings,
    labels: int,
    votes: Sequence[Voter | None] = (),
) -> list[Said]:
    """What each recogniser, each stage for itself, says of every window of a recording.

    The same as a `Detector` has for each hop before it averages, but for the last bits, since windows are recognised
    together: `read_posteriors` does it one by one. A model that is part of several recognisers runs once.

    Parameters
    ----------
    samples
        (S,) at 16 kHz; what does not fill a hop at the end is left out.
    frontend, settings
        As in `Detector`.
    recognisers
        Any number; the energies and the gate are computed once for all. A `Cascade` counts as its two stages.
    labels
        How many.
    votes
        For each recogniser what has a share in its posteriors, those of the first stage of a `Cascade`; empty: nothing.

    Raises
    ------
    SettingsError
        The hop is not a multiple of the front-end's, or longer than a clip.
    """
    models = list(dict.fromkeys(model for recognise in recognisers for model in _stages(recognise)))
    judged, made = _rows(samples, frontend, models, settings, labels)
    rows = dict(zip(models, made, strict=True))
    said = [
        Said(rows[each.first], rows[each.second], each.share) if isinstance(each, Cascade) else Said(rows[each])
        for each in recognisers
    ]
    if not any(votes):
        return said
    ends, heard = (judged + 1) * round(settings.hop * frontend.task.sample_rate), dict[Recognise, Heard]()
    for vote in votes:
        if vote is not None and vote.recognise not in heard:
            heard[vote.recognise] = vote.windows(samples, ends)
    return [
        each if vote is None else _add_vote(each, judged, *heard[vote.recognise], vote.share)
        for each, vote in zip(said, votes, strict=True)
    ]


def _add_vote(said: Said, judged: NDArray[np.int64], vote: Posteriors, whole: NDArray[np.bool_], share: float) -> Said:
    """The same with a vote: its posteriors (N, L) at the judged hops (N,), of which those count that are whole (N,)."""
    counted = judged[whole]
    first: Posteriors = np.zeros_like(said.first)
    first[counted] = add_vote(said.first[counted], vote[whole], share)
    if said.second is None:
        return Said(first)
    second: Posteriors = np.zeros_like(said.second)
    second[counted] = said.second[counted]
    return Said(first, second, said.share)


def _stages(recognise: Recognise) -> tuple[Recognise, ...]:
    return (recognise.first, recognise.second) if isinstance(recognise, Cascade) else (recognise,)


def _rows(
    samples: NDArray[np.int16],
    frontend: LogMel,
    models: Sequence[Recognise],
    settings: DetectSettings,
    labels: int,
) -> tuple[NDArray[np.int64], list[Posteriors]]:
    """The hops (N,) that are judged, and posteriors (hops, labels) by each model; 0 where the gate was closed."""
    task = frontend.task
    frames = hop_frames(settings.hop, task)
    hop = frames * task.frontend.hop
    if len(samples) < hop:
        return np.zeros(0, np.int64), [np.zeros((0, labels), np.float32) for _ in models]
    energies = _energies(samples, frontend, frames)
    judged = _judged_hops(samples, energies, hop, settings, frontend)
    before = np.zeros((task.frames - frames, task.frontend.mels), np.float32)
    stream = np.concatenate((before, energies.reshape(-1, task.frontend.mels)))
    found = [np.zeros((len(energies), labels), np.float32) for _ in models]
    for start in range(0, len(judged), _AT_ONCE):
        places = judged[start : start + _AT_ONCE]
        features = frontend.windows(stream, places * frames)
        for recognise, rows in zip(models, found, strict=True):
            rows[places] = recognise(features)
    return judged, found


def _energies(samples: NDArray[np.int16], frontend: LogMel, frames: int) -> Energies:
    """Mel energies (hops, frames, mels): each hop's frames, of which the last ends with the hop."""
    task = frontend.task
    hop = frames * task.frontend.hop
    span = hop - task.frontend.hop + task.frontend.window
    hops = len(samples) // hop
    of_hop = LogMel(msgspec.structs.replace(task, frames=frames, clip_samples=span))
    padded = np.pad(samples[: hops * hop], (span - hop, 0))
    under = np.lib.stride_tricks.sliding_window_view(padded, span)[::hop]
    return np.concatenate([of_hop.energies(under[i : i + _AT_ONCE]) for i in range(0, hops, _AT_ONCE)])


def _judged_hops(
    samples: NDArray[np.int16], energies: Energies, hop: int, settings: DetectSettings, frontend: LogMel
) -> NDArray[np.int64]:
    """The hops in which the gate is open and a whole window was heard."""
    task = frontend.task
    gate = make_gate(settings, task.frontend.floor)
    is_open = np.array([gate.hear(samples[i * hop : (i + 1) * hop], rows) for i, rows in enumerate(energies)], np.bool_)
    heard = (np.arange(len(energies)) + 1) * hop
    return np.flatnonzero(is_open & (heard >= task.frames * task.frontend.hop))
