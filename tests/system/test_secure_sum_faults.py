"""Secure sums when processes die: the same model as undisturbed, and the sum of those that came when a device is gone.

SIGKILL of the coordinator at every step that only such a round has, SIGKILL of a device after everything that it says.
"""

from __future__ import annotations

import asyncio
import time
from pathlib import Path
from typing import Any

import pytest

from auricle_cloud.states.report import Document
from auricle_cloud.storage.store import FILE
from tests.nightly import nightly_but
from tests.recorder import Record
from tests.system.checker import check, counted_rows, open_store, tally
from tests.system.killed_coordinator import TASK
from tests.system.test_kill_matrix import SECURE, SECURE_ABORTED, same
from tests.system.toy_fleet import DEVICES, ToyFleet, killed, succeeded, toy_fleet

FOUR = (*DEVICES, "dev-d")
LAST = FOUR[-1]


def silent(_: str, __: object) -> None:
    """Record nothing."""


def _read(
    fleet: ToyFleet, rounds: int, database: str | None = None, record: Record = silent
) -> tuple[list[Document], str]:
    """Reports of all rounds, and the last model, once everything was counted as it was acknowledged."""
    fleet.read_said()
    with open_store(database or fleet.state / FILE) as store:
        for name, value in tally(fleet.log, counted_rows(store, TASK)).items():
            record(name, value)
        check(store, TASK, fleet.log)
        rows = [store.rounds.get(TASK, number) for number in range(1, rounds + 1)]
        assert store.sums.rows(TASK, rounds) == []
        reports = [{**(row.report or {}), "state": row.state} for row in rows]
        return reports, str(store.models.current(TASK).blob)


def _sums(reports: list[Document]) -> list[tuple[str, int, dict[str, str]]]:
    return [(r["state"], r["secure_sum"].get("devices"), r["secure_sum"]["dropped"]) for r in reports]


def _run(folder: Path, rounds: int = 2, record: Record = silent, **told: Any) -> tuple[list[Document], str]:
    """Run to the end, through a kill of the coordinator if one is told."""

    async def case() -> tuple[list[Document], str]:
        async with toy_fleet(folder) as fleet:
            coordinator = await fleet.coordinator(rounds, secure=True, **told)
            if told.get("kill"):
                await killed(coordinator)
                began = time.monotonic()
                coordinator = await fleet.coordinator(rounds, secure=True, **{**told, "kill": "", "request": ""})
                record("resume s", round(time.monotonic() - began, 2))
            await succeeded(coordinator)
            return _read(fleet, rounds, told.get("database"), record)

    return asyncio.run(case())


@pytest.fixture(scope="module")
def undisturbed(tmp_path_factory: pytest.TempPathFactory) -> str:
    """The last model of a run that nobody disturbs: of three devices."""
    reports, model = _run(tmp_path_factory.mktemp("undisturbed"))
    assert _sums(reports) == [("published", 3, {})] * 2
    return model


POINTS = [f"{when} {name}" for name in SECURE for when in ("before", "after")]
ON_POSTGRESQL = [POINTS[place] for place in (1, 4, 7, 8)]
"""One a state: the transactions are the same as on SQLite, on which all points are tried."""


@pytest.mark.reliability("F1", load="kill -9 before and after every step of a secure sum")
@pytest.mark.slow
@pytest.mark.parametrize("point", nightly_but(POINTS, POINTS[::4]))
def test_a_coordinator_killed_in_a_secure_sum_goes_on_with_it(
    point: str, undisturbed: str, tmp_path: Path, record_property: Record
) -> None:
    reports, model = _run(tmp_path, record=record_property, kill=point)
    assert _sums(reports) == [("published", 3, {})] * 2
    same(model, undisturbed, record_property)


@pytest.mark.reliability("F1", load="the same on PostgreSQL, once in each state of a secure sum")
@pytest.mark.slow
@pytest.mark.parametrize("point", ON_POSTGRESQL)
@pytest.mark.nightly
def test_a_coordinator_on_postgresql_killed_in_a_secure_sum_goes_on_with_it(
    point: str, undisturbed: str, postgres_url: str, tmp_path: Path, record_property: Record
) -> None:
    reports, model = _run(tmp_path, record=record_property, kill=point, database=postgres_url)
    assert _sums(reports) == [("published", 3, {})] * 2
    same(model, undisturbed, record_property)


@pytest.mark.slow
@pytest.mark.parametrize("name", SECURE_ABORTED)
@pytest.mark.nightly
def test_a_secure_sum_is_aborted_by_an_operator_in_each_of_its_states(name: str, tmp_path: Path) -> None:
    before = {"keys": "planned -> keys", "shares": "keys -> shares", "revealing": "collecting -> revealing"}
    reports, _ = _run(tmp_path, request=f"after {before[name.split()[0]]}", kill=f"before {name}")
    assert [report["state"] for report in reports] == ["aborted", "published"]
    assert reports[0]["reason"] == "aborted by an operator"


@pytest.mark.reliability("F7", load="a device killed after everything that it says in a secure sum")
@pytest.mark.slow
@pytest.mark.parametrize(
    "point",
    nightly_but(
        ["sumkeys", "sumshares", "training", "kept", "sent", "acknowledged", "sumreveal"], ["kept", "sumreveal"]
    ),
)
async def test_a_device_killed_in_a_secure_sum_goes_on_with_it(
    point: str, undisturbed: str, tmp_path: Path, record_property: Record
) -> None:
    async with toy_fleet(tmp_path, here=DEVICES[:2]) as fleet:
        coordinator = await fleet.coordinator(2, secure=True)
        victim = await fleet.agent_process(DEVICES[2], kill=point)
        await killed(victim)
        await fleet.agent_process(DEVICES[2])
        await succeeded(coordinator)
        reports, model = _read(fleet, 2, record=record_property)
    assert _sums(reports) == [("published", 3, {})] * 2, [report.get("reason") for report in reports]
    same(model, undisturbed, record_property)


@pytest.mark.reliability("F1", load="a device gone for good in a secure sum, and a killed coordinator")
@pytest.mark.parametrize(
    ("point", "gone"),
    [("sumkeys", "shares"), ("sumshares", "update"), ("acknowledged", "reveal")],
)
@pytest.mark.slow
@pytest.mark.nightly
async def test_without_a_device_that_is_gone_for_good_and_a_killed_coordinator_the_others_make_a_model(
    point: str, gone: str, tmp_path: Path, record_property: Record
) -> None:
    async with toy_fleet(tmp_path, FOUR, here=DEVICES) as fleet:
        told: dict[str, Any] = {"secure": True, "quorum": 0.7, "sum_wait": 5.0}
        coordinator = await fleet.coordinator(1, kill="after collecting -> revealing", **told)
        victim = await fleet.agent_process(LAST, kill=point)
        await victim.end()
        await killed(coordinator)
        await succeeded(await fleet.coordinator(1, **told))
        reports, _ = _read(fleet, 1, record=record_property)
    assert _sums(reports) == [("published", 4 if gone == "reveal" else 3, {LAST: gone})]
