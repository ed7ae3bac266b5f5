"""What can fail fails before speech is made, a run that could not begin leaves nothing, and the newest run goes on."""

from __future__ import annotations

import os
import socket
from pathlib import Path

import pytest

from auricle.errors import AuricleError, BrokerError, SettingsError, StorageError
from auricle.process.cli import main
from auricle_fleet import FleetRun, FleetSettings
from auricle_fleet.results.run_folder import newest_run, prepare_folder


def no_speech(*_: object) -> None:
    pytest.fail("speech was made")


def test_a_port_that_is_taken_is_said_before_speech_is_made(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("auricle_fleet.run.load_data", no_speech)
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        with pytest.raises(BrokerError, match="in use"):
            FleetRun(FleetSettings(port=port), tmp_path / "run").run()
    with pytest.raises(BrokerError):
        FleetRun(FleetSettings(broker=f"mqtt://127.0.0.1:{port}"), tmp_path / "run").run()
    monkeypatch.setattr("auricle_fleet.broker.broker.find_mosquitto", lambda: None)
    with pytest.raises(BrokerError, match="mosquitto"):
        FleetRun(FleetSettings(broker="mosquitto"), tmp_path / "run").run()
    assert not (tmp_path / "run").exists()


@pytest.mark.parametrize("there", [False, True])
def test_a_run_that_cannot_begin_leaves_no_folder_of_its_own(tmp_path: Path, there: bool) -> None:
    out = tmp_path / "run"
    if there:
        out.mkdir()
        (out / "notes.txt").write_text("mine")
    with pytest.raises(AuricleError):
        FleetRun(FleetSettings(data=str(tmp_path / "nothing")), out).run()
    assert out.exists() is there
    assert not there or (out / "notes.txt").read_text() == "mine"


@pytest.mark.parametrize("inside", ["notes.txt", ".hidden", "yes"])
def test_a_run_does_not_mix_with_what_lies_in_its_folder(tmp_path: Path, inside: str) -> None:
    (tmp_path / inside).mkdir()
    with pytest.raises(StorageError, match="not empty"):
        prepare_folder(tmp_path, resume=False)
    prepare_folder(tmp_path, resume=True)
    prepare_folder(tmp_path / "new" / "run", resume=False)
    prepare_folder(tmp_path / "new" / "run", resume=False)  # empty: nothing is lost


def test_resume_takes_the_newest_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(StorageError, match="no run"):
        newest_run(tmp_path / "runs")
    for number, name in enumerate(("20261123-100000", "mine", "20261122-100000")):
        folder = tmp_path / "runs" / name
        folder.mkdir(parents=True)
        FleetSettings().save(folder)
        os.utime(folder / "settings.json", (100.0 - number, 100.0 - number))
    assert newest_run(tmp_path / "runs").name == "20261123-100000"
    begun: list[Path] = []

    def resume(out: Path, **_: object) -> FleetRun:
        begun.append(out)
        raise SettingsError("stop here")

    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(FleetRun, "resume", resume)
    assert main(["fleet", "run", "--resume"]) == 2
    assert begun == [Path("runs/20261123-100000")]


@pytest.mark.parametrize(
    ("beside", "named"),
    [
        (("--method", "lpa", "--seed", "3"), "--method, --seed"),
        (("--central",), "--central"),
        (("--method-option", "prune_high=0.2"), "--method-option"),
        (("--config", "run.toml"), "--config"),
        (("--min-clips", "3", "--rounds", "9"), "--min-clips"),
    ],
)
def test_resume_takes_no_other_setting_than_rounds(
    tmp_path: Path, beside: tuple[str, ...], named: str, capsys: pytest.CaptureFixture[str]
) -> None:
    FleetSettings(rounds=5).save(tmp_path)
    assert main(["fleet", "run", "--resume", "--out", str(tmp_path), *beside]) == 2
    assert f"leave out {named}." in capsys.readouterr().err
    assert FleetSettings.load(tmp_path).rounds == 5


def test_resume_with_rounds_has_these_in_all(tmp_path: Path) -> None:
    FleetSettings(rounds=5).save(tmp_path)
    assert FleetRun.resume(tmp_path).settings.rounds == 5
    assert FleetRun.resume(tmp_path, rounds=9).settings.rounds == 9
    with pytest.raises(SettingsError, match="at least 1"):
        FleetRun.resume(tmp_path, rounds=0)
