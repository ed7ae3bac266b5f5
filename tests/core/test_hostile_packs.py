"""Packs made to do harm: each is really built, and refused by name before anything is allocated for what it claims."""

from __future__ import annotations

import io
import json
import math
import os
import resource
import struct
import tarfile
import tracemalloc
from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import onnx
import pytest
import zstandard
from onnx import TensorProto, helper, numpy_helper
from tests.core import tiny_pack
from tests.core.tiny_pack import EVALUATE, STEP, TABLE, WEIGHTS

from auricle.checks.graph_check import check_graph
from auricle.errors import PackError
from auricle.packs.graph_interface import Graph, step_inputs
from auricle.packs.manifest import FileEntry, Manifest, encode_manifest
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
    held = io.BytesIO()
    with tarfile.open(fileobj=held, mode="w") as file:
        for entry, content in members:
            info = tarfile.TarInfo(entry) if isinstance(entry, str) else entry
            info.size = len(content)
            file.addfile(info, io.BytesIO(content))
    return zstandard.compress(held.getvalue())


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


def with_graph(change: Change, file: str = EVALUATE) -> bytes:
    """The pack with a graph changed and honestly hashed."""
    graph = tiny_pack.evaluation() if file == EVALUATE else tiny_pack.step()
    change(graph)
    return pack_bytes(tiny_pack.pack({file: graph.SerializeToString()}))


def with_weights(weights: bytes) -> bytes:
    """The pack with other weights to start from, honestly hashed."""
    return pack_bytes(tiny_pack.pack({WEIGHTS: weights}))


def link(kind: bytes, target: str) -> bytes:
    """An archive with a link in place of a graph."""
    info = tarfile.TarInfo(EVALUATE)
    info.type, info.linkname = kind, target
    rest = [(name, data) for name, data in members().items() if name != EVALUATE]
    return archive(*rest, (info, b""))


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
    return zstandard.compress(bytes(header))


def traversal(path: str) -> bytes:
    """An archive that would write outside its folder if it were unpacked."""

    def change(content: dict[str, Any]) -> None:
        content["files"].append({"path": path, "bytes": 1, "sha256": "0" * 64})

    held = tiny_pack.pack()
    content = json.loads(held.manifest_bytes)
    change(content)
    return archive(("manifest.json", json.dumps(content).encode()), *held.files.items(), (path, b"x"))


def bomb(size: int) -> bytes:
    """Zeros, compressed to a few kilobytes."""
    compressor = zstandard.ZstdCompressor(write_content_size=False).compressobj()
    block = bytes(1 << 20)
    return b"".join([*(compressor.compress(block) for _ in range(size >> 20)), compressor.flush()])


def node(*arguments: Any, **attributes: Any) -> Change:
    """Adds an operator."""
    return lambda graph: graph.graph.node.append(helper.make_node(*arguments, **attributes))


def constant(numbers: Any, **changes: Any) -> Change:
    """Adds an initialiser."""

    def change(graph: onnx.ModelProto) -> None:
        tensor = numpy_helper.from_array(np.asarray(numbers), "extra")
        if "dims" in changes:
            tensor.ClearField("dims")
            tensor.dims.extend(changes["dims"])
        graph.graph.initializer.append(tensor)

    return change


def filled(*shape: int) -> Change:
    """Adds a ConstantOfShape, which onnxruntime would evaluate while it loads the graph."""

    def change(graph: onnx.ModelProto) -> None:
        constant(np.array(shape, np.int64))(graph)
        node("ConstantOfShape", ["extra"], ["huge"])(graph)

    return change


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


def large_input(graph: onnx.ModelProto) -> None:
    graph.graph.input[1].CopyFrom(tiny_pack.value("model/body", [2_500_000_000]))


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


def poisoned(number: float) -> bytes:
    weights = bytearray(tiny_pack.weights())
    weights[-2:] = np.float16(number).tobytes()
    return bytes(weights)


def renamed(name: str) -> bytes:
    return tiny_pack.weights().replace(b'"head.bias"', f'"{name}"'.encode())


def manifest_with(**changes: Any) -> bytes:
    """Manifest changed within its types, and its pack."""
    held = tiny_pack.files()
    return packed(manifest=encode_manifest(tiny_pack.manifest(held, **changes)))


def large_table() -> Any:
    spec = msgspec.structs.replace(TABLE[0], shape=(1 << 20, 1 << 20))
    return {"lite": (spec, *TABLE[1:])}


def large_noise() -> tuple[Graph, ...]:
    evaluate, step = tiny_pack.graphs()
    step = msgspec.structs.replace(step, noise={"mask": (1 << 20, 1 << 20)})
    return evaluate, msgspec.structs.replace(step, inputs=tuple(step_inputs(step)))


def noisy_step(graph: onnx.ModelProto) -> None:
    graph.graph.input.append(tiny_pack.value("mask", ["a", "b"]))


def with_noise() -> bytes:
    graph = tiny_pack.step()
    noisy_step(graph)
    return pack_bytes(tiny_pack.pack({STEP: graph.SerializeToString()}, graphs=large_noise()))


def signed_by_another() -> bytes:
    stranger = sign_manifest(Identity(bytes(32)), b"another manifest")
    return packed(signature=encode_signature(stranger))


def _files(change: Callable[[dict[str, Any]], Any]) -> Callable[[dict[str, Any]], Any]:
    return lambda content: [change(entry) for entry in content["files"]]


HOSTILE: dict[str, tuple[Callable[[], bytes], str]] = {
    # the archive
    "truncated": (lambda: packed()[:-40], "is not a pack"),
    "truncated in the middle": (lambda: packed()[: len(packed()) // 2], "is not a pack|no manifest"),
    "empty": (lambda: b"", "is not a pack|no manifest"),
    "wrong hash": (lambda: packed(evaluate=b"x" * len(members()[EVALUATE])), f"{EVALUATE} of the pack tiny is not"),
    "one bit": (
        lambda: packed(weights=members()[WEIGHTS][:-1] + bytes([members()[WEIGHTS][-1] ^ 1])),
        f"The file {WEIGHTS} of the pack tiny is not the one its manifest names",
    ),
    "missing file": (lambda: packed(evaluate=None), f"lacks its file {EVALUATE}"),
    "stowaway": (lambda: archive(*members().items(), ("graphs/more.onnx", b"x")), "'graphs/more.onnx', which its"),
    "wrong signature": (signed_by_another, "The signature of the pack tiny is not one over its manifest"),
    "no signature in manifest.sig": (lambda: packed(signature=b"trust me"), "The signature of .* is not valid"),
    "path traversal": (lambda: traversal("../../etc/cron.d/x"), "is not valid: .*files"),
    "absolute path": (lambda: traversal("/etc/passwd"), "is not valid: .*files"),
    "path with a dot": (lambda: traversal("graphs/../../x"), "is not valid: .*files"),
    "hidden path": (lambda: traversal(".ssh/authorized_keys"), "is not valid: .*files"),
    "symbolic link": (lambda: link(tarfile.SYMTYPE, "/etc/passwd"), "which is not a plain file"),
    "hard link": (lambda: link(tarfile.LNKTYPE, "manifest.json"), "which is not a plain file"),
    "device": (lambda: link(tarfile.CHRTYPE, ""), "which is not a plain file"),
    "pax header that loops": (lambda: headed(tarfile.XHDTYPE, b"0 path=x\n"), "which is not a plain file"),
    "pax header of 20 MB": (lambda: headed(tarfile.XHDTYPE, bytes(20 << 20)), "which is not a plain file"),
    "global pax header": (lambda: headed(tarfile.XGLTYPE, b"11 a=bcdef\n"), "which is not a plain file"),
    "long name of 20 MB": (lambda: headed(tarfile.GNUTYPE_LONGNAME, bytes(20 << 20)), "which is not a plain file"),
    "sparse file": (lambda: headed(tarfile.GNUTYPE_SPARSE, b""), "which is not a plain file"),
    "folder": (lambda: headed(tarfile.DIRTYPE, b""), "which is not a plain file"),
    "file of 30 MB of zeros": (lambda: archive(("x", bytes(30 << 20))), "is not a pack: it has no manifest.json"),
    "manifest of 30 MB": (lambda: packed(manifest=b" " * (30 << 20)), "manifest of .* holds more than 4 MiB"),
    "size that is not a number": (lambda: numbered(b"9" * 12), "has a field that is not a number"),
    "negative size": (lambda: numbered(b"\xff" * 12), "has a field that is not a number"),
    "size of 8 GB": (lambda: numbered(b"77777777777\0"), "it is cut short"),
    "damaged header": (lambda: zstandard.compress(b"x" * 512), "is not a tar archive, or a header of it is damaged"),
    "bomb": (lambda: bomb(1 << 30), "unpacks to more than 32 MiB"),
    # the manifest
    "manifest of 5 MiB": (lambda: packed(manifest=b" " * (5 << 20)), "manifest of .* holds more than 4 MiB"),
    "deep manifest": (lambda: packed(manifest=b"[" * 1_000_000), "is not valid"),
    "unknown field": (lambda: with_manifest(lambda c: c.update(run="rm -rf /")), "is not valid"),
    "file of 10 GB": (lambda: with_manifest(_files(lambda e: e.update(bytes=10 << 30))), "is not valid"),
    "table of 2^40 weights": (lambda: manifest_with(architectures=large_table()), "weights; at most 67108864"),
    "noise of 2^40 numbers": (with_noise, "its input 'mask' claims 1099511627776 numbers"),
    "batch of 2^20": (
        lambda: manifest_with(
            graphs=(tiny_pack.graphs()[0], msgspec.structs.replace(tiny_pack.graphs()[1], batch=1 << 20))
        ),
        "'x' is .*, which the pack's tables do not say",
    ),
    "graph without a file": (lambda: with_manifest(lambda c: c["graphs"][0].update(file="graphs/x")), "is not there"),
    "weights for no model": (
        lambda: with_manifest(lambda c: c.update(start={"other": c["start"]["lite"]})),
        "refers to other, which is not",
    ),
    "file that nothing refers to": (lambda: with_manifest(lambda c: c.update(start={})), f"lists {WEIGHTS}"),
    # the graphs
    "10 GB tensor claimed": (
        lambda: with_graph(constant(np.zeros(2, np.float32), dims=[50_000, 50_000])),
        "claims 2500000000 numbers",
    ),
    "10 GB tensor claimed in a step graph": (
        lambda: with_graph(lambda g: constant(np.zeros(2, np.float32), dims=[50_000, 50_000])(g), STEP),
        f"The graph {STEP} of the pack tiny is refused: the tensor 'extra' claims 2500000000 numbers",
    ),
    "10 GB tensor made": (lambda: with_graph(filled(50_000, 50_000)), "'huge' is unsound: .* 2500000000 numbers"),
    "10 GB input": (lambda: with_graph(large_input), "'model/body' claims a shape of more than"),
    "2^40 numbers by doubling": (lambda: with_graph(doubled), "makes a tensor of .* numbers; at most"),
    "non-standard operator": (
        lambda: with_graph(node("Shell", ["x"], ["y"], domain="com.example")),
        "'Shell' is of the domain 'com.example'",
    ),
    "non-standard operator in the standard domain": (
        lambda: with_graph(node("Shell", ["x"], ["y"])),
        "'Shell' is not one that a pack's graph may use",
    ),
    "function": (lambda: with_graph(function), "defines functions of its own"),
    "nested graphs": (lambda: with_graph(subgraph), "holds a graph inside the graph"),
    "external data": (lambda: with_graph(external), "'extra' keeps its numbers outside the file"),
    "cyclic graph": (lambda: with_graph(cyclic), "it is cyclic"),
    "two definitions": (lambda: with_graph(node("Relu", ["x"], ["logits"])), "defines 'logits' twice"),
    "NaN constant": (lambda: with_graph(constant(np.array([1, np.nan], np.float32))), "'extra' holds NaN"),
    "truncated graph": (
        lambda: pack_bytes(tiny_pack.pack({EVALUATE: members()[EVALUATE][:-9]})),
        f"{EVALUATE} .* is cut short",
    ),
    "2 GB in a length": (
        lambda: pack_bytes(tiny_pack.pack({EVALUATE: b"\x08\x0a\x3a\x80\x80\x80\x80\x08"})),
        "is cut short",
    ),
    "pickle for a graph": (lambda: pack_bytes(tiny_pack.pack({EVALUATE: b"\x80\x04K\x01."})), f"{EVALUATE} .* refused"),
    # the weights
    "NaN weights": (lambda: with_weights(poisoned(math.nan)), "'head.bias' holds numbers that are not finite"),
    "infinite weights": (lambda: with_weights(poisoned(math.inf)), "'head.bias' holds numbers that are not finite"),
    "10 GB weights claimed": (
        lambda: with_weights(tensors(mix_weight={"shape": [50_000, 50_000]})),
        "'mix.weight' claims bytes",
    ),
    "weights with 2^63 offsets": (
        lambda: with_weights(tensors(mix_weight={"data_offsets": [0, 1 << 63]})),
        "claims bytes|is not valid",
    ),
    "weights of another shape": (lambda: with_weights(tensors(mix_weight={"shape": [2, 3]})), r"is \(2, 3\) where"),
    "weights of another type": (lambda: with_weights(tensors(mix_weight={"dtype": "F64"})), "header is not valid"),
    "overlapping weights": (
        lambda: with_weights(tensors(head_weight={"data_offsets": [0, 24]})),
        "which are not its own",
    ),
    "other weights": (lambda: with_weights(renamed("hood.bias")), "does not hold the tensors of its model"),
    "header of 2^60 bytes": (lambda: with_weights(struct.pack("<Q", 1 << 60) + b"{}"), "not a safetensors file"),
    "truncated weights": (lambda: with_weights(tiny_pack.weights()[:-1]), "claims? .*bytes"),
    "pickle for weights": (lambda: with_weights(b"\x80\x04K\x01."), "not a safetensors file"),
}


@pytest.mark.reliability("C5", load="zstd and tar bombs in packs")
@pytest.mark.parametrize("name", HOSTILE)
def test_a_hostile_pack_is_refused_by_name_and_costs_nothing(tmp_path: Path, name: str) -> None:
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
    manifest: Manifest = tiny_pack.manifest(held)

    with pytest.raises(PackError, match="is not the one its manifest names"):
        Pack(manifest, {**held, EVALUATE: b"x"})


def test_an_element_type_out_of_range_is_not_taken_for_another(tmp_path: Path) -> None:
    """Protocol buffers cut an enum to 32 bits: 2^32 + 1 would be float32 to a runtime."""
    data = members()[EVALUATE]
    tensor = numpy_helper.from_array(np.zeros(2, np.float32), "extra")
    assert tensor.SerializeToString().count(b"\x10\x01") == 1
    forged = tensor.SerializeToString().replace(b"\x10\x01", b"\x10\x81\x80\x80\x80\x10")
    assert onnx.TensorProto.FromString(forged).data_type == TensorProto.FLOAT
    graph = onnx.load_from_string(data).graph.SerializeToString() + b"\x2a" + bytes([len(forged)]) + forged
    size = bytes([len(graph) & 127 | 128, len(graph) >> 7])
    path = tmp_path / "pack.tar.zst"
    path.write_bytes(pack_bytes(tiny_pack.pack({EVALUATE: b"\x08\x0a\x42\x04\x0a\x00\x10\x12\x3a" + size + graph})))

    with pytest.raises(PackError, match="'extra' has an element type"):
        use(path)
