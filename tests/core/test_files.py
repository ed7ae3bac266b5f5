"""Files are whole or absent."""

from __future__ import annotations

import errno
import os
import stat
import subprocess
import sys
from pathlib import Path

import pytest

from auricle.errors import StorageError
from auricle.files import describe, write_durably


def test_a_file_is_written_with_its_folders_and_mode(tmp_path: Path) -> None:
    path = tmp_path / "a" / "b" / "file"
    write_durably(path, b"one", mode=0o600)
    write_durably(path, b"two", mode=0o600)
    assert path.read_bytes() == b"two"
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert [p.name for p in path.parent.iterdir()] == ["file"]


@pytest.mark.parametrize("failing", ["fsync", "replace"])
def test_a_failed_write_leaves_the_old_content_alone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, failing: str
) -> None:
    path = tmp_path / "file"
    write_durably(path, b"old")

    def full(*_: object) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(*((os, "fsync") if failing == "fsync" else (Path, "replace")), full)
    with pytest.raises(StorageError, match=f"The disk that holds {path} is full"):
        write_durably(path, b"new")
    assert path.read_bytes() == b"old"
    assert list(tmp_path.iterdir()) == [path]


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="this system has no /dev/full")
def test_a_really_full_disk_is_said_in_one_sentence() -> None:
    with pytest.raises(OSError) as caught, Path("/dev/full").open("wb", buffering=0) as file:
        file.write(b"x")
    assert "free some space" in describe(caught.value, Path("/dev/full"))


def test_a_file_where_a_folder_should_be_is_a_storage_error(tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(b"")
    with pytest.raises(StorageError, match="cannot be written"):
        write_durably(tmp_path / "file" / "below", b"x")


def test_a_reader_never_sees_a_part_of_a_file(tmp_path: Path) -> None:
    """Replace a file many times while another process reads it."""
    path = tmp_path / "file"
    write_durably(path, b"0" * 100_000)
    code = f"""
import pathlib
seen = set()
while seen != {{48, 57}}:
    data = pathlib.Path({str(path)!r}).read_bytes()
    assert len(data) == 100_000 and len(set(data)) == 1, (len(data), set(data))
    seen |= {{48}} if data[0] == 48 else {{data[0]}} & {{57}}
"""
    with subprocess.Popen([sys.executable, "-c", code]) as reader:
        turn = 0
        while reader.poll() is None:
            write_durably(path, (b"0", b"9")[turn % 2] * 100_000)
            turn += 1
    assert reader.returncode == 0
