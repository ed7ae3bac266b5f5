"""Which model is the device's own, where its settings name one and where they do not."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest
from tests.core import tiny_pack

from auricle.errors import PackError
from auricle.pack import load_pack
from auricle_edge.own_model import own_model
from auricle_edge.service.pack_shelf import running_pack
from auricle_edge.settings import EdgeSettings


@pytest.mark.parametrize(
    ("pack", "model"),
    [("digits", "crnn-base"), ("gsc12", "crnn-base"), ("gsc35", "crnn-base"), ("home", "resnet-base")],
)
def test_it_is_the_larger_model_of_each_shipped_pack(pack: str, model: str) -> None:
    assert own_model(load_pack(pack)) == model


def test_it_is_the_plug_in_of_a_pack_without_such_a_model() -> None:
    assert own_model(tiny_pack.pack()) == "lite"


def test_what_the_settings_name_is_taken_or_refused_with_a_hint() -> None:
    home = load_pack("home")
    assert own_model(home, "resnet-lite") == "resnet-lite"
    with pytest.raises(PackError, match='The pack home has no model "crnn-lite": did you mean "resnet-lite"'):
        own_model(home, "crnn-lite")


def test_a_device_with_a_model_that_its_pack_lacks_does_not_start(tmp_path: Path) -> None:
    settings = EdgeSettings(device="kitchen-1", state=str(tmp_path), pack="home", local="crnn-base")
    with pytest.raises(PackError, match='did you mean "resnet-base"'):
        running_pack(settings)


def test_a_device_that_names_no_model_listens_with_each_pack(tmp_path: Path) -> None:
    """The whole service on a short recording: which pack it runs, and that the trained plug-in listens."""
    import numpy as np
    import soundfile

    soundfile.write(tmp_path / "quiet.wav", np.random.default_rng(0).normal(0, 1e-4, 8000), 16_000)
    for pack in ("home", "digits"):
        done = subprocess.run(
            [
                sys.executable, "-m", "auricle", "edge", "run", "--device", "kitchen-1", "--pack", pack,
                "--state", str(tmp_path / pack), "--source", f"file:{tmp_path / 'quiet.wav'}", "--json",
            ],
            capture_output=True, text=True, timeout=120, check=False,
        )  # fmt: skip
        assert done.returncode == 0, done.stderr
        told = json.loads(done.stdout.splitlines()[0])
        assert (told["pack"], told["model"]) == (load_pack(pack).identity, "plugin")
