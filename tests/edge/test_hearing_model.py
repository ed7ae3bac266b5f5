"""Which model listens while there is too little to compare models by."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from auricle.packs.pack import Pack, load_pack
from auricle.packs.start import start_weights
from auricle.wire.tensors import Flat
from auricle_edge.listening.detect import DetectTable
from auricle_edge.listening.detect.settings import SecondStage
from auricle_edge.runtimes import choose_runtime
from auricle_edge.service.hearing_model import HearingModel
from auricle_edge.training.local_store import LocalStore
from auricle_learning.runtimes import Runtime
from auricle_learning.training.speech_data import Clips
from auricle_learning.training.train import LocalState


@pytest.mark.slow
def test_both_models_listen_once_a_round_taught_the_own_one_and_after_a_restart(tmp_path: Path) -> None:
    pack = load_pack("gsc12")
    runtime = choose_runtime("auto", pack, training=False).runtime
    first, plugin = pack.table("crnn-base").initial(1), start_weights(pack, "crnn-lite")
    hearing = HearingModel(tmp_path, runtime, "crnn-base", first, plugin)
    assert hearing.choose(nothing(pack)).candidate.name == "plugin"
    assert hearing.learnt(plugin, first.copy(), nothing(pack)).candidate.name == "plugin"
    taught = (first + np.float32(0.01)).astype(np.float32)
    assert hearing.learnt(plugin, taught, nothing(pack)).candidate.name == "ensemble"
    assert "Too few" in hearing.now.reason
    LocalStore(tmp_path, pack.identity, pack.table("crnn-base")).save(LocalState(taught))
    again = HearingModel(tmp_path, runtime, "crnn-base", first, plugin)
    assert again.choose(nothing(pack)).candidate.name == "ensemble"


def nothing(pack: Pack) -> Clips:
    task = pack.manifest.task
    return Clips(np.zeros((0, task.frames, task.frontend.mels), np.float32), np.zeros(0, np.int64))


def told(pack: Pack, count: int = 24) -> Clips:
    """Noise that is said to be the pack's keywords, one after the other: a model that is right about it knows them."""
    task = pack.manifest.task
    energies = np.random.default_rng(0).gamma(0.5, size=(count, task.frames, task.frontend.mels)).astype(np.float32)
    return Clips(energies, np.arange(count) % (len(pack.labels) - 2))


@pytest.fixture(scope="module")
def home() -> Pack:
    """The default pack, of which the larger model has no trained weights."""
    return load_pack("home")


@pytest.fixture(scope="module")
def runtime(home: Pack) -> Runtime:
    return choose_runtime("auto", home, training=False).runtime


@pytest.mark.parametrize("second_stage", ["auto", "on", "off"])
@pytest.mark.slow
def test_an_own_model_that_began_as_noise_answers_nothing_until_it_was_compared(
    tmp_path: Path, home: Pack, runtime: Runtime, second_stage: SecondStage
) -> None:
    noise, plugin = home.table("resnet-base").initial(3), start_weights(home, "resnet-lite")
    detect = DetectTable(second_stage=second_stage)
    hearing = HearingModel(tmp_path, runtime, "resnet-base", None, plugin, detect, seed=3)
    assert hearing.choose(nothing(home)).candidate.name == "plugin"
    assert hearing.learnt(plugin, noise, nothing(home)).candidate.name == "plugin"
    assert "began as noise" not in hearing.now.reason
    learnt: Flat = noise + np.float32(0.01)
    assert hearing.learnt(plugin, learnt, nothing(home)).candidate.name == "plugin"
    assert "began as noise" in hearing.now.reason
    LocalStore(tmp_path, home.identity, home.table("resnet-base")).save(LocalState(learnt))
    again = HearingModel(tmp_path, runtime, "resnet-base", None, plugin, detect, seed=3)
    assert again.choose(nothing(home)).candidate.name == "plugin"


@pytest.mark.slow
def test_noise_is_no_candidate_on_held_out_clips_either(tmp_path: Path, home: Pack, runtime: Runtime) -> None:
    noise, plugin = home.table("resnet-base").initial(0), start_weights(home, "resnet-lite")
    hearing = HearingModel(tmp_path, runtime, "resnet-base", None, plugin)
    assert set(hearing.choose(told(home)).merits) == {"plugin"}
    assert set(hearing.learnt(plugin, noise, told(home)).merits) == {"plugin"}
    taught = hearing.learnt(plugin, noise + np.float32(0.01), told(home))
    assert set(taught.merits) == {"plugin", "personal", "ensemble", "cascade"}


def test_an_own_model_that_began_as_noise_answers_once_it_is_better(
    tmp_path: Path, home: Pack, runtime: Runtime
) -> None:
    always: Flat = np.zeros(home.table("resnet-base").size, np.float32)
    always[home.labels.index("left") - len(home.labels)] = 20.0
    clips = told(home)
    left = Clips(clips.energies, np.full(len(clips.targets), home.labels.index("left")))
    hearing = HearingModel(tmp_path, runtime, "resnet-base", None, start_weights(home, "resnet-lite"))
    chosen = hearing.learnt(start_weights(home, "resnet-lite"), always, left)
    assert chosen.merits["personal"].hits == len(left) > chosen.merits["plugin"].hits
    assert chosen.candidate.name != "plugin"
