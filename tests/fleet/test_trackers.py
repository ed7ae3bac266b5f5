"""Rounds in a tracker: TensorBoard's files are read where its writer is installed, calls of the others recorded."""

from __future__ import annotations

import sys
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
from tests.fleet.ended_run import line

from auricle.errors import SettingsError
from auricle.process.cli import main
from auricle_fleet import FleetSettings
from auricle_fleet.results.result import RoundRow
from auricle_fleet.results.trackers import Tracking, figures

SETTINGS = FleetSettings(method="lpa", broker="mqtt://u:secret@h")


def row(number: int) -> RoundRow:
    changes = {"plugin_accuracy_unseen": 0.5, "personal_accuracy": None, "alarm": True, "refused": ["dev-a", "dev-b"]}
    return line(number, **changes)


class Recorder(ModuleType):
    """A package whose every function records its call and gives the package itself."""

    def __init__(self, name: str, fails: str = "") -> None:
        super().__init__(name)
        self.calls: list[tuple[str, tuple[Any, ...], dict[str, Any]]] = []
        self._fails = fails

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)

        def call(*given: Any, **named: Any) -> Recorder:
            self.calls.append((name, given, named))
            if name == self._fails:
                raise OSError("no route")
            return self

        return call


def track(kind: str, package: Recorder, monkeypatch: pytest.MonkeyPatch, said: list[str]) -> None:
    monkeypatch.setitem(sys.modules, package.__name__, package)
    tracking = Tracking(kind, said.append)
    tracking.of(Path("runs/mine"), SETTINGS)
    assert package.calls == []  # a run that cannot begin leaves nothing
    for number in (1, 2):
        tracking.round(row(number))
    tracking.end()


def test_figures_are_what_is_a_number() -> None:
    found = figures(row(3))
    assert (found["plugin_accuracy_unseen"], found["refused"], found["bounded"], found["alarm"]) == (0.5, 2, 0, 1)
    assert not {"round", "rounds", "state", "personal", "left_out", "personal_accuracy"} & found.keys()


def test_mlflow_and_wandb_get_settings_and_rounds(monkeypatch: pytest.MonkeyPatch) -> None:
    told = {"method": "lpa"}
    for package, first, calls, last in (
        (Recorder("mlflow"), {"run_name": "mine"}, "start_run log_params log_metrics log_metrics end_run", 3),
        (Recorder("wandb"), {"project": "auricle", "name": "mine", "config": told}, "init log log finish", 2),
    ):
        track(package.__name__, package, monkeypatch, [])
        assert [name for name, _, _ in package.calls] == calls.split()
        assert first.items() <= package.calls[0][2].items()
        assert "config" in first or package.calls[1][1] == (told,)
        assert package.calls[last][1:] == ((figures(row(2)),), {"step": 2})


def test_a_tracker_that_fails_is_named_once(monkeypatch: pytest.MonkeyPatch) -> None:
    package, said = Recorder("wandb", fails="log"), list[str]()
    track("wandb", package, monkeypatch, said)
    assert len(said) == 1 and said[0].startswith("wandb") and "no route" in said[0]
    assert [name for name, _, _ in package.calls] == ["init", "log"]


def test_a_tracker_that_is_not_there_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setitem(sys.modules, "mlflow", None)
    out = tmp_path / "run"
    assert main(["fleet", "run", "--track", "mlflow", "--out", str(out)]) == 2
    assert "pip install mlflow" in capsys.readouterr().err
    with pytest.raises(SettingsError, match="tensorboard"):
        Tracking("tensorbord", print)
    assert not out.exists()


def test_tensorboard_writes_files_into_the_runs_folder(tmp_path: Path) -> None:
    pytest.importorskip("tensorboardX")
    from tensorboardX.proto.event_pb2 import Event

    tracking = Tracking("tensorboard", pytest.fail)
    tracking.of(tmp_path, SETTINGS)
    for number in (1, 2):
        tracking.round(row(number))
    tracking.end()
    (file,) = (tmp_path / "tensorboard").iterdir()
    data, found = file.read_bytes(), []
    assert b"method = lpa" in data and b"secret" not in data
    while data:  # length (8 bytes), its checksum (4), the event, its checksum (4)
        length = int.from_bytes(data[:8], "little")
        event = Event.FromString(data[12 : 12 + length])
        found += [(event.step, value.tag, value.simple_value) for value in event.summary.value]
        data = data[16 + length :]
    assert (1, "plugin_accuracy_unseen", 0.5) in found and (2, "refused", 2.0) in found
