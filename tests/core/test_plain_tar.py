"""Tars of plain files: what tarfile writes is read, and no bytes do more than be refused."""

from __future__ import annotations

import io
import tarfile

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.core.tars import tar_of

from auricle.packs.plain_tar import MOST_FILES, Member, NotPlainError, members, parse_header, require_plain

NAMES = st.text("abcdefgh-_.0123456789", min_size=1, max_size=60)
FILES = st.dictionaries(st.tuples(NAMES, NAMES).map("/".join), st.binary(max_size=2000), max_size=5)


def tar(files: dict[str, bytes], form: int = tarfile.USTAR_FORMAT) -> bytes:
    return tar_of(*files.items(), form=form)


def read(data: bytes) -> dict[str, bytes]:
    return {member.name: b"".join(content) for member, content in members(io.BytesIO(data))}


@given(FILES, st.sampled_from([tarfile.USTAR_FORMAT, tarfile.GNU_FORMAT]))
def test_what_tarfile_writes_is_read_as_it_was(files: dict[str, bytes], form: int) -> None:
    data = tar(files, form)
    require_plain(io.BytesIO(data))
    assert read(data) == files


@pytest.mark.parametrize("at", [100, 108, 116, 136, 329, 337], ids=["mode", "uid", "gid", "mtime", "major", "minor"])
def test_a_header_at_which_another_reader_would_stop_is_refused(at: int) -> None:
    data = bytearray(tar({"first": b"x", "hidden": b"y"}))
    header = data[1024:1536]
    header[at : at + 3] = b"9z9"
    header[148:156] = b"%06o\0 " % (sum(header[:148]) + 8 * 0x20 + sum(header[156:]))
    data[1024:1536] = header
    for look in (read, lambda data: require_plain(io.BytesIO(data))):
        with pytest.raises(NotPlainError, match="the header of 'hidden' has a field that is not a number"):
            look(bytes(data))


@given(FILES)
def test_content_that_is_not_taken_is_read_over(files: dict[str, bytes]) -> None:
    assert [member for member, _ in members(io.BytesIO(tar(files)))] == [
        Member(name, len(content)) for name, content in files.items()
    ]


@given(FILES, st.integers(0, 20_000), st.binary(min_size=1, max_size=600))
def test_changed_bytes_are_read_or_refused(files: dict[str, bytes], at: int, other: bytes) -> None:
    data = tar({"first": b"x", **files})
    changed = data[: at % len(data)] + other + data[at % len(data) + len(other) :]
    for look in (read, lambda data: require_plain(io.BytesIO(data))):
        try:
            look(changed)
        except NotPlainError as error:
            assert str(error).isprintable()


@pytest.mark.parametrize("cut", [1, 100, 511, 513, 600, 1023])
def test_a_cut_archive_is_refused(cut: int) -> None:
    data = tar({"a": bytes(700)})[:cut]
    with pytest.raises(NotPlainError):
        read(data)
    with pytest.raises(NotPlainError):
        require_plain(io.BytesIO(data))


def test_files_without_end_are_refused() -> None:
    data = tar({"a": b""})[:512] * (MOST_FILES + 1)
    with pytest.raises(NotPlainError, match="more than 8192 files"):
        for _ in members(io.BytesIO(data)):
            """Read over."""
    with pytest.raises(NotPlainError, match="more than 8192 files"):
        require_plain(io.BytesIO(data))


@pytest.mark.parametrize(
    ("name", "kind", "magic", "prefix"),
    [
        (b"file", b"0", b"ustar  \0", b"above"),
        (b"folder/", b"\0", b"ustar\x0000", b""),
        (b"folder/", b"0", b"ustar  \0", b""),
        (b"file", b"0", b"ustar\x0000", b"above"),
        (b"file", b"\0", b"ustar  \0", b""),
    ],
)
def test_what_is_accepted_is_the_same_file_to_tarfile(name: bytes, kind: bytes, magic: bytes, prefix: bytes) -> None:
    """Who looked at the headers and who unpacks must not see two archives in one."""
    header = bytearray(tar({"x": b""})[:512])
    header[:100], header[156:157], header[257:265], header[345:500] = (
        name.ljust(100, b"\0"),
        kind,
        magic,
        prefix.ljust(155, b"\0"),
    )
    header[148:156] = b" " * 8
    header[148:156] = f"{sum(header):06o}\0 ".encode()
    theirs = tarfile.TarInfo.frombuf(bytes(header), "utf-8", "strict")
    try:
        ours = parse_header(bytes(header))
    except NotPlainError:
        return
    assert ours is not None and (theirs.name, theirs.isreg()) == (ours.name, True)
