"""Packs made to do harm: each is really built, and refused by name before anything is allocated for what it claims."""

from __future__ import annotations

import json
import math
import os
import resource
import struct
import tarfile
import tracemalloc
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import onnx
import pytest
from backports import zstd
from onnx import TensorProto, helper, numpy_helper
from tests.core import tiny_pack
from tests.core.tars import tar_of
from tests.core.tiny_pack import EVALUATE, STEP, TABLE, WEIGHTS
from tests.recorder import Record

from auricle.checks.graph_check import check_graph
from auricle.errors import PackError
from auricle.packs.graph_interface import Graph, step_inputs
from auricle.packs.manifest import FileEntry, encode_manifest
from auricle.packs.pack import Pack, load_pack, pack_bytes
from auricle.packs.signature import encode_signature, sign_manifest
from auricle.packs.start import start_weights
from auricle.wire.identity import Identity

MOST_BYTES = 16 << 20
"""What refusing any of these packs may take at its peak; they claim gigabytes."""

Change = Callable[[onnx.ModelProto], Any]


def use(source: Path) -> None:
    """What a device does with a pack before it runs anything of it."""
    pack = load_pack(source)
    for model in pack.manifest.start:
        start_weights(pack, model)
    for graph in pack.manifest.graphs:
        check_graph(pack, graph)


def archive(*members: tuple[tarfile.TarInfo | str, bytes]) -> bytes:
    """A `.tar.zst` of whatever is put into it."""
    return zstd.compress(tar_of(*members))


def members() -> dict[str, bytes]:
    """The files of a sound pack."""
    pack = tiny_pack.pack()
    return {"manifest.json": pack.manifest_bytes, **pack.files}


def packed(**changed: bytes | None) -> bytes:
    """The sound pack with files exchanged behind its manifest's back; None leaves one out."""
    names = {"manifest": "manifest.json", "signature": "manifest.sig", "evaluate": EVALUATE, "weights": WEIGHTS}
    content: dict[str, bytes | None] = {**members(), **{names[key]: data for key, data in changed.items()}}
    return archive(*((name, data) for name, data in content.items() if data is not None))


def with_manifest(change: Callable[[dict[str, Any]], Any]) -> bytes:
    """The pack with a manifest changed as plain JSON, which need not be one that this program could write."""
    content = json.loads(tiny_pack.pack().manifest_bytes)
    change(content)
    return packed(manifest=json.dumps(content).encode())


def with_file(data: bytes, name: str = EVALUATE, **changes: Any) -> bytes:
    """The pack with one file changed and honestly hashed."""
    return pack_bytes(tiny_pack.pack({name: data}, **changes))


def with_graph(change: Change, file: str = EVALUATE) -> bytes:
    """The pack with a graph changed and honestly hashed."""
    graph = tiny_pack.evaluation() if file == EVALUATE else tiny_pack.step()
    change(graph)
    return with_file(graph.SerializeToString(), file)


def with_weights(weights: bytes) -> bytes:
    """The pack with other weights to start from, honestly hashed."""
    return with_file(weights, WEIGHTS)


def with_entry(number: int = 1, **changes: Any) -> bytes:
    """The pack whose manifest says something else of one of its graphs, within its types."""
    graphs = list(tiny_pack.graphs())
    graphs[number] = msgspec.structs.replace(graphs[number], **changes)
    return packed(manifest=encode_manifest(tiny_pack.manifest(tiny_pack.files(), graphs=tuple(graphs))))


def link(kind: bytes, target: str = "") -> bytes:
    """An archive with a link in place of a graph."""
    info = tarfile.TarInfo(EVALUATE)
    info.type, info.linkname = kind, target
    return archive(*((name, data) for name, data in members().items() if name != EVALUATE), (info, b""))


def headed(kind: bytes, content: bytes) -> bytes:
    """The sound pack after a header of another kind than a file's."""
    info = tarfile.TarInfo("x")
    info.type = kind
    return archive((info, content), *members().items())


def numbered(size: bytes) -> bytes:
    """An archive of one header that claims this size, with a checksum that fits."""
    header = bytearray(tarfile.TarInfo("manifest.json").tobuf(tarfile.USTAR_FORMAT))
    header[124:136], header[148:156] = size, b" " * 8
    header[148:156] = b"%06o\0 " % sum(header)
    return zstd.compress(bytes(header))


def bomb(size: int, *, sized: bool) -> bytes:
    """Zeros, compressed to a few kilobytes."""
    compressor = zstd.ZstdCompressor()
    if sized:
        compressor.set_pledged_input_size(size)
    block = bytes(1 << 20)
    return b"".join([*(compressor.compress(block) for _ in range(size >> 20)), compressor.flush()])


def node(*arguments: Any, **attributes: Any) -> Change:
    """Adds an operator."""
    return lambda graph: graph.graph.node.append(helper.make_node(*arguments, **attributes))


def constant(numbers: Any, *dims: int) -> Change:
    """Adds an initialiser, which may claim other dimensions than it has."""

    def change(graph: onnx.ModelProto) -> None:
        tensor = numpy_helper.from_array(np.asarray(numbers), "extra")
        if dims:
            tensor.ClearField("dims")
            tensor.dims.extend(dims)
        graph.graph.initializer.append(tensor)

    return change


def filled(graph: onnx.ModelProto) -> None:
    """Adds a ConstantOfShape, which onnxruntime would evaluate while it loads the graph."""
    constant(np.array([50_000, 50_000], np.int64))(graph)
    node("ConstantOfShape", ["extra"], ["huge"])(graph)


def large_input(graph: onnx.ModelProto) -> None:
    graph.graph.input[1].CopyFrom(tiny_pack.value("model/body", [2_500_000_000]))


def doubled(graph: onnx.ModelProto) -> None:
    for i in range(40):
        node("Concat", [f"d{i - 1}" if i else "x"] * 2, [f"d{i}"], axis=0)(graph)


def cyclic(graph: onnx.ModelProto) -> None:
    node("Add", ["x", "b"], ["a"])(graph)
    node("Relu", ["a"], ["b"])(graph)


def external(graph: onnx.ModelProto) -> None:
    tensor = numpy_helper.from_array(np.zeros(4, np.float32), "extra")
    onnx.external_data_helper.set_external_data(tensor, "../../../etc/passwd")
    graph.graph.initializer.append(tensor)


def function(graph: onnx.ModelProto) -> None:
    graph.functions.append(helper.make_function("mine", "f", ["a"], ["b"], [], [helper.make_opsetid("", 18)]))


def subgraph(graph: onnx.ModelProto) -> None:
    inner = helper.make_graph([], "leaf", [], [tiny_pack.value("logits", None)])
    for _ in range(60):
        branch = helper.make_node("If", ["one"], ["either"], then_branch=inner, else_branch=inner)
        inner = helper.make_graph([branch], "inner", [], [])
        if len(inner.SerializeToString()) > 1 << 20:
            break
    graph.graph.node.append(helper.make_node("If", ["one"], ["either"], then_branch=inner, else_branch=inner))


def header(entries: dict[str, Any], body: bytes = bytes(100)) -> bytes:
    """A safetensors file with any header."""
    data = json.dumps(entries).encode()
    return struct.pack("<Q", len(data)) + data + body


def tensors(**changes: dict[str, Any]) -> bytes:
    """The header of the pack's weights in float32, with entries changed."""
    entries: dict[str, Any] = {}
    at = 0
    for spec in TABLE:
        entries[spec.name] = {"dtype": "F32", "shape": spec.shape, "data_offsets": [at, at + 4 * spec.size]}
        at += 4 * spec.size
    entries = {name: {**entry, **changes.get(name.replace(".", "_"), {})} for name, entry in entries.items()}
    return header(entries, bytes(at))


def large_noise() -> tuple[Graph, ...]:
    evaluate, step = tiny_pack.graphs()
    step = msgspec.structs.replace(step, noise={"mask": (1 << 20, 1 << 20)})
    return evaluate, msgspec.structs.replace(step, inputs=tuple(step_inputs(step)))


def poisoned(number: float) -> bytes:
    return with_weights(tiny_pack.weights()[:-2] + np.float16(number).tobytes())


def with_noise() -> bytes:
    """A step graph that takes noise of 2^40 numbers."""
    evaluate, step = tiny_pack.graphs()
    step = msgspec.structs.replace(step, noise={"mask": (1 << 20, 1 << 20)})
    graph = tiny_pack.step()
    graph.graph.input.append(tiny_pack.value("mask", ["a", "b"]))
    step = msgspec.structs.replace(step, inputs=tuple(step_inputs(step)))
    return with_file(graph.SerializeToString(), STEP, graphs=(evaluate, step))


def with_table() -> bytes:
    """A model of 2^40 weights."""
    table = (msgspec.structs.replace(TABLE[0], shape=(1 << 20, 1 << 20)), *TABLE[1:])
    return packed(manifest=encode_manifest(tiny_pack.manifest(tiny_pack.files(), architectures={"lite": table})))


CLAIMED = constant(np.zeros(2, np.float32), 50_000, 50_000)
ARCHIVES: dict[str, tuple[Callable[[], bytes], str]] = {
    "truncated": (lambda: packed()[:-40], "not a pack"),
    "truncated in the middle": (lambda: packed()[: len(packed()) // 2], "not a pack|no manifest"),
    "empty": (lambda: b"", "not a pack|no manifest"),
    "wrong hash": (lambda: packed(evaluate=b"x" * len(members()[EVALUATE])), EVALUATE),
    "one bit": (lambda: packed(weights=members()[WEIGHTS][:-1] + bytes([members()[WEIGHTS][-1] ^ 1])), WEIGHTS),
    "missing file": (lambda: packed(evaluate=None), f"lacks its file {EVALUATE}"),
    "stowaway": (lambda: archive(*members().items(), ("graphs/more.onnx", b"x")), "'graphs/more.onnx', which its"),
    "wrong signature": (
        lambda: packed(signature=encode_signature(sign_manifest(Identity(bytes(32)), b"another manifest"))),
        "signature of the pack tiny is not one",
    ),
    "no signature in manifest.sig": (lambda: packed(signature=b"trust me"), "signature .* not valid"),
    "symbolic link": (lambda: link(tarfile.SYMTYPE, "/etc/passwd"), "not a plain file"),
    "hard link": (lambda: link(tarfile.LNKTYPE, "manifest.json"), "not a plain file"),
    "device": (lambda: link(tarfile.CHRTYPE), "not a plain file"),
    "pipe": (lambda: link(tarfile.FIFOTYPE), "not a plain file"),
    "pax header that loops": (lambda: headed(tarfile.XHDTYPE, b"0 path=x\n"), "not a plain file"),
    "pax header of 20 MB": (lambda: headed(tarfile.XHDTYPE, bytes(20 << 20)), "not a plain file"),
    "global pax header": (lambda: headed(tarfile.XGLTYPE, b"11 a=bcdef\n"), "not a plain file"),
    "long name of 20 MB": (lambda: headed(tarfile.GNUTYPE_LONGNAME, bytes(20 << 20)), "not a plain file"),
    "sparse file": (lambda: headed(tarfile.GNUTYPE_SPARSE, b""), "not a plain file"),
    "folder": (lambda: headed(tarfile.DIRTYPE, b""), "not a plain file"),
    "file of 30 MB of zeros": (lambda: archive(("x", bytes(30 << 20))), "no manifest"),
    "manifest of 30 MB": (lambda: packed(manifest=b" " * (30 << 20)), "more than 4 MiB"),
    "size that is not a number": (lambda: numbered(b"9" * 12), "not a number"),
    "negative size": (lambda: numbered(b"\xff" * 12), "not a number"),
    "size of 8 GB": (lambda: numbered(b"77777777777\0"), "cut short"),
    "damaged header": (lambda: zstd.compress(b"x" * 512), "not a tar archive"),
    "bomb": (lambda: bomb(1 << 30, sized=False), "more than 32 MiB"),
    "bomb that admits its size": (lambda: bomb(1 << 28, sized=True), "more than 32 MiB"),
}
MANIFESTS: dict[str, tuple[Callable[[], bytes], str]] = {
    "manifest of 5 MiB": (lambda: packed(manifest=b" " * (5 << 20)), "more than 4 MiB"),
    "deep manifest": (lambda: packed(manifest=b"[" * 1_000_000), "not valid"),
    "unknown field": (lambda: with_manifest(lambda c: c.update(run="rm -rf /")), "not valid"),
    "file of 10 GB": (lambda: with_manifest(lambda c: c["files"][0].update(bytes=10 << 30)), "not valid"),
    "table of 2^40 weights": (with_table, "at most 67108864"),
    "noise of 2^40 numbers": (with_noise, "1099511627776 numbers"),
    "batch of 2^20": (lambda: with_entry(batch=1 << 20), "'x' is"),
    "graph without a file": (lambda: with_manifest(lambda c: c["graphs"][0].update(file="graphs/x")), "not there"),
    "weights for no model": (lambda: with_manifest(lambda c: c.update(start={"other": c["start"]["lite"]})), "other"),
    "file that nothing refers to": (lambda: with_manifest(lambda c: c.update(start={})), f"lists {WEIGHTS}"),
}
GRAPHS: dict[str, tuple[Change, str]] = {
    "10 GB tensor claimed": (CLAIMED, "claims 2500000000 numbers"),
    "10 GB tensor made": (filled, "2500000000 numbers"),
    "10 GB input": (large_input, "'model/body' claims"),
    "2^40 numbers by doubling": (doubled, "tensor of .* numbers"),
    "non-standard operator": (node("Shell", ["x"], ["y"], domain="com.example"), "domain 'com.example'"),
    "non-standard operator in the standard domain": (node("Shell", ["x"], ["y"]), "'Shell'"),
    "function": (function, "functions of its own"),
    "nested graphs": (subgraph, "inside the graph"),
    "external data": (external, "outside the file"),
    "cyclic graph": (cyclic, "cyclic"),
    "two definitions": (node("Relu", ["x"], ["logits"]), "defines 'logits' twice"),
    "NaN constant": (constant(np.array([1, np.nan], np.float32)), "'extra' holds NaN"),
}
GRAPH_FILES: dict[str, tuple[Callable[[], bytes], str]] = {
    "10 GB tensor claimed in a step graph": (lambda: with_graph(CLAIMED, STEP), f"{STEP}.*claims 2500000000 numbers"),
    "truncated graph": (lambda: with_file(members()[EVALUATE][:-9]), f"{EVALUATE} .* is cut short"),
    "2 GB in a length": (lambda: with_file(b"\x08\x0a\x3a\x80\x80\x80\x80\x08"), "is cut short"),
    "pickle for a graph": (lambda: with_file(b"\x80\x04K\x01."), f"{EVALUATE} .* refused"),
}
STARTS: dict[str, tuple[Callable[[], bytes], str]] = {
    "NaN weights": (lambda: poisoned(math.nan), "'head.bias' .* not finite"),
    "infinite weights": (lambda: poisoned(math.inf), "'head.bias' .* not finite"),
    "10 GB claimed": (lambda: with_weights(tensors(mix_weight={"shape": [50_000, 50_000]})), "'mix.weight' claims"),
    "2^63 offsets": (lambda: with_weights(tensors(mix_weight={"data_offsets": [0, 1 << 63]})), "claims|not valid"),
    "another shape": (lambda: with_weights(tensors(mix_weight={"shape": [2, 3]})), r"is \(2, 3\) where"),
    "another type": (lambda: with_weights(tensors(mix_weight={"dtype": "F64"})), "not valid"),
    "overlapping": (lambda: with_weights(tensors(head_weight={"data_offsets": [0, 24]})), "not its own"),
    "other weights": (lambda: with_weights(tiny_pack.weights().replace(b'"head.bias"', b'"hood.bias"')), "tensors"),
    "header of 2^60 bytes": (lambda: with_weights(struct.pack("<Q", 1 << 60) + b"{}"), "not a safetensors file"),
    "truncated weights": (lambda: with_weights(tiny_pack.weights()[:-1]), "claims? .*bytes"),
    "pickle for weights": (lambda: with_weights(b"\x80\x04K\x01."), "not a safetensors file"),
}
CHANGED = {name: (partial(with_graph, change), noun) for name, (change, noun) in GRAPHS.items()}
HOSTILE = {**ARCHIVES, **MANIFESTS, **CHANGED, **GRAPH_FILES, **STARTS}


@pytest.mark.reliability("C5", load="zstd and tar bombs in packs")
@pytest.mark.parametrize("name", HOSTILE)
def test_a_hostile_pack_is_refused_by_name_and_costs_nothing(
    tmp_path: Path, name: str, record_property: Record
) -> None:
    make, sentence = HOSTILE[name]
    path = tmp_path / "pack.tar.zst"
    path.write_bytes(make())
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    tracemalloc.start()
    try:
        with pytest.raises(PackError, match=sentence) as caught:
            use(path)
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()

    record_property("MB", round(peak / 1e6, 2))
    assert str(caught.value).isprintable()
    assert str(caught.value).endswith(".")
    assert peak < MOST_BYTES
    assert (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) << 10 < 2 * MOST_BYTES


def test_the_sound_pack_that_the_others_are_made_of_is_taken(tmp_path: Path) -> None:
    path = tmp_path / "pack.tar.zst"
    for data in (packed(), pack_bytes(tiny_pack.pack()), with_graph(lambda graph: None), with_weights(tensors())):
        path.write_bytes(data)
        use(path)


def _folder(tmp_path: Path) -> Path:
    folder = tmp_path / "pack"
    for name, data in members().items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_bytes(data)
    return folder


def test_a_folder_may_hold_other_things_and_they_are_not_read(tmp_path: Path) -> None:
    folder = _folder(tmp_path)
    os.mkfifo(folder / "pipe")
    with (folder / "huge").open("wb") as file:
        file.truncate(1 << 40)
    use(folder)


@pytest.mark.parametrize("name", ["manifest.json", EVALUATE])
def test_a_link_that_leads_out_of_a_folder_is_refused(tmp_path: Path, name: str) -> None:
    folder = _folder(tmp_path)
    outside = tmp_path / "outside"
    outside.write_bytes((folder / name).read_bytes())
    (folder / name).unlink()
    (folder / name).symlink_to(outside)
    with pytest.raises(PackError, match="is a link that leads out of the pack"):
        use(folder)


def test_a_folder_whose_file_is_larger_than_its_manifest_says_is_not_read(tmp_path: Path) -> None:
    folder = _folder(tmp_path)
    with (folder / EVALUATE).open("wb") as file:
        file.truncate(1 << 40)
    with pytest.raises(PackError, match="holds more than"):
        use(folder)


def test_a_manifest_that_lists_more_than_a_pack_may_hold_is_refused(tmp_path: Path) -> None:
    folder = _folder(tmp_path)
    files = tuple(FileEntry(f"graphs/{i}", 15 << 20, "0" * 64) for i in range(3))
    (folder / "manifest.json").write_bytes(encode_manifest(tiny_pack.manifest({}, files=files)))
    with pytest.raises(PackError, match="holds more than 32 MiB"):
        use(folder)


def test_a_pack_in_memory_is_checked_as_one_on_disk_is() -> None:
    held = tiny_pack.files()
    with pytest.raises(PackError, match="not the one"):
        Pack(tiny_pack.manifest(held), {**held, EVALUATE: b"x"})


def test_an_element_type_out_of_range_is_not_taken_for_another(tmp_path: Path) -> None:
    """Protocol buffers cut an enum to 32 bits: 2^32 + 1 would be float32 to a runtime."""
    tensor = numpy_helper.from_array(np.zeros(2, np.float32), "extra")
    assert tensor.SerializeToString().count(b"\x10\x01") == 1
    forged = tensor.SerializeToString().replace(b"\x10\x01", b"\x10\x81\x80\x80\x80\x10")
    assert onnx.TensorProto.FromString(forged).data_type == TensorProto.FLOAT
    graph = tiny_pack.evaluation().graph.SerializeToString() + b"\x2a" + bytes([len(forged)]) + forged
    size = bytes([len(graph) & 127 | 128, len(graph) >> 7])
    path = tmp_path / "pack.tar.zst"
    path.write_bytes(with_file(b"\x08\x0a\x42\x04\x0a\x00\x10\x12\x3a" + size + graph))
    with pytest.raises(PackError, match="element type"):
        use(path)
