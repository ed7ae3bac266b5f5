"""From attack to repair with real training: twenty clients, of whom one replaces the model (FedVSA, section 6)."""

from __future__ import annotations

import os
from pathlib import Path

import numpy as np
import pytest

pytest.importorskip("onnxruntime", reason="the clients train and the models are judged on it")

from tests.cloud.poisoned_fleet import ATTACKER, CLIENTS, PACK, PoisonedFleet, recorded, synthetic

from auricle_cloud.detection.coalitions import loss_models, worth
from auricle_cloud.detection.repair import Repair, hotfix, reaggregate
from auricle_cloud.detection.shapley import Shapley, shapley
from auricle_cloud.evaluation.evaluator import OnnxEvaluator
from auricle_cloud.evaluation.validation_set import ValidationSet
from auricle_learning.aggregation.cohort import FloatArray
from auricle_learning.aggregation.server_optimizer import OptimizerSettings
from auricle_learning.methods import get_rule

RECORDED = Path(os.environ.get("AURICLE_SPEECH", Path(__file__).parents[3] / "shared" / "data")) / "gsc"
NONE = OptimizerSettings()


def _attack_and_repair(fleet: PoisonedFleet, validation: ValidationSet, at: int, permutations: int) -> None:
    """Attack in one round; the next one finds it, names the attacker and goes on from a sound model."""
    evaluator = OnnxEvaluator(PACK, validation)

    def accuracy(model: FloatArray) -> float:
        return float(evaluator.scores(model[None]).accuracy[0])

    for number in range(1, at + 1):
        assert not fleet.play(attacked=number == at).fires, "a false alarm"
    cohort = fleet.cohort
    assert cohort is not None
    before, poisoned = accuracy(cohort.start), accuracy(fleet.weights)
    verdict = fleet.play()
    game = worth(cohort, loss_models(cohort), lambda models: evaluator.scores(models).accuracy)
    found: Shapley = shapley(cohort.ids, game, np.random.default_rng(0), permutations=permutations, margin=0.01)
    repairs: dict[str, Repair] = {
        "aggregated again": reaggregate(cohort, found.bad, get_rule("fedvsa"), NONE, None),
        "hotfix": hotfix(cohort, get_rule("fedvsa")(cohort), found.bad, NONE, None),
    }
    after = {name: accuracy(repair.weights) for name, repair in repairs.items()}
    phi = dict(zip(found.ids, found.phi, strict=True))
    print(
        f"\nround {at}: {verdict.votes} of {verdict.cohort} votes; accuracy {before:.3f} -> {poisoned:.3f} -> "
        f"{after['aggregated again']:.3f} (hotfix {after['hotfix']:.3f}); phi of the attacker {phi.pop(ATTACKER):.3f}, "
        f"of the others {min(phi.values()):.4f} to {max(phi.values()):.4f}; {found.evaluations} coalitions"
    )

    assert poisoned < 0.6 * before
    assert verdict.fires
    assert found.bad == (ATTACKER,)
    assert all(value >= 0.98 * before for value in after.values())
    fleet.weights = repairs["aggregated again"].weights
    assert not fleet.play().fires, "the repaired model is no cause for alarm"
    assert accuracy(fleet.weights) >= 0.98 * before


@pytest.mark.slow
def test_an_attack_on_synthetic_sounds_is_found_and_undone() -> None:
    fleet, validation = synthetic()
    assert len(fleet.trainers) == CLIENTS

    _attack_and_repair(fleet, validation, at=10, permutations=20)


@pytest.mark.slow
@pytest.mark.timeout(600)
@pytest.mark.parametrize("at", [10, 25])
@pytest.mark.nightly
def test_an_attack_on_recorded_speech_is_found_and_undone(at: int) -> None:
    if not RECORDED.is_dir():
        pytest.skip("there is no recorded speech beside this checkout")

    _attack_and_repair(*recorded(RECORDED), at=at, permutations=50)
