"""Which disks may be written to, on trees as real machines have them, and on this machine."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import pytest
from tests.export.disk_trees import GIB, laptop, raid, raspberry

from auricle_export.flash.write.disks import DiskError, Machine
from auricle_export.flash.write.refusal import refusal

HOMES = [Path("/data/people/anna")]

CASES: list[tuple[Callable[[Path], None], str, str | None]] = [
    (laptop, "nvme0n1", "/dev/nvme0n1 holds the running system (/, /boot/efi): it is never written to."),
    (laptop, "sda", "/dev/sda is in use as swap space: it is not written to."),
    (laptop, "sdb", "/dev/sdb is mounted at /media/anna/my stick: unmount it first (umount, or eject in the desktop)."),
    (laptop, "sdc", None),
    (laptop, "sdd", "/dev/sdd has no medium: put a card in."),
    (laptop, "sr0", "/dev/sr0 is not a disk of its own: name the disk or the card."),
    (laptop, "dm-0", "/dev/dm-0 is not a disk of its own: name the disk or the card."),
    (raspberry, "mmcblk0", "/dev/mmcblk0 holds the running system (/, /boot/firmware): it is never written to."),
    (raspberry, "mmcblk1", None),
    (
        raspberry,
        "mmcblk2",
        "/dev/mmcblk2 (DG4008, 8.0 GiB) is built in, not a card or a USB disk: "
        "give --force-fixed if it is the right one.",
    ),
    (raspberry, "mmcblk2boot0", "/dev/mmcblk2boot0 is not a disk of its own: name the disk or the card."),
    (raspberry, "mmcblk3", "/dev/mmcblk3 is read-only: move the lock of the card, or take another one."),
    (raid, "sda", "/dev/sda holds the running system (/data/people): it is never written to."),
    (raid, "sdb", "/dev/sdb holds the running system (/data/people): it is never written to."),
    (raid, "sdc", "/dev/sdc is part of md1 (encryption, LVM, RAID): it is not written to."),
    (raid, "sdd", "/dev/sdd is part of btrfs (encryption, LVM, RAID): it is not written to."),
]


@pytest.mark.parametrize(("machine", "name", "reason"), CASES, ids=[f"{case[0].__name__}-{case[1]}" for case in CASES])
def test_a_disk_is_refused_for_what_it_is_used_for(
    machine: Callable[[Path], None], name: str, reason: str | None, tmp_path: Path
) -> None:
    machine(tmp_path)

    assert refusal(Machine(tmp_path).disk(name), needed=GIB, homes=HOMES) == reason


@pytest.mark.parametrize(("machine", "name"), [(laptop, "nvme0n1"), (laptop, "sda"), (laptop, "sdb"), (raid, "sdc")])
def test_nothing_forces_a_disk_in_use(machine: Callable[[Path], None], name: str, tmp_path: Path) -> None:
    machine(tmp_path)
    disk = Machine(tmp_path).disk(name)

    assert refusal(disk, fixed_allowed=True) == refusal(disk) is not None


def test_a_disk_that_is_built_in_is_written_to_when_that_is_forced(tmp_path: Path) -> None:
    raspberry(tmp_path)

    assert refusal(Machine(tmp_path).disk("mmcblk2"), fixed_allowed=True) is None


def test_a_card_takes_an_image_of_its_size_and_not_a_byte_more(tmp_path: Path) -> None:
    raspberry(tmp_path)
    card = Machine(tmp_path).disk("mmcblk1")

    assert refusal(card, needed=16 * GIB) is None
    assert refusal(card, needed=16 * GIB + 1) == (
        "/dev/mmcblk1 has 17,179,869,184 bytes and the image needs 17,179,869,185: take a larger one."
    )


def test_a_disk_is_described_without_what_a_terminal_would_obey(tmp_path: Path) -> None:
    laptop(tmp_path)
    reader = Machine(tmp_path).disk("sdc")

    assert (reader.device, reader.model, reader.bus, reader.size) == ("/dev/sdc", "Generic- SD/MMC[2J", "usb", 31 * GIB)
    assert reader.partitions == ("/dev/sdc1",)
    assert (reader.removable, reader.sequence, reader.block) == (True, 7, 512)


def test_the_list_leaves_out_empty_readers_and_what_is_built_of_others(tmp_path: Path) -> None:
    laptop(tmp_path)

    listed = [disk.device for disk in Machine(tmp_path).disks()]

    assert listed == ["/dev/nvme0n1", "/dev/sda", "/dev/sdb", "/dev/sdc", "/dev/sr0"]


def test_a_partition_is_refused_and_its_disk_named(tmp_path: Path) -> None:
    raspberry(tmp_path)

    with pytest.raises(DiskError, match="is a partition of /dev/mmcblk0: an image goes on the whole disk"):
        Machine(tmp_path).numbered("179:1", "/dev/mmcblk0p1")
    with pytest.raises(DiskError, match="The kernel lists no disk"):
        Machine(tmp_path).numbered("8:99", "/dev/sdx")


def test_what_is_no_block_device_is_refused(tmp_path: Path) -> None:
    (tmp_path / "file").touch()

    with pytest.raises(DiskError, match="is not a block device"):
        Machine().at(tmp_path / "file")
    with pytest.raises(DiskError, match="There is no"):
        Machine().at(tmp_path / "nothing")


def test_the_disk_that_this_machine_runs_from_is_refused() -> None:
    device = Path("/").stat().st_dev
    try:
        disk = Machine().numbered(f"{os.major(device)}:{os.minor(device)}", "/")
    except DiskError:
        pytest.skip("/ is on no whole disk of this machine")

    assert "holds the running system" in str(refusal(disk, fixed_allowed=True))
