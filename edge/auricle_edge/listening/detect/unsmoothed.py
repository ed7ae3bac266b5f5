"""What a model says of a recording, hop by hop, before anything is averaged: what thresholds are chosen by."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec
import numpy as np
from numpy.typing import NDArray

from auricle.speech.features import LogMel
from auricle_edge.listening.detect.detector import Detector
from auricle_edge.listening.detect.recognisers import Posteriors, Recognise
from auricle_edge.listening.detect.settings import DetectSettings
from auricle_edge.listening.sound import RATE, Block


def unsmoothed(
    samples: NDArray[np.int16], frontend: LogMel, labels: Sequence[str], recognise: Recognise, settings: DetectSettings
) -> Posteriors:
    """Posteriors (hops, L) of a recording, as the detector would come to them; 0 where it judged nothing.

    Parameters
    ----------
    samples
        (S,) at 16 kHz.
    frontend, labels, recognise, settings
        As in `Detector`, and its errors.
    """
    plain = msgspec.structs.replace(settings, smoothing=1, patience=1)
    detector, hop = Detector(frontend, labels, recognise, plain), round(settings.hop * RATE)
    found = np.zeros((len(samples) // hop, len(labels)), np.float32)
    for number in range(len(found)):
        start = number * hop
        detector.feed(Block(samples[start : start + hop], start, (start + hop) / RATE))
        found[number] = list(detector.posteriors.values())
    return found
