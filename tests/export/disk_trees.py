"""Trees of /sys/block and /proc as real machines have them: a laptop, a Raspberry Pi, a machine with RAID."""

from __future__ import annotations

from pathlib import Path
from typing import Any

GIB = 1 << 30


def disk(
    root: Path, place: str, *, number: str, size: int, removable: bool = False, read_only: bool = False, **device: str
) -> Path:
    """Add a disk at `place` under /sys/devices, linked from /sys/block; `device` are files of its device folder."""
    folder = root / "sys/devices" / place
    files = {"dev": number, "size": str(size // 512), "removable": str(int(removable)), "ro": str(int(read_only))}
    files |= {"hidden": "0", "diskseq": "7", "queue/logical_block_size": "512"}
    for name, text in (files | {f"device/{name}": text for name, text in device.items()}).items():
        _file(folder / name, text)
    (folder / "holders").mkdir()
    block = root / "sys/block"
    block.mkdir(parents=True, exist_ok=True)
    (block / folder.name).symlink_to(folder)
    return folder


def part(folder: Path, name: str, number: str) -> Path:
    made = folder / name
    _file(made / "dev", number)
    _file(made / "partition", name[len(folder.name) :].lstrip("p"))
    (made / "holders").mkdir()
    return made


def held(folder: Path, by: Path) -> None:
    """Say that a disk or partition is part of another one."""
    (folder / "holders" / by.name).symlink_to(by)


def mounts(root: Path, *lines: str, swaps: str = "") -> None:
    """Write /proc/self/mountinfo, each line "number point type source", and /proc/swaps."""
    rows = [line.split() for line in lines]
    text = "".join(
        f"{21 + turn} 1 {number} / {point} rw,relatime shared:{turn} - {kind} {source} rw\n"
        for turn, (number, point, kind, source) in enumerate(rows)
    )
    _file(root / "proc/self/mountinfo", text)
    _file(root / "proc/swaps", "Filename\t\t\t\tType\t\tSize\tUsed\tPriority\n" + swaps)


def _file(path: Path, text: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text + ("" if text.endswith("\n") else "\n"))


def laptop(root: Path) -> None:
    """An NVMe disk with an encrypted btrfs, swap on a second disk, a card reader, a USB stick that is mounted."""
    nvme = disk(root, "pci0000:00/0000:01:00.0/nvme/nvme0/nvme0n1", number="259:0", size=512 * GIB, model="WD SN770")
    part(nvme, "nvme0n1p1", "259:1")
    crypt = part(nvme, "nvme0n1p2", "259:2")
    luks = disk(root, "virtual/block/dm-0", number="254:0", size=500 * GIB)
    _file(luks / "dm/name", "luks-root")
    held(crypt, luks)
    _file(root / "sys/fs/btrfs/0b9c/devices/dm-0/dev", "254:0")
    bus = "pci0000:00/0000:00:17.0/ata2/host1/target1:0:0/1:0:0:0/block/sda"
    sata = disk(root, bus, number="8:0", size=1000 * GIB, vendor="ATA     ", model="ST1000LM035-1RK1")
    part(sata, "sda1", "8:1")
    bus = "pci0000:00/0000:00:14.0/usb2/2-1/2-1:1.0/host2/target2:0:0/2:0:0:0/block/sdb"
    model = "DataTraveler 3.0"
    stick = disk(root, bus, number="8:16", size=32 * GIB, removable=True, vendor="Kingston", model=model)
    part(stick, "sdb1", "8:17")
    bus = "pci0000:00/0000:00:14.0/usb2/2-2/2-2:1.0/host3/target3:0:0/3:0:0"
    more: dict[str, Any] = {"removable": True, "vendor": "Generic-"}
    reader = disk(root, f"{bus}:0/block/sdc", number="8:32", size=31 * GIB, model="SD/MMC\x1b[2J", **more)
    part(reader, "sdc1", "8:33")
    disk(root, f"{bus}:1/block/sdd", number="8:48", size=0, model="Compact Flash", **more)
    disk(root, "pci0000:00/0000:00:17.0/ata3/host4/target4:0:0/4:0:0:0/block/sr0", number="11:0", size=4 * GIB)
    mounts(
        root,
        "0:23 / btrfs /dev/mapper/luks-root",
        "259:1 /boot/efi vfat /dev/nvme0n1p1",
        "8:17 /media/anna/my\\040stick vfat /dev/sdb1",
        swaps="/dev/sda1                               partition\t8388604\t\t0\t\t-2\n",
    )


def raspberry(root: Path) -> None:
    """A Raspberry Pi that runs from its card, with a card in a second slot, eMMC beside it, and a locked card."""
    slot = "platform/soc/{0}000000000.mmc/mmc_host/mmc{0}/mmc{0}:0001/block"
    card = disk(root, f"{slot.format(0)}/mmcblk0", number="179:0", size=32 * GIB, name="SC32G", type="SD")
    part(card, "mmcblk0p1", "179:1")
    part(card, "mmcblk0p2", "179:2")
    other: dict[str, Any] = {"size": 16 * GIB, "name": "EB1QT", "type": "SD"}
    disk(root, f"{slot.format(1)}/mmcblk1", number="179:32", **other)
    disk(root, f"{slot.format(2)}/mmcblk2", number="179:64", size=8 * GIB, name="DG4008", type="MMC")
    disk(root, f"{slot.format(2)}/mmcblk2boot0", number="179:96", size=1 << 22)
    disk(root, f"{slot.format(3)}/mmcblk3", number="179:128", read_only=True, **other)
    mounts(root, "179:2 / ext4 /dev/mmcblk0p2", "179:1 /boot/firmware vfat /dev/mmcblk0p1")


def raid(root: Path) -> None:
    """Two USB disks in a RAID that is mounted as a home, one in a RAID that is not, and one of a btrfs of two."""
    array = disk(root, "virtual/block/md0", number="9:0", size=1000 * GIB)
    idle = disk(root, "virtual/block/md1", number="9:1", size=1000 * GIB)
    for turn, (name, above) in enumerate((("sda", array), ("sdb", array), ("sdc", idle), ("sdd", None))):
        usb = (
            f"pci0000:00/0000:00:14.0/usb2/2-{turn}/2-{turn}:1.0/host{turn}/target{turn}:0:0/{turn}:0:0:0/block/{name}"
        )
        made = disk(root, usb, number=f"8:{16 * turn}", size=1000 * GIB, vendor="WD", model="Elements")
        if above is not None:
            held(part(made, f"{name}1", f"8:{16 * turn + 1}"), above)
    _file(root / "sys/fs/btrfs/77aa/devices/sdd/dev", "8:48")
    mounts(root, "9:0 /data/people ext4 /dev/md0", "0:44 /srv/pool btrfs /dev/sdz", "259:2 / ext4 /dev/root")
