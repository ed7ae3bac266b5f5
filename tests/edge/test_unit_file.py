"""The systemd unit: exposed as little as systemd itself can tell."""

from __future__ import annotations

import re
import shutil
import subprocess
from importlib import resources
from pathlib import Path

import pytest

MOST_EXPOSED = 2.0


def test_systemd_rates_the_unit_at_most_two(tmp_path: Path) -> None:
    program = shutil.which("systemd-analyze")
    if program is None:
        pytest.skip("systemd-analyze is not installed")
    unit = tmp_path / "auricle-edge.service"
    unit.write_bytes(resources.files("auricle_edge").joinpath("service/auricle-edge.service").read_bytes())
    answer = subprocess.run(
        [program, "security", "--offline=true", "--no-pager", "--threshold=20", str(unit)],
        capture_output=True,
        text=True,
        timeout=60,
    )
    found = re.search(r"Overall exposure level for \S+: ([0-9.]+)", answer.stdout)
    assert found is not None, answer.stderr
    assert float(found[1]) <= MOST_EXPOSED
    assert answer.returncode == 0, answer.stdout
