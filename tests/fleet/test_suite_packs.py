"""Packs that a suite builds for itself: what its file says of them, the command, and a suite that runs with one."""

from __future__ import annotations

import asyncio
import importlib.util
import json
import sys
from importlib.machinery import ModuleSpec
from pathlib import Path

import pytest

from auricle.errors import SettingsError
from auricle.process.cli import main
from auricle_fleet.results.live import Silent
from auricle_fleet.suite.packs import build_command, build_missing, own_packs, with_packs
from auricle_fleet.suite.plan import Suite, cells, read_suite

TEXT = """
[settings]
words = "yes,no"
devices = 3
unseen = 2
takes = 4
min_clips = 4
rounds = 1
epochs = 1
local = "crnn-lite"
preset = "fedavg"
[packs.bavd]
words = ["yes", "no"]
bavd = true
[packs.other]
words = ["gsc35"]
models = ["fedmlac"]
[[methods]]
name = "mean"
[[methods]]
name = "MuPFL"
settings = { method = "mupfl", learning = "supervised", runtime = "native", pack = "bavd" }
"""


def suite_of(folder: Path, text: str = TEXT) -> Suite:
    path = folder / "mine.toml"
    path.write_text(text)
    return read_suite(str(path))[0]


def test_a_setting_that_names_a_pack_of_the_suite_means_its_file(tmp_path: Path) -> None:
    """Only packs that a run names are built; what a table says otherwise is in another file."""
    suite = suite_of(tmp_path)
    packs = own_packs(suite, tmp_path / "out")
    assert [pack.name for pack in packs] == ["bavd"]
    assert packs[0].file.parent == tmp_path / "out" / "packs"
    assert packs[0].describe() == "bavd (2 words; crnn-lite, which drop activations)"
    found = {cell.method: cell.settings.pack for cell in cells(with_packs(suite, packs, "mine.toml"), "mine.toml")}
    assert found == {"mean": None, "MuPFL": str(packs[0].file)}
    other = own_packs(suite_of(tmp_path, TEXT.replace('["yes", "no"]', '["yes", "up"]')), tmp_path / "out")
    assert other[0].file != packs[0].file


def test_a_pack_is_built_by_a_command_without_a_shell(tmp_path: Path) -> None:
    (pack,) = own_packs(suite_of(tmp_path, TEXT.replace('"bavd" }', '"other" }')), tmp_path)
    options = ["--model=fedmlac", "--labels=gsc35", "--plugin=crnn-lite", "--name=other", f"--out={tmp_path}"]
    assert build_command(pack, tmp_path) == [sys.executable, "-m", "auricle", "export", "build", *options]
    (pack,) = own_packs(suite_of(tmp_path), tmp_path)
    assert build_command(pack, tmp_path)[-1] == "--bavd"
    (pack,) = own_packs(suite_of(tmp_path, TEXT.replace("bavd = true", 'loss = "mse"')), tmp_path)
    assert build_command(pack, tmp_path)[-1] == "--loss=mse" and pack.describe() == "bavd (2 words; crnn-lite; mse)"
    (pack,) = own_packs(suite_of(tmp_path, TEXT.replace("bavd = true", "window = 2.5")), tmp_path)
    assert build_command(pack, tmp_path)[-1] == "--window=2.5" and pack.describe() == "bavd (2 words; 2.5 s; crnn-lite)"


@pytest.mark.parametrize(
    ("was", "becomes", "said"),
    [
        ('pack = "bavd"', 'pack = "bavdd"', 'there is no pack "bavdd": did you mean "bavd"?'),
        ("[packs.bavd]", '[packs."a/b"]', '"a/b" is not a valid name of a pack'),
        ("bavd = true", "bavds = true", '"bavds"'),
        ("bavd = true", "window = 4.5", "window takes a number, at most 4"),
        ('["yes", "no"]', "[]", "words"),
        ('["yes", "no"]', '["yes,no"]', '"yes,no" is not a valid word'),
    ],
)
def test_what_a_table_cannot_say_is_refused(tmp_path: Path, was: str, becomes: str, said: str) -> None:
    with pytest.raises(SettingsError, match=said.replace("?", r"\?")):
        with_packs(suite_of(tmp_path, TEXT.replace(was, becomes)), (), "mine.toml")


def test_without_what_builds_packs_one_sentence_says_what_to_install(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    found = importlib.util.find_spec

    def missing(name: str, package: str | None = None) -> ModuleSpec | None:
        return None if name == "torch" else found(name, package)

    monkeypatch.setattr(importlib.util, "find_spec", missing)
    packs = own_packs(suite_of(tmp_path), tmp_path)
    with pytest.raises(SettingsError, match=r'the pack "bavd", which needs torch, .* pip install .*\[export\]'):
        asyncio.run(build_missing(packs, Silent()))
    packs[0].file.parent.mkdir()
    packs[0].file.write_bytes(b"there")
    asyncio.run(build_missing(packs, Silent()))  # nothing is to be built


def test_the_list_says_which_packs_a_suite_builds(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    suite_of(tmp_path)
    assert main(["fleet", "suite", str(tmp_path / "mine.toml"), "--list", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)[0]["packs"] == ["bavd", "other"]
    assert main(["fleet", "suite", str(tmp_path / "mine.toml"), "--list"]) == 0
    assert "bavd (2 words; crnn-lite, which drop activations)" in " ".join(capsys.readouterr().out.split())
    assert read_suite("long-tail")[0].packs.keys() == {"bavd"}


@pytest.mark.slow
def test_a_suite_builds_its_pack_once_and_runs_with_it(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """MuPFL whole needs layers that drop."""
    pytest.importorskip("torch", reason="packs are built with PyTorch")
    pytest.importorskip("onnxscript", reason="packs are built with onnxscript")
    pytest.importorskip("espeakng_loader")
    suite_of(tmp_path)
    command = ["fleet", "suite", str(tmp_path / "mine.toml"), "--out", str(tmp_path / "out"), "--jobs", "1", "--json"]
    assert main(command) == 0
    said = json.loads(capsys.readouterr().out)
    (pack,) = (tmp_path / "out" / "packs").iterdir()
    built = pack.stat().st_mtime_ns
    assert said["failed"] == {} and said["packs"][0].startswith("bavd (2 words; crnn-lite, which drop activations; SHA")
    assert "Packs of its own: bavd" in (tmp_path / "out" / "suite.html").read_text()
    logs = [log.read_text() for log in (tmp_path / "out" / "runs").glob("*.log")]
    assert len(logs) == 2 and not any("leaves" in log for log in logs), "the C library does all steps"
    assert main(command) == 0
    assert pack.stat().st_mtime_ns == built


@pytest.mark.slow
def test_a_pack_that_cannot_be_built_ends_with_one_sentence_and_leaves_nothing(tmp_path: Path) -> None:
    pytest.importorskip("torch", reason="packs are built with PyTorch")
    pytest.importorskip("onnxscript", reason="packs are built with onnxscript")
    text = TEXT.replace("bavd = true", 'bavd = true\nmodels = ["crnn-lit"]')
    packs = own_packs(suite_of(tmp_path, text), tmp_path)
    with pytest.raises(SettingsError, match=r'^The pack "bavd" of the suite cannot be built\. There .*"crnn-lite"'):
        asyncio.run(build_missing(packs, Silent()))
    assert list(packs[0].file.parent.iterdir()) == []
