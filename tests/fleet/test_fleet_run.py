"""A fleet from Python: the same run as the command's, with rows, callbacks, an end in between and going on."""

from __future__ import annotations

import asyncio
import json
import signal
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import pytest
from safetensors import safe_open
from tests.fleet.ended_run import line

from auricle.errors import SettingsError, StorageError
from auricle.packs.pack import load_pack
from auricle_cloud.settings import RoundDone
from auricle_fleet import FleetResult, FleetRun, FleetSettings, Group, Network, RoundRow
from auricle_fleet.results.result import round_rows
from auricle_fleet.results.summary import read_model, write_model

pytest.importorskip("espeakng_loader")


def small(**changes: Any) -> FleetSettings:
    values = {"words": "yes,no", "devices": 4, "unseen": 2, "takes": 3, "min_clips": 4, "rounds": 2, "broker": "amqtt"}
    return FleetSettings(**{**values, "local": "crnn-lite", **changes})


@pytest.fixture(scope="module")
def krum(tmp_path_factory: pytest.TempPathFactory) -> tuple[FleetResult, list[RoundRow]]:
    """Two rounds of four devices under Multi-Krum, which keeps 4 - 1 - 2 of them."""
    told: list[RoundRow] = []
    out = tmp_path_factory.mktemp("krum") / "run"
    return FleetRun(small(method="multi-krum"), out, on_round=told.append).run(), told


@pytest.mark.slow
def test_a_run_gives_its_rounds_as_it_tells_them_and_as_they_are_on_disk(
    krum: tuple[FleetResult, list[RoundRow]],
) -> None:
    result, told = krum
    lines = [json.loads(line) for line in result.paths.metrics.read_text().splitlines()]
    assert [row.round for row in told] == [1, 2]
    assert result.rounds == tuple(told)
    assert json.loads(msgspec.json.encode(result.rounds)) == lines
    assert json.loads(result.paths.summary.read_text()) == json.loads(msgspec.json.encode(result.summary))
    assert not result.interrupted
    paths = result.paths
    assert all(path.exists() for path in (paths.report, paths.model, paths.pack, paths.card))
    assert [line.split(",")[0] for line in paths.rounds.read_text().splitlines()] == ["round", "1", "2"]
    assert "| method | multi-krum |" in paths.card.read_text() and "amqtt" not in paths.card.read_text()
    assert "amqtt" not in paths.report.read_text()


@pytest.mark.slow
def test_who_was_left_out_of_a_run_with_another_rule_than_lpa(krum: tuple[FleetResult, list[RoundRow]]) -> None:
    result, _ = krum
    for row in result.rounds:
        assert row.left_out is not None
        assert (row.counted, row.left_out_by_rule) == (1, 3)
        assert {len(names) for names in row.left_out.values()} == {3}
        assert len(set(row.left_out.values())) == 1
    page = result.paths.report.read_text()
    assert "left nobody out" not in page
    out = {name: sum(name in next(iter((row.left_out or {}).values())) for row in result.rounds) for name in names(4)}
    assert {row.device: row.left_out for row in result.devices} == out
    for name, count in out.items():
        assert (f"<tr><td>{name}</td><td>{count}</td>" in page) == (count > 0)


@pytest.mark.slow
def test_a_row_a_device(krum: tuple[FleetResult, list[RoundRow]]) -> None:
    result, told = krum
    assert [row.device for row in result.devices] == names(4)
    assert len({row.speaker for row in result.devices}) == 4
    assert {row.model for row in result.devices} == {"crnn-lite"}
    assert sum(row.training_clips for row in result.devices) == result.summary.training_clips
    assert [row.rounds for row in result.devices] == [2] * 4
    assert {row.device: row.accuracy for row in result.devices} == told[-1].personal


def names(count: int) -> list[str]:
    return [f"dev-{i:03d}" for i in range(count)]


@pytest.mark.slow
def test_stopped_after_a_round_and_gone_on_with(tmp_path: Path) -> None:
    """As Ctrl-C does it; the rounds before are read again."""
    run = FleetRun(small(rounds=3), tmp_path / "run", on_round=lambda row: run.stop() if row.round == 1 else None)
    first = run.run()
    second = FleetRun.resume(tmp_path / "run").run()
    assert first.interrupted
    assert [row.round for row in first.rounds] == [1]
    assert not second.interrupted
    assert [row.round for row in second.rounds] == [1, 2, 3]
    assert second.rounds[0] == first.rounds[0]
    assert second.rounds[1].bytes_up > first.rounds[0].bytes_up
    assert [row.rounds for row in second.devices] == [3] * 4
    with pytest.raises(StorageError, match="holds a run"):
        FleetRun(small(), tmp_path / "run").run()


@pytest.mark.slow
@pytest.mark.nightly
def test_a_run_is_prolonged_shortened_and_never_loses_a_round(tmp_path: Path) -> None:
    out = tmp_path / "run"
    run = FleetRun(small(rounds=9), out, on_round=lambda row: run.stop() if row.round == 1 else None)
    run.run()
    shorter = FleetRun.resume(out, rounds=2).run()
    model, confusion = out.joinpath("model.safetensors").read_bytes(), shorter.summary.confusion
    again = FleetRun.resume(out).run()
    assert [row.round for row in shorter.rounds] == [1, 2]
    assert (again.rounds, again.summary.confusion) == (shorter.rounds, confusion)
    assert confusion is not None and out.joinpath("model.safetensors").read_bytes() == model
    with pytest.raises(SettingsError, match="--rounds 1"):
        FleetRun.resume(out, rounds=1)
    longer = FleetRun.resume(out, rounds=3).run()
    assert [row.round for row in longer.rounds] == [1, 2, 3]
    assert longer.rounds[:2] == shorter.rounds
    assert (longer.summary.rounds_planned, FleetSettings.load(out).rounds) == (3, 3)


def test_a_model_is_written_in_the_same_bytes_and_read_again(tmp_path: Path) -> None:
    pack = load_pack("gsc12")
    weights = pack.plugin_table.initial(3)
    done = RoundDone(2, 9, "published", weights, 1.0, 4, 4, {})
    assert read_model(tmp_path, pack) is None
    written = set()
    for _ in range(20):
        write_model(tmp_path, pack, done)
        written.add((tmp_path / "model.safetensors").read_bytes())
    assert len(written) == 1
    found = read_model(tmp_path, pack)
    assert found is not None and np.array_equal(found, weights)
    with safe_open(tmp_path / "model.safetensors", "numpy") as file:
        assert file.metadata() == {"labels": ",".join(pack.labels), "pack": pack.identity, "round": "2"}
    (tmp_path / "model.safetensors").write_bytes(b"torn")
    with pytest.raises(StorageError, match="damaged"):
        read_model(tmp_path, pack)


@pytest.mark.slow
@pytest.mark.parametrize("kind", [ZeroDivisionError, StorageError])
def test_a_callback_that_raises_ends_the_run_with_what_it_raised(tmp_path: Path, kind: type[Exception]) -> None:
    def refuse(row: RoundRow) -> None:
        raise kind(f"round {row.round}")

    with pytest.raises(kind, match="round 1"):
        FleetRun(small(), tmp_path / "run", on_round=refuse).run()
    assert len((tmp_path / "run" / "metrics.jsonl").read_text().splitlines()) == 1


@pytest.mark.slow
async def test_in_a_program_with_an_event_loop_it_is_awaited(tmp_path: Path) -> None:
    with pytest.raises(SettingsError, match="run_async"):
        FleetRun(small(), tmp_path / "other").run()
    run = FleetRun(small(rounds=1), tmp_path / "run")
    result = await run.run_async()
    run.stop()
    await asyncio.sleep(0)  # it is over: nothing is cancelled
    with pytest.raises(SettingsError, match="runs once"):
        await run.run_async()
    found = result
    assert [row.round for row in found.rounds] == [1]
    assert not (tmp_path / "other").exists()


@pytest.mark.slow
def test_in_a_thread_it_runs_without_signals_and_who_heeded_them_before_does_so_again(tmp_path: Path) -> None:
    def mine(number: int, frame: object) -> None:
        pass

    found: list[FleetResult] = []
    before = signal.signal(signal.SIGTERM, mine)
    try:
        thread = threading.Thread(target=lambda: found.append(FleetRun(small(rounds=1), tmp_path / "one").run()))
        thread.start()
        thread.join(250)
        found.append(FleetRun(small(rounds=1), tmp_path / "two").run())
        assert signal.getsignal(signal.SIGTERM) is mine
    finally:
        signal.signal(signal.SIGTERM, before)
    assert [result.summary.rounds for result in found] == [1, 1]


PROGRAM = """
import sys
from auricle_fleet import FleetRun, FleetSettings
from auricle_fleet.results.live import Silent
class Ending(Silent):
    def say(self, text):
        if text.startswith("ends: writes what was done"):
            print(text, file=sys.stderr)
settings = FleetSettings(words="yes,no", devices=2, unseen=1, takes=3, min_clips=4, rounds=9, broker="amqtt")
result = FleetRun(settings, sys.argv[1], on_round=lambda row: print(row.round, flush=True), view=Ending()).run()
print("interrupted", result.interrupted, len(result.rounds), flush=True)
"""


@pytest.mark.slow
def test_ctrl_c_ends_a_program_s_run_cleanly(tmp_path: Path) -> None:
    command, pipe = [sys.executable, "-c", PROGRAM, str(tmp_path / "run")], subprocess.PIPE
    program = subprocess.Popen(command, stdout=pipe, stderr=pipe, text=True)
    assert program.stdout is not None
    assert program.stdout.readline() == "1\n"
    program.send_signal(signal.SIGINT)
    said, errors = program.communicate(timeout=100)
    assert program.returncode == 0, errors
    assert "Ctrl-C again ends at once" in errors
    *rounds, last = said.splitlines()
    assert last == f"interrupted True {1 + len(rounds)}"
    assert json.loads((tmp_path / "run" / "summary.json").read_text())["interrupted"] is True


def test_a_line_of_an_earlier_version_is_a_row_and_anything_else_is_refused(tmp_path: Path) -> None:
    told = msgspec.to_builtins(line(1))
    (row,) = round_rows([{**told, "left_out": None, "kept": {"conv": ["dev-000"]}}], tmp_path / "metrics.jsonl")
    assert row.left_out is None and row.personal == {}
    with pytest.raises(StorageError, match="metrics"):
        round_rows([{**told, "counted": "three"}], tmp_path / "metrics.jsonl")


pytest.importorskip("espeakng_loader")


@pytest.mark.slow
@pytest.mark.nightly
def test_groups_live_as_they_are_told(tmp_path: Path) -> None:
    """Four devices: one mute, one that says a thousand times its clips, one behind a slow network."""
    groups = (
        Group(name="mute", drop_out=1.0),
        Group(name="boaster", attack="samples"),
        Group(name="far", network=Network(latency=0.05, kilobits=8000)),
    )
    result = FleetRun(small(groups=groups, method="fedavg", deadline=20.0, quorum=0.5), tmp_path / "run").run()
    by_group = {row.group: row for row in result.devices}
    assert by_group["mute"].rounds == 0
    assert by_group["far"].rounds == by_group["boaster"].rounds == by_group[None].rounds == 2
    assert all(row.bounded == (by_group["boaster"].device,) for row in result.rounds)
    page = result.paths.report.read_text()
    assert all(f"<td>{name}</td>" in page for name in ("mute", "boaster", "far", "all others"))


@pytest.mark.slow
def test_updates_of_an_asynchronous_run_make_models(tmp_path: Path) -> None:
    result = FleetRun(small(mode="async", method="trimmed-mean", method_options={"beta": 0.2}), tmp_path / "run").run()
    assert [row.state for row in result.rounds] == ["published", "published"]


@pytest.mark.slow
def test_detection_judges_by_the_clips_of_half_of_the_unseen(tmp_path: Path) -> None:
    run = FleetRun(small(method="fedvsa", detect=True, unseen=4, rounds=1), tmp_path / "run")
    run.run()
    assert run.engine is not None and run.engine.coordinator is not None
    assert run.engine.coordinator.settings.detection is not None
    assert 0 < len(run.judging.features) < len(run.data.unseen)
