"""Which disks may be written to, on trees as real machines have them; and images, how large and what is none."""

from __future__ import annotations

import bz2
import gzip
import io
import lzma
import os
import shutil
import subprocess
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.export.disk_trees import GIB, laptop, raid, raspberry
from tests.export.written_cards import image_bytes

from auricle.errors import DataError
from auricle_export.flash.write.disks import DiskError, Machine
from auricle_export.flash.write.image import measure_unpacked, open_image
from auricle_export.flash.write.refusal import refusal

HOMES = [Path("/data/people/anna")]

NOT_OF_ITS_OWN = "disk of its own"
CASES: list[tuple[Callable[[Path], None], str, str]] = [
    (laptop, "nvme0n1", "running system (/, /boot/efi)"),
    (laptop, "sda", "swap"),
    (laptop, "sdb", "/media/anna/my stick"),
    (laptop, "sdc", ""),
    (laptop, "sdd", "medium"),
    (laptop, "sr0", NOT_OF_ITS_OWN),
    (laptop, "dm-0", NOT_OF_ITS_OWN),
    (raspberry, "mmcblk0", "running system (/, /boot/firmware)"),
    (raspberry, "mmcblk1", ""),
    (raspberry, "mmcblk2", "--force-fixed"),
    (raspberry, "mmcblk2boot0", NOT_OF_ITS_OWN),
    (raspberry, "mmcblk3", "read-only"),
    (raid, "sda", "running system (/data/people)"),
    (raid, "sdb", "running system (/data/people)"),
    (raid, "sdc", "part of md1"),
    (raid, "sdd", "part of btrfs"),
]


@pytest.mark.parametrize(("machine", "name", "reason"), CASES, ids=[f"{case[0].__name__}-{case[1]}" for case in CASES])
def test_a_disk_is_refused_for_its_use(machine: Callable[[Path], None], name: str, reason: str, tmp_path: Path) -> None:
    machine(tmp_path)
    told = refusal(Machine(tmp_path).disk(name), needed=GIB, homes=HOMES)
    assert (told is None) is (reason == "")
    assert reason in (told or "")
    if any(part in reason for part in ("running", "swap", "/media", "part of")):  # nothing forces a disk in use
        assert refusal(Machine(tmp_path).disk(name), needed=GIB, homes=HOMES, fixed_allowed=True) == told


def test_a_card_takes_an_image_of_its_size_and_not_a_byte_more(tmp_path: Path) -> None:
    raspberry(tmp_path)
    card = Machine(tmp_path).disk("mmcblk1")
    assert refusal(card, needed=16 * GIB) is None
    assert "17,179,869,185" in str(refusal(card, needed=16 * GIB + 1))
    assert refusal(Machine(tmp_path).disk("mmcblk2"), fixed_allowed=True) is None


def test_a_disk_is_described_without_what_a_terminal_would_obey(tmp_path: Path) -> None:
    laptop(tmp_path)
    reader = Machine(tmp_path).disk("sdc")

    assert (reader.device, reader.model, reader.bus, reader.size) == ("/dev/sdc", "Generic- SD/MMC[2J", "usb", 31 * GIB)
    assert reader.partitions == ("/dev/sdc1",)
    assert (reader.removable, reader.sequence, reader.block) == (True, 7, 512)
    # The list leaves out empty readers and what is built of others.
    listed = [f"/dev/{name}" for name in ("nvme0n1", "sda", "sdb", "sdc", "sr0")]
    assert [disk.device for disk in Machine(tmp_path).disks()] == listed


def test_a_partition_is_refused_and_its_disk_named_and_so_is_what_is_no_block_device(tmp_path: Path) -> None:
    raspberry(tmp_path)
    with pytest.raises(DiskError, match="/dev/mmcblk0: "):
        Machine(tmp_path).numbered("179:1", "/dev/mmcblk0p1")
    with pytest.raises(DiskError, match="kernel"):
        Machine(tmp_path).numbered("8:99", "/dev/sdx")
    (tmp_path / "file").touch()
    with pytest.raises(DiskError, match="block device"):
        Machine().at(tmp_path / "file")
    with pytest.raises(DiskError, match="no"):
        Machine().at(tmp_path / "nothing")


def test_the_disk_that_this_machine_runs_from_is_refused() -> None:
    device = Path("/").stat().st_dev
    try:
        disk = Machine().numbered(f"{os.major(device)}:{os.minor(device)}", "/")
    except DiskError:
        pytest.skip("/ is on no whole disk of this machine")
    assert "holds the running system" in str(refusal(disk, fixed_allowed=True))


@given(st.lists(st.binary(max_size=5000), min_size=1, max_size=4))
@settings(max_examples=20)
def test_the_index_tells_what_all_streams_unpack_to(parts: list[bytes]) -> None:
    packed = b"".join(lzma.compress(part, preset=0) for part in parts)
    assert measure_unpacked(io.BytesIO(packed)) == len(b"".join(parts)) == len(lzma.decompress(packed))
    with pytest.raises(lzma.LZMAError, match="cut off"):  # padding would not be unpacked
        measure_unpacked(io.BytesIO(packed + bytes(4)))


@pytest.mark.skipif(shutil.which("xz") is None, reason="xz is not installed")
def test_the_index_of_many_blocks_is_read(tmp_path: Path) -> None:
    (tmp_path / "card.img").write_bytes(image_bytes(3_000_000))
    subprocess.run(["xz", "-0", "--block-size=65536", str(tmp_path / "card.img")], check=True)
    assert open_image(tmp_path / "card.img.xz").size == 3_000_000


@given(st.data())
@settings(max_examples=60)
def test_a_damaged_end_is_told(data: st.DataObject) -> None:
    packed = bytearray(lzma.compress(b"\x00" * 3000))
    whole = measure_unpacked(io.BytesIO(packed))
    place = data.draw(st.integers(len(packed) - 24, len(packed) - 1))
    packed[place] ^= data.draw(st.integers(1, 255))
    with suppress(lzma.LZMAError):
        assert measure_unpacked(io.BytesIO(packed)) == whole


@pytest.mark.parametrize("cut", [1, 4, 12, 13, 40])
def test_a_packed_image_that_is_cut_off_is_refused(cut: int, tmp_path: Path) -> None:
    (tmp_path / "card.img.xz").write_bytes(lzma.compress(image_bytes(100_000))[:-cut])
    with pytest.raises(DataError, match="again"):
        open_image(tmp_path / "card.img.xz")


@pytest.mark.parametrize(
    ("content", "reason"),
    [
        (gzip.compress(b"x"), "packed by gzip"),
        (bz2.compress(b"x"), "packed by bzip2"),
        (b"PK\x03\x04", "packed by zip"),
        (b"<html>404</html>" * 100, "boot sector"),
        (lzma.compress(b"\x00" * 1024), "boot sector"),
        (b"", "boot sector"),
    ],
    ids=["gzip", "bzip2", "zip", "page", "zeros", "empty"],
)
def test_what_is_no_image_is_refused(content: bytes, reason: str, tmp_path: Path) -> None:
    (tmp_path / "card.img").write_bytes(content)
    with pytest.raises(DataError, match=reason):
        open_image(tmp_path / "card.img")
    for place, told in ((tmp_path, "folder"), (Path("/dev/null"), "disk"), (tmp_path / "none", "no image")):
        with pytest.raises(DataError, match=told):
            open_image(place)
