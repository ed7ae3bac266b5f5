"""A network that nobody here wrote learns as well by its compiled step graph as in PyTorch."""

from __future__ import annotations

import numpy as np
import pytest

pytest.importorskip("torch", reason="the peer is PyTorch")
pytest.importorskip("onnxscript", reason="compiling needs onnxscript")

from bench.strangers import HEADER, Speech, compare, shown

LABELS = ("one", "two", "three", "four")


def _sounds(count: int, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """Log-mels in which every word is a ridge of its own slope, with noise twice as loud."""
    rng = np.random.default_rng(seed)
    targets = rng.integers(0, len(LABELS), count)
    ridge = 20 + (targets[:, None] - 1.5) * np.linspace(-8, 8, 100)
    mels = np.exp(-((np.arange(40) - ridge[..., None]) ** 2) / 8)
    return (mels + 0.5 * rng.standard_normal((count, 100, 40))).astype(np.float32), targets


@pytest.mark.slow
@pytest.mark.timeout(600)
@pytest.mark.nightly
def test_a_transformer_learns_as_well_by_its_step_graph_as_in_pytorch() -> None:
    speech = Speech(LABELS, *_sounds(320, 0), *_sounds(200, 1))
    row = compare("transformer", speech, epochs=20, seeds=1)
    assert min(row["pytorch.accuracy"][0], row["graph.accuracy"][0]) > 0.9
    assert abs(row["pytorch.accuracy"][0] - row["graph.accuracy"][0]) < 0.05
    assert shown(row).count("|") == len(HEADER) + 1
