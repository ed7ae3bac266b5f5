"""A fleet on a runtime of another package."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest
from tests.fleet.test_fleet_run import small

from auricle.errors import SettingsError
from auricle_fleet import FleetRun

pytest.importorskip("espeakng_loader")
EXAMPLE = Path(__file__).parents[2] / "examples" / "runtime.py"


@pytest.mark.slow
def test_a_fleet_trains_on_a_runtime_of_another_package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """To the bytes of step, which does its work; and each device's round was a job of it."""
    package = tmp_path / "installed"
    info = package / "acme-1.0.dist-info"
    info.mkdir(parents=True)
    (package / "acme_counting.py").write_text(EXAMPLE.read_text())
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: acme\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text("[auricle.runtimes]\ncounting = acme_counting:kind\n")
    told = {"engine": "virtual", "broker": None, "devices": 3, "rounds": 1}
    with pytest.raises(SettingsError, match="auto or step or native"):
        FleetRun(small(**told, runtime="counting"))
    monkeypatch.syspath_prepend(str(package))
    try:
        run = FleetRun(small(**told, runtime="counting"), tmp_path / "counting")
        ours, theirs = run.run(), FleetRun(small(**told, runtime="step"), tmp_path / "step").run()
    finally:
        sys.modules.pop("acme_counting", None)
    assert ours.paths.model.read_bytes() == theirs.paths.model.read_bytes()
    assert run.judging.runtime.jobs == 3  # type: ignore[attr-defined]
