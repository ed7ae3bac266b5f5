"""Execution engines: the table, the one on one screen that a test adds to it, and both of ours over ten rounds."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
from safetensors.numpy import load_file
from tests.fleet.test_fleet_run import small

from auricle.errors import SettingsError
from auricle.process.cli import main
from auricle_fleet import FleetResult, FleetRun, Group, RoundRow
from auricle_fleet.engines import ENGINES, require_engine
from auricle_fleet.forecast import forecast as forecasts
from auricle_fleet.forecast.speed import Speed
from auricle_fleet.virtual.sequential import SequentialFleet

pytest.importorskip("espeakng_loader")


@pytest.fixture
def sequential(monkeypatch: pytest.MonkeyPatch) -> None:
    """The engine on one screen, and its line in the table."""
    monkeypatch.setitem(ENGINES, "sequential", SequentialFleet)


def as_bytes(result: FleetResult) -> bytes:
    return result.paths.model.read_bytes()


def of_one_process(engine: str, **changes: Any) -> Any:
    return small(**{"engine": engine, "broker": None, "preset": "fedavg", "devices": 3, "rounds": 1, **changes})


def test_an_engine_that_there_is_not_and_what_one_refuses_are_sentences(sequential: None) -> None:
    with pytest.raises(SettingsError, match='no engine "sequental"; did you mean "sequential"'):
        require_engine(small(engine="sequental"))
    with pytest.raises(SettingsError, match="neither groups"):
        FleetRun(of_one_process("sequential", groups=(Group(name="some"),)))
    for changes, said in (
        ({"detect": True}, "no harmful updates"),
        ({"method": "feddyn"}, "models and samples alone"),
        ({"mode": "async"}, "asynchronous"),
    ):
        with pytest.raises(SettingsError, match=said):
            require_engine(of_one_process("sequential", **changes))
    assert require_engine(of_one_process("sequential")) == "sequential"
    assert require_engine(small()) == "live"


@pytest.mark.usefixtures("sequential")
def test_the_forecast_has_a_column_of_every_engine(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    fast = Speed(step=0.01, batch=16, plugin=1e-4, own=2e-4, features=1e-3, when="2026-01-02")
    monkeypatch.setattr(forecasts, "speed_of", lambda *_given, **_options: fast)
    monkeypatch.setattr("auricle.process.table.UNSEEN_WIDTH", 80)
    file = tmp_path / "fleet.toml"
    file.write_text('words = "yes,no"\ndevices = 3\nunseen = 2\ntakes = 3\nmin_clips = 4\nengine = "sequential"\n')
    assert main(["fleet", "plan", str(file), "--participation", "0.5"]) == 2
    printed = capsys.readouterr()
    table = printed.out.splitlines()[1:12]
    assert table[0].split()[:3] == ["live", "virtual", "sequential"] and all(len(line) <= 80 for line in table)
    assert "neither groups" in printed.err and "neither groups" not in printed.out


@pytest.mark.slow
@pytest.mark.usefixtures("sequential")
def test_an_engine_of_one_file_runs_a_fleet_to_its_report(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """With the bytes of the virtual engine, which has a checkpoint, a clock and threads besides."""
    ours = FleetRun(of_one_process("sequential"), tmp_path / "sequential").run()
    theirs = FleetRun(of_one_process("virtual"), tmp_path / "virtual").run()
    assert as_bytes(ours) == as_bytes(theirs)
    row, other = ours.rounds[0], theirs.rounds[0]
    for name in ("state", "invited", "counted", "personal", "left_out", "bytes_up", "bytes_down", "inference_loss"):
        assert getattr(row, name) == getattr(other, name), name
    assert ours.paths.report.exists() and ours.paths.card.exists()
    assert main(["fleet", "compare", str(tmp_path / "sequential"), str(tmp_path / "virtual")]) == 0
    assert "sequential" in capsys.readouterr().out
    assert FleetRun.resume(tmp_path / "sequential").run().summary.rounds == 1


@pytest.mark.slow
@pytest.mark.usefixtures("sequential")
def test_the_page_s_lines_run_a_round_on_one_screen(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    page = (Path(__file__).parents[2] / "docs" / "emulation.md").read_text(encoding="utf-8")
    (example,) = re.findall(r"```python\n(.*?SequentialFleet.*?)```", page, re.DOTALL)
    exec(compile(example, "emulation.md", "exec"), {})
    assert (tmp_path / "runs/sequential/report.html").is_file()


@pytest.mark.slow
@pytest.mark.parametrize(
    "method",
    [
        {"learning": "supervised", "method": "fedavg"},
        {"learning": "mutual", "method": "lpa"},
        {"learning": "mutual", "method": "feddyn"},
    ],
    ids=["fedavg", "mutual", "feddyn"],
)
def test_both_engines_make_the_same_model_after_ten_rounds(tmp_path: Path, method: dict[str, Any]) -> None:
    """Byte for byte, every one of the ten: what devices, rule and server optimizer keep is carried alike."""
    models: dict[str, list[bytes]] = {}
    for engine, broker in (("live", "amqtt"), ("virtual", None)):
        out, seen = tmp_path / engine, models.setdefault(engine, [])

        def keep(_row: RoundRow, out: Path = out, seen: list[bytes] = seen) -> None:
            tensors = load_file(out / "model.safetensors")
            seen.append(b"".join(tensors[name].tobytes() for name in sorted(tensors)))

        settings = small(**method, engine=engine, broker=broker, rounds=10, unseen=1)
        result = FleetRun(settings, out, on_round=keep).run()
        assert [row.counted for row in result.rounds] == [4] * 10
    assert models["live"] == models["virtual"]
    assert len(set(models["live"])) == 10
