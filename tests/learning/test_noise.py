"""Clipping and noise on a device: exact numbers, the noise's size, and what is not said beside it."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from auricle.wire.plan import Bavd, Noise, Plan
from auricle_learning.training.noise import clipped, noised, with_noise
from auricle_learning.training.train import LocalState, RoundResult


def result(plugin: np.ndarray) -> RoundResult:  # type: ignore[type-arg]
    return RoundResult(plugin, LocalState(plugin), 1.5, 7, 3.0, 42, 0.9, 0.8, 5)


def test_an_update_is_scaled_down_to_the_norm_and_a_smaller_one_is_left_alone() -> None:
    assert clipped(np.array([3.0, 4.0]), 1.0) == pytest.approx([0.6, 0.8])
    assert clipped(np.array([3.0, 4.0]), 5.0).tolist() == [3.0, 4.0]
    assert clipped(np.zeros(3), 1.0).tolist() == [0.0, 0.0, 0.0]


def test_without_a_deviation_the_clipped_weights_are_sent() -> None:
    received = np.array([1.0, 1.0], np.float32)
    sent = with_noise(received, np.array([4.0, 5.0], np.float32), Noise(clip=1.0, deviation=0.0))
    assert sent == pytest.approx([1.6, 1.8])
    assert sent.dtype == np.float32


def test_the_noise_has_the_plans_standard_deviation_and_is_another_each_time() -> None:
    received, noise = np.zeros(40_000, np.float32), Noise(clip=1.0, deviation=0.5)
    first, second = (with_noise(received, received, noise) for _ in range(2))
    for sent in (first, second):
        assert float(sent.std()) == pytest.approx(0.5, rel=0.03)
        assert abs(float(sent.mean())) < 0.02
    assert abs(float(np.corrcoef(first, second)[0, 1])) < 0.03


def test_with_noise_no_figure_of_the_clips_leaves_the_device_and_what_it_keeps_is_its_own() -> None:
    plugin = np.ones(4, np.float32)
    done = replace(result(plugin), vectors={"maps": np.ones(3, np.float32)})
    plan = Plan(noise=Noise(clip=1.0, deviation=1.0), bavd=Bavd(maps=True))
    sent = noised(done, np.zeros(4, np.float32), plan)
    assert (sent.samples, sent.loss, sent.steps, sent.seconds, sent.held_out) == (1, 0.0, 0, 0.0, 0)
    assert (sent.personal_accuracy, sent.plugin_accuracy, sent.vectors) == (None, None, {})
    assert sent.local is done.local
    assert not np.allclose(sent.plugin, plugin)
    assert noised(done, np.zeros(4, np.float32), Plan()) is done
