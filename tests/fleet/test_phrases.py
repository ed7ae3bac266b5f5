"""A wake word of two words in a window of 1.6 s, from a module to a fleet: built, trained, evaluated, federated."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import soundfile

from auricle.packs.pack import load_pack
from auricle.process.cli import main
from auricle.speech.audio import read_audio
from auricle.speech.synthesis import SynthesisSettings, synthesise
from auricle_fleet import FleetRun
from auricle_fleet.settings.fleet_settings import FleetSettings
from auricle_learning.native.library import compiler

pytest.importorskip("espeakng_loader")

NET = """
import torch
from torch import nn


class Net(nn.Module):
    def __init__(self, labels):
        super().__init__()
        self.first = nn.Conv1d(40, 24, 5, stride=2)
        self.second = nn.Conv1d(24, 32, 9, stride=4)
        self.out = nn.Linear(32, labels)

    def forward(self, x):
        h = torch.relu(self.first(x.transpose(1, 2)))
        return self.out(torch.relu(self.second(h)).amax(2))
"""
WORDS = "hey jarvis,stop,happy"
SAMPLES = 25_600


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A pack for the window, and its plug-in trained for some seconds."""
    pytest.importorskip("torch", reason="packs are made with PyTorch")
    folder = tmp_path_factory.mktemp("phrases")
    (folder / "nets.py").write_text(NET)
    model, packed = f"{folder / 'nets.py'}:Net", folder / "phrases.tar.zst"
    build = ["export", "build", "--model", model, "--plugin", model, "--labels", WORDS, "--window", "1.6"]
    assert main([*build, "--name", "phrases", "--out", str(folder)]) == 0
    trained = ["export", "pretrain", "--data", "synthetic", "--pack", str(packed), "--model", model, "--epochs", "20"]
    told = [
        "--speakers",
        "20",
        "--takes",
        "4",
        "--rate",
        "0.01",
        "--compute",
        "cpu",
        "--out",
        str(folder / "started.tar.zst"),
    ]
    assert main([*trained, *told]) == 0
    return folder


@pytest.fixture(scope="module")
def takes(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Each word by thirty voices that another seed draws, as recordings of two seconds."""
    root = tmp_path_factory.mktemp("takes")
    speech = synthesise(SynthesisSettings(WORDS, 30, 1, 20, 30, seed=7, clip_samples=32_000))
    for place, (clip, target, speaker) in enumerate(zip(speech.audio, speech.targets, speech.speakers, strict=True)):
        folder = root / speech.labels[target]
        folder.mkdir(exist_ok=True)
        soundfile.write(folder / f"{speech.speaker_names[speaker]}_nohash_{place}.wav", clip, 16_000)
    (root / "_background_noise_").mkdir()
    for place, noise in enumerate(speech.noise):
        soundfile.write(root / "_background_noise_" / f"{place}.wav", noise, 16_000)
    return root


@pytest.mark.slow
@pytest.mark.parametrize(
    "runtime",
    ["step", pytest.param("native", marks=pytest.mark.skipif(compiler() is None, reason="there is no C compiler"))],
)
def test_it_is_evaluated_on_takes_that_it_did_not_hear(
    built: Path, takes: Path, runtime: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """Of single recordings most are right, guessing would be a third; in streams both phrase and words are heard."""
    pack = str(built / "started.tar.zst")
    capsys.readouterr()
    told = ["--pack", pack, "--keywords", str(takes), "--minutes", "0.5", "--threshold", "0.5", "--runtime", runtime]
    assert main(["edge", "evaluate", *told, "--json"]) == 0
    found: dict[str, Any] = json.loads(capsys.readouterr().out)
    assert load_pack(pack).manifest.task.clip_samples == SAMPLES
    (report,) = found["reports"]
    (phrase,) = (row for row in report["by_word"] if row["what"] == "hey jarvis")
    assert report["clips"]["words"]["of"] == 90
    assert report["clips"]["words"]["right"] > 0.8 * 90
    assert phrase["points"][0]["share"] > 0.8


@pytest.mark.slow
@pytest.mark.parametrize(
    ("engine", "runtime"),
    [
        ("virtual", "step"),
        ("live", "step"),
        pytest.param("virtual", "native", marks=pytest.mark.skipif(compiler() is None, reason="no C compiler here")),
    ],
)
def test_two_rounds_of_a_fleet_are_trained_with_it(built: Path, tmp_path: Path, engine: str, runtime: str) -> None:
    told: dict[str, Any] = {"pack": str(built / "started.tar.zst"), "start": "pack", "local": "net", "engine": engine}
    told["runtime"] = runtime
    told |= {"broker": "amqtt"} if engine == "live" else {}
    result = FleetRun(
        FleetSettings(devices=4, unseen=2, takes=4, rounds=2, min_clips=4, **told), tmp_path / "run"
    ).run()
    assert [row.counted for row in result.rounds] == [4, 4]
    assert result.rounds[-1].plugin_accuracy_unseen > 0.8
    trained = load_pack(result.paths.pack)
    assert trained.labels == ("hey jarvis", "stop", "happy")
    assert trained.manifest.task.clip_samples == SAMPLES


@pytest.mark.slow
def test_a_folder_of_recordings_is_read_in_windows_of_the_pack(built: Path, takes: Path, tmp_path: Path) -> None:
    """The same clips as those of the recordings, and none is cut."""
    settings = FleetSettings(
        data=str(takes),
        pack=str(built / "started.tar.zst"),
        devices=12,
        unseen=6,
        rounds=1,
        min_clips=3,
        local="net",
        engine="virtual",
        learning="supervised",
    )
    run = FleetRun(settings, tmp_path / "run")
    run.run()
    assert run.data is not None
    assert run.data.cut == "" and run.data.unseen.energies.shape[1:] == (160, 40)
    assert len(read_audio(next((takes / "stop").iterdir()))) == 32_000 > SAMPLES


@pytest.mark.slow
def test_a_recipe_trains_it_on_recordings_and_espeak(built: Path, takes: Path, tmp_path: Path) -> None:
    from auricle_export.pretrain.clip_recipe import ClipRecipe
    from auricle_export.pretrain.settings import PretrainSettings
    from auricle_export.pretrain.task import ClipTask, author_modules, pretrain_clips

    pack = built / "phrases.tar.zst"
    recipe = ClipRecipe(pack=str(pack), words=(str(takes),), epochs={"net": 12}, voices=8, rate=0.01)
    task = ClipTask(recipe, None, tmp_path / "state", PretrainSettings(device="cpu"))
    done = pretrain_clips(load_pack(pack), task, modules=author_modules([f"{built / 'nets.py'}:Net"]))
    assert done.pack.manifest.task.clip_samples == SAMPLES
    assert done.speech.train.energies.shape[1:] == (160, 40)
    assert done.trained["net"].accuracy > 0.6
