"""What a device keeps from one round's training for the next: FedDyn's memory, the optimizer's state."""

from __future__ import annotations

from dataclasses import replace

import msgspec
import numpy as np
import pytest
from tests.learning.toy import device
from tests.learning.toy_training import PLUGIN, distance, plan_of, ran, trainer_of

from auricle_learning.training.train import LocalState

# -- FedDyn

OPTIONS: dict[str, float | str] = {"alpha": 0.2, "weighting": "uniform", "clip": 5.0, "limit": "clamp"}


@pytest.mark.parametrize("mode", ["mutual", "supervised"])
def test_a_linear_term_adds_its_vector_to_every_step(mode: str) -> None:
    """One step at rate 0.5 from the anchor: the pull is 0, and the step differs by 0.5 g."""
    trainer = trainer_of(device(16))
    plan = plan_of(mode=mode, mu=0.2, method="feddyn", options=OPTIONS, rate=0.5, plugin_ce=1.0)
    g = np.random.default_rng(3).standard_normal(PLUGIN.size).astype(np.float32)
    given = replace(trainer.first_state(), variates={"feddyn.g": g})
    free, moved = ran(trainer, plan), trainer.run(plan, 1, PLUGIN, given)
    assert free.steps == moved.steps == 1
    assert np.allclose(moved.plugin - free.plugin, 0.5 * g, atol=1e-5)
    for result, before in ((moved, g), (free, 0)):
        assert np.allclose(result.local.variates["feddyn.g"], before - 0.2 * (result.plugin - PLUGIN), atol=1e-6)


def test_a_plan_without_a_memory_forgets_and_a_memory_of_another_model_is_not_used() -> None:
    trainer = trainer_of(device(16))
    other = replace(trainer.first_state(), variates={"feddyn.g": np.ones(3, np.float32)})
    assert trainer.run(plan_of(), 1, PLUGIN, other).local.variates == {}
    begun = trainer.run(plan_of(mu=0.2, method="feddyn", options=OPTIONS), 1, PLUGIN, other)
    assert np.allclose(begun.local.variates["feddyn.g"], -0.2 * (begun.plugin - PLUGIN), atol=1e-6)


# -- the optimizer's state


@pytest.mark.parametrize("optimizer", ["sgd", "adamw"])
def test_kept_state_makes_two_rounds_one(optimizer: str) -> None:
    """Sixteen clips are one batch, so two rounds of one epoch take the very steps of one round of two."""
    trainer = trainer_of(device(16))
    plan = plan_of(optimizer=optimizer, momentum=0.9, rate=1e-2, local_rate=1e-2, plugin_ce=1.0)
    whole = ran(trainer, msgspec.structs.replace(plan, epochs=2))

    def two(keep: bool) -> np.ndarray:
        kept = msgspec.structs.replace(plan, keep_state=keep)
        first = ran(trainer, kept)
        assert bool(first.local.slots) == keep
        second = trainer.run(kept, 2, first.plugin, first.local)
        if keep:
            assert second.local.steps == 2
        return second.plugin

    assert distance(two(True) - PLUGIN, whole.plugin - PLUGIN) < 1e-3
    assert distance(two(False) - PLUGIN, whole.plugin - PLUGIN) > 1e-2


@pytest.mark.parametrize(
    "spoil",
    [
        lambda state, other: replace(state, slots=other.slots, steps=other.steps),
        lambda state, _: replace(state, slots={k: v[:-1] for k, v in state.slots.items()}),
        lambda state, _: replace(state, slots={k: v for k, v in state.slots.items() if "second" not in k}),
    ],
    ids=["of another optimizer", "of another size", "a part of it"],
)
def test_state_that_does_not_fit_counts_as_none_and_so_do_its_steps(spoil: object) -> None:
    """AdamW's bias correction must start again with its moments."""
    trainer = trainer_of(device(16))
    adamw = plan_of(optimizer="adamw", keep_state=True)
    state = ran(trainer, adamw).local
    other = ran(trainer, plan_of(keep_state=True, epochs=3)).local
    result = trainer.run(adamw, 2, PLUGIN, spoil(state, other))  # type: ignore[operator]
    fresh = trainer.run(adamw, 2, PLUGIN, LocalState(state.weights))
    assert result.local.steps == 1
    assert np.array_equal(result.plugin, fresh.plugin)
