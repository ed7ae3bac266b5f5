"""Recipes: read, refused, and followed by the command from folders to a pack that listens."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
import soundfile
from tests.export.pretrain_toy import write_pack
from tests.export.test_pretrain_live import noises, pack, tone

from auricle.errors import SettingsError
from auricle.packs.pack import load_pack
from auricle.process.cli import main
from auricle_export.packs.build import LABELS, RESIDUAL
from auricle_export.packs.models import ARCHITECTURES, RESNETS
from auricle_export.pretrain.clip_recipe import ClipRecipe
from auricle_export.pretrain.recipe import SHIPPED, load_recipe

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
    assert recipe.pack in LABELS and set(recipe.epochs) <= set(RESNETS if recipe.pack in RESIDUAL else ARCHITECTURES)
    assert recipe.attribution
    if isinstance(recipe, ClipRecipe):
        assert recipe.leave_out == () and recipe.folders(Path("data")) == ["data/gsc", "data/gsc-more"]
        return
    assert set(recipe.wake) <= set(LABELS[recipe.pack])
    assert recipe.leave_out == ("gsc",)
    assert recipe.sources(Path("data")).words[0] == Path("data/gsc-more")


@pytest.mark.parametrize(
    ("text", "wrong"),
    [
        ("words = 3", "is not valid"),
        ("epochs", "is not valid"),
        (RECIPE.format(pack="x").replace("steps = 8", "steps = 0"), "is not valid"),
        (RECIPE.format(pack="x").replace("steps", "step"), "unknown field `step`"),
        ('kind = "clip"', "Invalid value 'clip'"),
        (f'kind = "clips"\n{RECIPE.format(pack="x")}', "unknown field `running`"),
    ],
)
def test_a_recipe_that_is_none_is_refused(text: str, wrong: str, tmp_path: Path) -> None:
    path = tmp_path / "my.toml"
    path.write_text(text)
    with pytest.raises(SettingsError, match=wrong):
        load_recipe(str(path))


def test_a_recipe_that_is_not_there_gets_a_hint() -> None:
    with pytest.raises(SettingsError, match='did you mean "home"'):
        load_recipe("hom")


def speakers(part: str, count: int) -> list[str]:
    from auricle.hearing.splits import part_of

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
def test_the_command_makes_a_pack_that_listens(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    data = write_data(tmp_path / "data")
    recipe = tmp_path / "toy.toml"
    recipe.write_text(RECIPE.format(pack=write_pack(tmp_path / "toy.tar.zst", pack())))
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
    arguments = [
        "export",
        "pretrain",
        "--recipe",
        "home",
        "--data",
        str(tmp_path),
        "--out",
        str(tmp_path / "o.tar.zst"),
    ]
    assert main([*arguments, "--rate", "0.1"]) != 0
    assert "--rate is decided by the recipe" in capsys.readouterr().err


@pytest.mark.parametrize("text", ["a = " + "[" * 20_000, "a = " + "9" * 5000], ids=["nested", "digits"])
def test_a_recipe_that_python_cannot_take_is_refused(text: str, tmp_path: Path) -> None:
    (tmp_path / "recipe.toml").write_text(text)

    with pytest.raises(SettingsError, match="is not valid"):
        load_recipe(str(tmp_path / "recipe.toml"))
