"""Ready-made settings: rates by round, worked out by hand, and FedMLAC's own values."""

from __future__ import annotations

import math
from typing import Any

import msgspec
import pytest

from auricle.errors import SettingsError
from auricle.wire.plan import Plan
from auricle_learning.aggregation.server_optimizer import OptimizerSettings
from auricle_learning.methods import MethodSettings
from auricle_learning.methods.method import JobChanges
from auricle_learning.methods.passes import graph_optimizer, plan_of_pass
from auricle_learning.presets import FEDAVG, PAPER, PRACTICAL, PRESETS, Preset, get_preset

PLAN = Plan(rate=0.2, local_rate=0.4)
ADAM = OptimizerSettings(kind="adam", lr=0.8)


def test_the_paper_preset_is_fedmlac_and_nothing_else() -> None:
    nothing = dict.fromkeys(("momentum", "decay", "clip", "plugin_ce", "prior"), 0.0)
    values = {"mode": "mutual", "epochs": 1, "optimizer": "sgd", "rate": 0.01, "local_rate": 0.01, "alpha": 0.5}
    others = {"keep_state": False, "augment": False, "codec": "float32", "seed": 3}

    assert PAPER.plan_for(7, 5000, seed=3) == Plan(**values, **nothing, **others)
    assert PAPER.method == MethodSettings("lpa")
    assert PAPER.method.get_rule().settings == {"prune_low": 0.1, "prune_high": 0.1}
    assert PAPER.server_for(7, 5000).kind == "none"
    assert [PAPER.factor(n, 5000) for n in (1, 2500, 5000)] == [1.0, 1.0, 1.0]


def test_a_cosine_falls_from_one_to_its_end() -> None:
    preset = Preset(PLAN, MethodSettings("lpa"), schedule="cosine", final=0.2)

    factors = [preset.factor(number, 4) for number in (1, 2, 3, 4)]

    # 0.5 (1 + cos(π i / 4)) = 1, 0.853553, 0.5, 0.146447; then 0.2 + 0.8 of it.
    assert factors == pytest.approx([1.0, 0.8828427, 0.6, 0.3171573])


def test_a_warm_up_rises_and_multiplies_the_schedule() -> None:
    steady = Preset(PLAN, MethodSettings("lpa"), warmup=4)
    falling = Preset(PLAN, MethodSettings("lpa"), warmup=2, schedule="cosine")

    assert [steady.factor(n, 10) for n in (1, 2, 3, 4, 5, 10)] == [0.25, 0.5, 0.75, 1.0, 1.0, 1.0]
    assert falling.factor(1, 4) == pytest.approx(0.5)
    assert falling.factor(3, 4) == pytest.approx(0.5)


def test_the_schedule_reaches_whom_it_is_for() -> None:
    devices = Preset(PLAN, MethodSettings("lpa"), server=ADAM, warmup=4)
    server = Preset(PLAN, MethodSettings("lpa"), server=ADAM, warmup=4, scheduled=("server",))
    both = Preset(PLAN, MethodSettings("lpa"), server=ADAM, warmup=4, scheduled=("devices", "server"))

    rates = [
        (p.plan_for(2, 9, 1).rate, p.plan_for(2, 9, 1).local_rate, p.server_for(2, 9).rate)
        for p in (devices, server, both)
    ]

    assert rates == [pytest.approx((0.1, 0.2, 0.8)), pytest.approx((0.2, 0.4, 0.4)), pytest.approx((0.1, 0.2, 0.4))]


def test_a_server_without_an_optimizer_has_no_rate_to_schedule() -> None:
    with pytest.raises(SettingsError, match="practical"):
        get_preset("pratical")
    preset = Preset(PLAN, MethodSettings("fedavg"), warmup=4, scheduled=("server",))

    assert preset.server_for(1, 9) is preset.server


@pytest.mark.parametrize("name", sorted(PRESETS))
@pytest.mark.parametrize("rounds", [1, 2, 7, 150, 5000])
def test_every_round_of_every_preset_can_be_said_on_the_wire(name: str, rounds: int) -> None:
    preset = get_preset(name)

    for number in {1, 2, 3, rounds // 2 + 1, rounds}:
        if number > rounds:
            continue
        plan = preset.plan_for(number, rounds, seed=1 << 40)
        rates = {"rate": plan.rate, "local_rate": plan.local_rate, "seed": 1 << 40}
        assert plan == msgspec.structs.replace(preset.plan, **rates), "only rates and seed change"
        assert msgspec.msgpack.decode(msgspec.msgpack.encode(plan), type=Plan) == plan
        assert math.isfinite(preset.server_for(number, rounds).rate)
    preset.method.get_rule()


@pytest.mark.parametrize(
    ("method", "option", "value"),
    [
        ("feddyn", "alpha", 1e300),
        ("mupfl", "max_clusters", 1 << 60),
        ("fedrep", "head_epochs", 1001),
        ("fedrep", "body_epochs", 10**30),
        ("fedkad", "projection", 1 << 60),
        ("fedkad", "projection", 10**30),
    ],
)
def test_an_option_that_no_plan_can_say_is_refused_in_a_sentence(method: str, option: str, value: float) -> None:
    with pytest.raises(SettingsError, match=f"{option}|{method}"):
        PRACTICAL.with_method(MethodSettings(method, {option: value}))


def test_from_scratch_a_preset_is_what_it_is() -> None:
    """Bit by bit: published figures come from these."""
    assert all(preset.fitted(trained=False) is preset for preset in PRESETS.values())
    assert (PRACTICAL.plan.rate, PRACTICAL.plan.local_rate, PRACTICAL.server.rate) == (0.05, 1e-3, 0.02)
    # Half a cosine over 80 rounds, and a third of it in the first round: 0.02 / 3.
    assert PRACTICAL.server_for(1, 80).rate == pytest.approx(0.02 / 3)
    assert "adam at a rate of at most 0.02" in str(PRACTICAL.fitted(trained=False).rates())


@pytest.mark.parametrize(
    ("trains", "graph", "rate"), [("plugin", "sgd", 0.1), ("personal", "sgd", 0.1), ("local", "adamw", 3e-3)]
)
def test_by_the_fedavg_preset_own_models_train_by_adamw_and_the_plugin_by_sgd(
    trains: Any, graph: str, rate: float
) -> None:
    told = plan_of_pass(FEDAVG.plan, JobChanges(trains=trains))

    assert (graph_optimizer(told), told.rate, told.decay) == (graph, rate, 0.0)


@pytest.mark.parametrize("preset", [PRACTICAL, FEDAVG])
def test_from_trained_weights_all_rounds_take_small_steps_and_the_average_as_it_is(preset: Preset) -> None:
    fitted = preset.fitted(trained=True)

    assert {fitted.plan_for(number, 9, 1).rate for number in (1, 2, 9, 30)} == {0.001}
    assert {fitted.server_for(number, 9).kind for number in (1, 2, 9, 30)} == {"none"}
    assert msgspec.structs.replace(fitted.plan, rate=preset.plan.rate) == preset.plan
    assert fitted.method == preset.method
    assert PAPER.fitted(trained=True) is PAPER


@pytest.mark.parametrize("trained", [True, False])
def test_a_rate_that_somebody_named_wins_and_all_else_is_as_from_scratch(trained: bool) -> None:
    named = PRACTICAL.fitted(trained=trained, server_rate=0.001)

    assert named.plan == PRACTICAL.plan
    assert named.server_for(3, 80).rate == pytest.approx(0.001 * PRACTICAL.factor(3, 80))
    assert named.rates().server_rate == 0.001
    with pytest.raises(SettingsError, match="No server optimizer"):
        PAPER.fitted(trained=trained, server_rate=0.001)
    with pytest.raises(SettingsError, match="greater than 0"):
        PRACTICAL.fitted(trained=trained, server_rate=0.0)


def test_a_task_that_goes_on_after_its_horizon_keeps_the_last_rounds_rates() -> None:
    """A coordinator without --rounds counts rates over 200 rounds and runs on."""
    assert PRACTICAL.server_for(201, 200) == PRACTICAL.server_for(300, 200) == PRACTICAL.server_for(200, 200)
    assert PRACTICAL.server_for(200, 200).rate > 0
