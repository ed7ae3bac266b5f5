"""Methods: what a device's half changes, sends and keeps, by hand, and what holds for all of `METHODS`."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import msgspec
import numpy as np
import pytest
from tests.learning.toy import device
from tests.learning.toy_training import PACK, PLUGIN, plan_of, trainer_of

from auricle.errors import AuricleError, SettingsError, WireError
from auricle.wire.plan import Bavd, Noise, Plan
from auricle_learning.aggregation.cohort import Cohort, Layer
from auricle_learning.aggregation.extras import RuleState
from auricle_learning.aggregation.server_state import ServerState
from auricle_learning.methods import METHODS, get_method
from auricle_learning.methods.method import NO_CHANGES, Method, Needs, Received, Server, Trained, Vector
from auricle_learning.methods.vectors import declared, method_of, withheld
from auricle_learning.training.device_half import DeviceHalf
from auricle_learning.training.learn_settings import LearnSettings
from auricle_learning.training.mechanism import LentData
from auricle_learning.training.training_job import job_of


def plan_with(name: str, **changes: Any) -> Plan:
    method = get_method(name)
    return method.rule_for_rounds.plan_for(Plan(**changes))


def pair(start: list[float], weights: list[list[float]]) -> Cohort:
    """Clients over one layer."""
    layers = (Layer("all", (slice(0, len(start)),)),)
    ids, samples = [f"c{k}" for k in range(len(weights))], [1] * len(weights)
    return Cohort.build(ids=ids, weights=np.array(weights), samples=samples, start=np.array(start), layers=layers)


def test_an_anchor_gets_the_offset_of_the_weights_it_holds() -> None:
    """w = (1, 2, 3), h = (0, 0, 1), an offset of (10, -10) on the last two: w and w - h get it, g - g_i does not."""
    w, h, g = (np.array(values, np.float32) for values in ([1, 2, 3], [0, 0, 1], [4, 5, 6]))
    plan = plan_with("feddc", mode="supervised")
    changes = METHODS["feddc"].before(Received(plan, w, {"g": g}), {"h": h})
    offset = np.array([10, -10], np.float32)

    job = job_of(plan, replace(changes, offset=offset), {"model": "lite"}, {"model": w}, w, (0,), ({}, 0))

    assert job.weights["model"].tolist() == [1, 12, -7]
    assert job.vectors["model.anchor"].tolist() == [1, 12, -8]
    assert job.vectors["model.linear"].tolist() == [4, 5, 6]
    held = replace(NO_CHANGES, offset=offset)
    proximal = job_of(plan_with("fedprox", mode="supervised"), held, {"model": "lite"}, {"model": w}, w, (0,), ({}, 0))
    assert proximal.vectors["model.anchor"].tolist() == [1, 12, -7]


@pytest.mark.parametrize("prior", [0.0, 1.0])
def test_the_first_round_of_feddc_is_that_of_fedprox(prior: float) -> None:
    """Nobody has drifted yet: the pull is α (θ - w), whatever the label frequencies add to the biases meanwhile."""
    plans = [
        get_method(name, **{option: 0.5}).rule_for_rounds.plan_for(
            plan_of(mode="supervised", epochs=2, rate=0.5, prior=prior)
        )
        for name, option in (("feddc", "alpha"), ("fedprox", "mu"))
    ]
    zeros = {"g": np.zeros_like(PLUGIN), "size": np.zeros(1, np.float32)}
    data = device(12)
    trainer = trainer_of(replace(data, train=data.train.chosen(np.array([0, 3, 6, 9, 1]))))

    ours, theirs = (
        trainer.run(plan, 1, PLUGIN, trainer.first_state(), lent=LentData(vectors=told)).plugin
        for plan, told in zip(plans, (zeros, {}), strict=True)
    )

    assert not np.allclose(ours, PLUGIN)
    np.testing.assert_allclose(ours, theirs, atol=1e-6)


def test_scaffold_on_a_device_by_hand() -> None:
    """x = (1, 2), c = (0.5, 0), c_i = (0.25, 1); four steps of rate 0.5 to y = (0, 3): (x - y) / 2 = (0.5, -0.5)."""
    plan = plan_with("scaffold", rate=0.5)
    x, c, own = (np.array(values, np.float32) for values in ([1, 2], [0.5, 0], [0.25, 1]))
    received, method = Received(plan, x, {"c": c}), METHODS["scaffold"]

    changes = method.before(received, {"c": own})
    sent, kept = method.after(Trained(received, np.array([0, 3], np.float32), 4), {"c": own})

    assert (changes.terms, changes.vectors["linear"].tolist()) == (("drift",), [0.25, -1.0])
    assert sent == {}
    assert kept["c"].tolist() == [0.25 - 0.5 + 0.5, 1 - 0 - 0.5]
    assert method.after(Trained(received, x, 0), {"c": own})[1]["c"].tolist() == own.tolist(), "no step, no change"
    first = method.before(Received(plan, x), {})
    assert first.vectors["linear"].tolist() == [0, 0], "before its first round both variates are zeros"


def test_scaffold_at_the_coordinator_by_hand() -> None:
    """Two of four clients, rate 0.5, two steps: (x - y) / 1 = (-1, 0) and (-3, 0); c <- c + (sum - 2 c) / 4."""
    state = RuleState("scaffold", {"c": np.array([1.0, 0.0])}, 3)
    cohort = pair([0.0, 0.0], [[1.0, 0.0], [3.0, 0.0]])
    cohort = replace(cohort, extras=replace(cohort.extras, steps=np.array([2.0, 2.0])))

    step = METHODS["scaffold"].aggregate(cohort, state, Server(clients=4, rate=0.5))

    assert step.aggregate.weights.tolist() == [2.0, 0.0]
    assert step.send["c"].tolist() == [1.0 + (-4.0 - 2.0) / 4, 0.0]
    assert step.state is not None and step.state.step == 4


def test_feddc_on_a_device_by_hand() -> None:
    """Four clips of a mean of 2: ω = 2. w = 1, h_i = 0.5, g = 4, g_i = 1; two steps of rate 0.5 to θ = 3."""
    plan = plan_with("feddc", rate=0.5)
    w, g, size, h, own = (np.array([value], np.float32) for value in (1, 4, 2, 0.5, 1))
    received, method = Received(plan, w, {"g": g, "size": size}, samples=4), METHODS["feddc"]

    changes = method.before(received, {"h": h, "g": own})
    sent, kept = method.after(Trained(received, np.array([3], np.float32), 2), {"h": h, "g": own})

    assert (changes.vectors["anchor"].tolist(), changes.vectors["linear"].tolist()) == ([0.5], [3.0])
    assert changes.scalars == {"mu": pytest.approx(0.01 / 2)}
    assert sent == {}
    assert (kept["h"].tolist(), kept["g"].tolist()) == ([2.5], [1 - 4 / 2 + (1 - 3) / (2 * 0.5)])
    stayed = method.after(Trained(received, w, 0), {"h": h, "g": own})[1]
    assert (stayed["h"].tolist(), stayed["g"].tolist()) == ([0.5], [1.0])
    first = method.before(Received(plan, w, {"g": 0 * g, "size": np.zeros(1, np.float32)}, samples=4), {})
    assert first.scalars == {"mu": pytest.approx(0.01)}, "before its first round no mean is known"


def test_feddyn_on_a_device_by_hand() -> None:
    """α = 0.5, w = 1, g_i = 2: -2 is added to each gradient, and after θ = 3 it is 2 - 0.5 (3 - 1) = 1."""
    method = get_method("feddyn", alpha=0.5)
    plan = method.rule_for_rounds.plan_for(Plan())
    received, own = Received(plan, np.array([1], np.float32)), np.array([2], np.float32)

    changes = method.before(received, {"g": own})
    sent, kept = method.after(Trained(received, np.array([3], np.float32), 2), {"g": own})

    assert (plan.mu, plan.clip) == (0.5, 10.0)
    assert method.rule_for_rounds.plan_for(Plan(clip=3.0)).clip == 3.0, "a plan's own limit stays"
    assert {name: vector.tolist() for name, vector in changes.vectors.items()} == {"linear": [-2.0]}
    assert (changes.terms, changes.scalars) == (NO_CHANGES.terms, NO_CHANGES.scalars)
    assert (sent, kept["g"].tolist(), kept["g"].dtype) == ({}, [1.0], np.float32)


def test_what_feddc_sends_has_the_mean_number_of_clips_beside_g() -> None:
    cohort = pair([0.0, 0.0], [[1.0, 0.0], [3.0, 0.0]])
    cohort = replace(cohort, extras=replace(cohort.extras, steps=np.array([2.0, 2.0])))

    step = METHODS["feddc"].aggregate(cohort, None, Server(clients=4, rate=0.5, total_samples=12.0))

    assert step.send["size"].tolist() == [3.0]
    assert step.send["g"] == pytest.approx([(-1 / 3 - 3 / 3) / 4, 0.0])
    assert step.state is not None
    again = ServerState.from_bytes(ServerState(rule=step.state).to_bytes(), 2).rule
    assert METHODS["feddc"].sent(again, {"g": 2, "size": 1})["size"].tolist() == [3.0]
    assert {name: vector.size for name, vector in METHODS["feddc"].sent(None, {"g": 2, "size": 1}).items()} == {
        "g": 2,
        "size": 1,
    }


def test_feddisco_gets_the_histogram_of_a_real_training_and_only_with_the_owners_word() -> None:
    trainer = trainer_of(device(16))
    plan, first = get_method("feddisco").rule_for_rounds.plan_for(plan_of(mode="supervised")), trainer.first_state()

    kept_back = trainer.run(plan, 1, PLUGIN, first)
    trainer.settings = msgspec.structs.replace(trainer.settings, vectors=("histogram",))
    told = trainer.run(plan, 1, PLUGIN, first).vectors["histogram"]

    assert kept_back.vectors == {}
    assert told.tolist() == np.bincount(trainer.data.train.targets, minlength=len(PACK.labels)).tolist()
    assert (told.sum(), told.dtype) == (16, np.float32)
    (due,) = declared(plan, PACK, gradients=False)
    assert due.check is not None
    due.check(told, 1.0)
    for wrong in (-told, told * 1e9):
        with pytest.raises(WireError):
            due.check(wrong, 1.0)


def test_feddisco_weighs_by_the_histograms_that_came() -> None:
    cohort = pair([0.0], [[8.0], [16.0]])
    told = {"histogram": [np.array([1.0, 1.0], np.float32), np.array([2.0, 0.0], np.float32)]}
    by_vectors = METHODS["feddisco"].rule(replace(cohort, extras=replace(cohort.extras, vectors=told)))
    counts = np.array([[1.0, 1.0], [2.0, 0.0]])
    by_counts = METHODS["feddisco"].rule(replace(cohort, extras=replace(cohort.extras, class_counts=counts)))

    assert by_vectors.weights.tolist() == by_counts.weights.tolist()
    assert by_vectors.share[0, 0] > by_vectors.share[1, 0], "even classes count for more"


def test_the_linear_term_moves_the_first_step_of_a_real_training() -> None:
    """One step at rate 0.5 with c - c_i = v moves the plug-in by -0.5 v more."""
    trainer, drawn = trainer_of(device(16)), np.random.default_rng(5)
    c, own = (drawn.standard_normal(PLUGIN.size).astype(np.float32) for _ in range(2))
    free = plan_of(mode="supervised", rate=0.5)
    plan = get_method("scaffold").rule_for_rounds.plan_for(free)
    state = replace(trainer.first_state(), variates={"scaffold.c": own, "feddyn.g": own})

    plain = trainer.run(free, 1, PLUGIN, state)
    moved = trainer.run(plan, 1, PLUGIN, state, lent=LentData(vectors={"c": c}))

    np.testing.assert_allclose(moved.plugin - plain.plugin, -0.5 * (c - own), atol=1e-5)
    expected = own - c + (PLUGIN.astype(np.float64) - moved.plugin) / 0.5
    np.testing.assert_allclose(moved.local.variates["scaffold.c"], expected, atol=1e-5)
    assert sorted(moved.local.variates) == ["scaffold.c"], "what another method kept is forgotten"
    assert plain.local.variates == {}


@pytest.mark.parametrize("name", METHODS)
def test_a_plan_names_a_method_only_where_devices_have_a_half_of_it(name: str) -> None:
    method = METHODS[name]
    plan = method.rule_for_rounds.plan_for(Plan())

    assert plan.method == (name if method.has_device_half else "")
    told = msgspec.msgpack.decode(msgspec.msgpack.encode(plan), type=Plan)
    assert told == plan
    half = method_of(told)
    assert (half is None) == (not plan.method)
    if half is not None:
        assert half.rule.options == method.rule.options


@pytest.mark.parametrize(
    ("name", "needs"),
    [
        ("creff", ("server-state", "device-half")),
        ("feddc", ("server-state", "steps", "device-half")),
        ("feddisco", ("device-half",)),
        ("feddyn", ("server-state", "device-half")),
        ("fedkad", ("server-state",)),
        ("mupfl", ("personal-models", "server-state")),
        ("scaffold", ("server-state", "steps", "device-half")),
        *((name, ()) for name in ("ditto", "fedmlac", "fedrep", "local")),
    ],
)
def test_what_a_method_needs_of_a_round(name: str, needs: tuple[str, ...]) -> None:
    assert METHODS[name].rule.needs == needs


@pytest.mark.parametrize("name", ["scaffold", "feddyn", "feddc"])
def test_a_device_forgets_what_was_of_another_model(name: str) -> None:
    received = Received(plan_with(name), np.zeros(3, np.float32))
    strange = {key: np.ones(5, np.float32) for key in ("c", "g", "h")}

    changes = METHODS[name].before(received, strange)
    _, kept = METHODS[name].after(Trained(received, np.ones(3, np.float32), 1), strange)

    assert all(vector.shape == (3,) and not vector.any() for vector in changes.vectors.values())
    assert all(vector.shape == (3,) for vector in kept.values())


def test_a_method_that_this_version_lacks_or_an_option_that_is_not_allowed_is_refused() -> None:
    for plan in (Plan(method="fedfuture"), Plan(method="feddyn", options={"alpha": -1.0})):
        with pytest.raises(SettingsError):
            DeviceHalf(plan, PLUGIN, {}, {})


def test_numbers_that_are_not_finite_are_not_kept() -> None:
    half = DeviceHalf(plan_with("feddyn"), np.zeros(2, np.float32), {}, {})
    with np.errstate(invalid="ignore"), pytest.raises(AuricleError, match="finite"):
        half.after(np.array([np.inf, 0], np.float32), 1)


def _no_negatives(pack: object, vector: np.ndarray, largest: float) -> None:
    if vector.min() < 0:
        raise WireError("a count is negative")


COUNTS = Vector("counts", lambda pack, plan: len(pack.labels), allowed_by="counts", check=_no_negatives)
CENSUS = Method(replace(METHODS["fedavg"].rule, name="census"), Needs(up=(COUNTS, Vector("moves", required=False))))


def test_what_travels_is_what_the_method_declares(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(METHODS, "census", CENSUS)
    plan = Plan(method="census", options={"weighting": "samples"})

    due = declared(plan, PACK, gradients=False)
    assert [(each.name, each.size, each.required) for each in due] == [
        ("counts", len(PACK.labels), True),
        ("moves", PACK.plugin_table.size, False),
    ]
    assert due[0].check is not None
    with pytest.raises(WireError, match="negative"):
        due[0].check(np.array([-1.0], np.float32), 1.0)
    assert declared(msgspec.structs.replace(plan, noise=Noise(clip=1.0, deviation=1.0)), PACK, gradients=True) == ()
    assert [each.name for each in declared(plan, PACK, gradients=True)] == ["counts", "moves", "gradients"]


def _gives(*names: str) -> Any:
    return lambda trained, kept: ({name: np.ones(2, np.float32) for name in names}, {})


def test_a_vector_leaves_only_where_its_owner_allows_it_and_the_method_declares_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setitem(METHODS, "census", replace(CENSUS, after=_gives("counts", "moves")))
    plan, zeros = Plan(method="census", options={"weighting": "samples"}), np.zeros(2, np.float32)

    _, kept_back, _ = DeviceHalf(plan, zeros, {}, {}).after(zeros, 1)
    _, allowed, _ = DeviceHalf(plan, zeros, {}, {}, {"counts"}).after(zeros, 1)
    assert (sorted(kept_back), sorted(allowed)) == (["moves"], ["counts", "moves"])

    monkeypatch.setitem(METHODS, "census", replace(CENSUS, after=_gives("voices")))
    with pytest.raises(AuricleError, match="voices"):
        DeviceHalf(plan, zeros, {}, {}).after(zeros, 1)


def test_an_owner_lets_vectors_leave_by_name(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(METHODS, "census", CENSUS)
    plan = Plan(method="census", options={"weighting": "samples"})

    assert LearnSettings(vectors=("counts",), maps=True).allowed == {"counts", "maps"}
    assert (withheld(plan, ()), withheld(plan, {"counts"})) == ("counts", None)
    maps = Plan(bavd=Bavd(maps=True))
    assert (withheld(maps, LearnSettings().allowed), withheld(maps, {"maps"})) == ("maps", None)
    assert withheld(Plan(), ()) is None
