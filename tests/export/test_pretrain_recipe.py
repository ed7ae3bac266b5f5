"""Recipes: read, refused, what they may set, and followed by the command from folders to a pack that listens."""

from __future__ import annotations

import json
from dataclasses import fields, replace
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import pytest
import soundfile
from tests.export.live_toy import noises, pack, tone
from tests.export.pretrain_toy import write_pack

from auricle.errors import SettingsError
from auricle.hearing.splits import part_of
from auricle.packs.pack import Pack, load_pack
from auricle.process.cli import main
from auricle_export.packs.build import LABELS, RESIDUAL
from auricle_export.packs.models import RESNETS, WHEEL_CRNNS
from auricle_export.pretrain.clip_recipe import ClipRecipe
from auricle_export.pretrain.recipe import SHIPPED, load_recipe
from auricle_export.pretrain.settings import LiveSettings
from auricle_export.pretrain.varied import VARIED, Number, Value, settings_of, windows_of
from auricle_export.pretrain.window_settings import WindowSettings

RECIPE = """
pack = "{pack}"
words = ["words"]
running = ["speech"]
wake = ["high"]
attribution = ["nobody, CC0"]
steps = 8
voices = 2
takes = 1
other_voices = 12
other_takes = 1
[epochs]
resnet-lite = 2
"""


@pytest.mark.parametrize("name", SHIPPED)
def test_the_shipped_recipes_are_valid_and_for_packs_that_are_built(name: str) -> None:
    recipe = load_recipe(name)
    assert recipe.pack in LABELS and set(recipe.epochs) <= set(RESNETS if recipe.pack in RESIDUAL else WHEEL_CRNNS)
    assert recipe.attribution
    if isinstance(recipe, ClipRecipe):
        assert recipe.leave_out == () and recipe.folders(Path("data")) == ["data/gsc", "data/gsc-more"]
        return
    assert set(recipe.wake) <= set(LABELS[recipe.pack])
    assert (recipe.leave_out == ("gsc",)) is ("gsc" not in recipe.words)
    sources = recipe.sources(Path("data"))
    assert sources.words[0] == Path("data/gsc-more") and Path("data/arabic") in sources.languages


@pytest.mark.parametrize(
    ("text", "wrong"),
    [
        ("words = 3", "valid"),
        ("epochs", "valid"),
        ("a = " + "[" * 20_000, "valid"),
        ("a = " + "9" * 5000, "valid"),
        (RECIPE.format(pack="x").replace("steps = 8", "steps = 0"), "valid"),
        (RECIPE.format(pack="x").replace("steps", "step"), "`step`"),
        ('kind = "clip"', "'clip'"),
        (f'kind = "clips"\n{RECIPE.format(pack="x")}', "`running`"),
    ],
    ids=range(8),
)
def test_a_recipe_that_is_none_is_refused(text: str, wrong: str, tmp_path: Path) -> None:
    path = tmp_path / "my.toml"
    path.write_text(text)
    with pytest.raises(SettingsError, match=wrong):
        load_recipe(str(path))
    with pytest.raises(SettingsError, match='"home"'):
        load_recipe("hom")


def speakers(part: str, count: int) -> list[str]:
    return [name for number in range(400) if part_of(name := f"s{number}") == part][:count]


def write_data(root: Path) -> Path:
    """Words of two frequencies and others, running speech and noise, by people of every part."""
    pitches = {"high": 2_400, "low": 300, "other": 900}
    for part, count in (("train", 4), ("validation", 2), ("test", 2)):
        for seed, speaker in enumerate(speakers(part, count)):
            for word, hz in pitches.items():
                folder = root / "words" / word
                folder.mkdir(parents=True, exist_ok=True)
                soundfile.write(folder / f"{speaker}_nohash_0.wav", tone(hz, seed=seed), 16_000)
            speech = root / "speech"
            speech.mkdir(exist_ok=True)
            said = np.concatenate([tone(hz, seed=seed) for hz in (600, 1_200, 800)])
            soundfile.write(speech / f"{speaker}-1.wav", said, 16_000)
    folder = root / "words" / "_background_noise_"
    folder.mkdir()
    for number, sound in enumerate(noises(24, 2.0)):
        soundfile.write(folder / f"hiss{number}.wav", sound, 16_000)
    return root


@pytest.mark.slow
@pytest.mark.nightly
@pytest.mark.parametrize("frames", [100, 165])
def test_the_command_makes_a_pack_that_listens(frames: int, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Also where the window is no whole number of hops."""
    data = write_data(tmp_path / "data")
    recipe, bare = tmp_path / "toy.toml", pack()
    task = msgspec.structs.replace(bare.manifest.task, frames=frames, clip_samples=160 * frames)
    whole = Pack(msgspec.structs.replace(bare.manifest, task=task), bare.files)
    recipe.write_text(RECIPE.format(pack=write_pack(tmp_path / "toy.tar.zst", whole)))
    out = tmp_path / "out.tar.zst"
    arguments = ["export", "pretrain", "--recipe", str(recipe), "--data", str(data), "--out", str(out), "--json"]
    assert main(arguments) == 0
    lines = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert [line.get("epoch") for line in lines[:2]] == [1, 2] and lines[-1]["path"] == str(out)
    made = load_pack(out)
    assert made.manifest.format == 3 and made.identity == lines[-1]["identity"]
    assert made.listening is not None and made.listening.wake == ("high",) and set(made.listening.commands) == {"low"}
    assert sum(map(len, made.negatives())) > 1_000
    start = made.manifest.start["resnet-lite"]
    assert start.attribution == ("nobody, CC0",) and start.judged_clips == 6
    assert not (tmp_path / "out.tar.zst.state").exists()


def test_what_a_recipe_decides_cannot_be_given_beside_it(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    arguments = ["export", "pretrain", "--recipe", "home", "--data", str(tmp_path), "--out", str(tmp_path / "o")]
    assert main([*arguments, "--rate", "0.1"]) != 0
    assert "--rate" in capsys.readouterr().err


NO_TRAINING = dict.fromkeys(("epochs", "steps", "judged", "mined", "threads", "rate"), 0) | {"batch": -1, "seed": -1}


@pytest.mark.parametrize(("name", "value"), [*NO_TRAINING.items(), ("rate", float("nan")), ("device", "gpu")])
def test_a_training_that_is_not_possible_is_refused(name: str, value: Any) -> None:
    with pytest.raises(SettingsError, match=name):
        replace(LiveSettings(), **{name: value})


def test_every_field_of_a_window_can_be_set_and_the_usual_values_are_possible() -> None:
    usual = WindowSettings()
    said = {field.name: getattr(usual, field.name) for field in fields(usual)}
    assert windows_of(said) == windows_of({}) == usual
    assert windows_of({"noise": 0.5, "snr_db": (0.0, 9.0)}) == replace(usual, noise=0.5, snr_db=(0.0, 9.0))


def test_the_page_names_everything_that_a_recipe_may_set() -> None:
    page = (Path(__file__).parents[2] / "docs" / "pretrain.md").read_text()
    rows = [line.split("|")[1] for line in page.splitlines() if line.startswith("| `")]
    for name in (field.name for field in fields(WindowSettings)):
        assert any(f"`{name}`" in row for row in rows), name
    assert all(f"`{name}`" in page for name in VARIED)


@pytest.mark.parametrize(
    ("said", "says"),
    [
        ({"nose": 0.5}, "noise"),
        ({"noise": 1.5}, "0 to 1"),
        ({"tempo": 1.0}, "less than 1"),
        ({"noise": (0.1, 0.2)}, "one number"),
        ({"snr_db": 3.0}, "two numbers"),
        ({"snr_db": (9.0, 3.0)}, "the least one first"),
        ({"gap": (-1.0, 3.0)}, "-1"),
        ({"decay": (0.0, 0.5)}, "above 0"),
        ({"tilt_db": -1.0}, "0 or more"),
        ({"cut": 0.9}, "1.49"),
        ({"keywords": float("inf")}, "finite"),
    ],
)
def test_windows_that_are_not_possible_are_refused(said: dict[str, Value], says: str) -> None:
    with pytest.raises(SettingsError, match=says):
        windows_of(said)


def test_a_training_changes_where_a_recipe_says_so() -> None:
    made = settings_of({"batch": 64, "rate": 0.002, "judged": 4, "mined": 2}, LiveSettings(seed=3))
    assert (made.batch, made.rate, made.judged, made.mined, made.seed) == (64, 0.002, 4, 2, 3)
    assert {"judged", "mined"} == set(made.looks) < set(VARIED)
    assert not LiveSettings().looks


@pytest.mark.parametrize(
    ("said", "says"),
    [
        ({"btach": 3}, "batch"),
        ({"batch": 0}, "batch is 0"),
        ({"batch": 1.5}, "whole number"),
        ({"seed": 1}, "--seed"),
        ({"epochs": 1}, "epochs"),
    ],
)
def test_a_training_that_a_recipe_cannot_ask_for_is_refused(said: dict[str, Number], says: str) -> None:
    with pytest.raises(SettingsError, match=says):
        settings_of(said, LiveSettings())


def test_a_recipe_says_how_windows_are_made_and_how_long_is_trained(tmp_path: Path) -> None:
    path = tmp_path / "my.toml"
    more = "[windows]\nroom = 0.6\nsnr_db = [0, 20]\n[settings]\nrate = 0.001\nbatch = 16\n"
    path.write_text(RECIPE.format(pack="x") + more)
    made = load_recipe(str(path)).training("resnet-lite", LiveSettings(threads=2))
    assert (made.epochs, made.steps, made.threads, made.rate, made.batch) == (2, 8, 2, 0.001, 16)
    assert made.windows == replace(WindowSettings(), room=0.6, snr_db=(0.0, 20.0))
    path.write_text(RECIPE.format(pack="x") + "[windows]\nrom = 0.6\n")
    with pytest.raises(SettingsError, match='"room"'):
        load_recipe(str(path))
