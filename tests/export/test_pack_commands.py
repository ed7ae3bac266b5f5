"""`auricle export`: what a user sees of a pack, and of building one."""

from __future__ import annotations

import builtins
import json
import re
import stat
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import helper
from tests.core import tiny_pack

from auricle.packs.manifest import Task
from auricle.packs.pack import Pack, load_pack, pack_bytes
from auricle.packs.shipped import SHIPPED
from auricle.process.cli import main
from auricle.wire.identity import Identity
from auricle_export.packs import build
from auricle_export.packs.build import RESIDUAL

Out = pytest.CaptureFixture[str]


@pytest.fixture()
def tiny(tmp_path: Path) -> str:
    return _write(tmp_path / "tiny.tar.zst", tiny_pack.pack())


def _write(path: Path, pack: Pack) -> str:
    path.write_bytes(pack_bytes(pack))
    return str(path)


def _unsound(path: Path) -> str:
    """Honest hashes, a foreign operator, NaN in the weights."""
    graph = tiny_pack.step()
    graph.graph.node.append(helper.make_node("Shell", ["x"], ["y"], domain="com.example"))
    weights = tiny_pack.weights()[:-2] + np.float16(np.nan).tobytes()
    return _write(path, tiny_pack.pack({tiny_pack.STEP: graph.SerializeToString(), tiny_pack.WEIGHTS: weights}))


def _json(out: Out) -> Any:
    return json.loads(out.readouterr().out)


def test_inspect_says_what_was_trained_and_who_signed(tiny: str, capsys: Out) -> None:
    assert main(["export", "inspect", tiny, "--json"]) == 0

    facts = _json(capsys)
    assert facts["signed_by"] is None
    start = {"file": tiny_pack.WEIGHTS, "bytes": len(tiny_pack.weights()), "data": "synthetic speech", "clips": 90}
    start |= {"speakers": 3, "accuracy": 0.75, "judged_clips": 30, "seed": 0}
    assert facts["start"] == {"lite": start}
    assert (facts["ort_training"], facts["tflite"], facts["files"]) == ({}, [], 3)
    assert [graph["kind"] for graph in facts["graphs"]] == ["evaluate", "supervised"]

    assert main(["export", "inspect", tiny]) == 0
    text = capsys.readouterr().out
    assert all(part in text for part in ("synthetic speech", "not signed", load_pack(tiny).identity))


def test_verify_prints_a_line_a_check_and_a_verdict(tiny: str, capsys: Out) -> None:
    assert main(["export", "verify", tiny]) == 0
    lines = capsys.readouterr().out.splitlines()
    checked = "ok manifest ok files - signature ok graph ok graph ok weights"
    assert [word for line in lines[:-1] for word in line.split()[:2]] == checked.split()
    assert "sound" in lines[-1]


def test_verify_names_what_is_refused_and_it_is_not_signed(tmp_path: Path, capsys: Out) -> None:
    path = _unsound(tmp_path / "bad.tar.zst")

    assert main(["export", "verify", path]) == 2
    captured = capsys.readouterr()
    assert f"REFUSED graph         {tiny_pack.STEP}" in captured.out
    assert f"REFUSED weights       {tiny_pack.WEIGHTS}" in captured.out
    assert f"ok      graph         {tiny_pack.EVALUATE}" in captured.out
    assert "'com.example'" in captured.err and "1 more" in captured.err

    assert main(["export", "verify", path, "--json"]) == 2
    verdict = _json(capsys)
    assert not verdict["sound"]
    assert [check["ok"] for check in verdict["checks"]] == [True, False, False]
    assert "finite" in verdict["checks"][2]["reason"]

    assert main(["export", "sign", path, "--key", str(tmp_path / "k")]) == 2
    assert "com.example" in capsys.readouterr().err
    assert sorted(p.name for p in tmp_path.iterdir()) == ["bad.tar.zst"]


@pytest.mark.slow
@pytest.mark.parametrize("name", SHIPPED)
def test_shipped_packs_are_sound(name: str, capsys: Out) -> None:
    assert main(["export", "verify", name, "--json"]) == 0
    assert _json(capsys)["sound"]


def test_a_signed_pack_is_verified_by_its_key(tiny: str, tmp_path: Path, capsys: Out) -> None:
    key = tmp_path / "author.key"

    assert main(["export", "sign", tiny, "--key", str(key), "--new-key", "--json"]) == 0
    signed = _json(capsys)
    assert signed["path"] == str(tmp_path / "tiny.signed.tar.zst")
    assert signed["identity"] == load_pack(tiny).identity
    assert signed["key"] == Identity.load_or_create(key).public.hex()
    assert stat.S_IMODE(key.stat().st_mode) == 0o600

    assert main(["export", "verify", signed["path"], "--key", "00" * 32, "--key", signed["key"]]) == 0
    assert f"signature     by {signed['key']}" in capsys.readouterr().out
    assert main(["export", "verify", signed["path"], "--key", "00" * 32]) == 2
    assert "trusted" in capsys.readouterr().err
    assert main(["export", "verify", tiny, "--key", signed["key"]]) == 2
    assert "not signed" in capsys.readouterr().err
    assert main(["export", "verify", "gsc12", "--key", signed["key"]]) == 2
    assert "not signed" in capsys.readouterr().err
    assert main(["export", "verify", tiny, "--key", "mine"]) == 2
    assert "public key" in capsys.readouterr().err


def test_a_folder_is_signed_in_place(tmp_path: Path, capsys: Out) -> None:
    pack = tiny_pack.pack()
    folder = tmp_path / "tiny"
    for path, content in {"manifest.json": pack.manifest_bytes, **pack.files}.items():
        (folder / path).parent.mkdir(parents=True, exist_ok=True)
        (folder / path).write_bytes(content)

    assert main(["export", "sign", str(folder), "--key", str(tmp_path / "k"), "--new-key"]) == 0

    assert load_pack(folder, [Identity.load_or_create(tmp_path / "k").public]).signature is not None
    assert main(["export", "sign", str(folder), "--key", str(tmp_path / "k")]) == 2


def test_a_key_is_drawn_when_asked_for_and_nothing_is_overwritten(tiny: str, tmp_path: Path, capsys: Out) -> None:
    key, other = tmp_path / "mistyped.key", ["--out", str(tmp_path / "other.tar.zst")]
    sign = ["export", "sign", tiny, "--key", str(key)]

    assert main(sign) == 2
    assert "--new-key" in capsys.readouterr().err
    assert not key.exists()
    assert main([*sign, "--new-key"]) == 0
    drawn, first = key.read_bytes(), (tmp_path / "tiny.signed.tar.zst").read_bytes()
    assert main([*sign, "--new-key", *other]) == 2
    assert "drawn" in capsys.readouterr().err
    assert key.read_bytes() == drawn
    assert main([*sign, *other]) == 0
    assert main(sign) == 2
    assert "overwritten" in capsys.readouterr().err
    assert (tmp_path / "other.tar.zst").read_bytes() == first
    key.write_bytes(b"my diary")
    assert main([*sign, "--out", str(tmp_path / "third")]) == 2
    assert "32 bytes" in capsys.readouterr().err
    assert key.read_bytes() == b"my diary"


def test_diff_says_in_what_packs_differ(tiny: str, tmp_path: Path, capsys: Out) -> None:
    graph: onnx.ModelProto = tiny_pack.evaluation()
    graph.graph.node.append(helper.make_node("Relu", ["logits"], ["unused"]))
    other = tiny_pack.pack(
        {tiny_pack.EVALUATE: graph.SerializeToString(), tiny_pack.WEIGHTS: tiny_pack.weights(8)},
        task=Task(("yes", "no", "down"), frames=tiny_pack.FRAMES, frontend=tiny_pack.TASK.frontend),
        producers={"onnx": "2"},
    )
    path = _write(tmp_path / "other.tar.zst", other)

    assert main(["export", "diff", tiny, path, "--json"]) == 1
    found = {(d["part"], d["name"]): (d["a"], d["b"]) for d in _json(capsys)["differences"]}
    assert found[("task", "labels")] == (["yes", "no", "up"], ["yes", "no", "down"])
    before, after = found[("graph", tiny_pack.EVALUATE)]
    assert (before["nodes"], after["nodes"]) == (4, 5)
    assert found[("producer", "onnx")] == ("1", "2")
    largest = found[("weights", "lite: largest absolute difference")][1]
    assert 0 < largest <= 1
    assert ("file", tiny_pack.WEIGHTS) in found
    assert ("file", tiny_pack.STEP) not in found

    assert main(["export", "diff", tiny, "gcs12"]) == 2
    assert main(["export", "diff", tiny, tiny, "--json"]) == 0
    assert _json(capsys)["same"] is True
    assert main(["export", "diff", tiny, tiny]) == 0
    assert load_pack(tiny).identity[:12] in capsys.readouterr().out
    assert main(["export", "diff", tiny, path]) == 1
    lines = capsys.readouterr().out.splitlines()
    assert lines[0] == "task labels: yes no up -> yes no down"
    assert any(line.startswith(f"graph {tiny_pack.EVALUATE}: nodes 4 -> 5") for line in lines)


def test_none_of_it_needs_pytorch_or_onnx(
    tiny: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: Out
) -> None:
    gone = ("torch", "onnx", "onnxruntime", "safetensors", "onnxscript")
    for name in [name for name in sys.modules if name.split(".")[0] in (*gone, "auricle_export")]:
        monkeypatch.delitem(sys.modules, name)
    found = builtins.__import__

    def missing(name: str, *rest: Any, **more: Any) -> Any:
        if name.split(".")[0] in gone:
            raise ModuleNotFoundError(f"No module named '{name}'", name=name)
        return found(name, *rest, **more)

    monkeypatch.setattr(builtins, "__import__", missing)

    for command in (["inspect"], ["verify"], ["sign", "--key", str(tmp_path / "k"), "--new-key"], ["diff", tiny]):
        assert main(["export", command[0], tiny, *command[1:]]) == 0


@pytest.mark.parametrize("name", SHIPPED)
def test_inspect_prints_the_facts_as_json(name: str, capsys: Out) -> None:
    assert main(["export", "inspect", name]) == 0
    assert load_pack(name).identity in capsys.readouterr().out
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


@pytest.mark.parametrize(
    ("arguments", "noun"),
    [
        ("inspect gcs12", '"gsc12"'),
        ("build gcs12 --out x", '"gsc12"'),
        ("build gsc12", "--out"),
        ("build home --labels hey,stop --out x", "--labels"),
        ("build gsc12 --check /no/where", "/no/where/gsc12.tar.zst"),
    ],
)
def test_a_mistake_is_one_sentence_and_exit_code_2(arguments: str, noun: str, capsys: Out) -> None:
    if arguments.startswith("build"):
        pytest.importorskip("torch", reason="packs are built with PyTorch")
    assert main(["export", *arguments.split()]) == 2
    captured = capsys.readouterr()
    assert noun in captured.err
    assert captured.err.count("\n") == 1
    assert captured.out == ""


def test_without_pytorch_a_pack_can_be_inspected_and_building_says_what_to_install(
    monkeypatch: pytest.MonkeyPatch, capsys: Out, tmp_path: Path
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
    assert re.search(r"needs (torch|onnx), .*\[export\]", error) and error.count("\n") == 1


def test_building_says_how_far_it_is_where_there_is_no_terminal(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: Out
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

    assert [line.partition(":")[0] for line in said] == ["compiling", "compiled net", "compiled crnn-lite"]
    assert capsys.readouterr().err == ""
