"""What a pack is made of: it comes from anybody."""

from __future__ import annotations

import io
import tarfile
from functools import cache

from backports import zstd

from auricle.checks.graph_check import check_foreign_graph, check_graph
from auricle.checks.onnx_reader import read_model
from auricle.checks.pack_checks import checks_of
from auricle.checks.tflite_check import check_tflite
from auricle.checks.tflite_reader import read_tflite
from auricle.errors import PackError
from auricle.packs.archive import tar_bytes, untar
from auricle.packs.manifest import Manifest, decode_manifest
from auricle.packs.pack import Pack, load_pack, pack_bytes
from auricle.packs.plain_tar import NotPlainError, members, require_plain
from auricle.packs.signature import decode_signature, encode_signature, public_key, sign_manifest
from auricle.packs.start import read_start
from auricle.wire.identity import Identity
from auricle.wire.tensors import TensorTable
from tests.core import tiny_pack
from tests.core.tars import tar_of
from tests.core.test_tflite_check import small, with_file
from tests.fuzz.scratch import written
from tests.fuzz.target import target


@cache
def tiny() -> Pack:
    """A whole pack of 15 weights, signed."""
    plain = tiny_pack.pack()
    return plain.signed(sign_manifest(Identity(bytes(32)), plain.manifest_bytes))


def _tar() -> bytes:
    return tar_of(("a", b"abc"), ("deep/er/b", b"x" * 600), form=tarfile.USTAR_FORMAT)


def summed(data: bytes) -> bytes:
    """A tar whose headers' checksums are right, as far as headers follow from each other."""
    block, at = bytearray(data), 0
    while at + 512 <= len(block) and any(block[at : at + 512]):
        header = block[at : at + 512]
        total = sum(header[:148]) + 8 * 0x20 + sum(header[156:])
        block[at + 148 : at + 156] = b"%06o\0 " % total
        size = header[124:136].strip(b" \0")
        at += 512 + (-(-int(size, 8) // 512) * 512 if size.isdigit() and not set(size) & set(b"89") else 0)
    return bytes(block)


@target(
    "plain-tar",
    "auricle.packs.plain_tar",
    examples=lambda: {"two-files": _tar()},
    refusals=(NotPlainError,),
    mend=summed,
)
def plain_tar(data: bytes) -> object:
    """An archive of plain files: looked over and read one after the other, with the same answer, and by tarfile too."""
    require_plain(io.BytesIO(data))
    names = [member.name for member, _ in members(io.BytesIO(data))]
    with tarfile.open(fileobj=io.BytesIO(data), mode="r:") if names else io.BytesIO() as archive:
        assert not names or [member.name for member in archive.getmembers()] == [name.rstrip("/") for name in names]
    return len(names)


@target(
    "pack-archive",
    "auricle.packs.archive auricle.packs.plain_tar",
    examples=lambda: {"zst": tar_bytes([("a", b"abc"), ("b/c", b"x" * 3000)])},
    refusals=(PackError,),
)
def pack_archive(data: bytes) -> object:
    """A compressed archive."""
    return len(untar(data, "The archive"))


@target(
    "pack-tar",
    "auricle.packs.archive auricle.packs.plain_tar",
    examples=lambda: {"tar": _tar()},
    refusals=(PackError,),
    mend=summed,
)
def pack_tar(data: bytes) -> object:
    """A tar of anything, rightly compressed."""
    return len(untar(zstd.compress(data, 1), "The archive"))


@target(
    "pack-manifest",
    "auricle.packs.manifest auricle.packs.graph_interface",
    examples=lambda: {"tiny": tiny().manifest_bytes},
    form="json",
    refusals=(PackError,),
)
def pack_manifest(data: bytes) -> object:
    """The file that says what a pack is."""
    return decode_manifest(data, "the pack").format


@target(
    "pack-of-manifest",
    "auricle.packs.pack auricle.packs.interfaces auricle.packs.listening auricle.checks.pack_checks",
    examples=lambda: {"tiny": tiny().manifest_bytes},
    form="json",
    refusals=(PackError,),
    seconds=3.0,
)
def pack_of_manifest(data: bytes) -> object:
    """A pack whose files are right and whose manifest says something else of them; all graphs and weights judged."""
    manifest: Manifest = decode_manifest(data, "the pack")
    pack = Pack(manifest, tiny().files, data)
    return tuple(check.reason is None for check in checks_of(pack))


@target("pack", "auricle.packs.pack", examples=lambda: {"tiny.tar.zst": pack_bytes(tiny())}, refusals=(PackError,))
def pack(data: bytes) -> object:
    """A pack's file, with and without a key that must have signed it."""
    path = written(data, "pack.tar.zst")
    assert load_pack(path).manifest.format
    return load_pack(path, [Identity(bytes(32)).public]).identity


@target(
    "pack-signature",
    "auricle.packs.signature",
    examples=lambda: {"tiny": encode_signature(sign_manifest(Identity(bytes(32)), b"manifest"))},
    form="json",
    refusals=(PackError,),
)
def pack_signature(data: bytes) -> object:
    """Who vouches for a pack."""
    return decode_signature(data, "the pack").vouches(b"manifest")


@target(
    "public-key", "auricle.packs.signature", examples=lambda: {"hex": b"ab" * 32}, form="text", refusals=(PackError,)
)
def public_key_text(data: bytes) -> object:
    """A public key as people give it."""
    return len(public_key(data.decode("utf-8", "replace")))


@target(
    "weights",
    "auricle.packs.start",
    examples=lambda: {"tiny": tiny_pack.weights()},
    refusals=(PackError,),
    tokens=(b'"F16"', b'"F32"', b'"BF16"', b"__metadata__", b"data_offsets"),
)
def weights(data: bytes) -> object:
    """Trained weights, a safetensors file."""
    return read_start(data, TensorTable(tiny_pack.TABLE), "The file").shape


@target(
    "onnx",
    "auricle.checks.onnx_reader auricle.checks.onnx_wire auricle.checks.onnx_fields",
    examples=lambda: {name.rpartition("/")[2]: data for name, data in tiny_pack.files().items() if "onnx" in name},
    form="protobuf",
    refusals=(PackError,),
)
def onnx(data: bytes) -> object:
    """A graph's file, and one of another runtime."""
    model = read_model(data, "The graph")
    check_foreign_graph(data, "The graph", ("com.microsoft",))
    return len(model.nodes)


LITE = ("graphs/crnn-lite.evaluate.onnx", "graphs/crnn-lite.supervised.sgd.onnx")
LARGEST_TINY = 3500
"""Bytes above which a graph is taken for one of the shipped pack's."""


@cache
def _digits() -> Pack:
    return load_pack("digits")


def _graphs() -> dict[str, bytes]:
    files = {**tiny_pack.files(), **{name: _digits().files[name] for name in LITE}}
    return {name.rpartition("/")[2]: files[name] for name in files if "onnx" in name}


@target(
    *("onnx-graph", "auricle.checks.graph_check", "auricle.checks.layout_shapes", "auricle.checks.operator_shapes"),
    *("auricle.checks.window_shapes", "auricle.checks.operator_call"),
    examples=_graphs,
    form="protobuf",
    refusals=(PackError,),
    tokens=(b"Conv", b"Reshape", b"Gather", b"Concat", b"Slice", b"Expand", b"Transpose", b"Pad", b"Split", b"Tile"),
)
def onnx_graph(data: bytes) -> object:
    """A graph's file, followed through with the shapes of its pack."""
    held, file = tiny(), tiny_pack.STEP if b"momentum" in data else tiny_pack.EVALUATE
    if len(data) > LARGEST_TINY:
        held, file = _digits(), LITE[len(data) > 16_000]
    entry = next(graph for graph in held.manifest.graphs if graph.file == file)
    check_graph(_Changed(held, {file: data}), entry)  # type: ignore[arg-type]
    return file


class _Changed:
    """A pack of which some files are others: what `check_graph` looks at."""

    def __init__(self, pack: Pack, files: dict[str, bytes]) -> None:
        self._pack, self.files = pack, files

    def __getattr__(self, name: str) -> object:
        return getattr(self._pack, name)


@cache
def _tflite() -> Pack:
    return small("float32")


@target(
    "tflite",
    "auricle.checks.tflite_reader auricle.checks.tflite_check auricle.checks.tflite_weights",
    examples=lambda: {"small": _tflite().files[_tflite().manifest.tflite[0].file]},
    refusals=(PackError,),
    tokens=(b"TFL3",),
)
def tflite(data: bytes) -> object:
    """A model of another runtime, a flatbuffer, with a manifest that vouches for it."""
    found = len(read_tflite(data, "The file").tensors)
    changed, entry = with_file(_tflite(), data)
    check_tflite(changed, entry)
    return found
