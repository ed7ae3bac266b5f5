"""The database of a run without a coordinator: `auricle cloud` reads there what it reads of a live run."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import msgspec
import pytest
from tests.fleet.test_fleet_run import small

from auricle.errors import AuricleError
from auricle.process.cli import main
from auricle_cloud.commands.target import Place
from auricle_cloud.operations.operations import Operations
from auricle_cloud.storage.blobs import Blobs
from auricle_cloud.storage.store import FILE
from auricle_fleet import FleetRun, Group, Network
from auricle_fleet.settings.fleet_settings import FleetSettings
from auricle_fleet.virtual import book as virtual_book
from auricle_fleet.virtual import checkpoint as virtual_checkpoint
from auricle_fleet.virtual import fleet as virtual_fleet

pytest.importorskip("espeakng_loader")

MEASURED = {"planned", "opened", "closed", "received", "seconds", "created", "at", "last_seen", "first_seen", "id"}
"""Times, and numbers that another row may have taken."""
OTHERWISE = {"asked_by", "ineligible", "boot", "public_key"}


def virtual(**changes: Any) -> FleetSettings:
    return small(**{"engine": "virtual", "broker": None, **changes})


@contextmanager
def asked(run: Path) -> Iterator[Operations]:
    """What an operator asks of a run's folder."""
    with Place(state=run / "state" / "coordinator").operations() as do:
        yield do


def plain(answer: Any) -> Any:
    """An answer without what no two runs have alike."""
    told = msgspec.to_builtins(answer)

    def bare(value: Any) -> Any:
        if isinstance(value, dict):
            return {name: bare(each) for name, each in value.items() if name not in MEASURED | OTHERWISE}
        if isinstance(value, float):  # means are summed in the order of arrival; above, they are times
            return None if value > 1e9 else round(value, 9)
        return [bare(each) for each in value] if isinstance(value, list) else value

    return bare(told)


def told(run: Path, rounds: int, *, kinds: tuple[str, ...] = ("bounded", "left out", "rolled back")) -> dict[str, Any]:
    """All that `auricle cloud` says of a run."""
    with asked(run) as do:
        events = [event for kind in kinds for event in do.list_events(kind=kind).events]
        return {
            "rounds": plain(do.list_rounds().rounds),
            "shown": [plain(do.show_round(number)) for number in range(1, rounds + 1)],
            "why": [plain(do.why_round(number)) for number in range(1, rounds + 1)],
            "models": plain(do.list_models().models),
            "devices": plain(do.list_devices().devices),
            "histories": [plain(do.show_device(row.device).history) for row in do.list_devices().devices],
            "events": sorted(map(repr, plain(events))),
        }


@pytest.mark.slow
@pytest.mark.parametrize(
    "changes",
    [
        {
            "method": "multi-krum",
            "devices": 6,
            "rounds": 6,
            "participation": 0.7,
            "groups": (
                Group(name="boaster", attack="samples", strength=1e6),
                Group(name="far", attack="scale", strength=1e9),
            ),
        },
        {"method": "fedavg", "rounds": 3, "start": "pack", "judge": "on", "judge_share": 1.0, "preset": "fedavg"},
    ],
    ids=["attacked", "judged"],
)
def test_an_operator_is_told_the_same_of_both_engines(tmp_path: Path, changes: dict[str, Any]) -> None:
    """Rounds with their cohorts and reasons, models and their files, devices and their counts, what was noted."""
    FleetRun(small(**changes), tmp_path / "live").run()
    FleetRun(virtual(**changes), tmp_path / "virtual").run()
    live, without = (told(tmp_path / engine, changes["rounds"]) for engine in ("live", "virtual"))
    for part, expected in live.items():
        assert without[part] == expected, part


def dies_after(number: int, patched: pytest.MonkeyPatch) -> None:
    """Every round is kept, up to this one; of the one after it the rows alone, before the process dies."""
    keep = virtual_checkpoint.Checkpoint.write

    def write(checkpoint: Any, after: int, *told: Any) -> None:
        if after > number:
            raise AuricleError("died")
        keep(checkpoint, after, *told)

    patched.setattr(virtual_fleet, "EVERY", 0.0)
    patched.setattr(virtual_checkpoint.Checkpoint, "write", write)


@pytest.mark.slow
def test_rounds_that_are_made_again_take_the_place_of_those_that_were_lost(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With counts of devices and events as if nothing had happened, also where the rows are ahead of the run."""
    changes: dict[str, Any] = {
        "method": "multi-krum",
        "rounds": 7,
        "groups": (Group(name="boaster", attack="samples", strength=1e6),),
    }
    FleetRun(virtual(**changes), tmp_path / "whole").run()
    with monkeypatch.context() as patched:
        dies_after(5, patched)
        with pytest.raises(AuricleError, match="died"):
            FleetRun(virtual(**changes), tmp_path / "died").run()
    with asked(tmp_path / "died") as do:
        assert [row.round for row in do.list_rounds().rounds] == [6, 5, 4, 3, 2, 1]
    FleetRun.resume(tmp_path / "died").run()
    whole, again = told(tmp_path / "whole", 7), told(tmp_path / "died", 7)
    assert again == whole
    assert any("left out" in event for event in whole["events"])


@pytest.mark.slow
def test_a_run_whose_rows_are_gone_goes_on_with_new_ones(tmp_path: Path) -> None:
    """As one that a version without them began: devices keep their counts, models begin with that of now."""
    out = tmp_path / "run"
    FleetRun(virtual(rounds=2), out).run()
    for path in (out / "state" / "coordinator").glob(f"{FILE}*"):
        path.unlink()
    FleetRun.resume(out, rounds=3).run()
    with asked(out) as do:
        assert [(row.round, row.base_version) for row in do.list_rounds().rounds] == [(3, 0)]
        assert [(row.version, row.origin) for row in do.list_models().models] == [(1, "round"), (0, "first")]
        assert [row.selected for row in do.list_devices().devices] == [3] * 4


@pytest.mark.slow
def test_the_newest_models_are_kept_and_the_first(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Written at the end alone, and after every round."""
    for every in (virtual_fleet.EVERY, 0.0):
        monkeypatch.setattr(virtual_fleet, "EVERY", every)
        monkeypatch.setattr(virtual_book, "KEPT", 2)
        out = tmp_path / f"{every}"
        FleetRun(virtual(rounds=4), out).run()
        with asked(out) as do:
            kept = do.list_models().models
            assert [(row.version, row.current) for row in kept] == [(4, True), (3, False), (0, False)]
            assert [do.round for do in do.list_rounds().rounds] == [4, 3, 2, 1]
        assert set(Blobs(out / "state" / "coordinator" / "blobs").names()) == {row.blob for row in kept}


@pytest.mark.slow
def test_whose_answer_came_too_late_and_who_said_nothing_is_told(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    groups = (
        Group(name="slow", delay=86_400.0),
        Group(name="mute", drop_out=1.0),
        Group(name="modem", network=Network(kilobits=1.0)),
    )
    out = tmp_path / "run"
    FleetRun(virtual(groups=groups, method="fedavg", quorum=0.25), out).run()
    with asked(out) as do:
        outcomes = [row.state for row in do.show_round(2).cohort]
        assert sorted(outcomes) == ["counted", "invited", "late", "late"]
    none = tmp_path / "none"
    FleetRun(virtual(groups=(Group(name="mutes", count=4, drop_out=1.0),)), none).run()
    state = str(none / "state" / "coordinator")
    assert main(["cloud", "rounds", "why", "2", "--state", state]) == 0
    assert "no quorum at the deadline" in capsys.readouterr().out
    with asked(none) as do:
        assert [(row.state, row.base_version) for row in do.list_rounds().rounds] == [("aborted", 0)] * 2
        assert [row.version for row in do.list_models().models] == [0]


@pytest.mark.slow
@pytest.mark.parametrize("engine", ["virtual", "live"])
def test_a_model_beyond_the_limits_is_not_published(tmp_path: Path, engine: str) -> None:
    """A server's step that is 10^12 times too long: both engines abort both rounds, and keep the first model."""
    far: dict[str, Any] = {"server_optimizer": "momentum", "server_rate": 1e12, "preset": "fedavg", "devices": 3}
    settings = virtual(**far) if engine == "virtual" else small(**far)

    result = FleetRun(settings, tmp_path).run()

    assert [row.state for row in result.rounds] == ["aborted", "aborted"]
    with asked(tmp_path) as do:
        reasons = [do.why_round(number).sentences for number in (1, 2)]
    assert all(any("a weight no model learns" in said for said in each) for each in reasons)
