"""Whatever a device says of itself is held within bounds before a rule sees it; with numbers worked out by hand."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Annotated, Any, get_args, get_origin

import msgspec
import numpy as np
import pytest
from bench.claims import CLAIMS, harm, honest
from msgspec import Meta
from tests.learning.rule_cases import in_one_layer, line, whole_round
from tests.learning.toy import PACK

from auricle.wire.kinds import Message
from auricle.wire.messages import Update
from auricle.wire.plan import FixMatch, Plan
from auricle_learning.aggregation.bounded import BoundedRule
from auricle_learning.aggregation.caps import cap_steps, total_of
from auricle_learning.aggregation.claims import hold, hold_vectors
from auricle_learning.aggregation.cohort import Bounded, Cohort
from auricle_learning.aggregation.extras import Extras, PlannedSteps
from auricle_learning.methods import METHODS, get_method, get_rule
from auricle_learning.methods.passes import planned_steps

SEEN = {
    "samples": "samples",
    "loss": "loss",
    "steps": "steps",
    "unsupervised": "labelled",
    "vectors": "vectors",
}
"""Fields that reach a rule, and what a cohort calls them: `test_what_reaches_a_rule_is_held` lies in each."""
ADDRESS = {"task", "round", "attempt", "epoch", "base", "body", "length", "codec", "part", "parts", "sum"}
"""Which round and which bytes: held against the round and the body, and no number of a device."""
TOLD = {"seconds", "personal_accuracy", "plugin_accuracy", "held_out"}
"""Told to operators and seen by no rule: bounded on both sides by their kinds."""
NOTHING = PlannedSteps(1, 1, None)


def test_every_field_of_an_update_has_its_bound() -> None:
    """A new one fails here until it is held by `hold`, or is told to operators alone and has bounds of its own."""
    fields = {field.name: field for field in msgspec.structs.fields(Update)}
    own = fields.keys() - {field.name for field in msgspec.structs.fields(Message)}

    assert own == SEEN.keys() | ADDRESS | TOLD
    for name in TOLD:
        assert bounded_on_both_sides(fields[name].type), name


def bounded_on_both_sides(kind: Any) -> bool:
    if get_origin(kind) is Annotated:
        limits = [limit for limit in get_args(kind)[1:] if isinstance(limit, Meta)]
        return any(None not in (limit.ge, limit.le) for limit in limits)
    return any(bounded_on_both_sides(each) for each in get_args(kind) if each is not type(None))


LIES: dict[str, tuple[dict[str, Any], ...]] = {
    "samples": ({"samples": 1e7}, {"samples": 0.0}),
    "loss": ({"losses": 1e6}, {"losses": -1e6}, {"losses": math.inf}),
    "steps": ({"steps": 2.0**40}, {"steps": 1.0}),
    "unsupervised": ({"labelled": 1.0}, {"labelled": 0.0}),
    "vectors": ({"vectors": 1e30}, {"vectors": -1e30}),
}


@pytest.mark.parametrize("field", SEEN)
def test_what_reaches_a_rule_is_held(field: str) -> None:
    """Of seven devices one lies: in the cohort that the rule sees its number is near the others'."""
    for lie in LIES[field]:
        told = whole_round(method="fedkad", extras={"planned": PlannedSteps(1, 4, 8)}, samples=[16] * 7)
        told = with_lie(told, **lie)
        seen, _ = hold(told, get_rule("feddc"), 3.0)

        assert 0 <= seen.samples[0] <= 48
        assert 0 <= seen.losses[0] <= 5
        assert seen.extras.steps is not None and 2 <= seen.extras.steps[0] <= 4 * np.median(seen.extras.steps[1:])
        assert seen.extras.labelled is not None and 0 <= seen.extras.labelled[0] <= 1
        for name in ("means", "counts"):
            first, *others = (np.linalg.norm(np.asarray(row)) for row in seen.extras.vectors[name])
            assert first <= 6 * np.median(others), name


def with_lie(told: Cohort, **lie: float) -> Cohort:
    """The round in which the first device says something else."""
    ((name, value),) = lie.items()
    known: Any = told.extras
    if name == "vectors":
        rows = {key: [np.full_like(each[0], value), *each[1:]] for key, each in known.vectors.items()}
        rows["counts"][0] = np.abs(rows["counts"][0])
        return replace(told, extras=replace(known, vectors=rows))
    of = told if name in ("samples", "losses") else known
    changed = np.array(getattr(of, name), np.float64)
    changed[0] = value
    return replace(told, **{name: changed}) if of is told else replace(told, extras=replace(known, **{name: changed}))


@pytest.mark.parametrize("name", METHODS)
@pytest.mark.parametrize("claim", CLAIMS)
def test_no_claim_harms_a_method_much_more_than_fedavg(name: str, claim: str) -> None:
    """At most three times as much as the worst of them harms it; `bench/claims.py` prints the table."""
    usual = float(np.mean([harm("fedavg", "1e7 clips", seed=seed).relative for seed in range(5)]))

    found = harm(name, claim)

    assert not found.refused
    assert found.relative <= 3 * usual


@pytest.mark.parametrize("name", METHODS)
def test_honest_devices_keep_every_bit_and_nobody_is_named(name: str) -> None:
    """They differ as `bench/claims.py` draws them: nothing is beyond a bound but the shares that LPA leaves."""
    told = honest(get_method(name), 12, 0)
    seen, named = hold(told, get_rule(name), 3.0)

    assert named == []
    assert (seen.samples.tobytes(), seen.losses.tobytes()) == (told.samples.tobytes(), told.losses.tobytes())
    for part in ("steps", "maps", "labelled"):
        assert np.asarray(getattr(seen.extras, part)).tobytes() == np.asarray(getattr(told.extras, part)).tobytes()
    for key, rows in told.extras.vectors.items():
        assert all(ours is theirs for ours, theirs in zip(seen.extras.vectors[key], rows, strict=True))


def test_from_a_factor_of_1e9_on_everything_is_as_it_was_said() -> None:
    told = with_lie(whole_round(method="fedkad"), vectors=1e4)
    assert hold(told, get_rule("fedkad"), 1e9) == (told, [])


def test_steps_by_hand() -> None:
    """Of 8, 10, 12 and 2^40 the lower middle is 10: at most 30, or what the plan allows, and at least what it takes."""
    said, none, most = np.array([8.0, 10.0, 12.0, 2.0**40]), np.zeros(4), np.full(4, math.inf)

    assert cap_steps(said, none, most, 3.0).tolist() == [8.0, 10.0, 12.0, 30.0]
    assert cap_steps(said, none, np.full(4, 11.0), 3.0).tolist() == [8.0, 10.0, 11.0, 11.0]
    assert cap_steps(np.array([8.0, 10.0, 12.0, 1.0]), np.full(4, 9.0), most, 3.0).tolist() == [9.0, 10.0, 12.0, 9.0]
    assert cap_steps(np.array([0.0, 10.0]), np.full(2, 5.0), np.full(2, 50.0), 3.0).tolist() == [0.0, 10.0]
    assert cap_steps(np.zeros(3), none[:3], most[:3], 3.0).tolist() == [0.0, 0.0, 0.0], "nobody took one"


def test_a_device_that_says_a_thousand_times_its_steps_counts_with_three_times_the_middle() -> None:
    """Ten steps each give shares of 1/3; with 30 of one of them τ_eff is 50/3 and the shares 5/9, 5/9 and 5/27."""
    rows = np.array([[1.0], [2.0], [4.0]])
    told = in_one_layer(rows, samples=[10.0] * 3, extras=Extras(steps=np.array([10.0, 10.0, 1e4])))

    made = BoundedRule(get_rule("fednova"), factor=3.0)(told)

    assert made.bounded[0] == Bounded("02", "steps", 1e4, 30.0)
    assert made.score is not None and made.score.tolist() == [10.0, 10.0, 30.0]
    assert abs(float(made.weights[0]) - 7 / 3) < 0.5, "and alone it is hundreds away"
    assert float(get_rule("fednova")(told).weights[0]) > 300


def test_the_gradient_that_scaffold_takes_of_an_update_is_no_longer_than_five_times_the_middle_one() -> None:
    """Updates of 1, 2 and 6 in 10, 10 and 1 steps: 0.1, 0.2 and 6 a step. The last is to be 1: that takes 6 steps."""
    told = line([1.0, 2.0, 6.0], steps=np.array([10.0, 10.0, 1.0]), rate=1.0, clients=3)

    made = BoundedRule(get_rule("scaffold"))(told)

    assert made.bounded == (Bounded("02", "steps", 1.0, pytest.approx(6.0)),)
    assert made.state is not None
    assert made.state.arrays["c"].tolist() == pytest.approx([-(0.1 + 0.2 + 1.0) / 3])


def test_planned_steps_are_those_of_clips_epochs_and_passes() -> None:
    """Of 40 clips in batches of 16 three steps an epoch at the fewest, and 40 at the most."""
    batch = max(graph.batch or 0 for graph in PACK.manifest.graphs)
    plain, told = planned_steps(PACK, Plan(epochs=2)), get_method("fedrep", head_epochs=3, body_epochs=2)
    passes = planned_steps(PACK, told.plan_for(Plan(epochs=2), told.rule.options))
    free = planned_steps(PACK, Plan(mode="supervised", fixmatch=FixMatch()))

    assert (plain.fewest_epochs, plain.most_epochs, plain.batch) == (2, 2, batch)
    assert PlannedSteps(2, 3, 16).fewest(np.array([40.0, 1.0])).tolist() == [6.0, 2.0]
    assert PlannedSteps(2, 3, 16).most(np.array([40.0, 1.0])).tolist() == [120.0, 3.0]
    assert (passes.fewest_epochs, passes.most_epochs) == (5, 5)
    assert free.batch is None and free.fewest(np.array([40.0])).tolist() == [1.0]


def test_vectors_by_hand() -> None:
    """Of lengths 1, 2, 3, 4 and 1e4 the middle is 3: the last is shortened to 7.5, and says which way it points."""
    rows = [np.array([n, 0.0], np.float32) for n in (1.0, 2.0, 3.0, 4.0)] + [np.array([6e3, 8e3], np.float32)]

    held, lengths, limit = hold_vectors(rows, 1)

    assert (lengths.tolist(), limit) == ([1.0, 2.0, 3.0, 4.0, 1e4], 7.5)
    assert held[4] is not None and held[4].dtype == np.float32
    assert held[4].tolist() == pytest.approx([4.5, 6.0])
    assert all(ours is theirs for ours, theirs in zip(held[:4], rows[:4], strict=True))


def test_vectors_of_classes_are_held_class_by_class_and_many_classes_are_no_majority() -> None:
    """Four devices have one class of length 1; the fifth has three, one of which is long: that alone is cut, to 2.5."""
    one = [np.array([1.0, 0.0, 0.0]) for _ in range(4)]

    held, _, limit = hold_vectors([*one, np.array([2.0, 50.0, 2.0])], 3)

    assert limit == 2.5
    assert held[4] is not None and held[4].tolist() == [2.0, 2.5, 2.0]


@pytest.mark.parametrize("rows", [[np.ones(2), np.full(2, 1e4)], [np.zeros(2), None, np.full(2, 1e4), np.ones(2)]])
def test_of_two_vectors_nobody_knows_which_is_odd(rows: Any) -> None:
    held, _, limit = hold_vectors(rows, 1)
    assert limit == math.inf and all(ours is theirs for ours, theirs in zip(held, rows, strict=True))


@pytest.mark.parametrize("value", [1e-45, 1e-300, 3e38, 1e300])
def test_lengths_neither_vanish_nor_overflow(value: float) -> None:
    rows = [np.full(4, value) for _ in range(4)] + [np.full(4, value * 7)]
    held, lengths, _ = hold_vectors(rows, 1)
    assert lengths[:4] == pytest.approx(2 * value)
    assert held[4] is not None and held[4] == pytest.approx(2.5 * value)


def test_class_means_of_ten_thousand_move_fedkad_by_a_bound() -> None:
    """Eleven devices with means of length 2; one says 10^4: of the weight 1/11 it counts with 5."""
    means = [np.array([2.0]) for _ in range(10)] + [np.array([1e4])]
    vectors = {"means": means, "counts": [np.array([5.0]) for _ in range(11)]}
    told = line([1.0] * 11, samples=[5.0] * 11, vectors=vectors)

    made = BoundedRule(get_rule("fedkad", projection=1))(told)

    assert made.state is not None
    assert made.state.arrays["means"].tolist() == [[pytest.approx((10 * 2 + 5) / 11)]]
    assert made.bounded == (Bounded("10", "vector means", 1e4, 5.0),)


def test_clips_that_a_fleet_registered_are_held_before_they_are_summed() -> None:
    """Of 10, 10, 20 and 2^40 the last counts as 30, with which nobody has half."""
    assert total_of([10, 10, 20, 2.0**40], 3.0) == 70.0
    assert total_of([10, 12, 20, 15], 3.0) == 57.0
    assert total_of([], 3.0) == 0.0
    assert total_of([10, 10, 20, 2.0**40], 1e9) > 1e10, "1e9 is no bound"
