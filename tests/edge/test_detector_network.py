"""A detector over a frozen network: hop by hop it sees what the front-end makes of whole windows."""

from __future__ import annotations

import numpy as np
import pytest

pytest.importorskip("torch")

from tests.export.frozen_toy import toy_network_pack

from auricle.errors import SettingsError
from auricle.speech.features import stream_energies
from auricle_edge.evaluate.windows import judge_windows
from auricle_edge.listening.detect import DetectSettings, DetectTable, detect_settings
from auricle_edge.listening.detect.detector import Detector
from auricle_edge.listening.sound import RATE, Block
from auricle_learning.native.runtime import NativeRuntime
from auricle_learning.runtimes import frontend_of

PACK = toy_network_pack()
TASK = PACK.manifest.task
FRONTEND = frontend_of(NativeRuntime(PACK))
SOUND = np.random.default_rng(0).integers(-3000, 3000, 4 * RATE).astype(np.int16)
SETTINGS = DetectSettings(vad="off", hop=0.08)
HOP, WHOLE = round(0.08 * RATE), TASK.frames * TASK.frontend.hop


def windows(blocks: list[Block], settings: DetectSettings = SETTINGS) -> list[np.ndarray]:
    """What a detector gives its model of these blocks."""
    seen: list[np.ndarray] = []

    def keep(features: np.ndarray) -> np.ndarray:
        seen.append(features[0])
        return np.zeros((1, len(PACK.labels)), np.float32)

    detector = Detector(FRONTEND, PACK.labels, keep, settings)
    for block in blocks:
        detector.feed(block)
    return seen


def due(sound: np.ndarray) -> np.ndarray:
    """The windows that end with each hop of a sound, from the first whole one on."""
    energies = stream_energies(TASK, sound)
    ends = np.arange(HOP, len(sound) + 1, HOP) // TASK.frontend.hop
    return FRONTEND.windows(energies, ends[ends >= TASK.frames] - TASK.frames)


@pytest.mark.parametrize("size", [400, 1234, 16_000])
def test_its_windows_are_those_of_the_whole_sound(size: int) -> None:
    blocks = [Block(SOUND[at : at + size], at, 0.0) for at in range(0, len(SOUND), size)]
    seen = np.stack(windows(blocks))
    assert seen.shape == (-(-(len(SOUND) - WHOLE) // HOP) + (len(SOUND) % HOP == 0 and 0), *TASK.input_shape)
    assert np.abs(seen - due(SOUND)).max() <= 1e-5


def test_after_a_gap_it_remembers_nothing() -> None:
    second = SOUND[2 * RATE :]
    seen = windows([Block(SOUND[: 2 * RATE], 0, 0.0), Block(second, 5 * RATE, 0.0)])
    alone = due(second)
    assert np.abs(np.stack(seen[-len(alone) :]) - alone).max() <= 1e-5


def test_evaluation_judges_the_same_windows_at_once() -> None:
    def judge(features: np.ndarray) -> np.ndarray:
        return features.reshape(len(features), -1)[:, : len(PACK.labels)]

    (said,) = judge_windows(SOUND, FRONTEND, [judge], SETTINGS, len(PACK.labels))
    assert np.abs(said.first[-5:] - judge(due(SOUND))[-5:]).max() <= 1e-5


def test_the_hop_is_the_network_s() -> None:
    assert detect_settings(DetectTable(), PACK).hop == 0.08
    with pytest.raises(SettingsError, match=r"hop = 0\.1 in \[detect\] must be a multiple of 0\.04 seconds"):
        Detector(FRONTEND, PACK.labels, lambda x: x, DetectSettings(hop=0.1))
