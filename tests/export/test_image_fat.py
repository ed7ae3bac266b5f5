"""The FAT writer, read back by itself, by mtools and by fsck.vfat; and where an image's boot partition is found."""

from __future__ import annotations

import io
import random
import shutil
import struct
import subprocess
import zlib
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.export.image_base import START, base_image, formatted, whole

from auricle_export.flash.image import fat_names
from auricle_export.flash.image.fat import Fat
from auricle_export.flash.image.fat_writer import FatWriter
from auricle_export.flash.image.partitions import ImageError, Partition, boot_partition, partitions, root_partition

TOOLS = pytest.mark.skipif(
    not all(shutil.which(tool, path="/usr/bin:/usr/sbin:/sbin") for tool in ("mtype", "fsck.vfat", "mkfs.vfat")),
    reason="mtools and dosfstools are not installed",
)
NAME = st.from_regex(r"\A[A-Za-z0-9_+,;=\[\]-]{1,20}(\.[A-Za-z0-9_]{1,6})?\Z").filter(fat_names.is_valid_name)
PATH = st.lists(NAME, min_size=1, max_size=3).map("/".join)


def opened(bits: int, clusters: int) -> tuple[io.BytesIO, FatWriter]:
    content = formatted(bits, clusters)
    file = io.BytesIO(content)
    return file, FatWriter(file, Partition(1, 0, len(content), True), "a test")


def again(file: io.BytesIO) -> Fat:
    return Fat(file, Partition(1, 0, len(file.getvalue()), True), "a test")


@pytest.mark.parametrize("bits", [16, 32])
def test_files_and_folders_are_read_back_and_the_tables_agree(bits: int) -> None:
    file, fat = opened(bits, 5000 if bits == 16 else 66_000)
    rng = random.Random(1)
    names = ["user-data", "A", "auricle/a name that is long enough to take many entries.conf", "a/b/c/x"]
    files = {f"{name}-{number}": rng.randbytes(rng.randrange(4000)) for number in range(12) for name in names}
    files |= {f"folder/file number {number}": b"%d" % number for number in range(100)}

    for name, content in files.items():
        fat.write(name, content)
    fat.finish()

    read = again(file)
    read.check()
    assert {name: read.read(name) for name in files} == files  # the folder of a hundred files grew by clusters
    assert read.names("a") == [".", "..", "b"]
    assert read.find("AURICLE") is not None
    assert read.read("auricle/none") is None


@settings(max_examples=25)
@given(st.lists(st.tuples(PATH, st.integers(0, 3000)), max_size=20))
def test_it_keeps_what_a_dictionary_would(writes: list[tuple[str, int]]) -> None:
    file, fat = opened(16, 4200)
    kept: dict[str, bytes] = {}
    for path, size in writes:
        content = random.Random(size).randbytes(size)
        try:
            fat.write(path, content)
        except ImageError:
            continue
        kept = {name: old for name, old in kept.items() if name.upper() != path.upper()} | {path: content}
    fat.finish()

    read = again(file)
    read.check()
    assert {name: read.read(name) for name in kept} == kept


def test_a_file_that_is_replaced_keeps_its_name_and_gives_its_room_back() -> None:
    file, fat = opened(32, 66_000)
    fat.write("Config.txt", b"x" * 10_000)
    free = fat.free
    fat.write("CONFIG.TXT", b"y" * 100)
    assert fat.free == free + 19 * 512
    for name in ("", "a:b", "a\\b", "x.", ".", "..", " x", "é", "a" * 256, "a\nb"):
        with pytest.raises(ImageError, match=r"name|folder"):
            fat.write(name, b"x")
    fat.finish()

    read = again(file)
    read.check()
    assert (read.names(), read.read("config.txt")) == (["Config.txt"], b"y" * 100)


def test_short_names_are_told_apart() -> None:
    taken: set[bytes] = set()
    for name in ("network-config", "network-other", "network", ".profile"):
        taken.add(fat_names.short(name, taken))
    assert taken == {b"NETWOR~1   ", b"NETWOR~2   ", b"NETWOR~3   ", b"PROFIL~1   "}
    assert (fat_names.exact("KERNEL8.IMG"), fat_names.exact("cmdline.txt")) == (b"KERNEL8 IMG", None)
    names = [fat_names.readable(b"CMDLINE TXT", case) for case in (0, 8, 16, 24)]
    assert names == ["CMDLINE.TXT", "cmdline.TXT", "CMDLINE.txt", "cmdline.txt"]


def test_no_room_is_said_with_both_sizes_and_a_root_folder_of_fat16_is_full_some_day() -> None:
    _, fat = opened(16, 4200)
    with pytest.raises(ImageError, match=r"3000 KiB .* 2100 KiB"):
        fat.write("big", bytes(3000 << 10))
    with pytest.raises(ImageError, match="no place"):
        for number in range(120):
            fat.write(f"a name of which each takes five entries {number:04}", b"")


def test_the_check_finds_tables_that_differ_shared_clusters_and_wrong_counts() -> None:
    file, fat = opened(32, 66_000)
    fat.write("ONE", b"1" * 2000)
    fat.write("TWO", b"2" * 2000)
    fat.finish()
    content = file.getbuffer()
    table, two = (bytes(content[: 2 << 20]).index(sought) for sought in (b"\xf8\xff\xff\x0f", b"TWO        "))
    partition = Partition(1, 0, len(content), True)

    def told(at: int, change: bytes) -> str:
        sound = bytes(content[at : at + len(change)])
        content[at : at + len(change)] = change
        with pytest.raises(ImageError) as raised:
            Fat(file, partition, "a test").check()
        content[at : at + len(change)] = sound
        return str(raised.value)

    assert "differ" in told(table + 4 * 60_000, b"\1")
    assert "free clusters" in told(512 + 488, struct.pack("<I", 7))
    assert "shares clusters" in told(two + 26, struct.pack("<H", 3))
    assert "fewer clusters" in told(two + 28, struct.pack("<I", 1 << 20))


def test_what_is_no_fat_or_a_broken_one_is_a_sentence() -> None:
    sound = formatted(16, 4200)

    for at, change, told in (
        (11, b"\0\0", "holds no FAT"),
        (510, b"\0\0", "holds no FAT"),
        (32, b"\xff\xff\xff\x7f", "damaged"),
        (22, b"\1\0", "damaged"),
        (13, b"\2", "FAT12"),
    ):
        broken = bytearray(sound)
        broken[at : at + len(change)] = change
        with pytest.raises(ImageError, match=told):
            Fat(io.BytesIO(bytes(broken)), Partition(1, 0, len(broken), True), "a test")


@TOOLS
@pytest.mark.parametrize(("bits", "sectors", "per_cluster"), [(16, 16 << 11, 1), (16, 64 << 11, 4), (32, 40 << 11, 1)])
def test_mtools_and_fsck_read_the_same(bits: int, sectors: int, per_cluster: int, tmp_path: Path) -> None:
    place = tmp_path / "fat.img"
    with place.open("wb") as file:
        file.truncate(sectors * 512)
    make = ["mkfs.vfat", "-F", str(bits), "-s", str(per_cluster), "-n", "BOOTFS", str(place)]
    subprocess.run(make, check=True, capture_output=True, env={"PATH": "/usr/sbin:/sbin:/usr/bin"})
    subprocess.run(["mcopy", "-i", place, "-", "::cmdline.txt"], input=b"old", check=True)
    files = {"cmdline.txt": b"new " * 600, "user-data": b"#cloud", "auricle/bundle.tar": bytes(range(256)) * 4000}

    with place.open("r+b") as file:
        fat = FatWriter(file, whole(place), "a test")
        for name, content in files.items():
            fat.write(name, content)
        fat.finish()

    for name, content in files.items():
        assert subprocess.run(["mtype", "-i", place, f"::{name}"], capture_output=True, check=True).stdout == content
    listed = subprocess.run(["mdir", "-b", "-i", place, "-/", "::"], capture_output=True, text=True, check=True).stdout
    assert listed.split() == ["::/cmdline.txt", "::/user-data", "::/auricle/", "::/auricle/bundle.tar"]
    check = ["fsck.vfat", "-n", place]
    checked = subprocess.run(check, capture_output=True, text=True, env={"PATH": "/usr/sbin:/sbin"})
    assert checked.returncode == 0, checked.stdout


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
    [(510, b"\0\0", "partition table"), (446 + 4, b"\x83", "FAT"), (446 + 12, b"\xff\xff\xff\x0f", "end")]
    + [(at, b"\x7e", "damaged") for at in (512, 512 + 40, 512 + 72, 512 + 80, 1024 + 33)],
)
def test_what_is_wrong_with_a_table_is_a_sentence(at: int, change: bytes, told: str, tmp_path: Path) -> None:
    path = base_image(tmp_path / "base.img", gpt=told == "damaged")
    _change(path, at, change)
    with path.open("rb") as file, pytest.raises(ImageError, match=told):
        boot_partition(file, path.name)
    path.write_bytes(path.read_bytes()[:300])
    with path.open("rb") as file, pytest.raises(ImageError, match="whole card"):
        boot_partition(file, path.name)


@pytest.mark.parametrize("where", [1 << 20, 1 << 54, 1 << 63], ids=["behind the end", "too far to seek", "farther"])
def test_a_gpt_with_its_list_behind_the_end_is_refused(where: int, tmp_path: Path) -> None:
    path = base_image(tmp_path / "base.img", gpt=True)
    header = bytearray(path.read_bytes()[512 : 512 + 92])
    struct.pack_into("<Q", header, 72, where)
    struct.pack_into("<I", header, 16, 0)
    struct.pack_into("<I", header, 16, zlib.crc32(header))
    _change(path, 512, bytes(header))

    with path.open("rb") as file, pytest.raises(ImageError, match="damaged"):
        boot_partition(file, path.name)


def _change(path: Path, at: int, change: bytes) -> None:
    content = bytearray(path.read_bytes())
    content[at : at + len(change)] = change
    path.write_bytes(bytes(content))
