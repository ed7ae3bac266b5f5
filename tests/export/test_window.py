"""Packs whose models look at another stretch of sound than a second."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from auricle.errors import PackError
from auricle.packs.pack import load_pack
from auricle.process.cli import main
from auricle.speech.features import LogMel
from auricle_export.packs.window import task_of
from auricle_learning.runtimes import StepRuntime

NET = """
import torch
from torch import nn


class Net(nn.Module):
    def __init__(self, labels):
        super().__init__()
        self.conv = nn.Conv1d(40, 6, 5, stride=2)
        self.out = nn.Linear(6, labels)

    def forward(self, x):
        return self.out(torch.relu(self.conv(x.transpose(1, 2))).mean(2))
"""


@given(st.integers(50, 400))
def test_a_window_has_a_hundred_frames_a_second_and_its_front_end_covers_it(frames: int) -> None:
    task = task_of(("hey jarvis", "stop"), seconds=frames / 100)
    assert (task.frames, task.clip_samples) == (frames, 160 * frames)
    assert task.seconds == pytest.approx(frames / 100)
    assert LogMel(task)(np.ones((1, task.clip_samples), np.int16)).shape == (1, frames, 40)


@pytest.mark.parametrize("seconds", [0.49, 4.01, float("nan"), float("inf"), -1.0])
def test_a_window_that_is_too_short_or_too_long_is_refused(seconds: float) -> None:
    with pytest.raises(PackError, match=r"is not a valid window: give 0\.5 to 4 seconds"):
        task_of(("yes", "no"), seconds=seconds)


def test_a_window_of_no_whole_frames_is_refused() -> None:
    with pytest.raises(PackError, match=r"1\.604 is not a valid window: give whole frames of 0\.01 s, such as 1\.6"):
        task_of(("yes", "no"), seconds=1.604)


@pytest.mark.slow
def test_a_module_is_compiled_for_its_window(tmp_path: Path) -> None:
    (tmp_path / "nets.py").write_text(NET)
    told = ["export", "build", "--labels", "hey jarvis,stop", "--out", str(tmp_path), "--name", "phrases"]
    model = f"{tmp_path / 'nets.py'}:Net"
    assert main([*told, "--model", model, "--plugin", model, "--window", "1.6"]) == 0
    pack = load_pack(tmp_path / "phrases.tar.zst")
    assert (pack.labels, pack.manifest.task.frames) == (("hey jarvis", "stop"), 160)
    logits = StepRuntime(pack).logits("net", pack.plugin_table.initial(0), np.zeros((3, 160, 40), np.float32))
    assert logits.shape == (3, 2)
