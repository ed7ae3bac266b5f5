"""Images, raw and packed: how large they are, and what is none."""

from __future__ import annotations

import bz2
import gzip
import io
import lzma
import shutil
import subprocess
from contextlib import suppress
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.export.written_cards import image_bytes

from auricle.errors import DataError
from auricle_export.flash.write.image import open_image, unpacked_size


@given(st.lists(st.binary(max_size=5000), min_size=1, max_size=4))
@settings(max_examples=20)
def test_the_index_tells_what_all_streams_unpack_to(parts: list[bytes]) -> None:
    packed = b"".join(lzma.compress(part, preset=0) for part in parts)

    assert unpacked_size(io.BytesIO(packed)) == len(b"".join(parts)) == len(lzma.decompress(packed))


def test_padding_is_refused_because_it_would_not_be_unpacked() -> None:
    with pytest.raises(lzma.LZMAError, match="it is cut off"):
        unpacked_size(io.BytesIO(lzma.compress(b"one") + bytes(4)))


@pytest.mark.skipif(shutil.which("xz") is None, reason="xz is not installed")
def test_the_index_of_many_blocks_is_read(tmp_path: Path) -> None:
    (tmp_path / "card.img").write_bytes(image_bytes(3_000_000))
    subprocess.run(["xz", "-0", "--block-size=65536", str(tmp_path / "card.img")], check=True)

    assert open_image(tmp_path / "card.img.xz").size == 3_000_000


@given(st.data())
@settings(max_examples=60)
def test_a_damaged_end_is_told(data: st.DataObject) -> None:
    packed = bytearray(lzma.compress(b"\x00" * 3000))
    whole = unpacked_size(io.BytesIO(packed))
    place = data.draw(st.integers(len(packed) - 24, len(packed) - 1))
    packed[place] ^= data.draw(st.integers(1, 255))

    with suppress(lzma.LZMAError):
        assert unpacked_size(io.BytesIO(packed)) == whole


@pytest.mark.parametrize("cut", [1, 4, 12, 13, 40])
def test_a_packed_image_that_is_cut_off_is_refused(cut: int, tmp_path: Path) -> None:
    (tmp_path / "card.img.xz").write_bytes(lzma.compress(image_bytes(100_000))[:-cut])

    with pytest.raises(DataError, match=r"card\.img\.xz cannot be read .* fetch it again"):
        open_image(tmp_path / "card.img.xz")


@pytest.mark.parametrize(
    ("content", "reason"),
    [
        (gzip.compress(b"x"), "packed by gzip"),
        (bz2.compress(b"x"), "packed by bzip2"),
        (b"PK\x03\x04", "packed by zip"),
        (b"<html>404</html>" * 100, "first sector is not a boot sector"),
        (lzma.compress(b"\x00" * 1024), "first sector is not a boot sector"),
        (b"", "first sector is not a boot sector"),
    ],
    ids=["gzip", "bzip2", "zip", "page", "zeros", "empty"],
)
def test_what_is_no_image_is_refused(content: bytes, reason: str, tmp_path: Path) -> None:
    (tmp_path / "card.img").write_bytes(content)

    with pytest.raises(DataError, match=reason):
        open_image(tmp_path / "card.img")


def test_a_folder_or_a_device_is_no_image(tmp_path: Path) -> None:
    for place, told in (
        (tmp_path, "is a folder"),
        (Path("/dev/null"), "the image comes first, then the disk"),
        (tmp_path / "none", "There is no image"),
    ):
        with pytest.raises(DataError, match=told):
            open_image(place)
