"""A round's batches: weights, and what joins them of the clips without labels."""

from __future__ import annotations

import math

import numpy as np
import pytest
from tests.learning.toy import clips

from auricle.errors import DataError
from auricle_learning.training.batches import Pseudo, batches, fixmatch_batches, mixed_batches, pseudo_labelled
from auricle_learning.training.carried import Carried
from auricle_learning.training.speech_data import Clips


def _same(energies: np.ndarray) -> np.ndarray:
    return energies


def _weighted(count: int, weights: list[float]) -> Clips:
    few = clips(count)
    return Clips(few.energies, few.targets, np.array(weights, np.float32))


def test_a_clips_weight_goes_with_it_into_its_batch() -> None:
    data = _weighted(5, [1.0, 0.5, 0.25, 2.0, 0.0])
    (batch,) = batches(data, 3, 16, np.random.default_rng(0), _same)
    of_clip = dict(zip(data.energies[:, 0, 0].tolist(), data.weights.tolist(), strict=True))
    assert batch["weight"].dtype == np.float32
    assert batch["weight"][5:].tolist() == [0.0] * 11
    for row in range(5):
        assert batch["weight"][row] == of_clip[float(batch["x"][row, 0, 0])]


def test_a_partial_batch_is_filled_with_its_own_clips_in_turn() -> None:
    data = _weighted(5, [1.0] * 5)
    (batch,) = batches(data, 3, 16, np.random.default_rng(0), _same)
    rows, counts = np.unique(batch["x"][:, 0, 0], return_counts=True)
    assert rows.tolist() == sorted(data.energies[:, 0, 0].tolist())
    assert sorted(counts) == [3, 3, 3, 3, 4]
    assert batch["weight"].sum() == 5


@pytest.mark.parametrize("count", [5, 16, 35])
def test_features_that_are_at_hand_make_the_same_batches(count: int) -> None:
    """Beside windows, too, whose features are made; and none is made of a clip."""
    data, made = clips(count), list[int]()

    def doubled(energies: np.ndarray) -> np.ndarray:
        made.append(len(energies))
        return 2 * energies

    among = Carried((np.ones((300, *data.energies.shape[2:]), np.float32),), (0,), data.energies.shape[1], 0.25)
    for carried, windows in ((None, 0), (among, 4)):
        told = data, 3, 16, np.random.default_rng(0), doubled, carried
        wanted = list(batches(*told))
        made.clear()
        found = list(batches(data, 3, 16, np.random.default_rng(0), doubled, carried, 2 * data.energies))
        assert set(made) <= {windows} and len(found) == len(wanted)
        for batch, other in zip(found, wanted, strict=True):
            assert all(np.array_equal(batch[name], other[name]) for name in other)


@pytest.mark.parametrize("weights", [[1.0], [1.0, -0.1], [1.0, np.nan], [1.0, np.inf]], ids=str)
def test_weights_that_make_no_sense_are_refused(weights: list[float]) -> None:
    few = clips(2)
    with pytest.raises(DataError):
        Clips(few.energies, few.targets, np.array(weights, np.float32))


def test_the_teacher_is_believed_from_the_threshold_on_and_of_equals_names_the_lowest() -> None:
    """Posteriors: (1/2, 1/2, 0), (7/8, 1/16, 1/16), (1/4, 1/4, 1/2), uniform."""
    logits = np.log(np.array([[1, 1, 1e-30], [14, 1, 1], [1, 1, 2], [1, 1, 1]])).astype(np.float32)
    pseudo = pseudo_labelled(clips(4), logits, 0.5)
    assert pseudo.clips.targets.tolist() == [0, 0, 2, 0]
    assert pseudo.sure.tolist() == [0, 1, 2]
    assert pseudo.share == 0.75
    assert pseudo_labelled(clips(4), logits, 0.51).sure.tolist() == [1]


def test_what_a_clip_without_a_label_weighed_and_was_called_before_means_nothing() -> None:
    few = clips(3)
    odd = Clips(few.energies, np.full(3, -1), np.zeros(3, np.float32))
    pseudo = pseudo_labelled(odd, np.eye(3, dtype=np.float32) * 9, 0.7)
    assert (pseudo.clips.targets.tolist(), pseudo.clips.weights.tolist(), pseudo.share) == ([0, 1, 2], [1, 1, 1], 1.0)


def test_a_mixed_batch_weighs_its_halves_like_fixmatchs_loss() -> None:
    """Two of five clips are sure, lambda 2: the halves weigh 1 and 2 * 2/5, and each half's clips like one another."""
    labelled, others = _weighted(10, [1.0] * 9 + [3.0]), clips(5, 9)
    pseudo = Pseudo(others, np.array([1, 4]))

    seen = list(mixed_batches(labelled, pseudo, 2.0, 3, 16, np.random.default_rng(0), _same, _same))

    assert len(seen) == 2
    for batch in seen:
        assert batch["x"].shape == (16, 100, 40)
        assert batch["weight"][:8].sum() == pytest.approx(1.0)
        assert batch["weight"][8:].tolist() == pytest.approx([0.8 / 8] * 8)
        assert {*batch["x"][8:, 0, 0].tolist()} == {*others.energies[[1, 4], 0, 0].tolist()}
        assert batch["target"][8:].sum() == 8
    assert [int((batch["weight"][:8] > 0).sum()) for batch in seen] == [8, 2]
    heavy = float(labelled.energies[9, 0, 0])
    (batch,) = (b for b in seen if heavy in b["x"][:8, 0, 0][b["weight"][:8] > 0])
    ones = batch["weight"][:8][batch["weight"][:8] > 0]
    assert ones.max() / ones.min() == pytest.approx(3.0)


def test_only_the_clips_without_labels_are_strongly_augmented() -> None:
    pseudo = Pseudo(clips(3), np.arange(3))
    (batch,) = mixed_batches(
        clips(6), pseudo, 1.0, 3, 16, np.random.default_rng(0), _same, lambda energies: energies * 0 - 1
    )
    assert (batch["x"][8:] == -1).all()
    assert (batch["x"][:8] >= 0).all()


@pytest.mark.parametrize(("count", "padding"), [(40, 0), (5, 11)])
def test_a_fixmatch_batch_has_as_many_clips_without_labels_the_unsure_too(count: int, padding: int) -> None:
    pseudo = Pseudo(clips(count), np.array([0]))
    seen = list(
        fixmatch_batches(clips(32), pseudo, 3, 16, np.random.default_rng(0), _same, _same, lambda energies: -energies)
    )
    assert len(seen) == 2
    for batch in seen:
        assert batch["weight"].tolist() == [1.0] * 16
        assert batch["weight.unlabelled"].tolist() == [1.0] * (16 - padding) + [0.0] * padding
        assert np.array_equal(batch["strong"], -batch["weak"])
    drawn = np.concatenate([b["weak"][b["weight.unlabelled"] > 0][:, 0, 0] for b in seen])
    assert len({*drawn.tolist()}) == min(count, 32)


def test_every_sure_clip_is_drawn_as_often_as_any_other() -> None:
    pseudo = Pseudo(clips(6), np.arange(6))
    seen = list(mixed_batches(clips(24), pseudo, 1.0, 3, 16, np.random.default_rng(0), _same, _same))
    drawn = np.concatenate([batch["x"][8:, 0, 0] for batch in seen])
    _, counts = np.unique(drawn, return_counts=True)
    assert counts.tolist() == [4] * 6
    assert math.isclose(sum(counts), 24)
