"""The constants of forecasts: a file that a bench writes and the code checks."""

from __future__ import annotations

import shutil
from pathlib import Path

import msgspec
import pytest
from bench.fleet_constants import ESTIMATES, write_constants

from auricle.errors import SettingsError
from auricle.settings import read_toml
from auricle_fleet.engine import FILE, EngineFigures, read_figures
from auricle_fleet.engines import ENGINES


def test_every_engine_has_the_figures_of_the_file() -> None:
    assert {*read_toml(FILE)} <= {*ENGINES}
    for engine in read_toml(FILE):
        constants = msgspec.structs.asdict(ENGINES[engine].constants)
        for name, value in msgspec.structs.asdict(read_figures(engine)).items():
            assert constants[name] == value, f"{engine}: {name}"


def test_the_file_says_by_which_command_and_machine() -> None:
    head = FILE.read_text(encoding="utf-8").split("\n\n")[0]

    assert "# Command: python bench/fleet_growth.py" in head
    assert "# Machine: " in head


def test_the_bench_writes_what_it_measured_and_leaves_estimates_and_other_engines(tmp_path: Path) -> None:
    file = tmp_path / "constants.toml"
    shutil.copy(FILE, file)
    before, live = read_figures("virtual", file), read_figures("live", file)
    measured = {"base_memory_bytes": 281234567.8, "device_memory_bytes": -12.0, "base_files": 15.4, "CPU ms": 3.0}

    write_constants({"virtual": {**measured, "start_seconds": 99.0}}, "python bench/fleet_growth.py", file)

    after = read_figures("virtual", file)
    new = {"base_memory_bytes": 281e6, "device_memory_bytes": 0.0, "base_files": 15}
    assert after == msgspec.structs.replace(before, **new)
    assert read_figures("live", file) == live
    assert {*ESTIMATES} < {field.name for field in msgspec.structs.fields(EngineFigures)}
    with pytest.raises(SettingsError, match=r"has no table \[own\]"):
        write_constants({"own": measured}, "python bench/fleet_growth.py", file)


@pytest.mark.parametrize(
    ("was", "becomes", "says"),
    [
        ("base_files = 14", "base_files = -1", "base_files"),
        ("base_memory_bytes = 270e6\n", "", "base_memory_bytes"),
        ("base_files = 14", "base_file = 14", 'no setting "base_file"'),
        ("[virtual]", "[virtuel]", r"has no table \[virtual\]"),
    ],
)
def test_a_file_that_is_not_whole_is_refused_in_a_sentence(tmp_path: Path, was: str, becomes: str, says: str) -> None:
    file = tmp_path / "constants.toml"
    file.write_text(FILE.read_text(encoding="utf-8").replace(was, becomes), encoding="utf-8")

    with pytest.raises(SettingsError, match=says):
        read_figures("virtual", file)
