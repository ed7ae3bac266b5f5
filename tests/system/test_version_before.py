"""What the version before has written opens with this one: a database, a run's folder, a backup, a device's clips.

`before/folders.tar.xz` and `before/backup.tar.zst` were made by commit 2f0b91b: `auricle fleet run --words yes,no`
with a pack of 494 weights and two devices, stopped after 2 of 5 rounds; `auricle cloud backup` of its coordinator; and
two clips of a device (tones in noise). A board's installation is in `tests/edge/test_slots_file.py`.
"""

from __future__ import annotations

import json
import tarfile
from pathlib import Path
from typing import Any

import pytest

from auricle.process.cli import main
from auricle_fleet import FleetRun
from tests.recorder import Record

BEFORE = Path(__file__).parent / "before"
MODELS = ("461bec07", "94f9867d", "2d6e2901")  # the first eight digits of the hash of each version's weights


@pytest.fixture
def folders(tmp_path: Path) -> Path:
    """The version before's folders, to be changed."""
    with tarfile.open(BEFORE / "folders.tar.xz") as archive:
        archive.extractall(tmp_path, filter="data")
    return tmp_path


def _said(capsys: pytest.CaptureFixture[str], *arguments: str) -> Any:
    assert main([*arguments, "--json"]) == 0
    return json.loads(capsys.readouterr().out)


def _check_coordinator(capsys: pytest.CaptureFixture[str], state: Path) -> None:
    place = ("--state", str(state))
    rounds = _said(capsys, "cloud", "rounds", "list", *place)["rounds"]
    done = [(row["round"], row["state"], row["counted"]) for row in rounds if row["state"] == "published"]
    assert done == [(2, "published", 2), (1, "published", 2)]
    devices = _said(capsys, "cloud", "devices", "list", *place)["devices"]
    told = [(row["device"], row["standing"], row["harmful_count"]) for row in devices]
    assert told == [("dev-000", "approved", 0), ("dev-001", "approved", 0)]
    why = _said(capsys, "cloud", "rounds", "why", "2", "dev-001", *place)
    assert [(row["device"], row["outcome"]) for row in why["devices"]] == [("dev-001", "counted")]


@pytest.mark.reliability("U1", load="the state of the version before")
def test_a_coordinators_state_is_brought_up_to_date_and_read(
    folders: Path, capsys: pytest.CaptureFixture[str], record_property: Record
) -> None:
    state = folders / "run/state/coordinator"
    _check_coordinator(capsys, state)
    models = _said(capsys, "cloud", "models", "list", "--state", str(state))["models"]
    record_property("models read", len(models))
    record_property("models of other bytes", sum(row["blob"][:8] not in MODELS for row in models))
    assert {row["version"]: row["blob"][:8] for row in models} == dict(enumerate(MODELS))


def test_a_backup_is_restored(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    state = tmp_path / "restored"
    _said(capsys, "cloud", "restore", str(BEFORE / "backup.tar.zst"), "--state", str(state))
    _check_coordinator(capsys, state)


def test_a_devices_clips_are_listed_with_what_was_known_of_them(
    folders: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    clips = _said(capsys, "edge", "clips", "list", "--state", str(folders / "device"))["clips"]
    told = sorted((clip["word"], clip["source"], clip["damaged"]) for clip in clips)
    assert told == [("no", "enrolled", False), ("yes", "enrolled", False)]


@pytest.mark.slow
def test_a_run_goes_on_where_it_stopped(folders: Path) -> None:
    run = folders / "run"
    settings = json.loads((run / "settings.json").read_text())
    (run / "settings.json").write_text(json.dumps({**settings, "pack": str(run / "pack.tar.zst")}))
    result = FleetRun.resume(run).run()
    assert [row.round for row in result.rounds] == [1, 2, 3, 4, 5]
    assert [row.counted for row in result.rounds] == [2] * 5
