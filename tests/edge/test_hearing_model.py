"""Which model listens while there is too little to compare models by."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from auricle.pack import load_pack
from auricle.start import start_weights
from auricle_edge.hearing_model import HearingModel
from auricle_edge.local_store import LocalStore
from auricle_edge.runtimes import choose_runtime
from auricle_edge.speech_data import Clips
from auricle_edge.train import LocalState


def test_both_models_listen_once_a_round_taught_the_own_one_and_after_a_restart(tmp_path: Path) -> None:
    """Before that the plug-in does, and a round that leaves the own model alone changes nothing."""
    pack = load_pack("gsc12")
    runtime = choose_runtime("auto", pack, training=False).runtime
    first, plugin = start_weights(pack, "crnn-base"), start_weights(pack, "crnn-lite")
    task = pack.manifest.task
    nothing = Clips(np.zeros((0, task.frames, task.frontend.mels), np.float32), np.zeros(0, np.int64))

    hearing = HearingModel(tmp_path, runtime, "crnn-base", first, plugin)
    assert hearing.choose(nothing).candidate.name == "plugin"
    assert hearing.learnt(plugin, first.copy(), nothing).candidate.name == "plugin"
    taught = (first + np.float32(0.01)).astype(np.float32)
    assert hearing.learnt(plugin, taught, nothing).candidate.name == "ensemble"
    assert "Too few" in hearing.now.reason

    LocalStore(tmp_path, pack.identity, pack.table("crnn-base")).save(LocalState(taught))
    again = HearingModel(tmp_path, runtime, "crnn-base", first, plugin)
    assert again.choose(nothing).candidate.name == "ensemble"
