"""What a coordinator learns from an operator's clips: gradients of the pack's own graph, in real rounds."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tests.cloud.coordinator_site import FLEET, PLAN, TASK, Site, keep_updates, on_site

# ruff: noqa: E402 - soundfile may be missing
soundfile = pytest.importorskip("soundfile", reason="recordings are read with it")

from auricle.errors import DataError, SettingsError
from auricle.mqtt_link.link import BrokerAddress
from auricle.packs.pack import Pack, load_pack
from auricle_cloud.evaluation.evaluator import OnnxEvaluator
from auricle_cloud.evaluation.labelled_clips import labelled_clips
from auricle_cloud.evaluation.validation_set import ValidationSet, load_validation
from auricle_cloud.rounds.read_cohort import cohort_of
from auricle_cloud.settings import RunSettings
from auricle_fleet.settings.check import check_run
from auricle_fleet.settings.fleet_settings import FleetSettings
from auricle_learning.aggregation.extras import Extras
from auricle_learning.methods import MethodSettings, get_rule
from auricle_learning.presets import Preset

DIGITS = load_pack("digits")
LEARNING = ("zeno", "fedlaw", "fedrpo")


def validation(pack: Pack, clips: int) -> ValidationSet:
    rng = np.random.default_rng(clips)
    task = pack.manifest.task
    features = rng.standard_normal((clips, task.frames, task.frontend.mels)).astype(np.float32)
    return ValidationSet(features, rng.integers(0, len(pack.labels), clips))


def test_loss_and_gradient_are_those_of_the_evaluated_model() -> None:
    """Along a direction the loss of the `evaluate` graph changes by the gradient; the last batch is not full."""
    clips = validation(DIGITS, 19)
    found = labelled_clips(DIGITS, clips, seed=1)
    order = np.random.default_rng(1).permutation(19)
    weights = DIGITS.plugin_table.initial(3).astype(np.float64)
    direction = np.random.default_rng(2).standard_normal(weights.size)
    direction /= np.linalg.norm(direction)

    assert (len(found.objectives), found.count) == (2, 19)
    for objective, rows in zip(found.objectives, (order[:16], order[16:]), strict=True):
        judge = OnnxEvaluator(DIGITS, ValidationSet(clips.features[rows], clips.targets[rows]), threads=1)

        def loss(w: Any, judge: OnnxEvaluator = judge) -> float:
            return float(judge.scores(w[None].astype(np.float32)).loss[0])

        value, gradient = objective(weights)
        assert value == pytest.approx(loss(weights), rel=1e-5)
        step = 0.02
        slope = (loss(weights + step * direction) - loss(weights - step * direction)) / (2 * step)
        assert gradient @ direction == pytest.approx(slope, rel=0.03, abs=1e-4)
        downhill = gradient / np.linalg.norm(gradient)
        slope = (loss(weights + step * downhill) - loss(weights - step * downhill)) / (2 * step)
        assert gradient @ downhill == pytest.approx(slope, rel=0.02)


def test_the_same_model_has_the_same_gradient_to_the_byte() -> None:
    (objective,) = labelled_clips(DIGITS, validation(DIGITS, 16)).objectives
    weights = DIGITS.plugin_table.initial(3).astype(np.float64)
    assert objective(weights)[1].tobytes() == objective(weights)[1].tobytes()


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    found = tmp_path_factory.mktemp("labelled")
    rng = np.random.default_rng(0)
    for word in ("one", "two", "three"):
        (found / word).mkdir()
        for take in range(3):
            soundfile.write(found / word / f"anna_nohash_{take}.wav", rng.uniform(-0.1, 0.1, 12_000), 16_000)
    return found


@pytest.mark.parametrize("name", LEARNING)
@on_site
@pytest.mark.slow
async def test_a_rule_learns_from_the_operators_clips(site: Site, folder: Path, name: str) -> None:
    preset = Preset(PLAN, MethodSettings("fedavg")).with_method(MethodSettings(name))
    coordinator = site.coordinator(1, preset, labelled=folder)
    keep_updates(coordinator)
    site.start_agents(coordinator)
    await coordinator.run()

    store = site.store()
    rows = store.updates.counted(TASK, 1)
    clips = labelled_clips(DIGITS, load_validation(folder, DIGITS), coordinator.settings.seed)
    extras = Extras(
        rate=PLAN.rate, objectives=clips.objectives, reference_samples=9.0, steps=np.ones(len(rows)), round=1
    )
    start = DIGITS.plugin_table.initial(coordinator.settings.seed)
    made = get_rule(name)(cohort_of(DIGITS.plugin_table, start, rows, coordinator.blobs, extras=extras))
    assert [done.state for done in site.done] == ["published"]
    assert site.done[0].model.tobytes() == np.asarray(made.weights, np.float32).tobytes()


@pytest.mark.parametrize("name", LEARNING)
def test_without_clips_the_rule_is_refused_and_with_them_taken(tmp_path: Path, name: str) -> None:
    preset = Preset(PLAN, MethodSettings("fedavg")).with_method(MethodSettings(name))
    with pytest.raises(SettingsError, match="labelled"):
        RunSettings(FLEET, BrokerAddress("h"), tmp_path, preset=preset)
    RunSettings(FLEET, BrokerAddress("h"), tmp_path, preset=preset, labelled=tmp_path)
    check_run(FleetSettings(method=name, labelled="clips"))
    check_run(FleetSettings(method=name))  # an emulated fleet takes them from its own speech


@on_site
async def test_a_folder_without_clips_is_said_at_the_start(site: Site, tmp_path: Path) -> None:
    with pytest.raises(DataError, match=r"nowhere"):
        site.coordinator(
            1, Preset(PLAN, MethodSettings("fedavg")).with_method(MethodSettings("zeno")), labelled=tmp_path / "nowhere"
        )
