"""Reports of hearing on both databases: each once, bounded by the day, forgotten in time; and what operators see."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

import msgspec
import pytest
from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.parser import text_string_to_metric_families
from tests.cloud.arrivals import register
from tests.cloud.desk import ANA, TOPICS, Desk
from tests.cloud.hearing_reports import DAY, HOUR, NOW, PACK, approve, days_of, enter, report

from auricle.errors import SettingsError
from auricle.wire.frames import seal
from auricle_cloud.api.remote import checked
from auricle_cloud.commands.answers import show
from auricle_cloud.observing.hearing_watch import MOST_LABELS, HearingFigures, HearingWatch
from auricle_cloud.operations.operating import NotFoundError
from auricle_cloud.operations.operations import Operations
from auricle_cloud.storage.blobs import Blobs
from auricle_cloud.storage.hearing_records import bounded
from auricle_cloud.storage.store import Store


def test_a_report_counts_once_however_often_it_comes(store: Store) -> None:
    approve(store, "dev-a")
    assert enter(store, NOW, report(denied=2)) is None
    assert enter(store, NOW + 1, report(denied=700)) is None
    (total,) = store.hearing.totals(NOW - DAY)
    assert (total.reports, total.hours, total.detections, total.denied) == (1, 1.0, 5, 2)


def test_a_device_cannot_have_heard_more_than_a_day_in_a_day(store: Store) -> None:
    approve(store, "dev-a", "dev-b")
    assert enter(store, NOW, report(period=1, span=96, heard=90)) is None
    assert enter(store, NOW, report(period=2, span=4)) is None
    assert "hearing" in enter(store, NOW, report(period=3, span=1, heard=1))
    assert "hearing" in enter(store, NOW, report("dev-b", heard=5, span=4)), "more sound than time"
    assert enter(store, NOW, report("dev-b", span=4)) is None
    assert enter(store, NOW + DAY + 1, report(period=3, span=1, heard=1)) is None


def test_only_approved_devices_count(store: Store) -> None:
    approve(store, "dev-a")
    assert enter(store, NOW, report()) is None
    store.devices.set_standing(["dev-a"], "quarantined", who="test")
    store.devices.register(register("dev-b"), "pending")
    assert store.hearing.totals(0) == []
    for device, standing in (("dev-a", "quarantined"), ("dev-b", "pending"), ("dev-c", "unknown")):
        assert standing in enter(store, NOW, report(device, 2))


def test_complaints_of_an_hour_have_a_bounded_weight(store: Store) -> None:
    approve(store, "dev-a")
    enter(store, NOW, report(denied=1000, missed=1000, heard=2))
    enter(store, NOW, report(period=2, denied=3, missed=5))
    (total,) = store.hearing.totals(0)
    assert (total.denied, total.missed) == (5 + 3, 5 + 5)  # half an hour counts for 10 at most
    assert total.complaints == 10 + 8
    assert (total.heard.complaints, total.heard.hours) == (18, 1.5)


@pytest.mark.parametrize(
    ("said", "kept"),
    [
        ({"denied": 700, "missed": 100, "heard": 4}, {"denied": 17, "missed": 2}),
        ({"denied": 15, "missed": 5, "heard": 4}, {"denied": 15, "missed": 5}),
        ({"denied": 1, "missed": 1000, "heard": 0}, {"denied": 0, "missed": 0}),
        ({"detections": 1000, "heard": 1, "each": (1000, 7)}, {"detections": 150, "each": (150, 7)}),
    ],
)
def test_a_report_says_no_more_than_its_time_can_have_had(said: dict[str, Any], kept: dict[str, Any]) -> None:
    told = bounded(report(**said))
    assert {name: getattr(told, name) for name in kept} == kept


def test_a_period_counts_only_where_it_lies_wholly_within_the_times(store: Store) -> None:
    approve(store, "dev-a")
    enter(store, NOW, report(span=4))
    assert len(store.hearing.totals(NOW - HOUR)) == 1
    assert store.hearing.totals(NOW - HOUR + 1) == []
    assert store.hearing.totals(0, NOW - 1) == []
    assert len(store.hearing.totals(0, NOW)) == 1
    assert store.hearing.totals(0, names=["dev-b"]) == []
    assert store.hearing.totals(0, base="a" * 64) == []


def test_totals_of_a_model_are_those_of_periods_in_which_it_had_been_received(store: Store) -> None:
    approve(store, "dev-a")
    enter(store, NOW, report(base="a" * 64, denied=3))
    enter(store, NOW, report(period=2, base="b" * 64, denied=7))
    enter(store, NOW, report(period=3, base=None, denied=20))
    assert [total.denied for total in store.hearing.totals(0, base="b" * 64)] == [7]


def test_levels_are_means_and_what_is_not_known_stays_so(store: Store) -> None:
    approve(store, "dev-a")
    enter(store, NOW, report(level=-30, full_scale="much", offset="large"))
    enter(store, NOW, report(period=2, level=-36, offset="small"))
    (total,) = store.hearing.totals(0)
    assert (total.level, total.noise, total.at_full_scale, total.off_centre) == (-33.0, None, 1, 1)


def test_what_is_too_old_is_forgotten_and_a_replaced_board_counts_from_1(store: Store) -> None:
    approve(store, "dev-a")
    enter(store, NOW - 2 * DAY, report(period=1))
    enter(store, NOW, report(period=2))
    store.hearing.trim(NOW - DAY)
    assert [row.period for row in store.hearing.reports("dev-a", limit=9)] == [2]
    with store.database.writing() as tx:
        store.devices.rekey(tx, "dev-a", b"n" * 32)
    assert store.hearing.reports("dev-a", limit=9) == []


# -- the inbox


def test_a_report_is_believed_only_of_the_device_whose_topic_and_key_it_has(desk: Desk) -> None:
    desk.tell(ANA, "dev-a", "hear", report("dev-a"))
    desk.tell(ANA, "dev-b", "hear", report("dev-b"))  # not its key
    topic = TOPICS.up("dev-a", "hear")
    desk.give(topic, seal(ANA, topic, report("dev-b")))  # not its topic

    assert desk.answers == [("HearingReport", "dev-a", "hearing")]
    assert [total.device for total in desk.store.hearing.totals(0)] == ["dev-a"]
    assert [code for _, code, _ in desk.heard.refusals] == ["signature", "signature"]
    desk.tell(ANA, "dev-a", "hear", report("dev-a", 2, heard=90, span=4))
    assert desk.heard.refusals[-1][1] == "hearing"


# -- operators


@pytest.fixture
def do(store: Store, tmp_path: Path) -> Operations:
    return checked(Operations(store, Blobs(tmp_path / "blobs"), "keywords"))


def approve_in(store: Store, rooms: dict[str, str]) -> None:
    """Devices that may take part, with the labels of their rooms."""
    approve(store, *rooms)
    for device, label in rooms.items():
        store.devices.set_label(device, label, who="test")


def test_operators_see_the_fleet_its_labels_and_each_device(store: Store, do: Operations) -> None:
    now = time.time()
    approve_in(store, {"dev-a": "kitchen", "dev-b": "kitchen", "dev-c": "hall"})
    enter(store, now, report("dev-a", detections=10, denied=2, missed=1, level=-30))
    enter(store, now, report("dev-b", detections=2, denied=0, level=-36))
    enter(store, now, report("dev-c", level=-96))

    page = do.show_hearing()
    assert (page.fleet.devices, page.fleet.hours) == (3, 3.0)
    assert page.fleet.detections == pytest.approx(17 / 3)
    assert [(row.label, row.devices, row.level) for row in page.labels] == [("kitchen", 2, -33.0)]
    assert [row.device for row in page.devices] == ["dev-a", "dev-b", "dev-c"]
    assert [row.troubles for row in page.devices] == [[], [], ["silent"]]
    first = do.show_hearing(limit=2)
    assert (len(first.devices), first.next) == (2, "dev-b")
    assert [row.device for row in do.show_hearing(after="dev-b").devices] == ["dev-c"]
    with pytest.raises(SettingsError, match="days"):
        do.show_hearing(days=0)


def test_less_than_an_hour_is_told_in_counts(store: Store, do: Operations, capsys: pytest.CaptureFixture[str]) -> None:
    approve_in(store, {"dev-a": "kitchen"})
    enter(store, time.time(), report("dev-a", detections=10, denied=2, missed=1))
    page = do.show_hearing()
    for hours, told in (
        (0.25, "0.25 h in the last 7 days; in all they detected 2.5,"),
        (2.0, "an hour they detected 10,"),
    ):
        fleet = msgspec.structs.replace(page.fleet, hours=hours)
        show(msgspec.structs.replace(page, fleet=fleet), as_json=False)
        assert told in " ".join(capsys.readouterr().out.split())


def test_a_device_without_reports_is_shown_as_such(store: Store, do: Operations) -> None:
    approve(store, "dev-a")
    seen = do.device_hearing("dev-a")
    assert (seen.row.devices, seen.row.hours, seen.row.last, seen.reports) == (0, 0.0, None, [])
    with pytest.raises(NotFoundError, match="dev-a"):
        do.device_hearing("dev-aa")


def test_words_have_their_names_where_the_pack_is_known(store: Store, do: Operations) -> None:
    approve(store, "dev-a")
    enter(store, time.time(), report(each=(3, 0)))
    assert do.device_hearing("dev-a").reports[0].words == {"1": 3, "2": 0}
    store.hearing.name_keywords(PACK, ["yes", "no"])
    store.hearing.name_keywords(PACK, ["yes", "no"])
    assert do.device_hearing("dev-a").reports[0].words == {"yes": 3, "no": 0}


# -- figures


def watch(store: Store, now: float) -> dict[tuple[str, ...], float]:
    """Every sample that Prometheus reads, by name and labels."""
    registry = CollectorRegistry()
    HearingWatch(store.hearing, HearingFigures(registry), 30 * DAY, now=lambda: now).look()
    told = {}
    for family in text_string_to_metric_families(generate_latest(registry).decode()):
        for sample in family.samples:
            labels = [sample.labels[name] for name in ("label", "kind", "trouble") if name in sample.labels]
            told[(sample.name.removeprefix("auricle_hearing_"), *labels)] = sample.value
    return told


def test_prometheus_hears_of_the_fleet_and_of_shared_labels_but_of_no_single_device(store: Store) -> None:
    approve_in(store, {"dev-a": "kitchen", "dev-b": "kitchen", "dev-c": "hall"})
    for device in ("dev-a", "dev-b", "dev-c"):
        enter(store, NOW, report(device, denied=2, level=-90 if device == "dev-c" else -30))

    seen = watch(store, NOW)
    assert seen["devices", "all"] == 3
    assert (seen["hours", "kitchen"], seen["events_per_hour", "kitchen", "denied"]) == (2.0, 2.0)
    assert seen["troubled_devices", "silent"] == 1
    assert seen[("worse",)] == 0
    assert not [names for names in seen if "hall" in names or "dev-a" in names]


def test_there_are_figures_of_twenty_labels_at_most(store: Store) -> None:
    rooms = {f"dev-{number:02}": f"room-{number // 2}" for number in range(2 * MOST_LABELS + 4)}
    approve_in(store, rooms)
    for name in rooms:
        enter(store, NOW, report(name))
    assert len([names for names in watch(store, NOW) if names[0] == "devices"]) == MOST_LABELS + 1


@pytest.mark.slow
def test_a_day_that_is_worse_than_the_week_before_is_told(store: Store) -> None:
    """1 complaint an hour for five days, then 3: P is far below 0.01 and both sides have a day; 1 is no news."""
    approve(store, "dev-a", "dev-b")
    following = days_of(store, "dev-a", 5, NOW - DAY, denied=1)
    days_of(store, "dev-b", 5, NOW - DAY, denied=1)
    days_of(store, "dev-a", 1, NOW, following, denied=3)
    assert watch(store, NOW)[("worse",)] == 1
    assert watch(store, NOW)[("complaints_per_hour_before",)] == 1.0

    days_of(store, "dev-b", 1, NOW, following, denied=0)
    assert watch(store, NOW - 0.5 * DAY)[("worse",)] == 0  # half a day is not enough
