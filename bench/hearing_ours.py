"""A process that listens with a pack as a device does: posteriors of whole files, then seconds of sound one by one."""

from __future__ import annotations

from functools import partial

import numpy as np
from numpy.typing import NDArray

from auricle.checks.onnx_network import frontend_of
from auricle.hearing.rule import keyword_mask
from auricle.packs.pack import load_pack
from auricle_edge.evaluate.listeners import listeners_of, rule_of, thresholds_of
from auricle_edge.evaluate.windows import judge_windows, waiting_levels
from auricle_edge.listening.detect import Detector, DetectTable, detect_settings
from auricle_edge.listening.sound import RATE, Block
from auricle_edge.runtimes import choose_runtime
from auricle_edge.runtimes.choice import vote_runtime
from bench.hearing_told import PackFacts, PackTold, write_scores
from bench.step_worker import Step, serve

_BLOCK = RATE // 10


class Live:
    """A recording (samples,) heard by the detector second by second, round and round."""

    def __init__(self, detector: Detector, samples: NDArray[np.int16]) -> None:
        self._detector = detector
        self._blocks = samples[: len(samples) // _BLOCK * _BLOCK].reshape(-1, _BLOCK)
        self._heard = 0

    def second(self) -> float:
        """Hear one more second; how many detections there were."""
        found = 0
        for _ in range(RATE // _BLOCK):
            block = self._blocks[self._heard % len(self._blocks)]
            start = self._heard * _BLOCK
            found += len(self._detector.feed(Block(block, start, (start + _BLOCK) / RATE)))
            self._heard += 1
        return found


def make(spec: PackTold) -> tuple[Step, PackFacts]:
    """Hear every file; the step that hears a second of the timed one, and how the pack is listened with."""
    pack = load_pack(spec["pack"])
    settings = detect_settings(DetectTable(), pack)
    frontend, labels = frontend_of(pack), pack.labels
    runtime = choose_runtime("auto", pack, training=False).runtime
    (listener,) = listeners_of((), pack, lambda: runtime, partial(vote_runtime, runtime, 1))
    votes = 0 if listener.vote is None else listener.vote.weights
    wake = () if pack.listening is None else pack.listening.wake
    names = wake or [label for label, word in zip(labels, keyword_mask(labels), strict=True) if word]
    columns = [labels.index(name) for name in wake or labels]
    waiting = waiting_levels(labels, settings)
    for sound, scores in zip(spec["sounds"], spec["scores"], strict=True):
        samples = np.fromfile(sound, "<i2")
        said = judge_windows(samples, frontend, [listener.recognise], settings, len(labels), [listener.vote])[0]
        found = said.counted(waiting, settings.smoothing)
        write_scores(scores, found[:, columns])
    levels, rule = thresholds_of(labels, settings), rule_of(settings)
    facts: PackFacts = {
        "labels": [labels[column] for column in columns],
        "thresholds": {name: levels[name] for name in names},
        "alone": list(wake),
        "hop": rule.hop,
        "smoothing": rule.smoothing,
        "patience": rule.patience,
        "weights": {"": listener.weights + listener.second_weights + votes},
        "bytes": np.dtype(np.float32).itemsize * (listener.weights + listener.second_weights + votes),
    }
    detector = Detector(frontend, labels, listener.recognise, settings, vote=listener.vote)
    return Live(detector, np.fromfile(spec["timed"], "<i2", 60 * RATE)).second, facts


if __name__ == "__main__":
    serve(make)
