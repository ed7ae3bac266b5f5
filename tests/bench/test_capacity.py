"""What a round costs, in numbers worked out by hand; the page is that of its document; requests are counted."""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any

import pytest
from bench.capacity import DATA, PAGE
from bench.capacity_lines import lines_of, request_lines
from bench.capacity_model import Load, fit, share_of_error, value
from bench.capacity_page import first_limit, page, size
from bench.capacity_plan import bursts_of, cost_of, limits_of, most_devices, purchase_for
from bench.coordinator_counts import count_requests
from tests.cloud.coordinator_site import FEDAVG, Site
from tests.cloud.object_store import BUCKET, ObjectStore
from tests.cloud.object_store import object_store as object_store
from tests.cloud.site_runs import on_a_site
from tests.cloud.site_runs import runtime as runtime

from auricle.errors import SettingsError
from auricle_cloud.storage.blobs import open_blobs

LINES: dict[str, Any] = {
    "coordinator_cpu": {"once": 0.5, "invited": 0.001, "update": 0.002, "byte": 1e-8},
    "broker_cpu": {"once": 0.0, "update": 0.0005},
    "coordinator_mb": {"once": 100.0, "device": 0.01, "number": 8e-6},
    "broker_mb": {"once": 10.0, "device": 0.02, "byte": 1e-6},
    "commits": {"once": 10.0, "update": 0.01},
    "rows": {"start": 50.0, "device": 3.0, "once": 7.0, "update": 2.0},
    "database_bytes": {"device": 500.0, "update": 100.0},
    "received": {"device": 90.0, "invited": 800.0, "update": 200.0},
    "sent": {"device": 400.0, "part": 600.0, "byte": 1.0},
    "coordinator_ask_cpu": {"once": 0.0003},
    "broker_ask_cpu": {"once": 0.00006},
    "keepalive_cpu": {"once": 0.00001},
    "ask_bytes": {"once": 200.0},
    "rules": {"lpa": {"cpu": {"number": 1e-9}, "memory": {"number": 0.5}}},
    "requests": {"PutObject": {"once": 1.0, "update": 1.0}, "HeadObject": {"once": 4.0, "update": 1.0}},
}


def test_what_a_load_has() -> None:
    load = Load(10, 4, 100_000, "float16", invited=5)
    assert (load.body, load.parts) == (200_000, 2)
    assert load.terms == {
        "once": 1,
        "device": 10,
        "invited": 5,
        "update": 4,
        "part": 8,
        "byte": 800_000,
        "number": 400_000,
        "pair number": 1_600_000,
        "pair": 16,
    }
    assert value({"once": 2.0, "part": 0.5}, load) == 6.0


def test_a_fit_gives_back_the_constants_that_figures_are_made_of() -> None:
    loads = [Load(100, 100), Load(1000, 1000), Load(1000, 500, 126_000), Load(10, 3, codec="float16")]
    line = {"once": 0.25, "update": 0.002, "byte": 1e-8}
    terms = [load.terms for load in loads]
    assert fit(tuple(line), terms, [value(line, load) for load in loads]) == pytest.approx(line, rel=1e-3)
    # (x / 10 - 1)^2 + (x - 1)^2 is least at 1.1 / 1.01
    assert fit(("once", "update"), terms[:2], [10.0, 1.0]) == {
        "once": pytest.approx(1.1 / 1.01, rel=1e-3),
        "update": 0.0,
    }


def test_what_a_round_of_a_thousand_costs() -> None:
    cost = cost_of(Load(3000, 1000, 10_000), LINES)
    # 40 MB of bodies; 1000 invitations, updates
    assert cost.rule_cpu == pytest.approx(0.01)
    assert cost.coordinator_cpu == pytest.approx(0.5 + 1 + 2 + 0.4 + 0.01)
    assert cost.asking == pytest.approx(3000 / 30 * 0.0003)
    assert cost.broker_idle == pytest.approx(3000 / 30 * 0.00006 + 3000 / 60 * 0.00001)
    assert cost.coordinator_bytes == pytest.approx(100e6 + 30e6 + 80e6 + 5e6)
    assert cost.broker_bytes == pytest.approx(10e6 + 60e6 + 40e6)
    assert cost.up == pytest.approx(600_000 + 40e6)
    assert cost.down == pytest.approx(1000 * 1000 + 1000 * (40_000 + 110) + 3000 * 700)
    assert cost.idle_bytes == pytest.approx(100 * 200 + 50 * 160)
    assert (cost.commits, cost.rows, cost.database_bytes) == (20.0, 2007.0, 100_000.0)
    assert cost.requests == {"PutObject": 1001.0, "HeadObject": 1004.0}
    assert cost.seconds == pytest.approx(3.91 / (1 - 0.03))
    assert cost.stored_seconds == cost.seconds
    assert cost_of(Load(3000, 1000, 10), LINES).stored_seconds == pytest.approx(2005 * 0.02 / 10)


def test_rows_above_what_is_kept_are_there_twice() -> None:
    few, more = (cost_of(Load(9000, n, 10_000), LINES).coordinator_bytes for n in (6710, 6712))
    assert more - few == pytest.approx(2 * 10_000 * 8.5 + (1 << 28))


def test_a_coordinator_that_only_answers_questions_ends_no_round() -> None:
    load = Load(100_000, 100)
    cost = cost_of(load, LINES)
    assert cost.asking == pytest.approx(1.0)
    assert math.isinf(cost.seconds)
    assert first_limit(load, cost) == ("the coordinator's core, for questions of idle devices", pytest.approx(1.0))
    assert limits_of(load, cost)["the broker's core"] == pytest.approx(0.05 / 300 + 0.2 + 100_000 / 60 * 1e-5)
    assert most_devices(LINES) == 50_000


def test_what_comes_at_once_is_held_as_far_as_there_is_room() -> None:
    assert bursts_of(Load(100, 100)) == {"unfinished": 0.0, "queue": pytest.approx(100 * 112_268 / 2**30)}
    assert bursts_of(Load(100, 100, 126_000)) == {
        "unfinished": pytest.approx(100 * 504_000 / 2**26),
        "queue": pytest.approx(100 * 504_000 / 2**30),
    }
    assert bursts_of(Load(1, 200_000, 10))["queue"] == 2.0


@pytest.mark.parametrize(
    ("devices", "fleets", "cores", "gigabytes"), [(1000, 1, 2, 2), (50_000, 1, 2, 4), (50_001, 2, 2, 4)]
)
def test_what_to_buy(devices: int, fleets: int, cores: int, gigabytes: int) -> None:
    bought = purchase_for(Load(devices, 1000), LINES)
    assert (bought.fleets, bought.cores, bought.gigabytes) == (fleets, cores, gigabytes)
    assert bought.disk == 365 * 24 * 100 * math.ceil(1000 / fleets)


def test_requests_of_the_last_round_are_told_apart() -> None:
    def run(updates: int, *totals: dict[str, int]) -> dict[str, Any]:
        about = {"devices": updates, "updates": updates, "weights": 9, "codec": "float32", "invited": updates}
        return {"load": about, "requests": list(totals)}

    few = run(10, {"PutObject": 11}, {"PutObject": 22, "ListObjectsV2": 1})
    many = run(20, {"PutObject": 21}, {"PutObject": 42, "ListObjectsV2": 1})
    assert request_lines({"requests": [few, many]}) == {
        "ListObjectsV2": {"once": 1.0, "update": 0.0},
        "PutObject": {"once": 1.0, "update": 1.0},
    }


def test_sizes_and_errors_are_readable() -> None:
    assert [size(count) for count in (12, 999.6, 1.5e6, 112e9, 3e12)] == ["12 B", "1 kB", "1.5 MB", "112 GB", "3 TB"]
    assert share_of_error(90.0, 100.0) == pytest.approx(-0.1)


def test_the_page_is_that_of_its_document_and_constants_are_those_of_what_was_measured() -> None:
    document = json.loads(DATA.read_text(encoding="utf-8"))
    assert PAGE.read_text(encoding="utf-8") == page(document)
    assert document["command"] == "python bench/capacity.py --measure"
    assert document["lines"] == lines_of(document["measured"])


# -- an object store


def test_requests_are_counted_as_they_are_sent(object_store: ObjectStore) -> None:
    blobs = open_blobs(f"s3://{BUCKET}/counted")
    counts = count_requests(blobs)
    name = blobs.put(b"abc")
    put = counts()
    blobs.put(b"abc")
    again = counts()
    blobs.get(name)
    got = counts()
    blobs.remove(name)
    assert put == {"HeadObject": 1, "ListObjectsV2": 1, "PutObject": 1}
    assert again == {"GetObject": 1, "HeadObject": 2, "ListObjectsV2": 1, "PutObject": 1}
    assert got == {"GetObject": 2, "HeadObject": 3, "ListObjectsV2": 1, "PutObject": 1}
    assert counts() == {**got, "DeleteObject": 1}


def test_of_another_store_nothing_is_counted(tmp_path: Path) -> None:
    with pytest.raises(SettingsError, match="s3://BUCKET/PREFIX"):
        count_requests(open_blobs(tmp_path))


@pytest.mark.slow
@on_a_site
async def test_the_requests_of_a_round_of_three_devices(site: Site, object_store: ObjectStore) -> None:
    coordinator = site.coordinator(1, FEDAVG, blobs=f"s3://{BUCKET}/one-round")
    counts = count_requests(coordinator.blobs)
    site.start_agents(coordinator)
    await coordinator.run()
    assert [(done.state, done.counted) for done in site.done] == [("published", 3)]
    sent = counts()
    reads = sent.pop("GetObject")
    # Written: the first model, three updates, the next one, each looked for first. Listed: these, and at the start.
    assert sent == {"HeadObject": 5 + reads, "ListObjectsV2": 6, "PutObject": 5}
    assert reads in (7, 8), "two updates that come at once may both read the model that they began with"
