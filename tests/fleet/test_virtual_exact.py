"""The virtual engine's small parts with numbers worked out by hand: who came, when, from what, and what is said."""

from __future__ import annotations

import math
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from auricle.packs.manifest import SILENCE, UNKNOWN
from auricle.wire.messages import Update
from auricle.wire.tensors import digest, encode
from auricle_cloud.rounds.policy import Timing
from auricle_fleet.population.held_out import HeldOutScore
from auricle_fleet.population.traces import Timeline
from auricle_fleet.settings.groups import Group, Network
from auricle_fleet.virtual import device
from auricle_fleet.virtual.client import UNSENT, with_unsent
from auricle_fleet.virtual.clock import Heard, RoundEnd, heard_of, round_end
from auricle_fleet.virtual.device import VirtualDevice, Work, work_of
from auricle_fleet.virtual.model import Model, explain_model, own_models, starts
from auricle_fleet.virtual.order import FIRST, NOT_JUDGED, REPAIR, TASK, Ended, Order
from auricle_learning.aggregation.cohort import Aggregate
from auricle_learning.aggregation.extras import Clusters
from auricle_learning.aggregation.server_optimizer import OptimizerSettings
from auricle_learning.presets import get_preset
from auricle_learning.training.learn_settings import LearnSettings
from auricle_learning.training.speech_data import Clips, DeviceData
from auricle_learning.training.train import LocalState

TIMING = Timing(quorum=0.5, deadline=60.0, patience=2.0, least_wait=5.0)
PLAIN = np.array([1.0, 2.0], np.float32)


def aggregate(clusters: Clusters | None = None) -> Aggregate:
    """Of two devices and one layer, of which the second counts for nothing."""
    share = np.array([[1.0], [0.0]])
    return Aggregate(PLAIN, ("a", "b"), ("all",), share > 0, share, clusters=clusters)


def update(device: str, **more: Any) -> Update:
    told = {"task": "t", "round": 1, "attempt": 1, "epoch": 1, "base": "0" * 64, "body": "0" * 64, "length": 8}
    told |= {"fleet": "f", "device": device, "boot": "b", "codec": "f32", "samples": 3, "loss": 0.5, **more}
    return Update(**told)  # type: ignore[arg-type]


# -- models


def test_a_device_begins_with_its_own_model_where_it_has_one() -> None:
    own = np.array([5.0, 6.0], np.float32)
    model = Model(PLAIN, own={"b": own})
    assert model.start("a") is PLAIN and model.start("b") is own
    assert model.base == digest(encode(PLAIN))
    assert starts(model, ["a", "c"]) is None and starts(model, []) is None
    found = starts(model, ["a", "b"])
    assert found is not None and found.dtype == np.float64
    assert found.tolist() == [[1.0, 2.0], [5.0, 6.0]]


def test_own_models_are_those_that_the_rule_made_beside_those_of_who_did_not_count() -> None:
    before = Model(PLAIN, own={"b": PLAIN, "z": PLAIN})
    kept = own_models(before, aggregate())
    assert kept == before.own and kept is not before.own
    assert own_models(before, aggregate(Clusters((0, 0), None, None))) == {}
    made = own_models(before, aggregate(Clusters((0, 1), 0.5, np.array([[7.0, 8.0], [9.0, 10.0]]))))
    assert {device: weights.tolist() for device, weights in made.items()} == {
        "a": [7.0, 8.0],
        "b": [9.0, 10.0],
        "z": [1.0, 2.0],
    }
    assert made["a"].dtype == np.float32


def test_a_report_has_what_each_device_said_and_whether_it_was_left_out() -> None:
    scored = {"a": {"plugin": HeldOutScore(0.75, 0.5)}}
    one = update("a", steps=4, personal_accuracy=0.5, plugin_accuracy=0.25, held_out=8, unsupervised=2)
    report = explain_model(aggregate(), [one, update("b", loss=math.nan)], scored)  # type: ignore[arg-type]
    said = {"samples": 3, "loss": 0.5, "steps": 4, "personal_accuracy": 0.5, "plugin_accuracy": 0.25, "held_out": 8}
    nothing = {"samples": 3, "loss": None, "steps": 0, "personal_accuracy": None, "plugin_accuracy": None}
    assert report["updates"] == [
        {
            "device": "a",
            **said,
            "unsupervised": 2,
            "left_out": False,
            "scores": {"plugin": {"accuracy": 0.75, "f1": 0.5}},
        },
        {"device": "b", **nothing, "held_out": 0, "unsupervised": None, "left_out": True, "scores": {}},
    ]


# -- the end of a round


def test_of_answers_at_one_time_those_count_that_make_the_round_full() -> None:
    assert round_end({"a": 1.0, "b": 1.0}, {}, 2, 1, TIMING) == RoundEnd(["a"], 1.0)
    assert round_end({"a": 1.0, "b": 1.0}, {}, 2, 2, TIMING) == RoundEnd(["a", "b"], 1.0)
    assert round_end({"b": 1.0, "a": 1.0}, {"c": 1.0}, 3, 3, TIMING) == RoundEnd(["b", "a"], 1.0)
    assert round_end({"a": 60.0, "b": 60.5}, {}, 2, 2, TIMING) == RoundEnd(["a"], 60.0)


def test_a_round_waits_for_a_slow_device_until_it_has_answered_or_said_that_it_failed() -> None:
    """The quorum of two is in after 2 s, so its patience is over at 7 s; nobody hears of the fourth."""
    soon, slow = {"a": 1.0, "b": 2.0}, {"s"}
    assert round_end(soon, {}, 4, 4, TIMING) == RoundEnd(["a", "b"], 7.0)
    assert round_end({**soon, "s": 25.0}, {}, 4, 4, TIMING, slow) == RoundEnd(["a", "b", "s"], 25.0)
    assert round_end(soon, {"s": 25.0}, 4, 4, TIMING, slow) == RoundEnd(["a", "b"], 25.0)
    assert round_end(soon, {}, 4, 4, TIMING, slow) == RoundEnd(["a", "b"], 60.0)


def test_what_a_round_is_not_told_and_what_did_not_come_of_it_is_nothing() -> None:
    order = Order(1, get_preset("fedavg").plan, OptimizerSettings(), 3, 2, 7)
    assert (order.began, order.version, order.newest, order.slow, order.broken) == (0.0, 0, 0, {}, {})
    told: dict[str, Any] = {"report": {}, "lasted": 1.0, "heard": Heard(), "judged": NOT_JUDGED}
    ended = Ended(invited=("a",), answers={}, fetched=0, **told)
    assert (ended.model, ended.went_back, ended.counted, ended.left_out) == (None, False, 0, 0)
    assert (ended.evaluated, ended.maker, ended.cohort) == (None, None, None)
    assert (ended.heard.updates, ended.heard.refused, ended.heard.late) == ({}, {}, ())
    judged = (NOT_JUDGED.detection, NOT_JUDGED.losses, NOT_JUDGED.fetched, NOT_JUDGED.seconds, NOT_JUDGED.repaired)
    assert (*judged, NOT_JUDGED.barred) == (None, {}, 0, 0.0, None, frozenset())
    assert [(made.origin, made.number, made.version) for made in (FIRST, REPAIR)] == [("first", 0, 0), ("repair", 0, 0)]
    assert TASK == "keywords"


def test_whose_updates_came_before_the_end_and_who_is_late() -> None:
    weights = np.zeros(2, np.float32)
    updates = {name: (update(name), weights) for name in "cab"}
    times = {"c": 1.0, "a": 3.0, "b": 4.0, "d": 9.0}
    closed = heard_of(updates, {"x": "why"}, times, RoundEnd(["c", "a"], 3.0))
    assert list(closed.updates) == ["a", "c"] and closed.updates["a"] is updates["a"][0]
    assert closed.late == ("b", "d") and closed.refused == {"x": "why"}
    given_up = heard_of(updates, {}, times, RoundEnd(None, 3.0, "why"))
    assert list(given_up.updates) == ["a", "c"] and given_up.late == ("b", "d"), "who came at its end came"


# -- when a device answers


def test_an_answer_takes_the_way_there_and_back_and_what_the_network_carries() -> None:
    """1,000 + 500 bytes at 8 kbit/s are 1.5 s, and two times 0.25 s of latency."""
    group = Group(name="slow", network=Network(latency=0.25, kilobits=8.0))
    one = VirtualDevice("a", 0, 3, group=group)
    assert one.arrival(1, 10.0, 1000, 500) == pytest.approx(2.0)
    assert one.says_loss(10.0, 500) == pytest.approx(1.0)
    assert VirtualDevice("a", 0, 3, group=Group(name="far", network=Network(latency=2.0))).says_loss(0.0, 500) == 4.0
    assert VirtualDevice("a", 0, 3).says_loss(0.0, 500) == 0.0 == VirtualDevice("a", 0, 3).arrival(1, 0.0, 9, 9)
    assert VirtualDevice("a", 0, 3, group=Group(name="gone", drop_out=1.0)).arrival(1, 0.0, 0, 0) is None
    assert one.selected == 0 and (one.device, one.place, one.registered) == ("a", 0, 3)


def test_a_device_that_leaves_before_it_has_answered_never_does() -> None:
    """There from 10 to 20; its trace's 16 kbit/s are for once more than its group's."""
    line = Timeline(((10.0, 20.0),), ((15.0, 16.0),))
    one = VirtualDevice("a", 0, 3, group=Group(name="g", network=Network(kilobits=8.0)), timeline=line)
    assert one.comes(5.0) == 10.0 and one.comes(12.0) == 12.0 and one.comes(20.0) == math.inf
    assert VirtualDevice("a", 0, 3).comes(5.0) == 5.0
    assert one.says_loss(10.0, 10_000) == 10.0, "its end is in time"
    assert one.says_loss(10.0, 10_001) is None
    assert one.says_loss(15.0, 10_000) == 5.0 and one.says_loss(15.0, 10_001) is None


def test_a_round_asks_for_the_batch_of_the_graph_that_it_trains(monkeypatch: pytest.MonkeyPatch) -> None:
    plan, learn = get_preset("fedavg").plan, LearnSettings()
    monkeypatch.setattr(device, "epochs_of", lambda *_: 3)
    monkeypatch.setattr(device, "carried_to_train", lambda _, share, own: (share, own) if pack.carries else None)
    graphs = [("evaluate", None, None), ("mutual", "sgd", 8), ("supervised", "adamw", 4), ("supervised", "sgd", 32)]
    made = [SimpleNamespace(kind=kind, optimizer=by, batch=batch) for kind, by, batch in graphs]
    labels = ("yes", UNKNOWN, "no", SILENCE)
    pack: Any = SimpleNamespace(manifest=SimpleNamespace(graphs=made), labels=labels, carries=True)

    assert work_of(pack, plan, learn, 0.0) is None
    assert work_of(pack, plan, learn, 2.0) == Work(2.0, plan, learn, 3, 32, learn.carried, (1, 3))
    pack.carries = False
    pack.manifest.graphs = made[:-1]
    assert work_of(pack, plan, learn, 2.0) == Work(2.0, plan, learn, 3, 8, 0.0, (1, 3)), "the first that trains"
    pack.manifest.graphs = made[:1]
    assert work_of(pack, plan, learn, 2.0) == Work(2.0, plan, learn, 3, 1, 0.0, (1, 3))


@pytest.mark.parametrize(("share", "negative", "steps"), [(0.0, (1,), 39), (0.5, (0,), 75), (0.5, (1,), 51)])
def test_training_takes_a_steps_seconds_as_often_as_there_are_steps(
    share: float, negative: tuple[int, ...], steps: int
) -> None:
    """200 clips in 3 epochs of batches of 16; half of them is the pack's, a quarter where all 200 are negatives."""
    clips = Clips(np.zeros((200, 1, 1), np.float32), np.ones(200, np.int64))
    data = DeviceData(clips, clips.chosen(np.arange(0)), None)
    work = Work(2.0, get_preset("fedavg").plan, LearnSettings(), 3, 16, share, negative)
    assert work.seconds(data, 0.5) == steps
    late = VirtualDevice("a", 0, 200, group=Group(name="slow", compute=0.5), clips_in=lambda _: data)
    assert late.arrival(1, 0.0, 0, 0, work) == steps
    assert VirtualDevice("a", 0, 200, clips_in=lambda _: data).arrival(1, 0.0, 0, 0, work) == 2 * steps
    with pytest.raises(ValueError, match="Nobody said which clips"):
        VirtualDevice("a", 0, 200).arrival(1, 0.0, 0, 0, work)


def test_what_a_codec_left_out_is_kept_beside_what_a_method_keeps_until_an_update_is_refused() -> None:
    state = LocalState(np.zeros(2, np.float32), variates={"feddyn.g": np.ones(3, np.float32)})
    kept = with_unsent(state, np.array([0.5, 0, 0], np.float32))
    assert {name: each.tolist() for name, each in kept.variates.items()} == {
        "feddyn.g": [1, 1, 1],
        UNSENT: [0.5, 0, 0],
    }
    assert sorted(with_unsent(kept, None).variates) == ["feddyn.g"]
