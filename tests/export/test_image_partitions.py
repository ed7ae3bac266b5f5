"""Where an image's boot partition is found."""

from __future__ import annotations

import struct
import zlib
from pathlib import Path

import pytest
from tests.export.image_base import START, base_image

from auricle_export.flash.image.partitions import ImageError, boot_partition, partitions, root_partition


@pytest.mark.parametrize("gpt", [False, True], ids=["master boot record", "gpt"])
def test_the_boot_partition_is_found(gpt: bool, tmp_path: Path) -> None:
    path = base_image(tmp_path / "base.img", gpt=gpt)

    with path.open("rb") as file:
        boot, root = boot_partition(file, path.name), root_partition(file, path.name)
        found = partitions(file, path.name)

    assert [boot, root] == found
    assert (boot.number, boot.start, root.number, root.fat) == (1, START * 512, 2, False)
    assert root.start == boot.start + boot.size


@pytest.mark.parametrize(
    ("at", "change", "told"),
    [
        (510, b"\0\0", "has no partition table"),
        (446 + 4, b"\x83", "has no FAT boot partition"),
        (446 + 12, b"\xff\xff\xff\x0f", "reaches beyond its end"),
    ],
    ids=["no signature", "no FAT", "too long"],
)
def test_what_is_wrong_with_a_table_is_a_sentence(at: int, change: bytes, told: str, tmp_path: Path) -> None:
    path = base_image(tmp_path / "base.img")
    _change(path, at, change)

    with path.open("rb") as file, pytest.raises(ImageError, match=told):
        boot_partition(file, path.name)


@pytest.mark.parametrize("at", [512, 512 + 40, 512 + 72, 512 + 80, 1024 + 33], ids=str)
def test_a_damaged_gpt_is_noticed_by_its_checksums(at: int, tmp_path: Path) -> None:
    path = base_image(tmp_path / "base.img", gpt=True)
    _change(path, at, b"\x7e")

    with path.open("rb") as file, pytest.raises(ImageError, match=r"GPT of base\.img is damaged"):
        boot_partition(file, path.name)


@pytest.mark.parametrize("where", [1 << 20, 1 << 54, 1 << 63], ids=["behind the end", "too far to seek", "farther"])
def test_a_gpt_with_its_list_behind_the_end_is_refused(where: int, tmp_path: Path) -> None:
    path = base_image(tmp_path / "base.img", gpt=True)
    header = bytearray(path.read_bytes()[512 : 512 + 92])
    struct.pack_into("<Q", header, 72, where)
    struct.pack_into("<I", header, 16, 0)
    struct.pack_into("<I", header, 16, zlib.crc32(header))
    _change(path, 512, bytes(header))

    with path.open("rb") as file, pytest.raises(ImageError, match=r"GPT of base\.img is damaged"):
        boot_partition(file, path.name)


def test_an_image_of_one_partition_only_is_refused(tmp_path: Path) -> None:
    path = base_image(tmp_path / "base.img")
    path.write_bytes(path.read_bytes()[:300])

    with path.open("rb") as file, pytest.raises(ImageError, match="give the image of a whole card"):
        boot_partition(file, path.name)


def _change(path: Path, at: int, change: bytes) -> None:
    content = bytearray(path.read_bytes())
    content[at : at + len(change)] = change
    path.write_bytes(bytes(content))
