"""The update on its way survives, or is nothing; never a part of one."""

from __future__ import annotations

import shutil
import stat
import tempfile
from pathlib import Path
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from auricle.errors import StorageError
from auricle.wire.frames import CHUNK
from auricle.wire.messages import Update
from auricle.wire.tensors import digest
from auricle_edge.fleet.update_delivery import Outbox, Pending


def _pending(body: bytes, **changes: Any) -> Pending:
    values: dict[str, Any] = {"fleet": "home", "device": "kitchen", "boot": "b", "task": "keywords", "round": 3}
    values |= {"attempt": 1, "epoch": 1, "base": "0" * 64, "body": digest(body), "length": len(body)}
    return Pending(Update(**{**values, "codec": "float32", "samples": 4, "loss": 2.5, **changes}), body)


def test_what_was_put_is_read_by_the_next_process(tmp_path: Path) -> None:
    Outbox(tmp_path / "device").put(_pending(b"tensors"))
    assert Outbox(tmp_path / "device").read() == _pending(b"tensors")


def test_a_newer_update_replaces_an_older_and_clearing_forgets_it(tmp_path: Path) -> None:
    outbox = Outbox(tmp_path)
    assert outbox.read() is None
    outbox.put(_pending(b"one"))
    outbox.put(_pending(b"two", round=4))
    kept = outbox.read()
    assert kept is not None and kept.body == b"two"
    for _ in range(2):
        outbox.clear()
        assert outbox.read() is None
    assert list(tmp_path.iterdir()) == []


def test_a_file_cut_at_any_byte_or_with_a_changed_bit_of_the_body_is_no_update(tmp_path: Path) -> None:
    outbox, path = Outbox(tmp_path), tmp_path / "pending.update"
    outbox.put(_pending(b"tensors"))
    whole = path.read_bytes()
    changed = whole[:-3] + bytes([whole[-3] ^ 4]) + whole[-2:]
    for wrong in (*(whole[:length] for length in range(len(whole))), whole + b"x", changed):
        path.write_bytes(wrong)
        assert outbox.read() is None, len(wrong)
    path.write_bytes(whole)
    assert outbox.read() is not None


_HEADER = msgspec.msgpack.encode(_pending(b"x").update)


@given(
    st.binary(max_size=200)
    | st.builds(lambda n, b: len(_HEADER).to_bytes(4, "little") + b[:n] + b, st.integers(0, 9), st.binary())
)
def test_no_file_crashes_the_reader(data: bytes) -> None:
    with tempfile.TemporaryDirectory() as folder:
        (Path(folder) / "pending.update").write_bytes(data)
        assert Outbox(Path(folder)).read() is None


@pytest.mark.parametrize("header", [b"\x91" * 3000, b"\x81\xa1x" * 1000, b"\xdd\xff\xff\xff\xff"])
def test_no_header_crashes_the_reader(tmp_path: Path, header: bytes) -> None:
    (tmp_path / "pending.update").write_bytes(len(header).to_bytes(4, "little") + header)
    assert Outbox(tmp_path).read() is None


@pytest.mark.parametrize(
    ("length", "parts"), [(1, [1]), (CHUNK, [CHUNK]), (CHUNK + 1, [CHUNK, 1]), (2 * CHUNK + 5, [CHUNK, CHUNK, 5])]
)
def test_an_update_travels_in_parts_that_say_which_they_are(length: int, parts: list[int]) -> None:
    body = bytes(i % 251 for i in range(length))
    messages = _pending(body).parts()
    assert [len(piece) for _, piece in messages] == parts
    assert b"".join(piece for _, piece in messages) == body
    assert [(m.part, m.parts, m.length, m.body) for m, _ in messages] == [
        (i, len(parts), length, digest(body)) for i in range(len(parts))
    ]


def test_a_folder_in_the_files_place_is_a_storage_error(tmp_path: Path) -> None:
    (tmp_path / "pending.update").mkdir()
    outbox = Outbox(tmp_path)
    for work, says in (
        (outbox.read, "read"),
        (outbox.clear, "written"),
        (lambda: outbox.put(_pending(b"x")), "written"),
    ):
        with pytest.raises(StorageError, match=says):
            work()


def test_the_folder_may_vanish(tmp_path: Path) -> None:
    outbox = Outbox(tmp_path / "device")
    outbox.put(_pending(b"x"))
    shutil.rmtree(tmp_path / "device")
    assert outbox.read() is None
    outbox.clear()
    outbox.put(_pending(b"y"))
    assert stat.S_ISREG((tmp_path / "device" / "pending.update").stat().st_mode)
