"""The systemd unit: exposed as little as systemd itself can tell."""

from __future__ import annotations

import re
import shutil
import subprocess
from importlib import resources
from pathlib import Path

import pytest

from auricle_edge.service.systemd import unit_text

MOST_EXPOSED = 2.0


def test_systemd_rates_the_unit_at_most_two(tmp_path: Path) -> None:
    program = shutil.which("systemd-analyze")
    if program is None:
        pytest.skip("systemd-analyze is not installed")
    unit = tmp_path / "auricle-edge.service"
    unit.write_bytes(resources.files("auricle_edge").joinpath("service/auricle-edge.service").read_bytes())
    command = [program, "security", "--offline=true", "--no-pager", "--threshold=20", str(unit)]
    answer = subprocess.run(command, capture_output=True, text=True, timeout=60)
    found = re.search(r"Overall exposure level for \S+: ([0-9.]+)", answer.stdout)
    assert found is not None, answer.stderr
    assert float(found[1]) <= MOST_EXPOSED
    assert answer.returncode == 0, answer.stdout


def test_it_names_the_environment_that_prints_it(tmp_path: Path) -> None:
    program = tmp_path / "my env" / "bin" / "auricle"
    program.parent.mkdir(parents=True)
    program.write_text("#!/bin/sh\n")
    program.chmod(0o755)
    said = unit_text(tmp_path / "my env", program.parent / "python3")
    assert f'\nExecStart="{program}" edge run --config' in said
    assert "/opt/auricle" not in said and "ExecStartPre" not in said
    systemd = shutil.which("systemd-analyze")
    if systemd is None:
        pytest.skip("systemd-analyze is not installed")
    unit = tmp_path / "auricle-edge.service"
    unit.write_text(said)
    answer = subprocess.run([systemd, "verify", "--man=no", str(unit)], capture_output=True, text=True, timeout=60)
    assert str(program.name) not in answer.stderr, answer.stderr


def test_without_a_command_beside_it_the_interpreter_is_named() -> None:
    said = unit_text(Path("/home/ana/venv"), Path("/home/ana/venv/bin/python3"))
    assert "\nExecStart=/home/ana/venv/bin/python3 -m auricle edge run" in said
    assert "\nProtectHome=read-only\n" in said


def test_a_bundles_installation_has_the_unit_as_it_was_written() -> None:
    written = resources.files("auricle_edge").joinpath("service/auricle-edge.service").read_text()
    assert unit_text(Path("/opt/auricle/versions/1"), Path("/opt/auricle/bin/python3")) == written
