"""What a recipe may set: known names, possible values, one sentence for each that is not."""

from __future__ import annotations

from dataclasses import fields, replace
from pathlib import Path

import pytest
import torch
from tests.export.test_pretrain_recipe import RECIPE

from auricle.errors import SettingsError
from auricle_export.pretrain.recipe import load_recipe
from auricle_export.pretrain.settings import LiveSettings, PretrainSettings
from auricle_export.pretrain.varied import VARIED, Number, Value, settings_of, windows_of
from auricle_export.pretrain.window_settings import WindowSettings


@pytest.mark.parametrize(
    ("changes", "says"),
    [
        ({"epochs": 0}, "epochs is 0: it has to be at least 1"),
        ({"steps": 0}, "steps is 0"),
        ({"batch": -1}, "batch is -1"),
        ({"judged": 0}, "judged is 0"),
        ({"mined": 0}, "mined is 0"),
        ({"threads": 0}, "threads is 0"),
        ({"rate": 0.0}, "rate is 0: it has to be above 0"),
        ({"rate": float("nan")}, "rate is nan"),
        ({"seed": -1}, "--seed is -1"),
        ({"device": "gpu"}, 'There is no device "gpu"'),
    ],
)
def test_a_training_that_is_not_possible_is_refused(changes: dict[str, int], says: str) -> None:
    with pytest.raises(SettingsError, match=says):
        replace(LiveSettings(), **changes)


@pytest.mark.parametrize("settings", [PretrainSettings(device="cpu"), LiveSettings(device="cpu")])
def test_both_trainings_take_the_device_that_is_named(settings: PretrainSettings | LiveSettings) -> None:
    assert settings.torch_device == torch.device("cpu")


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
        ({"nose": 0.5}, r'\[windows\] has no "nose": did you mean "noise"'),
        ({"noise": 1.5}, "noise in .windows. is 1.5: it has to be 0 to 1"),
        ({"tempo": 1.0}, "less than 1"),
        ({"noise": (0.1, 0.2)}, "noise in .windows. has to be one number"),
        ({"snr_db": 3.0}, "has to be a range of two numbers"),
        ({"snr_db": (9.0, 3.0)}, "the least one first"),
        ({"gap": (-1.0, 3.0)}, "begins at -1: it has to be 0 or more"),
        ({"decay": (0.0, 0.5)}, "has to be above 0"),
        ({"tilt_db": -1.0}, "has to be 0 or more"),
        ({"cut": 0.9}, "are 1.49 together"),
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
        ({"btach": 3}, r'\[settings\] has no "btach": did you mean "batch"'),
        ({"batch": 0}, "In the recipe's .settings., batch is 0"),
        ({"batch": 1.5}, "batch in .settings. is 1.5: it has to be a whole number"),
        ({"seed": 1}, 'cannot set "seed": the seed is the option --seed'),
        ({"epochs": 1}, "in the table .epochs."),
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
    with pytest.raises(SettingsError, match='did you mean "room"'):
        load_recipe(str(path))
