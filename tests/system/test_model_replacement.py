"""A model-replacement attack on a real fleet: broker, coordinator and twenty agents, one of whom is not honest."""

from __future__ import annotations

import asyncio
import os
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from auricle.wire.plan import Plan
from auricle.wire.tensors import Flat
from auricle_cloud.evaluation.evaluator import OnnxEvaluator
from auricle_cloud.evaluation.validation_set import ValidationSet
from auricle_cloud.rounds.coordinator import Coordinator
from auricle_cloud.settings import Detection, RoundDone, RunSettings
from auricle_edge.fleet.agent import Agent
from auricle_edge.fleet.agent_context import AgentSettings
from auricle_fleet.broker.broker import start_broker
from auricle_learning.methods import MethodSettings
from auricle_learning.presets import Preset
from auricle_learning.training.train import LocalState, RoundResult, Trainer
from tests.cloud.model_replacement import replacement
from tests.cloud.poisoned_fleet import ATTACKER, EPOCHS_OF_THE_ATTACK, PACK, PoisonedFleet, recorded, synthetic

FLEET = "poisoned"
RECORDED = Path(os.environ.get("AURICLE_SPEECH", Path(__file__).parents[3] / "shared" / "data")) / "gsc"


def attack(trainer: Trainer, rounds: tuple[int, ...], flipped: Trainer, share: float) -> None:
    """Make a trainer give, in some rounds, what would replace the model by one trained on flipped labels (eq. 10)."""
    honest = trainer.run

    def run(plan: Plan, number: int, plugin: Flat, state: LocalState, *more: Any) -> RoundResult:
        result = honest(plan, number, plugin, state, *more)
        if number not in rounds:
            return result
        other = Plan(mode="supervised", optimizer="adamw", rate=1e-2, epochs=EPOCHS_OF_THE_ATTACK)
        wanted = flipped.run(other, number, plugin, LocalState(plugin)).plugin
        return replace(result, plugin=replacement(plugin, wanted, share).astype(np.float32))

    trainer.run = run  # type: ignore[method-assign]


async def _federate(
    fleet: PoisonedFleet, validation: ValidationSet, folder: Path, attacked: tuple[int, ...], rounds: int
) -> list[RoundDone]:
    """Run the fleet; every round that was finished."""
    done: list[RoundDone] = []

    async def note(round_done: RoundDone) -> None:
        done.append(round_done)

    users = {name: f"secret-of-{name}" for name in ("coordinator", *fleet.trainers)}
    with ThreadPoolExecutor(2) as workers:
        async with await start_broker(folder, users, fleet=FLEET) as broker:
            about = {
                "preset": Preset(fleet.plan, MethodSettings("fedvsa")),
                "devices": len(fleet.trainers),
                "start": fleet.weights,
            }
            about |= {"quorum": 1.0, "detection": Detection(permutations=50)}
            settings = RunSettings(FLEET, broker.address("coordinator"), folder / "state", rounds, **about)
            coordinator = Coordinator(settings, PACK, note, OnnxEvaluator(PACK, validation))
            tasks = []
            for name, trainer in fleet.trainers.items():
                told = AgentSettings(name, FLEET, broker.address(name), folder / name, coordinator.identity.public)
                if name == ATTACKER:
                    attack(trainer, attacked, fleet.attack, 1 / len(fleet.trainers))
                agent = Agent(told, trainer, workers)
                tasks.append(asyncio.create_task(agent.run()))
            try:
                await coordinator.run()
            finally:
                for task in tasks:
                    task.cancel()
                await asyncio.gather(*tasks, return_exceptions=True)
    return done


def _verify(done: list[RoundDone], attacked: tuple[int, ...]) -> None:
    accuracy = {d.number: d.report["accuracy"] for d in done}
    for at in attacked:
        found = done[at].report["detection"]
        print(
            f"\nattack in round {at}: accuracy {accuracy[at - 1]:.3f} -> {accuracy[at]:.3f} -> repaired "
            f"{found['accuracy_after']:.3f} -> next round {accuracy[at + 1]:.3f}; {found['sentence']}"
        )
        assert found["fires"], "the alarm comes in the next round"
        assert found["bad"] == [ATTACKER]
        assert found["accuracy_after"] >= 0.98 * accuracy[at - 1]
        assert accuracy[at + 1] >= 0.98 * accuracy[at - 1]
    false = [d.number for d in done if d.report["detection"]["fires"] and d.number - 1 not in attacked]
    print("false alarms in rounds", false)
    assert all(done[number - 1].report["detection"].get("bad", []) == [] for number in false), "nobody is wronged"


@pytest.mark.slow
@pytest.mark.nightly
def test_an_attack_on_a_fleet_of_synthetic_sounds_is_found_and_undone(tmp_path: Path) -> None:
    _verify(asyncio.run(_federate(*synthetic(), tmp_path, (10,), 12)), (10,))


@pytest.mark.slow
@pytest.mark.nightly
def test_attacks_at_rounds_10_and_25_on_recorded_speech_are_found_and_undone(tmp_path: Path) -> None:
    if not RECORDED.is_dir():
        pytest.skip("there is no recorded speech beside this checkout")
    _verify(asyncio.run(_federate(*recorded(RECORDED), tmp_path, (10, 25), 27)), (10, 25))
