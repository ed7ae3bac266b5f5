"""Sound kept as mel energies, played to a model by the detector's own rule: window by window, hop by hop."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Sequence

import msgspec
import numpy as np
from numpy.typing import NDArray

from auricle.errors import SettingsError
from auricle.hearing.rule import Rule, detect
from auricle.speech.features import Energies, LogMel
from auricle.speech.quantiles import quantiles
from auricle_edge.listening.detect.decision import Decider
from auricle_edge.listening.detect.recognisers import Posteriors, Recognise
from auricle_edge.listening.detect.rules import make_rules
from auricle_edge.listening.detect.settings import DetectSettings
from auricle_edge.listening.detect.voice import make_gate
from auricle_learning.runtimes.interface import EVALUATION_BATCH
from auricle_learning.training.carried import Sound, part_of

Hops = NDArray[np.int64]
NOTHING = np.zeros(0, np.int16)


def detections(
    posteriors: Posteriors, labels: Sequence[str], settings: DetectSettings, *, awake: bool = False
) -> list[tuple[int, int]]:
    """What is heard in a stream, as pairs of hop and label: while the device waits, wake words only where it has some.

    Parameters
    ----------
    posteriors
        (hops, L); 0 where nothing was judged, because the gate was closed or no whole window had come.
    awake
        Whether a wake word was heard before the stream and its window does not end in it: what matters is commands.
    """
    if awake:
        decider = Decider(labels, settings)
        decided = ((hop, decider.step(row, awake=True)) for hop, row in enumerate(posteriors))
        return [(hop, decision[0]) for hop, decision in decided if decision is not None]
    waiting = make_rules(labels, settings).waiting
    columns = np.flatnonzero(waiting.active)
    rule = Rule(settings.hop, settings.smoothing, settings.patience, settings.refractory)
    words = [labels[column] for column in columns.tolist()]
    found = detect(posteriors[:, columns], words, waiting.thresholds[None, columns], rule)
    return list(zip(found.hop.tolist(), columns[found.label].tolist(), strict=True))


class Streams:
    """Stretches of sound that are not connected, as the detector sees them.

    Parameters
    ----------
    frontend
        The pack's.
    labels
        The pack's L labels.
    settings
        The detector's. A gate of Silero's network, which needs the sound itself, is taken as open.
    stretches
        Mel energies (frames, mels) of each, which are taken from it when they are looked at.
    gated
        Whether the detector's gate is asked; without, it is open.

    Raises
    ------
    SettingsError
        The hop is not a multiple of the front-end's, or longer than a clip.
    """

    def __init__(
        self,
        frontend: LogMel,
        labels: Sequence[str],
        settings: DetectSettings,
        stretches: Sequence[Sound],
        *,
        gated: bool = True,
    ) -> None:
        task = frontend.task
        self.frames = round(settings.hop * task.sample_rate / task.frontend.hop)
        if not 1 <= self.frames <= task.frames:
            raise SettingsError(f"hop = {settings.hop} in [detect] must be at least a frame and at most a clip.")
        self._frontend, self._labels, self._settings = frontend, tuple(labels), settings
        self.stretches = list(stretches)
        vad = settings.vad if gated and settings.vad == "energy" else "off"
        self._gate_settings = msgspec.structs.replace(settings, vad=vad)
        self._judged = [self._windows(stretch[:]) for stretch in self.stretches]
        self.digest = self._digest(gated)
        """Of the sound and of everything that decides what is heard in it, but for the model."""

    def __len__(self) -> int:
        return len(self.stretches)

    @property
    def hours(self) -> float:
        """How long they are together, in whole hops."""
        return sum(len(judged) for judged in self._judged) * self._settings.hop / 3600

    def heard(self, recognise: Recognise, awake: Sequence[bool] = ()) -> Iterator[list[tuple[int, int]]]:
        """Detections in each stretch, as pairs of hop and label.

        Parameters
        ----------
        awake
            For each stretch whether it comes just after a wake word, so that commands count in it; empty: none does.
        """
        states = awake or [False] * len(self.stretches)
        for posteriors, state in zip(self.posteriors(recognise), states, strict=True):
            yield detections(posteriors, self._labels, self._settings, awake=state)

    def posteriors(self, recognise: Recognise) -> Iterator[Posteriors]:
        """(hops, L) of each stretch, as the detector would come to them; 0 where it judges nothing."""
        for stretch, judged in zip(self.stretches, self._judged, strict=True):
            yield self._posteriors(recognise, stretch[:], np.flatnonzero(judged), len(judged))

    def seconds(self) -> list[int]:
        """Seconds of each stretch; the last may be a part of one."""
        return [int(np.ceil(len(judged) * self._settings.hop - 1e-9)) for judged in self._judged]

    def second_of(self, hop: int) -> int:
        """The second of a stretch in which a hop, counted from 0, lies."""
        return int(hop * self._settings.hop + 1e-9)

    def _windows(self, stretch: Energies) -> NDArray[np.bool_]:
        """Which hops the detector judges: from the first whole window on, while its gate is open."""
        gate = make_gate(self._gate_settings, self._frontend.task.frontend.floor)
        hops = stretch[: len(stretch) // self.frames * self.frames].reshape(-1, self.frames, stretch.shape[1])
        is_open = np.array([gate.hear(NOTHING, hop) for hop in hops], np.bool_)
        ends = (np.arange(len(hops)) + 1) * self.frames
        judged: NDArray[np.bool_] = is_open & (ends >= self._frontend.task.frames)
        return judged

    def _posteriors(self, recognise: Recognise, stretch: Energies, judged: Hops, hops: int) -> Posteriors:
        """(hops, L), 0 where nothing was judged; windows are made in pieces and not kept."""
        found = np.zeros((hops, len(self._labels)), np.float32)
        for at in range(0, len(judged), EVALUATION_BATCH):
            piece = judged[at : at + EVALUATION_BATCH]
            first = (piece + 1) * self.frames - self._frontend.task.frames
            found[piece] = recognise(self._frontend.windows(stretch, first))
        return found

    def _digest(self, gated: bool) -> str:
        task = self._frontend.task
        made = hashlib.sha256(msgspec.json.encode((self._labels, self._settings, gated, task.frames, task.frontend)))
        for stretch in self.stretches:
            made.update(len(stretch).to_bytes(8, "little"))
            made.update(np.ascontiguousarray(stretch[:], np.float32).data)
        return made.hexdigest()


def join(clips: Energies) -> list[Energies]:
    """Clips (N, T, mels), one after the other, as one stretch; none where there are none."""
    return [clips.reshape(-1, clips.shape[2])] if len(clips) else []


def in_quiet(clips: Energies, frames: int) -> list[Energies]:
    """Each clip (T, mels) between so many frames of its own quiet: the energy that a tenth of its frames stay under."""
    quiet = quantiles(clips.swapaxes(0, 1), 0.1).astype(np.float32)
    around = [np.repeat(row[None], frames, axis=0) for row in quiet]
    return [np.concatenate((before, clip, before)) for before, clip in zip(around, clips, strict=True)]


def first_part(stretches: Sequence[Sound], frames: int, least: int) -> list[Sound]:
    """Of each stretch its first part, so that all are about so many frames together; none shorter than `least`."""
    total = sum(map(len, stretches))
    share = min(1.0, frames / total) if total else 1.0
    return [part_of(stretch, slice(max(least, round(share * len(stretch))))) for stretch in stretches]
