"""No model is published that the limits on updates would refuse: the round is aborted with that sentence."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from tests.cloud.coordinator_site import PLAN, TASK, Site
from tests.cloud.site_runs import on_a_site, played
from tests.cloud.site_runs import runtime as runtime
from tests.learning.rule_cases import line

from auricle_cloud.operations.explanation import explain
from auricle_cloud.rounds.model_check import UnsoundModelError, require_model
from auricle_cloud.settings import Buffer, Limits
from auricle_cloud.states.report import read_report
from auricle_learning.aggregation.extras import Clusters, RuleState
from auricle_learning.aggregation.server_optimizer import OptimizerSettings
from auricle_learning.methods import MethodSettings, get_rule
from auricle_learning.presets import Preset

START = np.zeros(1, np.float32)
FAR = Preset(PLAN, MethodSettings("fedavg"), server=OptimizerSettings(kind="momentum", lr=1e12))
LIMITS = Limits(weight=10.0, norm=5.0)
SENTENCE = "the round's model cannot be published, {}: the model stays"


@pytest.mark.parametrize(
    ("weight", "why"),
    [
        (11.0, "values: a weight no model learns"),
        (-11.0, "values: a weight no model learns"),
        (np.nan, "values: a weight no model learns"),
        (np.inf, "values: a weight no model learns"),
        (6.0, "norm: further from the round's model than 5"),
    ],
)
def test_a_model_is_what_an_update_may_be(weight: float, why: str) -> None:
    made = get_rule("fedavg")(line([1.0]))
    with pytest.raises(UnsoundModelError, match=SENTENCE.format(why)):
        require_model(made, np.array([weight], np.float32), START, LIMITS)
    require_model(made, np.array([4.0], np.float32), START, LIMITS)


@pytest.mark.parametrize("value", [11.0, np.nan])
def test_so_are_the_models_of_single_devices_and_the_one_that_is_judged(value: float) -> None:
    made = get_rule("fedavg")(line([1.0, 2.0]))
    own = Clusters((0, 0), None, np.array([[1.0], [value]]))
    for odd in (replace(made, clusters=own), replace(made, evaluated=np.array([value]))):
        with pytest.raises(UnsoundModelError, match="a weight no model learns"):
            require_model(odd, START, START, LIMITS)
    require_model(replace(made, clusters=replace(own, models=np.array([[1.0], [9.0]]))), START, START, LIMITS)


def test_a_state_that_could_not_travel_is_none() -> None:
    made = replace(get_rule("fedavg")(line([1.0])), state=RuleState("scaffold", {"c": np.array([1e39])}))
    with pytest.raises(UnsoundModelError, match="c of the method is too large"):
        require_model(made, START, START, LIMITS)


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
