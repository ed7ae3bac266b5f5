"""Clipping and noise on a device: exact numbers, the noise's size, and what is not said beside it."""

from __future__ import annotations

import math
import secrets
from dataclasses import replace

import numpy as np
import pytest

from auricle.wire.plan import Bavd, Noise, Plan
from auricle_learning.training.noise import clipped, cryptographic_normals, noised, with_noise
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


def test_noise_is_drawn_of_the_systems_randomness_and_of_no_generator_that_a_seed_repeats(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    keys = iter([bytes(32), bytes(32), b"k" * 32])
    monkeypatch.setattr(secrets, "token_bytes", lambda size: next(keys)[:size])
    received, noise = np.zeros(6, np.float32), Noise(clip=1.0, deviation=1.0)
    first, again, other = (with_noise(received, received, noise) for _ in range(3))
    # Box-Muller of the first 48 bytes of ChaCha20's key stream under a key of zeros (RFC 8439, A.1, test vector 1).
    words = np.frombuffer(bytes.fromhex(
        "76b8e0ada0f13d90405d6ae55386bd28bdd219b8a08ded1aa836efcc8b770dc7da41597c5157488d7724e03fb8d84a37"
    ), "<u8")  # fmt: skip
    uniform = [((int(word) >> 11) + 0.5) / 2**53 for word in words]
    radius = [math.sqrt(-2 * math.log(each)) for each in uniform[:3]]
    turns = [2 * math.pi * each for each in uniform[3:]]
    normal = [r * f(t) for f in (math.cos, math.sin) for r, t in zip(radius, turns, strict=True)]
    assert first == pytest.approx(np.array(normal), abs=2**-20)
    assert again.tolist() == first.tolist() != other.tolist()


def test_an_update_leaves_no_trace_in_the_lowest_bits(monkeypatch: pytest.MonkeyPatch) -> None:
    received, noise = np.zeros(1000, np.float32), Noise(clip=1.0, deviation=0.3)
    step = 2.0**-22  # 0.3 lies between 2^-2 and 2^-1
    for trained in (received, np.linspace(-0.03, 0.05, 1000, dtype=np.float32) / 7):
        assert not np.any(np.remainder(with_noise(received, trained, noise).astype(np.float64), step))
    # What is rounded up does not leave the norm that the noise was made for.
    monkeypatch.setattr("auricle_learning.training.noise.cryptographic_normals", np.zeros)
    for coarse in (0.3, 1e4, 1e6):
        sent = with_noise(received, np.ones(1000, np.float32), Noise(clip=1.0, deviation=coarse))
        assert float(np.linalg.norm(sent.astype(np.float64))) <= 1.0


def test_the_numbers_are_normal() -> None:
    drawn = cryptographic_normals(100_001)
    assert drawn.shape == (100_001,) and np.isfinite(drawn).all()
    for edge, below in ((-2.0, 0.02275), (-1.0, 0.15866), (0.0, 0.5), (1.0, 0.84134), (2.0, 0.97725)):
        assert float((drawn < edge).mean()) == pytest.approx(below, abs=0.01)


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
