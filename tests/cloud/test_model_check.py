"""No model is published that is not finite or that the limits on updates would refuse: the round is aborted with that
sentence, whatever made it.
"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import numpy as np
import pytest
from tests.cloud.coordinator_site import PLAN, TASK, Site
from tests.cloud.site_runs import on_a_site, played
from tests.cloud.site_runs import runtime as runtime
from tests.learning.rule_cases import line
from tests.rule_package import BROKEN, install_rule

from auricle_cloud.evaluation.evaluator import Evaluator
from auricle_cloud.operations.explanation import explain
from auricle_cloud.rounds.inquiry import Before, Judge
from auricle_cloud.rounds.model_check import UnsoundModelError, require_model
from auricle_cloud.settings import Buffer, Detection, Limits
from auricle_cloud.states.report import read_report
from auricle_learning.aggregation.bounded import BoundedRule
from auricle_learning.aggregation.cohort import Aggregate, Cohort
from auricle_learning.aggregation.extras import Clusters, RuleState
from auricle_learning.aggregation.next_model import NextModel, follow
from auricle_learning.aggregation.rules import Rule
from auricle_learning.aggregation.server_optimizer import OptimizerSettings, OptimizerState, first_state
from auricle_learning.methods import MethodSettings, get_rule
from auricle_learning.methods.plugins import RuleError
from auricle_learning.presets import Preset

START = np.zeros(1, np.float32)
FAR = Preset(PLAN, MethodSettings("fedavg"), server=OptimizerSettings(kind="momentum", lr=1e12))
LIMITS = Limits(weight=10.0, norm=5.0)
SENTENCE = "the round's model cannot be published, {}: the model stays"


def made_of(aggregate: Aggregate) -> NextModel:
    """As without a server optimizer."""
    return NextModel(np.asarray(aggregate.weights, np.float32), None, aggregate)


@pytest.mark.parametrize(
    ("weight", "why"),
    [
        (11.0, "values: a weight no model learns"),
        (-11.0, "values: a weight no model learns"),
        (np.nan, '1 of 1 weights that the method "x" made are not finite'),
        (np.inf, '1 of 1 weights that the method "x" made are not finite'),
        (6.0, "norm: further from the round's model than 5"),
    ],
)
def test_a_model_is_what_an_update_may_be(weight: float, why: str) -> None:
    made = made_of(get_rule("fedavg")(line([1.0])))
    with pytest.raises(UnsoundModelError, match=SENTENCE.format(why)):
        require_model(replace(made, weights=np.array([weight], np.float32)), START, LIMITS, "x")
    require_model(replace(made, weights=np.array([4.0], np.float32)), START, LIMITS, "x")


@pytest.mark.parametrize(("value", "why"), [(11.0, "a weight no model learns"), (np.nan, "1 of 1 weights that .* not")])
def test_so_are_the_models_of_single_devices_and_the_one_that_is_judged(value: float, why: str) -> None:
    made = get_rule("fedavg")(line([1.0, 2.0]))
    own = Clusters((0, 0), None, np.array([[1.0], [value]]))
    for odd in (replace(made, clusters=own), replace(made, evaluated=np.array([value]))):
        with pytest.raises(UnsoundModelError, match=why):
            require_model(made_of(odd), START, LIMITS, "x")
    sound = replace(made, clusters=replace(own, models=np.array([[1.0], [9.0]])))
    require_model(made_of(sound), START, LIMITS, "x")


@pytest.mark.parametrize(
    ("value", "why"), [(1e39, "c of the method is too large"), (np.inf, "1 of 1 numbers of c that")]
)
def test_a_state_that_could_not_travel_is_none(value: float, why: str) -> None:
    made = replace(get_rule("fedavg")(line([1.0])), state=RuleState("scaffold", {"c": np.array([value])}))
    with pytest.raises(UnsoundModelError, match=why):
        require_model(made_of(made), START, LIMITS, "x")


def test_nor_is_a_server_optimizer_s_state_with_numbers_that_are_none() -> None:
    made = made_of(get_rule("fedavg")(line([1.0])))
    state = OptimizerState(np.zeros(1), np.array([np.inf]), 1)
    with pytest.raises(UnsoundModelError, match="1 of 2 numbers of the server optimizer that"):
        require_model(replace(made, optimizer=state), START, LIMITS, "x")


def test_what_a_rule_gets_wrong_is_not_laid_to_the_server_s_optimizer() -> None:
    """Its step would be nothing finite either; the sentence is of the rule, and the state stays."""
    made, state = replace(get_rule("fedavg")(line([1.0])), weights=np.array([1e39])), first_state(1, FAR.server)
    followed = follow(START, made, OptimizerSettings(kind="adam"), state)
    assert followed.optimizer is state and followed.aggregate.flag is None
    with pytest.raises(UnsoundModelError, match='the method "mine" made are not finite'):
        require_model(followed, START, LIMITS, "mine")


@pytest.mark.parametrize("mode", ["sync", "async"])
@on_a_site
async def test_a_round_whose_model_is_beyond_the_limits_is_aborted_with_that_sentence(site: Site, *, mode: str) -> None:
    """A server's step that is 10^12 times too long; the devices begin the next round with the model of before."""
    first = site.pack.plugin_table.initial(0)

    await played(site, 2, FAR, start=first, mode=mode, buffer=Buffer(size=3))

    assert [done.state for done in site.done] == ["aborted", "aborted"]
    assert all(np.array_equal(done.model, first) for done in site.done)
    store, report = site.store(), read_report(site.done[0].report)
    assert SENTENCE.format("values: a weight no model learns") in (report.reason or "")
    assert [model.version for model in store.models.all(TASK, 5)] == [0], "none was entered"
    said = explain(report, task=TASK, number=1, state="aborted").sentences
    assert any("a weight no model learns" in each for each in said)
    store.close()


@pytest.mark.parametrize(("mode", "value"), [("sync", "nan"), ("sync", "inf"), ("async", "nan")])
@on_a_site
async def test_a_rule_of_one_s_own_that_gives_no_number_costs_its_round_alone(
    site: Site, *, mode: str, value: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """The coordinator names it and goes on: the next round's model is the rule's."""
    install_rule(monkeypatch, tmp_path / "rules", "broken", BROKEN.format(value=value))
    first = site.pack.plugin_table.initial(0)

    await played(site, 2, Preset(PLAN, MethodSettings("broken")), start=first, mode=mode, buffer=Buffer(size=3))

    assert [done.state for done in site.done] == ["aborted", "published"]
    assert np.array_equal(site.done[0].model, first) and not np.array_equal(site.done[1].model, first)
    reason = read_report(site.done[0].report).reason or ""
    assert 'the method "broken" of broken-rule gave no finite model' in reason and reason.endswith("the model stays")


def test_a_rule_that_fails_on_a_part_of_a_round_names_nobody_and_goes_back_to_the_last_good_model() -> None:
    cohort = line([1.0, 2.0, 9.0])

    def whole_alone(told: Cohort) -> Aggregate:
        if len(told.ids) < 3:
            raise RuleError('the method "mine" failed.')
        return get_rule("fedavg")(told)

    judge = Judge(Detection(), BoundedRule(Rule("mine", whole_alone)), cast(Evaluator, Blind()), 0)
    found = judge.find(cohort, 7, Before(3, START, None), np.array([4.0], np.float32), OptimizerSettings())
    assert found.weights is START and found.bad == ()
    assert found.sentence == ('Nobody can be named, the method "mine" failed: back to the last good model, version 3.')


class Blind:
    """Finds every model right in half."""

    def scores(self, models: Any) -> Any:
        return SimpleNamespace(accuracy=np.full(len(models), 0.5))
