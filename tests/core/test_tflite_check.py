"""A `.tflite` is read and checked without trusting it."""

from __future__ import annotations

import hashlib
from functools import cache
from typing import Any

import msgspec
import pytest
from tests.export.tflite_toy import needs_schema, operator_pack

from auricle.checks.pack_checks import checks_of
from auricle.checks.tflite_check import LARGEST_TENSORS, OPERATORS, check_tflite
from auricle.checks.tflite_reader import read_tflite
from auricle.errors import PackError
from auricle.packs.manifest import Buffer, FileEntry, Tflite
from auricle.packs.pack import Pack

needs_schema()

import tflite as schema  # noqa: E402

from auricle_export.tflite import with_tflite  # noqa: E402
from auricle_export.tflite.draft import Draft  # noqa: E402
from auricle_export.tflite.flatbuffer import write  # noqa: E402

FRAMES, MELS, LABELS = 5, 4, 20


@cache
def small(precision: str) -> Pack:
    """One matrix over every frame."""
    base = operator_pack("y = MatMul(x, w)", {"w": (MELS, 4)}, {}, FRAMES, MELS)
    widened = operator_pack("m = MatMul(x, w)\n y = MatMul(m, v)", {"w": (4, 8), "v": (8, 4)}, {}, FRAMES, MELS)
    return with_tflite(widened if precision == "int8" else base, ["net"], [precision])  # type: ignore[list-item]


def with_file(pack: Pack, content: bytes, buffers: tuple[Buffer, ...] | None = None) -> tuple[Pack, Tflite]:
    """The pack with other bytes for its `.tflite`, and a manifest that vouches for them."""
    (old,) = pack.manifest.tflite
    entry = msgspec.structs.replace(old, buffers=old.buffers if buffers is None else buffers)
    file = FileEntry(path=entry.file, bytes=len(content), sha256=hashlib.sha256(content).hexdigest())
    files = tuple(file if known.path == entry.file else known for known in pack.manifest.files)
    manifest = msgspec.structs.replace(pack.manifest, files=files, tflite=(entry,))
    return Pack(manifest, {**pack.files, entry.file: content}), entry


def refused(pack: Pack, draft: Draft, x: int, logits: int, message: str) -> None:
    """What the draft makes of the pack's file is refused with that sentence."""
    for spec in pack.table("net").specs:
        draft.weight(spec, spec.shape)
    changed, entry = with_file(pack, *write(draft, [x], [logits]))
    with pytest.raises(PackError, match=message):
        check_tflite(changed, entry)


def drafted(pack: Pack, shape: tuple[int, ...] = (1, FRAMES, MELS)) -> tuple[Draft, int]:
    """An empty draft with its input."""
    draft = Draft(pack.table("net"), "float32")
    return draft, draft.tensor(shape)


@pytest.mark.parametrize("precision", ["float32", "int8"])
def test_what_export_writes_is_sound(precision: str) -> None:
    pack = small(precision)
    (entry,) = pack.manifest.tflite
    check_tflite(pack, entry)
    assert [check.reason for check in checks_of(pack) if check.kind == "tflite"] == [None]
    assert any(buffer.scale is not None for buffer in entry.buffers) == (precision == "int8")


def test_the_numbers_of_the_operators_are_the_schemas() -> None:
    assert {name: getattr(schema.BuiltinOperator, name) for name in OPERATORS} == OPERATORS


@pytest.mark.parametrize(("code", "number"), [("CUSTOM", 32), ("WHILE", 119), ("VAR_HANDLE", 142), ("DELEGATE", 51)])
def test_other_operators_are_refused(code: str, number: int) -> None:
    pack = small("float32")
    draft, x = drafted(pack)
    refused(pack, draft, x, draft.add(code, [x], (1, LABELS)), f"operator {number}")


def test_a_tensor_of_ten_gigabytes_is_refused() -> None:
    pack = small("float32")
    draft, x = drafted(pack)
    huge = draft.add("ABS", [x], (10, 1 << 28))
    refused(pack, draft, x, draft.add("ABS", [huge], (1, LABELS)), f"{LARGEST_TENSORS >> 20} MiB")


@pytest.mark.parametrize("shape", [(1, FRAMES + 1, MELS), (FRAMES, MELS), (2, FRAMES, MELS)])
def test_another_input_is_refused(shape: tuple[int, ...]) -> None:
    pack = small("float32")
    draft, x = drafted(pack, shape)
    refused(pack, draft, x, draft.add("ABS", [x], (1, LABELS)), "manifest")


def test_a_tensor_of_an_unknown_size_or_type_is_refused() -> None:
    pack = small("float32")
    draft, x = drafted(pack)
    refused(pack, draft, x, draft.add("ABS", [x], (1, -1)), "kind")


def misplaced(pack: Pack, place: int, **changes: Any) -> None:
    """The buffer at that place, changed in the manifest, is refused."""
    (entry,) = pack.manifest.tflite
    buffers = list(entry.buffers)
    buffers[place] = msgspec.structs.replace(buffers[place], **changes)
    changed, moved = with_file(pack, pack.files[entry.file], tuple(buffers))
    with pytest.raises(PackError, match="no such tensor"):
        check_tflite(changed, moved)


def test_a_map_that_points_into_the_files_tables_is_refused() -> None:
    """In the file, over nothing else, but not where the tensor lies."""
    pack = small("float32")
    misplaced(pack, 0, offset=len(pack.files[pack.manifest.tflite[0].file]) - 64)


def test_scales_elsewhere_than_the_files_are_refused() -> None:
    pack = small("int8")
    scales = [buffer.scale for buffer in pack.manifest.tflite[0].buffers]
    place = next(i for i, scale in enumerate(scales) if scale is not None)
    misplaced(pack, place, scale=(scales[place] or 0) + 4)


@pytest.mark.parametrize(
    "content", [b"", b"TFL3", b"\0" * 4096, b"\x08\0\0\0TFL3", b"\xff\xff\xff\x7fTFL3" + b"\0" * 64]
)
def test_what_is_no_model_is_refused(content: bytes) -> None:
    with pytest.raises(PackError, match=r"net is not a \.tflite model: "):
        read_tflite(content, "net")
