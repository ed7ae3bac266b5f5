"""Trained models that teach: their mean, in the labels of the pack that learns, over both windows of a sound."""

from __future__ import annotations

from dataclasses import replace

import msgspec
import numpy as np
import pytest
import torch
from tests.export.pretrain_toy import crnn_pack

from auricle.errors import SettingsError
from auricle.packs.pack import Pack, load_pack
from auricle.packs.start import start_weights
from auricle.speech.features import LogMel
from auricle_export.pretrain.live import recogniser_of
from auricle_export.pretrain.live_task import begins_with
from auricle_export.pretrain.recipe import Recipe
from auricle_export.pretrain.settings import LiveSettings
from auricle_export.pretrain.teachers import Taught, Teachers, mean_of_pairs, teachers_of, unsteadiness

LABELS = ("hello", "stop", "go", "_unknown_", "_silence_")
CPU = torch.device("cpu")


def windows(pack: Pack, count: int) -> torch.Tensor:
    task = pack.manifest.task
    energies = np.exp(np.random.default_rng(3).normal(-6, 3, (count, task.frames, task.frontend.mels)))
    return torch.from_numpy(LogMel(task).finish(energies.astype(np.float32)))


def said(pack: Pack, model: str, x: torch.Tensor) -> np.ndarray:
    """Posteriors (N, L) of a pack's model in `LABELS`, by hand."""
    rows = recogniser_of(model, pack, start_weights(pack, model))(x.numpy())
    mine = np.zeros((len(rows), len(LABELS)))
    for column, word in enumerate(pack.labels):
        mine[:, LABELS.index(word if word in LABELS else "_unknown_")] += rows[:, column]
    return mine


def test_a_target_has_its_share_of_the_mean_of_all_teachers() -> None:
    home, ten = load_pack("home"), load_pack("gsc12-res")
    taught = teachers_of(["home", "gsc12-res"], [home, ten], home)
    assert [one.model for one in taught] == [*home.manifest.start, *ten.manifest.start]
    x, y = windows(home, 6), torch.tensor([0, 1, 2, 3, 4, 1])
    targets = Teachers(taught, LABELS, 0.4, CPU, {}).targets(x, y, 0.05).numpy()
    np.testing.assert_allclose(targets.sum(axis=1), 1, atol=1e-5)
    np.testing.assert_allclose(targets[0], [0.96, 0.01, 0.01, 0.01, 0.01], atol=1e-6)  # nobody knows "hello"
    mean = np.mean([said(one.pack, one.model, x) for one in taught], axis=0)
    hard = np.eye(5)[y.numpy()] * 0.95 + 0.01
    np.testing.assert_allclose(targets[1:], 0.6 * hard[1:] + 0.4 * mean[1:], atol=1e-5)


def test_of_a_word_only_those_speak_who_know_it() -> None:
    home, ten = load_pack("home"), load_pack("gsc12-res")
    labels = ("computer", *LABELS[1:])
    x, y = windows(home, 2), torch.tensor([0, 1])
    both = Teachers([Taught(home, "resnet-lite"), Taught(ten, "resnet-lite")], labels, 1.0, CPU, {})
    alone = Teachers([Taught(home, "resnet-lite")], labels, 1.0, CPU, {})
    np.testing.assert_allclose(both.targets(x, y, 0.0)[0], alone.targets(x, y, 0.0)[0], atol=1e-6)
    assert not np.allclose(both.targets(x, y, 0.0)[1], alone.targets(x, y, 0.0)[1], atol=1e-6)


def test_both_windows_of_a_sound_are_taught_the_mean_of_what_is_said_of_the_two() -> None:
    home = load_pack("home")
    x, y = windows(home, 4), torch.tensor([1, 2, 1, 2])
    teachers = Teachers([Taught(home, "resnet-lite")], LABELS, 1.0, CPU, {})
    each, paired = teachers.targets(x, y, 0.0), teachers.targets(x, y, 0.0, pairs=True)
    np.testing.assert_allclose(paired[0], (each[0] + each[2]) / 2, atol=1e-6)
    np.testing.assert_allclose(paired[0], paired[2], atol=0)
    rows = torch.tensor([[0.0, 1.0], [1.0, 0.0], [1.0, 0.0], [0.0, 1.0]])
    assert mean_of_pairs(rows).tolist() == [[0.5, 0.5]] * 4


def test_posteriors_that_agree_are_steady_and_others_cost_their_divergence_from_the_mean() -> None:
    same = torch.log(torch.tensor([[0.9, 0.1], [0.2, 0.8], [0.9, 0.1], [0.2, 0.8]]))
    assert float(unsteadiness(same)) == pytest.approx(0, abs=1e-6)
    apart = torch.log(torch.tensor([[0.9, 0.1], [0.5, 0.5]]))
    each = [0.7 * np.log(0.7 / p) + 0.3 * np.log(0.3 / (1 - p)) for p in (0.9, 0.5)]
    assert float(unsteadiness(apart)) == pytest.approx(np.mean(each), abs=1e-5)


def test_a_recipe_goes_on_from_a_pack_with_weights_of_the_same_shape() -> None:
    home, ten = load_pack("home"), load_pack("gsc12-res")
    recipe = Recipe(pack="gsc12-res", words=("w",), epochs={"resnet-lite": 1}, running=("r",))
    assert begins_with(recipe, ten, ["resnet-lite"]) == (None, [])
    named = msgspec.structs.replace(recipe, start="home", teachers=("gsc12",))
    start, teachers = begins_with(named, ten, ["resnet-lite"])
    assert start is not None and (start.pack.identity, start.body) == (home.identity, 1.0)
    assert [one.model for one in teachers] == ["crnn-lite"]
    assert "what home, gsc12 had learnt" in named.data()
    for other in ("gsc12", "gsc35"):  # they have another architecture
        with pytest.raises(SettingsError, match=f"start, {other}, has no trained weights of the shape of resnet-lite"):
            begins_with(msgspec.structs.replace(recipe, start=other), ten, ["resnet-lite"])


def test_what_cannot_teach_is_refused_in_a_sentence() -> None:
    home, toy = load_pack("home"), crnn_pack(("a", "_unknown_", "_silence_"), ("resnet-lite",))
    with pytest.raises(SettingsError, match="has no trained weights"):
        teachers_of(["toy"], [toy], home)
    recipe = Recipe(pack="home", words=("w",), epochs={"resnet-lite": 1}, running=("r",), settings={"steady": 1.0})
    with pytest.raises(SettingsError, match="set shift"):
        recipe.training("resnet-lite", LiveSettings())
    with pytest.raises(SettingsError, match="name teachers"):
        msgspec.structs.replace(recipe, settings={"taught": 0.3}).training("resnet-lite", LiveSettings())
    with pytest.raises(SettingsError, match="named twice"):
        teachers_of(["home", "again"], [home, home], home)
    for value in (float("nan"), float("inf"), 10**400):
        with pytest.raises(SettingsError, match="has to be a number of at most"):
            msgspec.structs.replace(recipe, settings={"batch": value}).training("resnet-lite", LiveSettings())
    many = msgspec.structs.replace(recipe, words=("w" * 30,) * 40, teachers=tuple(f"{n}{'t' * 40}" for n in range(12)))
    assert many.data() == "recordings of people in 40 folders, and espeak-ng; what 12 packs had learnt"
    for name, value in (("taught", 1.5), ("steady", -1.0)):
        with pytest.raises(SettingsError, match=name):
            replace(LiveSettings(), **{name: value})
