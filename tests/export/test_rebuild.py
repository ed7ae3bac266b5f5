"""The shipped packs are what `auricle export build` makes, byte for byte."""

from __future__ import annotations

import json
from importlib.metadata import version
from pathlib import Path

import msgspec
import pytest

pytest.importorskip("torch", reason="packs are built with PyTorch")
pytest.importorskip("onnxscript", reason="packs are built with onnxscript")

from auricle.packs.manifest import FileEntry
from auricle.packs.pack import Pack, load_pack
from auricle.packs.shipped import SHIPPED
from auricle.process.cli import main
from auricle_export.packs.build import LABELS, RECIPES, RESIDUAL, assemble, differences, trace_models
from auricle_export.packs.models import WHEEL_CRNNS
from auricle_export.packs.start_weights import without_start

PACK = without_start(load_pack("gsc12"))
OTHER_TOOLS = {tool: made for tool, made in PACK.manifest.producers.items() if version(tool).split("+")[0] != made}
same_tools = pytest.mark.skipif(bool(OTHER_TOOLS), reason=f"the shipped packs were made with {OTHER_TOOLS}")


@same_tools
@pytest.mark.slow
@pytest.mark.nightly
def test_the_plug_in_compiles_to_the_shipped_bytes() -> None:
    models = trace_models({"crnn-lite": None}, 0)
    built = assemble("gsc12", LABELS["gsc12"], models)
    for graph in built.manifest.graphs:
        assert built.files[graph.file] == PACK.files[graph.file]
        assert graph in PACK.manifest.graphs


def test_every_model_has_every_graph() -> None:
    assert {graph.file for graph in PACK.manifest.graphs} == {
        *(recipe.file(model) for recipe in RECIPES for model in WHEEL_CRNNS),
        *(f"graphs/{model}.evaluate.onnx" for model in WHEEL_CRNNS),
    }
    assert set(SHIPPED) == set(LABELS)
    assert all(load_pack(name).labels == LABELS[name] for name in SHIPPED)


@pytest.mark.parametrize("name", sorted(set(SHIPPED) - set(RESIDUAL)))
def test_shipped_packs_share_their_graphs(name: str) -> None:
    assert without_start(load_pack(name)).manifest.graphs == PACK.manifest.graphs
    assert without_start(load_pack(name)).files == PACK.files


def test_differences_are_said_in_a_sentence() -> None:
    manifest, files = PACK.manifest, dict(PACK.files)
    other_tools = Pack(msgspec.structs.replace(manifest, producers={"torch": "2.0"}), files)
    other_words = PACK.with_labels([*PACK.labels[:-1], "other"], "gsc12")
    path = "graphs/crnn-base.evaluate.onnx"
    other_file = _with_file(PACK, path, files[path] + b"\0")

    assert differences(PACK, PACK) is None
    assert differences(PACK, load_pack("gsc12")) is None
    assert "torch 2.0" in (differences(PACK, other_tools) or "")
    assert "another manifest" in (differences(PACK, other_words) or "")
    assert path in (differences(PACK, other_file) or "")


def _with_file(pack: Pack, path: str, content: bytes) -> Pack:
    files = {**pack.files, path: content}
    entries = tuple(FileEntry.of(entry.path, files[entry.path]) for entry in pack.manifest.files)
    return Pack(msgspec.structs.replace(pack.manifest, files=entries), files)


@same_tools
@pytest.mark.slow
@pytest.mark.timeout(3000)
@pytest.mark.nightly
def test_every_pack_is_rebuilt_byte_for_byte(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """All five models: about a minute and a half of one core."""
    assert main(["export", "build", "--out", str(tmp_path), "--check", "shipped", "--json"]) == 0
    packs = json.loads(capsys.readouterr().out)["packs"]
    for name in SHIPPED:
        built, shipped = load_pack(tmp_path / f"{name}.tar.zst"), without_start(load_pack(name))
        assert built.files == shipped.files
        assert packs[name]["identity"] == built.identity == shipped.identity
