"""Rounds of devices with labels and without: who is asked, who counts as what, and the angles of the directions."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from msgspec import UNSET
from tests.cloud import coordinator_site
from tests.cloud.arrivals import update
from tests.cloud.coordinator_site import PLAN, TASK, Site, run, trainer
from tests.learning.test_rules_labelled import plane

from auricle.errors import WireError
from auricle.packs.pack import load_pack
from auricle.wire.plan import FixMatch, Plan
from auricle_cloud.evaluation.labelled_clips import labelled_clips
from auricle_cloud.evaluation.validation_set import ValidationSet
from auricle_cloud.link.update_checks import require_header
from auricle_cloud.operations.explanation import explain
from auricle_cloud.rounds.read_cohort import by_device
from auricle_cloud.settings import Limits
from auricle_cloud.states.report import read_report
from auricle_learning.aggregation.direction import angles_to
from auricle_learning.aggregation.inputs import label_flags
from auricle_learning.methods import MethodSettings, get_rule
from auricle_learning.presets import PRACTICAL, Preset
from auricle_learning.runtimes import StepRuntime
from auricle_learning.training.speech_data import DeviceData
from auricle_learning.training.train import Trainer

DIGITS = load_pack("digits")

# -- the plan


def test_the_rule_asks_devices_for_fixmatch_on_the_plug_in_itself() -> None:
    plan = get_rule("fedrpo", threshold=0.9, unlabelled=2).plan_for(Plan(rate=0.3, augment=True))
    assert plan == Plan(mode="supervised", rate=0.3, augment=True, fixmatch=FixMatch(threshold=0.9, weight=2.0))
    assert get_rule("fedrpo").plan_for(Plan()).fixmatch == FixMatch(threshold=0.7, weight=1.0)
    # A lambda of 0 leaves the plan and its bytes as they were.
    plan = Plan()
    assert get_rule("fedrpo", unlabelled=0).plan_for(plan) is plan
    assert PRACTICAL.with_method(MethodSettings("fedrpo", {"unlabelled": 0})).plan == PRACTICAL.plan


# -- angles


def test_angles_are_those_between_each_direction_and_the_common_one() -> None:
    """The common one is (0, 1), that of the first client; see `test_fedrpo_by_hand`."""
    result = get_rule("fedrpo", c=-1.0, lr=1.0)(
        plane(
            [[0, 2], [-3, 0], [0, 0]],
            [1, 2, 1],
            reference=np.array([1.0, 0.0]),
            reference_samples=1,
            labelled=np.array([0.0, 1.0, 0.0]),
        )
    )
    assert result.direction is not None
    np.testing.assert_allclose(result.direction.angles, [0, 90, np.nan], atol=1e-6)
    assert result.direction.coordinator == pytest.approx(90)
    assert result.direction.coordinator_weight == pytest.approx(0, abs=1e-9)
    report = result.direction.report(result.ids)
    assert report["angles"] == pytest.approx({"00": 0, "01": 90, "02": None})
    assert report["labelled"] == ["01"]
    assert (report["coordinator"], report["coordinator_weight"]) == (pytest.approx(90), pytest.approx(0, abs=1e-9))
    assert report.keys() == {"angles", "labelled", "coordinator", "coordinator_weight"}


def test_an_angle_of_a_mixture_is_to_its_length_and_a_sum_of_0_has_none() -> None:
    units = np.array([[1.0, 0], [0, 1.0]])
    np.testing.assert_allclose(angles_to(units @ units.T, np.array([0.5, 0.5])), [45, 45])
    units = np.array([[1.0, 0], [-1.0, 0]])
    assert np.isnan(angles_to(units @ units.T, np.array([0.5, 0.5]))).all()
    assert np.isnan(angles_to(np.eye(1), np.array([1e-12]))).all(), "no longer than rounding"
    beyond = np.array([[1.0, 1.5, -1.5], [1.5, 1.0, 0.0], [-1.5, 0.0, 1.0]])  # cosines off by more than rounding
    np.testing.assert_allclose(angles_to(beyond, np.array([1.0, 0.0, 0.0])), [0, 0, 180])
    np.testing.assert_allclose(angles_to(np.array([[1.0, 0.5], [0.5, 1.0]]), np.array([0.25, 0.0])), [0, 60])


# -- who counts as what


def test_several_updates_of_a_device_have_labels_where_one_had() -> None:
    said: list[Any] = [SimpleNamespace(samples=5, unsupervised=free) for free in (None, UNSET, 0, 4, 5)]
    assert label_flags(said).tolist() == [1, 1, 1, 1, 0], "unless all samples had none"
    cohort = plane([[1, 0], [0, 1], [1, 1]], [1, 2, 3], labelled=np.array([1.0, 0.0, 0.0]))
    merged = by_device(replace(cohort, ids=("a@1", "a@2", "b")))
    assert merged.extras.labelled.tolist() == [1, 0]


def test_an_update_cannot_have_more_samples_without_labels_than_samples() -> None:
    length = 4 * DIGITS.plugin_table.size
    require_header(update(length=length, samples=4, unsupervised=4), DIGITS.plugin_table, Limits())
    with pytest.raises(WireError, match="labels"):
        require_header(update(length=length, samples=4, unsupervised=5), DIGITS.plugin_table, Limits())


# -- a round with real agents


@pytest.mark.slow
def test_devices_with_labels_and_without_make_a_model_together(tmp_path: Path) -> None:
    """All that the rule needs comes back from the database; an agent that does not know FixMatch is left alone."""

    async def case(site: Site) -> None:
        options = {"threshold": 1e-6}
        preset = Preset(PLAN, MethodSettings("fedavg")).with_method(MethodSettings("fedrpo", options))
        coordinator = site.coordinator(1, preset, labelled=tmp_path)
        old = coordinator.site.needs
        site.start_agents(coordinator)
        await coordinator.run()

        store = site.store()
        rows, report = store.updates.counted(TASK, 1), store.rounds.get(TASK, 1).report
        assert old == ["fixmatch"]
        assert [done.state for done in site.done] == ["published"]
        assert {row.device: row.unsupervised for row in rows} == {"dev-a": 3, "dev-b": 3, "dev-c": 0}
        assert {row.samples for row in rows} == {3}
        told = read_report(report or {}).direction
        assert told is not None and told.labelled == ["dev-c"]
        assert set(told.angles) == {"dev-a", "dev-b", "dev-c"} and told.coordinator is not None
        assert all(angle is None or 0 <= angle <= 180 for angle in told.angles.values())
        assert told.angles["dev-c"] is not None and told.angles["dev-c"] <= 90 + 1e-3
        assert told.coordinator <= 90 + 1e-3
        told_of = read_report(report or {}).updates
        assert {row.device: row.unsupervised for row in told_of} == {"dev-a": 3, "dev-b": 3, "dev-c": 0}

    task = DIGITS.manifest.task
    rng = np.random.default_rng(5)
    features = rng.standard_normal((9, task.frames, task.frontend.mels)).astype(np.float32)
    clips = ValidationSet(features, rng.integers(0, len(DIGITS.labels), 9))

    def nameless(runtime: StepRuntime, seed: int) -> Trainer:
        """The third of the devices has labels."""
        own = trainer(runtime, seed)
        if seed < 3:
            none = own.data.train.chosen(np.arange(0))
            own.renew(DeviceData(none, none, None, own.data.train))
        return own

    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(coordinator_site, "trainer", nameless)
        patched.setattr("auricle_cloud.rounds.coordinator.load_validation", lambda *_: clips)
        run(case, StepRuntime(DIGITS), tmp_path)
    assert labelled_clips(DIGITS, clips).count == 9


# -- why


def test_why_says_how_far_the_parties_are_from_the_rounds_direction() -> None:
    angles = {"a": 100.0, "b": 40.0, "c": 60.0, "d": None}
    direction = {"angles": angles, "labelled": ["b"], "coordinator": 20.04, "coordinator_weight": 0.5}
    report = {"rule": "fedrpo", "updates": [{"device": "a", "samples": 8, "unsupervised": 8}]}

    def said(**more: object) -> str:
        whole = explain(read_report({**report, **more}), task="t", number=1, state="published").sentences
        return " ".join(sentence for sentence in whole if "direction is" in sentence)

    figures = re.findall(r"\d+\.\d|\d device", said(direction=direction))
    assert figures == ["20.0", "40.0", "1 device", "80.0", "2 device"]
    assert said(direction=None) == said(direction={"angles": {"d": None}}) == ""
    alone = said(direction={**direction, "coordinator": None})
    assert re.findall(r"\d+\.\d|\d device", alone) == ["40.0", "1 device", "80.0", "2 device"]
    assert alone.count("degrees") == 1
