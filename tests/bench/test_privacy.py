"""The measurements of privacy and of secure sums: what they compute, without the recordings."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch
from bench.membership import area, found_at
from bench.privacy_net import AttackedNet, unit
from bench.privacy_reading import Ridge, correlation, reading
from bench.privacy_table import DELTA, Fleet, link_clips, multiplier_for
from bench.secure_sum import degree_of, measure

from auricle.packs.pack import load_pack
from auricle_learning.aggregation.accounting import Release, fleet_epsilon


def test_the_area_counts_pairs_in_which_the_member_scores_higher() -> None:
    assert area(np.array([3.0, 2.0]), np.array([1.0, 2.0])) == pytest.approx(3.5 / 4)
    assert area(np.array([1.0]), np.array([1.0])) == 0.5
    assert found_at(np.arange(100.0), np.zeros(20)) == 0.99


@pytest.mark.slow
def test_the_multiplier_is_the_least_that_keeps_the_epsilon() -> None:
    fleet = Fleet(1000, 100)
    multiplier = multiplier_for(fleet, 5, 4.0)
    spent = [fleet_epsilon([Release(0.1, m)] * 5, DELTA).epsilon for m in (multiplier - 0.01, multiplier)]
    assert spent[1] <= 4.0 < spent[0]


def test_speakers_are_of_the_first_model_or_of_the_fleet(tmp_path: Path) -> None:
    for word in ("yes", "no", "tree"):
        (tmp_path / "gsc" / word).mkdir(parents=True)
        for speaker in range(10):
            (tmp_path / "gsc" / word / f"{speaker:08x}_nohash_0.wav").touch()
    folders = link_clips([tmp_path / "gsc", tmp_path / "gsc"], tmp_path / "made")
    parts = [{file.name[:8] for file in folder.rglob("*.wav")} for folder in folders]
    assert [len(part) for part in parts] == [9, 1] and not parts[0] & parts[1]
    assert {folder.name for folder in folders[0].iterdir()} == {"yes", "no"}


NET = AttackedNet(load_pack("gsc12"))
START = load_pack("gsc12").plugin_table.initial(0)
CLIPS = np.random.default_rng(0).standard_normal((3, 100, 40)).astype(np.float32)


def test_a_step_on_one_clip_tells_what_its_classifier_saw() -> None:
    """dW of the word's row is (p - 1) h and db is p - 1."""
    words = torch.tensor([4])
    moved = NET.gradient(NET.parameters(START), torch.from_numpy(CLIPS[:1]), words, differentiable=False)
    seen = NET.seen_of(moved.numpy().astype(np.float64), 4)
    assert seen == pytest.approx(NET.features(START, CLIPS[:1])[0], abs=1e-5)


def test_the_map_of_one_step_on_one_clip_is_its_own() -> None:
    sent = NET.sent_map(START, CLIPS[:1], [4], 1, 0.1)
    assert sent == pytest.approx(NET.maps(START, CLIPS[:1])[0], abs=1e-6)
    assert unit(sent) == pytest.approx(unit(3 * sent + 2))


def test_what_was_read_is_compared_beyond_the_word() -> None:
    assert correlation(np.array([1.0, 2.0]), np.array([3.0, 5.0])) == pytest.approx(1.0)
    assert correlation(np.ones(2), np.array([3.0, 5.0])) == 0.0
    clips = np.array([[1.0, 0.0, 0.0], [0.0, 1.0, 0.0], [0.0, 0.9, 0.1]])
    got = reading(np.array([0.9, 0.1, 0.0]), clips, np.zeros(3), np.array([0.5, 0.6, 0.1]))
    assert got.nearest and not got.found and got.right > 0.9 > got.wrong


def test_a_regression_reads_what_is_a_linear_map_of_the_clip() -> None:
    draw = np.random.default_rng(1)
    clips, matrix = draw.standard_normal((200, 6)), np.linalg.qr(draw.standard_normal((6, 6)))[0]
    assert Ridge(clips @ matrix, clips)(clips[0] @ matrix) == pytest.approx(clips[0], abs=0.05)


def test_a_small_sum_is_measured_and_a_tenth_of_it_drops_out() -> None:
    row = measure(20, 100)
    assert (row["devices"], row["neighbours"], row["plain_bytes"]) == (20, 19, 400.0)
    assert row["sent_bytes"] > 0.9 * 400
    assert [degree_of(count) for count in (3, 10, 1000)] == [14, 18, 30]
