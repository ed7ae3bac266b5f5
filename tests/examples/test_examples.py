"""Every example runs as it stands, as a reader runs it, and is as short as its README says."""

from __future__ import annotations

import os
import re
import sys
from pathlib import Path

import pytest
from tests.arm64.emulation import tried

ROOT = Path(__file__).parents[2]
EXAMPLES = ROOT / "examples"
LONGEST = 60
"""Lines of an example that one takes in at a glance."""


def run(name: str, *arguments: str, cwd: Path) -> list[str]:
    """What an example prints."""
    done = tried([sys.executable, EXAMPLES / name, *arguments], cwd=cwd, timeout=250)
    assert done.returncode == 0, done.stderr
    return done.stdout.splitlines()


def test_they_are_short_and_listed() -> None:
    readme = (EXAMPLES / "README.md").read_text()
    found = sorted(path.name for path in EXAMPLES.glob("*.py"))
    assert found == ["data_source.py", "model.py", "rule.py", "runtime.py", "session.py"]
    for name in found:
        assert f"]({name})" in readme
        assert len((EXAMPLES / name).read_text().splitlines()) <= LONGEST + 4


def test_a_rule_keeps_the_liar_out(tmp_path: Path) -> None:
    fedavg, nearest = run("rule.py", cwd=tmp_path)
    # fedavg: (1 + 1.2 - 50 + 0.8) / 4 and (1.1 + 0.9 + 50 + 1) / 4; moved by 1.487, 1.5, 70.7 and 1.281.
    assert "[-11.75, 13.25]" in fedavg
    assert "counted: ana, ben, eve, kim" in fedavg
    assert nearest.startswith("nearest-half")
    assert "counted: ana, kim" in nearest


def test_the_rule_of_the_page_is_that_of_the_example() -> None:
    pieces = re.findall(r"```python\n(.*?)```", (ROOT / "docs" / "rules.md").read_text(), re.DOTALL)
    (page,) = [piece for piece in pieces if "class NearestHalf" in piece]
    example = (EXAMPLES / "rule.py").read_text()
    assert page[page.index("class NearestHalf") :].strip() in example


def test_a_runtime_counts_what_it_is_asked_for(tmp_path: Path) -> None:
    pytest.importorskip("onnxruntime")
    assert run("runtime.py", cwd=tmp_path) == ["3 clips, 12 labels, 0 jobs"]


def test_the_runtime_of_the_page_is_that_of_the_example() -> None:
    (page,) = re.findall(r"```python\n(.*?)```", (ROOT / "docs" / "runtimes.md").read_text(), re.DOTALL)
    example = (EXAMPLES / "runtime.py").read_text()
    assert page[page.index("class CountingRuntime") :].strip() in example


@pytest.mark.slow
def test_installed_the_rule_is_known_to_every_command(tmp_path: Path) -> None:
    pytest.importorskip("hatchling")
    pip = (sys.executable, "-m", "pip", "install", "-q", "--disable-pip-version-check")
    done = tried([*pip, "--no-deps", "--no-build-isolation", "--target", tmp_path, EXAMPLES])
    assert done.returncode == 0, done.stderr
    program = "from auricle_learning.methods import get_rule; print(get_rule('nearest-half', part=0.25).options)"
    path = os.pathsep.join([str(tmp_path), os.environ.get("PYTHONPATH", "")])

    done = tried([sys.executable, "-c", program], env={**os.environ, "PYTHONPATH": path})
    assert done.stdout.strip() == "NearestHalf(part=0.25)", done.stderr


@pytest.mark.slow
def test_own_sounds_are_learnt(tmp_path: Path) -> None:
    pytest.importorskip("onnxruntime")
    rounds = run("data_source.py", cwd=tmp_path)
    found = [re.fullmatch(r"round (\d): (\d+) clips, (\d+)% of \d+ held-out right", line) for line in rounds]
    assert [match and match[1] for match in found] == ["1", "2", "3"]
    clips = [int(match[2]) for match in found if match]
    assert clips == sorted(set(clips))
    assert int(found[-1][3]) >= 60  # type: ignore[index]


@pytest.mark.slow
def test_a_session_shows_rounds_and_devices(tmp_path: Path) -> None:
    pytest.importorskip("espeakng_loader")
    *lines, report = run("session.py", "run", cwd=tmp_path)
    assert [line.split(":")[0] for line in lines[:2]] == ["round 1 of 2", "round 2 of 2"]
    assert sorted(line.split()[0] for line in lines[2:]) == [f"dev-{i:03d}" for i in range(4)]
    assert (tmp_path / report).read_text().startswith("<!doctype html>")


@pytest.mark.slow
def test_the_notebook_is_kept_without_outputs_and_listed() -> None:
    nbformat = pytest.importorskip("nbformat")
    (path,) = EXAMPLES.glob("*.ipynb")
    notebook = nbformat.read(path, as_version=4)
    nbformat.validate(notebook)
    assert f"]({path.name})" in (EXAMPLES / "README.md").read_text()
    code = [cell for cell in notebook.cells if cell.cell_type == "code"]
    assert [cell for cell in code if cell.outputs or cell.execution_count] == []


@pytest.mark.slow
@pytest.mark.timeout(2400)
@pytest.mark.nightly
def test_the_notebook_draws_rounds_and_compares_rules(tmp_path: Path) -> None:
    for package in ("espeakng_loader", "ipykernel", "matplotlib", "nbclient"):
        pytest.importorskip(package)
    import nbclient
    import nbformat

    notebook = nbformat.read(EXAMPLES / "fleet_run.ipynb", as_version=4)
    nbclient.NotebookClient(notebook, startup_timeout=300, resources={"metadata": {"path": str(tmp_path)}}).execute()

    shown = [output for cell in notebook.cells for output in cell.get("outputs", ())]
    data = [output["data"] for output in shown if "data" in output]
    tables = [each["text/html"] for each in data if "text/html" in each]
    assert [each for each in data if "image/png" in each]
    assert len(tables) == 3
    assert "<td>dev-005</td>" in tables[1]
    assert "<td>median</td>" in tables[2]
    printed = "".join(output.get("text", "") for output in shown)
    assert "runs/notebook/first/report.html" in printed
    assert "method=fedavg" in printed  # of auricle fleet compare
    assert (tmp_path / "runs" / "notebook" / "first" / "report.html").is_file()


@pytest.mark.slow
def test_a_model_becomes_a_pack(tmp_path: Path) -> None:
    pytest.importorskip("torch")
    (line,) = run("model.py", str(tmp_path), cwd=tmp_path)
    # conv 40*24*5 + 24, norm 2*24, out 24*3 + 3
    assert f"{40 * 24 * 5 + 24 + 2 * 24 + 24 * 3 + 3:,} weights travel, 3 words" in line
    assert (tmp_path / "small.tar.zst").is_file()
