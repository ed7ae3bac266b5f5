"""Detection on both engines: the same alarms, the same devices blamed, the same models and the same words."""

from __future__ import annotations

import math
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from tests.fleet.test_fleet_run import small
from tests.fleet.test_virtual_book import dies_after, told, virtual

from auricle.errors import AuricleError, SettingsError, StorageError
from auricle.wire.plan import Plan
from auricle_cloud.settings import Detection, Limits
from auricle_fleet import FleetResult, FleetRun, Group
from auricle_fleet.suite.figures import get_figure
from auricle_fleet.virtual.detection import VirtualDetection
from auricle_fleet.virtual.model import Model
from auricle_fleet.virtual.order import Judged, Maker
from auricle_learning.aggregation.inputs import put_onto
from auricle_learning.aggregation.server_optimizer import OptimizerSettings

pytest.importorskip("espeakng_loader")

ATTACKED: dict[str, Any] = {
    "method": "fedvsa",
    "detect": True,
    "devices": 5,
    "unseen": 4,
    "takes": 6,
    "rounds": 6,
    "learning": "supervised",
    "rate": 0.05,
}
KINDS = ("alarm", "verdict", "quarantined", "loss set aside", "bounded")


def as_bytes(result: FleetResult) -> bytes:
    return result.paths.model.read_bytes()


def attackers(*rounds: int, strength: float = 30.0) -> tuple[Group, ...]:
    return (Group(name="attackers", attack="sign-flip", strength=strength, attack_rounds=rounds),)


@pytest.mark.slow
@pytest.mark.parametrize(
    "changes",
    [
        {"detection": Detection(margin=0.02)},
        {"detection": Detection(one_phase=True, margin=0.02)},
        {"detection": Detection(repair="hotfix", quarantine_after=1, margin=0.02)},
        {"detection": Detection(losses=False, margin=0.02)},
    ],
    ids=["two phases", "one phase", "quarantined", "without losses"],
)
def test_both_engines_blame_the_same_devices_and_go_on_from_the_same_models(
    tmp_path: Path, changes: dict[str, Any]
) -> None:
    asked = {**ATTACKED, "groups": attackers(3), **changes}
    live = FleetRun(small(**asked), tmp_path / "live").run()
    without = FleetRun(virtual(**asked), tmp_path / "virtual").run()
    assert [(row.alarm, row.harmful) for row in without.rounds] == [(row.alarm, row.harmful) for row in live.rounds]
    assert any(row.harmful for row in live.rounds)
    of_both = live.summary, without.summary
    assert len({(run.attackers, run.label_clips, run.keyword_precision, run.detect) for run in of_both}) == 1
    (hostile,) = live.summary.attackers
    assert hostile.rounds == (3,) and sum(live.summary.label_clips or ()) == live.summary.training_clips
    assert get_figure("recall-of-detection").of(live.summary, live.rounds) == 1
    assert get_figure("false-names").of(live.summary, live.rounds) is not None
    assert as_bytes(live) == as_bytes(without)
    theirs, ours = (told(tmp_path / engine, 6, kinds=KINDS) for engine in ("live", "virtual"))
    for part, expected in theirs.items():
        assert ours[part] == expected, part


@pytest.mark.slow
def test_without_shapley_values_an_alarm_takes_back_the_round(tmp_path: Path) -> None:
    asked = {**ATTACKED, "groups": attackers(3), "rounds": 4, "detection": Detection(shapley=False)}
    live = FleetRun(small(**asked), tmp_path / "live").run()
    without = FleetRun(virtual(**asked), tmp_path / "virtual").run()
    assert as_bytes(live) == as_bytes(without)
    for run in (live, without):
        assert [(row.alarm, row.harmful) for row in run.rounds] == [(False, ())] * 3 + [(True, ())]
        assert all((row.comparison_seconds or 0) > 0 for row in run.rounds)
        measured = {step: get_figure(f"{step}-seconds").of(run.summary, run.rounds) for step in STEPS}
        assert measured["detection"] == pytest.approx((measured["comparison"] or 0) + (measured["shapley"] or 0))


STEPS = ("detection", "comparison", "shapley")


def test_without_losses_each_round_is_judged_and_a_clean_one_fires_nothing() -> None:
    watch = detection(Detection(losses=False))
    judged = watch.ask(SimpleNamespace(number=1), [], Model(np.zeros(3, np.float32)), None, 1.0)  # type: ignore[arg-type]
    assert judged.repaired is None and judged.detection is not None
    assert not judged.detection["fires"] and judged.detection["seconds"].keys() == {"comparison", "shapley"}
    assert "was not made by a round" in judged.detection["sentence"]


@pytest.mark.parametrize(
    ("changes", "says"),
    [({"losses": False, "shapley": False}, "two steps"), ({"losses": False, "one_phase": True}, "which losses")],
)
def test_detection_without_both_steps_is_refused(tmp_path: Path, changes: dict[str, Any], says: str) -> None:
    with pytest.raises(SettingsError, match=says):
        FleetRun(virtual(**ATTACKED, detection=Detection(**changes)), tmp_path / "run")


@pytest.mark.parametrize(
    "detection", [Detection(quarantine_after=1), Detection(one_phase=True, quarantine_after=2)], ids=["two", "one"]
)
def test_a_run_that_goes_on_still_knows_whom_it_suspects(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, detection: Detection
) -> None:
    """Of a model that was poisoned before it was ended, with rows that are ahead of what it goes on from."""
    changes = {**ATTACKED, "groups": attackers(3, 4), "detection": detection}
    whole = FleetRun(virtual(**changes), tmp_path / "whole").run()
    with monkeypatch.context() as patched:
        dies_after(3, patched)
        with pytest.raises(AuricleError, match="died"):
            FleetRun(virtual(**changes), tmp_path / "died").run()
    again = FleetRun.resume(tmp_path / "died").run()
    assert as_bytes(again) == as_bytes(whole)
    assert [(row.alarm, row.harmful) for row in again.rounds] == [(row.alarm, row.harmful) for row in whole.rounds]
    assert whole.rounds[3].harmful
    assert told(tmp_path / "died", 6, kinds=KINDS) == told(tmp_path / "whole", 6, kinds=KINDS)
    left = [row.invited for row in whole.rounds]
    assert left[:4] == [5] * 4 and left[-1] == 4


@pytest.mark.slow
def test_a_fleet_of_which_everybody_is_quarantined_ends_in_a_sentence(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    everybody = frozenset(f"dev-{i:03d}" for i in range(5))
    monkeypatch.setattr(VirtualDetection, "barred", property(lambda one: everybody if one.trained else frozenset()))
    monkeypatch.setattr(VirtualDetection, "passed_over", lambda _one: {})
    with pytest.raises(AuricleError, match="Round 2 cannot begin: every device is quarantined"):
        FleetRun(virtual(**ATTACKED), tmp_path / "run").run()


def test_a_watch_that_is_kept_says_the_same_afterwards() -> None:
    """Numbers by hand: of three losses the largest is the next reference; two verdicts of two bar a device."""
    watch, again = (detection(Detection(quarantine_after=2), limits=Limits(loss=10.0)) for _ in range(2))
    said = watch.said({"c": (0.5, 4), "a": (math.nan, 4), "b": (11.0, 4), "d": (1.0, 0)})
    assert {name: one.loss for name, one in said.items()} == {"a": None, "b": None, "c": 0.5}
    model = Model(np.arange(3, dtype=np.float32), b"state")
    first = watch.look(1, {"a": 0.5, "b": 0.75, "c": 0.25}, model)
    maker = Maker("round", 1, 0, (bytes(12), b"state"), Plan(), (), bytes(12))
    watch.take(first, maker, went_back=False, number=1, trained={"a": None})
    for number in (2, 3):
        blamed = Judged({**(first.detection or {}), "fires": True, "bad": ["b"]})
        watch.take(blamed, None, went_back=False, number=number, trained={"b": None})
    again.restore(watch.to_bytes())
    for one in (watch, again):
        assert one.barred == {"b"} and one.trained == {"a": 1, "b": 3}
        assert one.passed_over() == {"b": "is quarantined: harmful in 2 rounds"}
        told = one.look(4, {"a": 0.75, "b": 0.5, "c": 0.76}, model).detection
        assert told is not None and not told["fires"], "one of three is above 0.75"
    assert again.to_bytes() == watch.to_bytes()
    with pytest.raises(StorageError, match="What detection knew is damaged"):
        again.restore(b"x")


def test_what_an_update_is_worth_on_a_repaired_model() -> None:
    """The difference that was trained, from there on: 4 + (7 - 2)."""
    start, sent, trained = (np.full(2, value, np.float32) for value in (4, 2, 7))
    assert put_onto(start, sent, trained).tolist() == [9, 9]


def test_who_answers_the_question_and_how_long_it_takes() -> None:
    def asked(times: dict[str, float | None]) -> Judged:
        fleet = {name: SimpleNamespace(place=ord(name), says_loss=lambda *_, at=at: at) for name, at in times.items()}
        crew: Any = SimpleNamespace(answers=lambda _, them: [(each.place / 100, 1) for each in them])
        order: Any = SimpleNamespace(number=1, began=0.0, plan=Plan())
        return detection(Detection(), fleet).ask(order, [*times], Model(np.ones(3, np.float32)), crew, 600.0)

    first, second = asked({"a": 2.0, "b": 3.0}), asked({"a": 2.0, "b": 61.0, "c": None})
    assert (list(first.losses), first.seconds, first.fetched) == (["a", "b"], 3.0, 12)
    assert (list(second.losses), second.seconds) == (["a"], 60.0)


def detection(settings: Detection, fleet: Any = None, limits: Limits | None = None) -> VirtualDetection:
    """Without a rule: no updates are read where there is no alarm."""
    judge: Any = SimpleNamespace(settings=settings)
    cohorts: Any = SimpleNamespace(limits=limits or Limits(), fleet=fleet)
    return VirtualDetection(judge, lambda _: OptimizerSettings(), cohorts)
