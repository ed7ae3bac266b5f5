"""`auricle export`: what a user sees."""

from __future__ import annotations

import builtins
import json
import re
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from auricle.packs.pack import SHIPPED, Pack, load_pack
from auricle.process.cli import main
from auricle_export.packs import build
from auricle_export.packs.build import RESIDUAL


@pytest.mark.parametrize("name", SHIPPED)
def test_inspect_prints_the_facts_as_json(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["export", "inspect", name, "--json"]) == 0

    facts = json.loads(capsys.readouterr().out)
    pack = load_pack(name)
    assert (facts["name"], facts["identity"], facts["labels"]) == (name, pack.identity, list(pack.labels))
    residual = name in RESIDUAL
    convolutions = [f"blocks.{n}.{part}.linear" for n in (0, 1) for part in ("first", "second", "shortcut")]
    layers = [*convolutions, "stem.linear", "head"] if residual else ["conv.0", "conv.1", "gru", "head"]
    plugin = facts["models"]["resnet-lite" if residual else "crnn-lite"]
    assert plugin["weights"] == pack.plugin_table.size
    assert plugin["layers"] == layers
    assert len(facts["graphs"]) == (30 if residual else 75)
    assert facts["bytes"] == sum(len(content) for content in pack.files.values())


def test_inspect_prints_a_table(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["export", "inspect", "digits"]) == 0

    out = capsys.readouterr().out
    assert load_pack("digits").identity in out
    assert "10 labels: zero one two" in out
    assert "crnn-lite (plug-in)" in out


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (["inspect", "gcs12"], 'did you mean "gsc12"?'),
        (["build", "gcs12", "--out", "x"], 'There is no pack "gcs12" to build: did you mean "gsc12"?'),
        (["build", "gsc12"], "--out DIR, or what to compare them with by --check shipped"),
        (["build", "gsc12", "--check", "/no/where"], "There is no /no/where/gsc12.tar.zst: give shipped, or a folder"),
    ],
)
def test_a_mistake_is_one_sentence_and_exit_code_2(
    arguments: list[str], sentence: str, capsys: pytest.CaptureFixture[str]
) -> None:
    if arguments[0] == "build":
        pytest.importorskip("torch", reason="packs are built with PyTorch")

    assert main(["export", *arguments]) == 2

    captured = capsys.readouterr()
    assert sentence in captured.err
    assert captured.err.count("\n") == 1
    assert captured.out == ""


def test_without_pytorch_a_pack_can_be_inspected_and_building_says_what_to_install(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    for name in [name for name in sys.modules if name.split(".")[0] in ("torch", "auricle_export")]:
        monkeypatch.delitem(sys.modules, name)
    found = builtins.__import__

    def missing(name: str, *rest: Any, **more: Any) -> Any:
        if name.split(".")[0] == "torch":
            raise ModuleNotFoundError("No module named 'torch'", name="torch")
        return found(name, *rest, **more)

    monkeypatch.setattr(builtins, "__import__", missing)

    assert main(["export", "inspect", "gsc12", "--json"]) == 0
    assert main(["export", "build", "gsc12", "--out", str(tmp_path)]) == 2
    error = capsys.readouterr().err
    assert re.fullmatch(
        r'auricle: "auricle export build" needs (torch|onnx), which is not installed: pip install "auricle.export."\n',
        error,
    )


def test_building_says_how_far_it_is_where_there_is_no_terminal(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    pack = load_pack("digits")

    def build_author_pack(*_: object, progress: Callable[[str, int, int], None], **__: object) -> Pack:
        progress("net", 1, 2)
        progress("crnn-lite", 2, 2)
        return pack

    monkeypatch.setattr(build, "build_author_pack", build_author_pack)
    words = ["export", "build", "--model", "my_models.py:Net", "--labels", "yes,no", "--out", str(tmp_path)]

    assert main(words) == 0
    said = capsys.readouterr().err.splitlines()
    assert main([*words, "--json"]) == 0

    assert [re.sub(r"\d+ s$", "N s", line) for line in said] == [
        "compiling",
        "compiled net: 1 of 2, N s",
        "compiled crnn-lite: 2 of 2, N s",
    ]
    assert capsys.readouterr().err == ""
