"""Hints to install what is missing name a place that has it, and a pip that may; no page or sentence names an index."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from importlib import metadata
from pathlib import Path

import pytest

from auricle import errors

ROOT = Path(__file__).parents[2]
ON_NO_INDEX = re.compile(
    r"pip3?[\"',\s]+(?:install|download)(?:[\"',\s]+-{1,2}[\w-]+(?:=\S+)?)*"
    r"(?:[\s\"'`\\,]|\bf(?=[\"']))+auricle\b(?!\S*\.whl)"
)
"""A command that asks an index for Auricle, whatever quotes are around its name."""
SAID = (".md", ".py", ".ipynb", ".toml", ".service", ".env", ".yaml", ".yml", ".sh", ".html", ".js", ".txt", "")
WRONG = (Path(__file__).relative_to(ROOT), Path("tests/tools/test_run_docs.py"))
"""Where such commands are written to be refused."""


@pytest.fixture
def source(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Let Auricle be installed from a folder, and not run from a checkout."""
    monkeypatch.setattr(errors, "_checkout", lambda: None)
    monkeypatch.setattr(errors, "_pip", lambda: "pip")
    place = tmp_path / "auricle folder"
    place.mkdir()
    record = tmp_path / "auricle-0.1.0.dist-info"
    record.mkdir()
    (record / "METADATA").write_text("Name: auricle\nVersion: 0.1.0\n")
    written = {"url": place.as_uri(), "dir_info": {}}
    (record / "direct_url.json").write_text(json.dumps(written))
    made = metadata.PathDistribution(record)
    monkeypatch.setattr(metadata.Distribution, "from_name", lambda name: made)
    return place


def test_from_a_checkout_that_runs_the_extra_is_added_and_its_files_stay_those_that_run() -> None:
    assert errors.extra_command("mic").endswith(f'install -e "{ROOT}[mic]"')
    assert errors.extra_command("ort-training", elsewhere=True) == f'pip install "{ROOT}[ort-training]"'


def test_an_installed_copy_knows_the_folder_or_the_wheel_that_it_came_from(source: Path, tmp_path: Path) -> None:
    assert errors.extra_command("mic") == f'pip install "{source}[mic]"'
    wheel = tmp_path / "auricle-0.1.0-py3-none-any.whl"
    wheel.touch()
    (tmp_path / "auricle-0.1.0.dist-info/direct_url.json").write_text(json.dumps({"url": wheel.as_uri()}))
    assert errors.extra_command("mic") == f'pip install "auricle[mic] @ {wheel.as_uri()}"'


@pytest.mark.parametrize("written", ["", "[]", "{", '{"url": "https://example.org/auricle.whl"}', '{"url": 3}'])
def test_where_the_source_is_not_known_a_checkout_is_named(source: Path, tmp_path: Path, written: str) -> None:
    (tmp_path / "auricle-0.1.0.dist-info/direct_url.json").write_text(written)
    assert errors.extra_command("mic") == 'pip install ".[mic]" in a checkout of Auricle'


def test_a_pip_of_another_environment_is_not_named(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    pip = tmp_path / "bin/pip"
    pip.parent.mkdir()
    pip.touch(mode=0o755)
    monkeypatch.setenv("PATH", str(pip.parent))
    assert errors.pip_command("wandb") == f"{sys.executable} -m pip install wandb"
    monkeypatch.setattr(sys, "executable", str(pip.with_name("python")))
    assert errors.pip_command("onnxruntime<9.9") == 'pip install "onnxruntime<9.9"'
    monkeypatch.setattr(sys, "prefix", sys.base_prefix)  # the system's own, which Debian refuses
    assert errors.pip_command("wandb") == f"{pip.with_name('python')} -m pip install wandb"


@pytest.mark.parametrize(
    "text",
    [
        'pip install "auricle[mic]"',
        "pip install 'auricle[mic]'",
        "pip install auricle",
        "/opt/auricle/bin/pip install --no-deps auricle",
        r"pip install -e \"auricle[fleet]\"",
        '("pip", "install", "auricle[mic]")',
        '"in an environment of its own, pip install "\n    f"auricle[mic]"',
        "python -m pip install -q 'auricle[png]'.",
    ],
)
def test_each_way_to_write_it_is_seen(text: str) -> None:
    assert ON_NO_INDEX.search(text)


def test_no_page_and_no_sentence_asks_an_index_for_auricle() -> None:
    listed = subprocess.run(["git", "ls-files"], cwd=ROOT, capture_output=True, text=True, check=True).stdout
    files = [Path(line) for line in listed.splitlines() if Path(line).suffix in SAID and Path(line) not in WRONG]
    wrong = []
    for file in files:
        text = (ROOT / file).read_text("utf-8", errors="replace") if (ROOT / file).is_file() else ""
        wrong += [f"{file}: {match[0]}" for match in ON_NO_INDEX.finditer(text)]
    assert len(files) > 500
    assert wrong == []
