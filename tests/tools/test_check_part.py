"""What `make check` runs of a part, what it leaves out, and that it says so."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parents[2] / "tools"))

import check_part
import time_budget


@pytest.fixture
def project(tmp_path: Path) -> Path:
    """A project with four tests of the edge part, of which one uses a helper that imports another part."""
    files = {
        "tests/edge/test_own.py": "import auricle_edge.board\nfrom auricle.errors import DataError\n",
        "tests/edge/test_by_helper.py": "def test():\n    from tests.edge.site import broker\n",
        "tests/edge/site.py": "from auricle_fleet.broker import broker\nfrom tests.edge import test_by_helper\n",
        "tests/edge/deep/test_library.py": "import no_such_library.deep\n",
        "tests/edge/test_both.py": "import auricle_cloud, auricle_fleet, no_such_library\n",
    }
    for name, text in files.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(text)
    return tmp_path


def test_what_imports_another_part_or_lacks_a_library_is_left_out_with_the_reason(project: Path) -> None:
    run, left_out = check_part.chosen("edge", project)
    assert [path.name for path in run] == ["test_own.py"]
    assert {path.name: why for path, why in left_out.items()} == {
        "test_by_helper.py": "tests auricle_fleet too",
        "test_library.py": "needs no_such_library",
        "test_both.py": "tests auricle_cloud, auricle_fleet too",
    }


def test_fleet_may_import_the_parts_that_it_is_made_of(project: Path) -> None:
    (project / "tests" / "edge").rename(project / "tests" / "fleet")
    run, left_out = check_part.chosen("fleet", project)
    assert sorted(path.name for path in run) == ["test_by_helper.py", "test_own.py"]
    assert sorted(left_out.values()) == ["needs no_such_library", "needs no_such_library"]


def test_the_test_file_that_was_written_last_comes_first(tmp_path: Path) -> None:
    for age, name in ((3, "a"), (1, "b"), (2, "c")):
        path = tmp_path / "tests" / "core" / f"test_{name}.py"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.touch()
        os.utime(path, (1_700_000_000 - age, 1_700_000_000 - age))
    run, _ = check_part.chosen("core", tmp_path)
    assert [path.name for path in run] == ["test_b.py", "test_c.py", "test_a.py"]


def test_export_may_import_edge_whose_runtimes_try_what_it_compiles(project: Path) -> None:
    (project / "tests" / "edge").rename(project / "tests" / "export")
    run, left_out = check_part.chosen("export", project)
    assert "test_own.py" in {path.name for path in run}
    assert left_out[project / "tests" / "export" / "test_both.py"] == "tests auricle_cloud, auricle_fleet too"


@pytest.mark.parametrize("part", check_part.PARTS)
@pytest.mark.slow
def test_most_tests_of_a_part_need_nothing_but_the_part(part: str) -> None:
    run, left_out = check_part.chosen(part)
    assert len(run) > len(left_out)


@pytest.mark.parametrize("workers", [(), ("-n", "2")], ids=["alone", "workers"])
@pytest.mark.slow
@pytest.mark.nightly
def test_what_has_not_begun_when_the_time_is_over_is_named(tmp_path: Path, workers: tuple[str, ...]) -> None:
    (tmp_path / "test_first.py").write_text("def test_a(): pass\n\ndef test_b(): pass\n")
    (tmp_path / "test_second.py").write_text("import pytest\n\ndef test_own(): pytest.skip('of its own')\n")
    command = [
        sys.executable,
        "-m",
        "pytest",
        "-q",
        "-p",
        "tools.time_budget",
        "-p",
        "no:cacheprovider",
        str(tmp_path),
        *workers,
    ]

    def ran(until: float, least: float = 0.0) -> str:
        env = {"PATH": "/usr/bin:/bin", time_budget.UNTIL: str(until), time_budget.LEAST: str(least)}
        return subprocess.run(command, cwd=check_part.ROOT, env=env, capture_output=True, text=True, check=False).stdout

    over, enough, late = ran(time.time() - 1), ran(time.time() + 600), ran(time.time() - 1, least=600.0)

    begun = max(1, len(workers))  # each of two workers begins one
    assert f"{3 - begun} tests left out: {time_budget.REASON}" in over
    assert "test_first.py: 1" in over or workers
    assert "test_second.py: 1" in over or workers
    for text in (enough, late):
        assert "2 passed, 1 skipped" in text
        assert time_budget.REASON not in text
