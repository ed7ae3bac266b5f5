"""SIGKILL of the coordinator at every transition of a round, and around every acknowledgement (RELIABILITY F1).

After each: the same run goes on, nothing acknowledged is lost, nothing counts twice, and the last model has the bytes
of a run that nobody disturbed.
"""

from __future__ import annotations

import asyncio
import signal
import time
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from auricle_cloud.states.round import FINISHED, TRANSITIONS, label
from auricle_cloud.storage.blobs import Blobs
from auricle_cloud.storage.store import FILE
from tests.nightly import nightly_but
from tests.recorder import Record
from tests.system.checker import check, check_models, counted_rows, open_store, tally
from tests.system.killed_coordinator import TASK, preset
from tests.system.toy_fleet import DEVICES, ToyFleet, killed, succeeded, toy_fleet

ROUNDS = 3
OVERSHOOT = 2000.0  # a server rate at which the model is thrown off, so that losses rise and the alarm fires

STATES = ("planned", "inviting", "collecting", "closing", "aggregated", "published")
PLAIN = [f"{old} -> {new}" for old, new in pairwise(STATES)]
SECURE = ["planned -> keys", "keys -> shares", "shares -> inviting", "collecting -> revealing", "revealing -> closing"]
"""In `test_secure_sum_faults.py`."""
SECURE_ABORTED = ["keys -> aborted", "shares -> aborted", "revealing -> aborted"]
TWO_PHASE = ["planned -> losses", "losses -> inviting", "losses -> alarm", "alarm -> inviting"]
BY_SHAPLEY = ["planned -> alarm"]
"""In two-phase rounds that compare no losses."""
ABORTED = {
    "planned -> aborted": "start",
    "losses -> aborted": "after planned -> losses",
    "alarm -> aborted": "after losses -> alarm",
    "inviting -> aborted": "after planned -> inviting",
    "collecting -> aborted": "after inviting -> collecting",
}  # after which point an operator asks to abort the round
REFUSED = ["closing -> aborted"]
"""A model that must not be published, in `tests/cloud/test_model_check.py`."""


def test_the_matrix_has_every_transition() -> None:
    assert sorted([*PLAIN, *TWO_PHASE, *BY_SHAPLEY, *ABORTED, *SECURE, *SECURE_ABORTED, *REFUSED]) == sorted(
        label(old, new) for old, new in TRANSITIONS
    )


@pytest.fixture(params=nightly_but(("sqlite", "postgresql"), ["sqlite"]))
def database(request: pytest.FixtureRequest) -> str | None:
    """A database for a coordinator: SQLite in its folder, or a fresh one of a real PostgreSQL server."""
    if request.param == "sqlite":
        return None
    url: str = request.getfixturevalue("postgres_url")
    return url


async def _run(fleet: ToyFleet, record: Record, **told: Any) -> None:
    """Run to the end, through a kill if one is told; the seconds from it until a coordinator is there are recorded."""
    coordinator = await fleet.coordinator(ROUNDS, **told)
    if told.get("kill"):
        await killed(coordinator)
        began = time.monotonic()
        again = await fleet.coordinator(ROUNDS, **{**told, "kill": ""})
        resumed = time.monotonic() - began
        record("kills", int(coordinator.process.returncode == -signal.SIGKILL))
        record("resume s", round(resumed, 2))
        assert again.lines[0]["epoch"] > coordinator.lines[0]["epoch"]
        coordinator = again
    await succeeded(coordinator)


def _verify(fleet: ToyFleet, record: Record, told: dict[str, Any], database: str | None) -> str:
    with open_store(database or fleet.state / FILE) as store:
        for name, value in tally(fleet.log, counted_rows(store, TASK)).items():
            record(name, value)
        rows = check(store, TASK, fleet.log)
        states = [store.rounds.get(TASK, number).state for number in range(1, ROUNDS + 1)]
        assert all(state in FINISHED for state in states)
        if not told.get("request"):
            assert states == ["published"] * ROUNDS
            everybody = [(number, name) for number in range(1, ROUNDS + 1) for name in DEVICES]
            assert [(row.round, row.device) for row in rows] == everybody
        used = preset(told.get("server_rate", 0.5))
        return check_models(store, Blobs(fleet.state / "blobs"), fleet.pack, TASK, used, ROUNDS)


def _once(folder: Path, database: str | None, record: Record = lambda _, __: None, **told: Any) -> str:
    """The last model of a run."""

    async def case() -> str:
        async with toy_fleet(folder) as fleet:
            await _run(fleet, record, database=database, **told)
            return _verify(fleet, record, told, database)

    return asyncio.run(case())


def same(model: str, undisturbed: str, record: Record) -> None:
    """A model has the bytes of a run that nobody disturbed."""
    record("other model bytes", int(model != undisturbed))
    assert model == undisturbed


@pytest.fixture(scope="module")
def undisturbed(tmp_path_factory: pytest.TempPathFactory) -> dict[tuple[bool, float], str]:
    """The last model of a run that nobody disturbs, by what is run."""
    found = {}
    for detect, rate in ((False, 0.5), (True, 0.5), (True, OVERSHOOT)):
        folder = tmp_path_factory.mktemp("undisturbed")
        found[detect, rate] = _once(folder, None, detect=detect, server_rate=rate)
    return found


POINTS = [f"{when} {name}" for name in PLAIN for when in ("before", "after")] + ["before ack", "after ack"]
IN_GATE = ["after ack", *(f"before {name}" for name in (*PLAIN, *TWO_PHASE))]
"""One kill at each transition."""


@pytest.mark.reliability(
    "F1", load="kill -9 before and after every commit and answer of a round, SQLite and PostgreSQL"
)
@pytest.mark.slow
@pytest.mark.parametrize("point", nightly_but(POINTS, IN_GATE))
def test_killed_in_a_round(
    point: str,
    database: str | None,
    undisturbed: dict[tuple[bool, float], str],
    tmp_path: Path,
    record_property: Record,
) -> None:
    same(_once(tmp_path, database, record_property, kill=point), undisturbed[False, 0.5], record_property)


@pytest.mark.reliability("F1", load="the same in two-phase rounds")
@pytest.mark.slow
@pytest.mark.parametrize(
    "point", nightly_but((f"{when} {name}" for name in TWO_PHASE for when in ("before", "after")), IN_GATE)
)
def test_killed_in_a_two_phase_round(
    point: str,
    database: str | None,
    undisturbed: dict[tuple[bool, float], str],
    tmp_path: Path,
    record_property: Record,
) -> None:
    rate = OVERSHOOT if "alarm" in point else 0.5
    model = _once(tmp_path, database, record_property, kill=point, detect=True, server_rate=rate)
    same(model, undisturbed[True, rate], record_property)


@pytest.mark.reliability("F1", load="the same where no losses are compared")
@pytest.mark.slow
@pytest.mark.parametrize("when", nightly_but(("before", "after"), ["before"]))
def test_killed_in_a_round_that_compares_no_losses(
    when: str, database: str | None, tmp_path: Path, record_property: Record
) -> None:
    told = {"detect": True, "losses": False}
    undisturbed = _once(tmp_path / "undisturbed", None, **told)
    model = _once(tmp_path / "killed", database, record_property, kill=f"{when} {BY_SHAPLEY[0]}", **told)
    same(model, undisturbed, record_property)


@pytest.mark.reliability("F1", load="the same while a round is aborted")
@pytest.mark.slow
@pytest.mark.parametrize("when", nightly_but(("before", "after"), ["before"]))
@pytest.mark.parametrize("name", list(ABORTED))
def test_killed_while_a_round_is_aborted(
    name: str, when: str, database: str | None, tmp_path: Path, record_property: Record
) -> None:
    alarmed = name.startswith("alarm")
    told = {"detect": alarmed or name.startswith("losses"), "server_rate": OVERSHOOT if alarmed else 0.5}
    _once(tmp_path, database, record_property, kill=f"{when} {name}", request=ABORTED[name], **told)
