"""`auricle export inspect`, `verify`, `sign`, `diff`: what a user sees of a pack."""

from __future__ import annotations

import builtins
import json
import stat
import sys
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import helper
from tests.core import tiny_pack

from auricle.packs.manifest import Task
from auricle.packs.pack import SHIPPED, Pack, load_pack, pack_bytes
from auricle.process.cli import main
from auricle.wire.identity import Identity

Out = pytest.CaptureFixture[str]


@pytest.fixture()
def tiny(tmp_path: Path) -> str:
    """A sound pack."""
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
    assert facts["start"] == {
        "lite": {
            "file": tiny_pack.WEIGHTS,
            "bytes": len(tiny_pack.weights()),
            "data": "synthetic speech",
            "clips": 90,
            "speakers": 3,
            "accuracy": 0.75,
            "judged_clips": 30,
            "seed": 0,
        }
    }
    assert (facts["ort_training"], facts["tflite"], facts["files"]) == ({}, [], 3)
    assert [graph["kind"] for graph in facts["graphs"]] == ["evaluate", "supervised"]

    assert main(["export", "inspect", tiny]) == 0
    text = capsys.readouterr().out
    assert "synthetic speech" in text
    assert "not signed" in text
    assert load_pack(tiny).identity in text


def test_verify_prints_a_line_a_check_and_a_verdict(tiny: str, capsys: Out) -> None:
    assert main(["export", "verify", tiny]) == 0

    lines = capsys.readouterr().out.splitlines()
    assert [line.split()[:2] for line in lines[:-1]] == [
        ["ok", "manifest"],
        ["ok", "files"],
        ["-", "signature"],
        ["ok", "graph"],
        ["ok", "graph"],
        ["ok", "weights"],
    ]
    assert lines[-1] == "tiny is sound: 3 graphs, weights and artifacts checked."


def test_verify_names_what_is_refused(tmp_path: Path, capsys: Out) -> None:
    path = _unsound(tmp_path / "bad.tar.zst")

    assert main(["export", "verify", path]) == 2
    captured = capsys.readouterr()
    assert f"REFUSED graph         {tiny_pack.STEP}" in captured.out
    assert f"REFUSED weights       {tiny_pack.WEIGHTS}" in captured.out
    assert f"ok      graph         {tiny_pack.EVALUATE}" in captured.out
    assert "'Shell' is of the domain 'com.example'" in captured.err
    assert "1 more of its files are refused." in captured.err

    assert main(["export", "verify", path, "--json"]) == 2
    verdict = _json(capsys)
    assert not verdict["sound"]
    assert [check["ok"] for check in verdict["checks"]] == [True, False, False]
    assert "holds numbers that are not finite" in verdict["checks"][2]["reason"]


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
    assert "is not a trusted key" in capsys.readouterr().err
    assert main(["export", "verify", tiny, "--key", signed["key"]]) == 2
    assert "is not signed" in capsys.readouterr().err
    assert main(["export", "verify", "gsc12", "--key", signed["key"]]) == 2
    assert "comes with Auricle and is not signed" in capsys.readouterr().err
    assert main(["export", "verify", tiny, "--key", "mine"]) == 2
    assert "is not a public key" in capsys.readouterr().err


def test_signing_again_gives_the_same_bytes_and_overwrites_nothing(tiny: str, tmp_path: Path, capsys: Out) -> None:
    key = str(tmp_path / "author.key")
    assert main(["export", "sign", tiny, "--key", key, "--new-key"]) == 0
    assert main(["export", "sign", tiny, "--key", key, "--out", str(tmp_path / "other.tar.zst")]) == 0
    first = (tmp_path / "tiny.signed.tar.zst").read_bytes()
    capsys.readouterr()

    assert main(["export", "sign", tiny, "--key", key]) == 2

    assert "exists and is not overwritten" in capsys.readouterr().err
    assert (tmp_path / "other.tar.zst").read_bytes() == first


def test_a_folder_is_signed_in_place(tmp_path: Path, capsys: Out) -> None:
    pack = tiny_pack.pack()
    folder = tmp_path / "tiny"
    for path, content in {"manifest.json": pack.manifest_bytes, **pack.files}.items():
        (folder / path).parent.mkdir(parents=True, exist_ok=True)
        (folder / path).write_bytes(content)

    assert main(["export", "sign", str(folder), "--key", str(tmp_path / "k"), "--new-key"]) == 0

    assert load_pack(folder, [Identity.load_or_create(tmp_path / "k").public]).signature is not None
    assert main(["export", "sign", str(folder), "--key", str(tmp_path / "k")]) == 2


def test_an_unsound_pack_is_not_signed(tmp_path: Path, capsys: Out) -> None:
    path = _unsound(tmp_path / "bad.tar.zst")

    assert main(["export", "sign", path, "--key", str(tmp_path / "k")]) == 2

    assert "com.example" in capsys.readouterr().err
    assert sorted(p.name for p in tmp_path.iterdir()) == ["bad.tar.zst"]


def test_a_key_is_drawn_only_when_it_is_asked_for(tiny: str, tmp_path: Path, capsys: Out) -> None:
    key = tmp_path / "mistyped.key"

    assert main(["export", "sign", tiny, "--key", str(key)]) == 2
    assert "draw a new one with --new-key" in capsys.readouterr().err
    assert not key.exists()
    assert main(["export", "sign", tiny, "--key", str(key), "--new-key"]) == 0
    drawn = key.read_bytes()
    again = ["--key", str(key), "--out", str(tmp_path / "again.tar.zst")]
    assert main(["export", "sign", tiny, *again, "--new-key"]) == 2
    assert "no key is drawn over it" in capsys.readouterr().err
    assert key.read_bytes() == drawn
    assert main(["export", "sign", tiny, *again]) == 0


def test_a_key_file_that_is_none_is_left_alone(tiny: str, tmp_path: Path, capsys: Out) -> None:
    key = tmp_path / "k"
    key.write_bytes(b"my diary")

    assert main(["export", "sign", tiny, "--key", str(key)]) == 2

    assert "is not a private key of 32 bytes" in capsys.readouterr().err
    assert key.read_bytes() == b"my diary"


def test_diff_of_a_pack_with_itself_is_nothing(tiny: str, capsys: Out) -> None:
    assert main(["export", "diff", tiny, tiny]) == 0
    assert capsys.readouterr().out == f"The same pack: tiny {load_pack(tiny).identity[:12]}.\n"
    assert main(["export", "diff", tiny, tiny, "--json"]) == 0
    assert _json(capsys)["same"] is True


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

    assert main(["export", "diff", tiny, path]) == 1
    lines = capsys.readouterr().out.splitlines()
    assert lines[0] == "task labels: yes no up -> yes no down"
    assert any(line.startswith(f"graph {tiny_pack.EVALUATE}: nodes 4 -> 5") for line in lines)


def test_diff_with_what_is_no_pack_is_an_error_and_not_a_difference(tiny: str, capsys: Out) -> None:
    assert main(["export", "diff", tiny, "gcs12"]) == 2
    assert 'did you mean "gsc12"' in capsys.readouterr().err


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
