"""What Prometheus is told of rollouts: of those under way and the last that ended, and 0 of none."""

from __future__ import annotations

from prometheus_client import generate_latest
from prometheus_client.parser import text_string_to_metric_families
from tests.cloud.rolling import NEW, OTHER, Rolling

from auricle_cloud.observing.metrics import MOST_ROLLOUTS, Metrics
from auricle_cloud.states.outcome import OUTCOMES
from auricle_cloud.states.report import CountedUpdate, RoundReport
from auricle_cloud.states.rollout import DEVICE_STATES
from auricle_cloud.states.round_outcomes import count_outcomes
from auricle_cloud.storage.rows import ModelRow
from auricle_cloud.storage.store import Store

UNKNOWN = dict.fromkeys(("optimizer", "parent", "round", "accuracy", "loss"))
MODEL = ModelRow(task="t", version=0, blob="f" * 64, created=1.0, origin="first", **UNKNOWN)  # type: ignore[arg-type]


def told(
    metrics: Metrics, rolling: Rolling, most: int = MOST_ROLLOUTS
) -> tuple[dict[str, float], dict[str, dict[str, float]]]:
    """Which rollouts are paused, and the devices of each by state."""
    metrics.look({}, MODEL, connected=True, waiting=0, unfinished=0, rollouts=rolling.rollouts.watched(most))
    text = generate_latest(metrics.registry).decode()
    samples = [sample for family in text_string_to_metric_families(text) for sample in family.samples]
    paused = {s.labels["rollout"]: s.value for s in samples if s.name == "auricle_rollout_paused"}
    devices: dict[str, dict[str, float]] = {}
    for sample in (s for s in samples if s.name == "auricle_rollout_devices"):
        devices.setdefault(sample.labels["rollout"], {})[sample.labels["state"]] = sample.value
    return paused, devices


def test_without_a_rollout_there_is_a_line_of_zeros(store: Store) -> None:
    paused, devices = told(Metrics(), Rolling(store, 1))

    assert paused == {"none": 0}
    assert devices == {"none": dict.fromkeys(DEVICE_STATES, 0)}


def test_a_rollout_is_told_from_its_start_to_its_end_and_forgotten_after_the_next_has_ended(store: Store) -> None:
    rolling, metrics = Rolling(store), Metrics()
    told(metrics, rolling)
    first, asked = rolling.begun(NEW)
    assert told(metrics, rolling) == ({first: 0}, {first: {**dict.fromkeys(DEVICE_STATES, 0), "asked": len(asked)}})

    rolling.answer(first, state="failed", bundle="0" * 64)
    rolling.steps(first)
    paused, devices = told(metrics, rolling)
    assert (paused, devices[first]["failed"]) == ({first: 1}, len(asked))

    rolling.rollouts.abort(first, who="ana")
    rolling.add("dev-other", board="pi4")
    second = rolling.start(OTHER, stages=[100.0])
    assert told(metrics, rolling)[0] == {first: 0, second: 0}
    rolling.rollouts.abort(second, who="ana")
    assert told(metrics, rolling)[0] == {second: 0}


def test_there_are_never_more_lines_than_are_allowed(store: Store) -> None:
    rolling, metrics = Rolling(store, 1), Metrics()
    names = [rolling.start(NEW, label=f"room-{number}") for number in range(4)]

    assert told(metrics, rolling)[0].keys() == set(names)
    assert told(metrics, rolling, most=2)[0].keys() == set(names[2:])


def test_every_outcome_of_the_table_is_counted_from_0_on() -> None:
    metrics = Metrics()

    def counted() -> dict[str, float | None]:
        read = metrics.registry.get_sample_value
        return {outcome: read("auricle_device_outcomes_total", {"outcome": outcome}) for outcome in OUTCOMES}

    assert counted() == dict.fromkeys(OUTCOMES, 0)
    metrics.round("published", 1.0, {"counted": 3, "left_out": 2})
    metrics.round("aborted", 1.0, {"silent": 1, "counted": 1})
    assert counted() == {**dict.fromkeys(OUTCOMES, 0), "counted": 4, "left_out": 2, "silent": 1}


def test_each_device_of_a_report_has_one_outcome() -> None:
    updates = [CountedUpdate(device=name, left_out=name == "b") for name in "abc"]
    report = RoundReport(
        invited=[*"abcdefgh"],
        updates=updates,
        dropped=["c"],
        refused={"d": "late:round closed", "e": "norm", "x": "norm"},
        failed={"f": "broken", "g": None},
        declined=["g"],
        elsewhere={"h": 4},
    )

    expected = {name: 1 for name in OUTCOMES if name not in ("silent", "not_invited")}
    assert count_outcomes(report) == {**expected, "refused": 2}
    assert count_outcomes(RoundReport(invited=["a"])) == {"silent": 1}
