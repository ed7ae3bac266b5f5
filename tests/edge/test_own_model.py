"""Which model is the device's own, where its settings name one and where they do not."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import msgspec
import pytest
from tests.core import tiny_pack
from tests.core.bare_pack import bare_pack, with_own_model

from auricle.errors import PackError
from auricle.packs.manifest import Listening
from auricle.packs.pack import Pack, load_pack
from auricle.wire.tensor_specs import TensorSpec
from auricle_edge.ota.pack_shelf import running_pack
from auricle_edge.settings import EdgeSettings
from auricle_edge.training.own_model import own_model, why_not_larger


@pytest.mark.parametrize("name", ["digits", "gsc12", "gsc35"])
def test_it_is_the_larger_model_of_a_pack_that_trains_it(name: str) -> None:
    pack = with_own_model(load_pack(name), "crnn-base")
    assert own_model(pack) == "crnn-base"
    assert why_not_larger(pack) is None


def test_the_default_pack_brings_the_devices_own_model() -> None:
    """It is the second stage that its thresholds were chosen with."""
    home = load_pack("home")
    assert home.listening is not None and home.listening.second_stage == "resnet-base"
    assert own_model(home) == "resnet-base" and why_not_larger(home) is None


@pytest.mark.parametrize("name", ["digits", "gsc35"])
def test_the_packs_that_name_clips_train_their_plug_in_alone(name: str) -> None:
    pack = load_pack(name)
    assert set(pack.manifest.start) == {"crnn-lite"}
    assert own_model(pack) == "crnn-lite"
    assert own_model(pack, start="scratch") == "crnn-base"


@pytest.mark.parametrize("asked", [None, "resnet-base"])
def test_a_larger_model_that_would_begin_as_noise_waits_for_a_pack_that_trains_it(asked: str | None) -> None:
    """Beside the trained plug-in it would teach noise; from scratch all begin as noise."""
    pack = load_pack("gsc12-res")
    assert own_model(pack, asked) == own_model(pack, asked, "pack") == "resnet-lite"
    assert own_model(pack, asked, "scratch") == "resnet-base"
    assert why_not_larger(pack, asked, "scratch") is None
    assert "resnet-lite: the pack gsc12-res has no" in str(why_not_larger(pack, asked))
    trained = with_own_model(pack, "resnet-base")
    assert own_model(trained, asked) == "resnet-base"
    assert why_not_larger(trained, asked) is None


def test_the_second_stage_that_a_pack_names_is_the_devices_own() -> None:
    """Else its thresholds would be for a model that no device takes; what the settings name comes first."""
    pack = with_own_model(with_own_model(bare_pack("gsc12"), "crnn-wide"), "crnn-base")
    assert own_model(pack) == "crnn-base"
    says = msgspec.structs.replace(pack.manifest, listening=Listening(second_stage="crnn-wide"))
    assert own_model(Pack(says, pack.files)) == "crnn-wide"
    assert own_model(Pack(says, pack.files), "crnn-base") == "crnn-base"


def test_two_models_of_the_wheels_packs_have_another_name_elsewhere() -> None:
    """A pack whose crnn-base is the print's has no such other name for it."""
    pack = bare_pack("gsc12")
    assert own_model(pack, "crnn-bi64", "scratch") == "crnn-base"
    assert own_model(pack, "crnn-bi64-deep", "scratch") == "crnn-deep"
    specs = {"lite": (TensorSpec("head.weight", (12, 4), "head", 0.5), TensorSpec("head.bias", (12,), "head", 0.5))}
    specs["crnn-base"] = (TensorSpec("gru.weight_hh_l0", (384, 128), "gru", 0.1), *specs["lite"])
    manifest = msgspec.structs.replace(pack.manifest, architectures=specs, plugin="lite", graphs=(), start={}, files=())
    with pytest.raises(PackError, match='no model "crnn-bi64"'):
        own_model(Pack(manifest, {}), "crnn-bi64")


def test_it_is_the_plug_in_of_a_pack_without_such_a_model() -> None:
    assert own_model(tiny_pack.pack()) == "lite"


def test_what_the_settings_name_is_taken_or_refused_with_a_hint(tmp_path: Path) -> None:
    home = load_pack("home")
    assert own_model(home, "resnet-lite") == "resnet-lite"
    with pytest.raises(PackError, match='"resnet-lite"'):
        own_model(home, "crnn-lite")
    with pytest.raises(PackError, match='"resnet-base"'):
        running_pack(EdgeSettings(device="kitchen-1", state=str(tmp_path), pack="home", local="crnn-base"))


@pytest.mark.slow
def test_a_device_that_names_no_model_listens_with_each_pack(tmp_path: Path) -> None:
    """The whole service on a short recording: which pack it runs, and that its trained models listen."""
    import numpy as np
    import soundfile

    soundfile.write(tmp_path / "quiet.wav", np.random.default_rng(0).normal(0, 1e-4, 8000), 16_000)
    for pack, model in (("home", "cascade"), ("digits", "plugin")):
        options = f"edge run --device kitchen-1 --pack {pack} --source file:quiet.wav --state {pack} --json".split()
        command = [sys.executable, "-m", "auricle", *options]
        done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=120, check=False)
        assert done.returncode == 0, done.stderr
        told = json.loads(done.stdout.splitlines()[0])
        assert (told["pack"], told["model"]) == (load_pack(pack).identity, model)
