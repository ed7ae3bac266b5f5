"""The shipped packs are what `auricle export build` makes, byte for byte."""

from __future__ import annotations

import json
from importlib.metadata import version
from pathlib import Path

import msgspec
import pytest
import zstandard

pytest.importorskip("torch", reason="packs are built with PyTorch")
pytest.importorskip("onnxscript", reason="packs are built with onnxscript")

from auricle import pack as pack_module
from auricle.cli import main
from auricle.pack import SHIPPED, load_pack
from auricle_export.build import LABELS, GraphJob, assemble, compile_graph, differences, graph_jobs
from auricle_export.models import ARCHITECTURES

PACK = load_pack("gsc12")
COMPRESSED_WITH = (1, 5, 7)
"""Other versions of zstd give other bytes for the same pack, which its manifest's hash names."""
OTHER_TOOLS = {
    tool: made for tool, made in PACK.manifest.producers.items() if version(tool).split("+")[0] != made
}  # fmt: skip
same_tools = pytest.mark.skipif(bool(OTHER_TOOLS), reason=f"the shipped packs were made with {OTHER_TOOLS}")


@same_tools
@pytest.mark.parametrize(
    "job", [GraphJob("supervised", "crnn-lite", "sgd"), *(GraphJob("evaluate", name) for name in ARCHITECTURES)]
)
def test_a_graph_compiles_to_the_shipped_bytes(job: GraphJob) -> None:
    graph, data = compile_graph(job)

    assert data == PACK.files[graph.file]
    assert graph == PACK.graph(job.kind, job.model, job.optimiser)


@pytest.mark.parametrize("name", SHIPPED)
def test_the_manifest_around_the_shipped_graphs_is_the_shipped_one(name: str) -> None:
    shipped = load_pack(name)

    built = assemble(name, LABELS[name], shipped.manifest.graphs, dict(shipped.files))

    assert (built.identity == shipped.identity) == (not OTHER_TOOLS)
    assert msgspec.structs.replace(built.manifest, producers={}) == msgspec.structs.replace(
        shipped.manifest, producers={}
    )


def test_the_jobs_are_all_graphs_of_the_manifest() -> None:
    assert [job.file for job in graph_jobs()] == [graph.file for graph in PACK.manifest.graphs]
    assert set(LABELS) == set(SHIPPED)


def test_differences_are_said_in_a_sentence() -> None:
    manifest = PACK.manifest
    files = dict(PACK.files)
    other_tools = pack_module.Pack(msgspec.structs.replace(manifest, producers={"torch": "2.0"}), files)
    other_words = PACK.with_labels([*PACK.labels[:-1], "other"], "gsc12")
    path = "graphs/crnn-base.evaluate.onnx"
    other_file = assemble("gsc12", PACK.labels, manifest.graphs, {**files, path: files[path] + b"\0"})
    ours = assemble("gsc12", PACK.labels, manifest.graphs, files)

    assert differences(PACK, PACK) is None
    assert "was made with torch 2.0: install these versions" in (differences(PACK, other_tools) or "")
    assert "the same files but another manifest" in (differences(PACK, other_words) or "")
    assert f"differs in 1 of 25 files, the first of them {path}" in (differences(ours, other_file) or "")


@same_tools
@pytest.mark.slow
@pytest.mark.timeout(3000)
def test_every_pack_is_rebuilt_byte_for_byte(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """All 25 graphs: about seven minutes of one core."""
    assert main(["export", "build", "--out", str(tmp_path), "--check", "shipped", "--json"]) == 0

    packs = json.loads(capsys.readouterr().out)["packs"]
    folder = Path(pack_module.__file__).parent / "packs"
    for name in SHIPPED:
        built, shipped = ((where / f"{name}.tar.zst").read_bytes() for where in (tmp_path, folder))
        assert pack_module._decompress(built) == pack_module._decompress(shipped)
        assert built == shipped or zstandard.ZSTD_VERSION != COMPRESSED_WITH
        assert packs[name]["identity"] == load_pack(name).identity
