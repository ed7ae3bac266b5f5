"""The disks of this machine, from /sys/block and /proc: what each is, and what it is used for."""

from __future__ import annotations

import os
import re
import stat
from collections.abc import Iterator
from pathlib import Path

import msgspec

from auricle.errors import AuricleError

SECTOR_BYTES = 512
"""Bytes; sysfs counts in these whatever the disk's own are."""
OPTICAL = re.compile(r"sr\d+\Z")
OF_EMMC = re.compile(r"mmcblk\d+(boot\d+|rpmb|gp\d+)\Z")


class DiskError(AuricleError):
    """A disk that is not there, or that will not be written to."""


class Disk(msgspec.Struct, frozen=True, kw_only=True):
    """A disk, and what the system uses it for."""

    device: str
    model: str
    bus: str
    """usb, mmc, nvme, sata, virtio, loop, virtual (made of others) or other."""
    size: int
    """Bytes; 0: a reader without a card."""
    block: int
    """Bytes that it writes at once."""
    removable: bool
    """Its medium, or the disk itself, is made to be unplugged."""
    read_only: bool
    sequence: int
    """The kernel's number for this medium; another one in the same slot has another. 0: an old kernel."""
    partitions: tuple[str, ...]
    mounts: tuple[str, ...]
    """Where it, its partitions, or what is built on them are mounted."""
    swap: bool
    holders: tuple[str, ...]
    """What is built on it: LVM, encryption, RAID, a file system of several disks."""


class Machine:
    """A machine's block devices.

    Parameters
    ----------
    root
        Where `sys` and `proc` are.
    """

    def __init__(self, root: Path = Path("/")) -> None:
        self._blocks = root / "sys/block"
        self._btrfs = root / "sys/fs/btrfs"
        self._proc = root / "proc"

    def disks(self) -> Iterator[Disk]:
        """All that hold something and are not built of others, in order of name."""
        names = sorted(path.name for path in _folder(self._blocks))
        found = (self.disk(name) for name in names if _number(self._blocks / name / "hidden") != 1)
        return (disk for disk in found if disk.size and disk.bus not in ("virtual", "loop"))

    def at(self, device: Path) -> Disk:
        """The disk of a device file.

        Raises
        ------
        DiskError
            It is not there, is not a block device, or is a partition of one.
        """
        try:
            facts = device.stat()
        except OSError as error:
            raise DiskError(f"There is no {device}: auricle flash disks lists what can be written to.") from error
        if not stat.S_ISBLK(facts.st_mode):
            raise DiskError(f"{device} is not a block device: name a disk, or give --file to write to a file.")
        return self.numbered(number_of(facts), str(device))

    def numbered(self, number: str, called: str) -> Disk:
        """The disk with a device number such as "8:16". DiskError: as for `at`."""
        for path in _folder(self._blocks):
            if _text(path / "dev") == number:
                return self.disk(path.name)
            if any(_text(part / "dev") == number for part in _parts(path)):
                raise DiskError(f"{called} is a partition of {_device(path.name)}: an image goes on the whole disk.")
        raise DiskError(f"The kernel lists no disk {called} ({number}): unplug it and plug it in again.")

    def disk(self, name: str) -> Disk:
        """What there is to know of a disk of /sys/block."""
        path = self._blocks / name
        parts = [part.name for part in _parts(path)]
        bus = _bus(path)
        mounts, swap, holders = self._uses([name, *parts])
        return Disk(
            device=_device(name),
            model=_model(path),
            bus=bus,
            size=(_number(path / "size") or 0) * SECTOR_BYTES,
            block=_number(path / "queue/logical_block_size") or SECTOR_BYTES,
            removable=_number(path / "removable") == 1 or bus == "usb" or _text(path / "device/type") == "SD",
            read_only=_number(path / "ro") == 1,
            sequence=_number(path / "diskseq") or 0,
            partitions=tuple(_device(part) for part in parts),
            mounts=tuple(sorted(mounts)),
            swap=swap,
            holders=tuple(sorted(holders)),
        )

    def _uses(self, names: list[str]) -> tuple[set[str], bool, set[str]]:
        """Mount points, swap and holders of devices and of all that is built on them."""
        mounted, swaps, pools = self._mount_points(), self._swaps(), self._pools()
        mounts: set[str] = set()
        swap = False
        holders: set[str] = set()
        waiting, seen = list(names), set(names)
        while waiting:
            name = waiting.pop()
            path = self._place(name)
            aliases = {name, _text(path / "dev"), _text(path / "dm/name")} - {""}
            for alias in aliases:
                mounts |= mounted.get(alias, set())
            swap = swap or not aliases.isdisjoint(swaps)
            if name in pools:
                holders.add("btrfs")
            above = {holder.name for holder in _folder(path / "holders")}
            holders |= {_text(self._blocks / holder / "dm/name") or holder for holder in above}
            waiting += above - seen
            seen |= above
        return mounts, swap, holders

    def _place(self, name: str) -> Path:
        """The folder of a disk or partition."""
        whole = self._blocks / name
        return whole if whole.exists() else next(self._blocks.glob(f"*/{name}"), whole)

    def _mount_points(self) -> dict[str, set[str]]:
        """Mount points by device number and by the name of the source, as proc(5) has them."""
        found: dict[str, set[str]] = {}
        for line in _lines(self._proc / "self/mountinfo"):
            before, _, after = line.partition(" - ")
            fields, kind = before.split(), after.split()
            if len(fields) < 5 or len(kind) < 2:
                continue
            point = _plain(fields[4])
            found.setdefault(fields[2], set()).add(point)
            if kind[1].startswith("/dev/"):
                found.setdefault(_plain(kind[1]).rpartition("/")[2], set()).add(point)
        return found

    def _swaps(self) -> set[str]:
        rows = (line.split() for line in _lines(self._proc / "swaps")[1:])
        return {_plain(row[0]).rpartition("/")[2] for row in rows if len(row) > 1 and row[1] == "partition"}

    def _pools(self) -> set[str]:
        """Devices of mounted btrfs, whose numbers mountinfo does not show."""
        return {path.name for path in self._btrfs.glob("*/devices/*")}


def number_of(facts: os.stat_result) -> str:
    """Number of a block device, such as "8:16"."""
    return f"{os.major(facts.st_rdev)}:{os.minor(facts.st_rdev)}"


def _parts(path: Path) -> list[Path]:
    """Folders of a disk's partitions, in their order."""
    found = [part for part in _folder(path) if (part / "partition").is_file()]
    return sorted(found, key=lambda part: _number(part / "partition") or 0)


def _folder(path: Path) -> list[Path]:
    return list(path.iterdir()) if path.is_dir() else []


def _lines(path: Path) -> list[str]:
    try:
        return path.read_text(errors="replace").splitlines()
    except OSError:
        return []


def _text(path: Path) -> str:
    """What a file of sysfs says, without characters that a terminal obeys; nothing where it is not there."""
    try:
        told = path.read_text(errors="replace")
    except OSError:
        return ""
    return "".join(character for character in told if character.isprintable()).strip()[:100]


def _number(path: Path) -> int | None:
    told = _text(path)
    return int(told) if told.isascii() and told.isdigit() else None


def _plain(escaped: str) -> str:
    """Undo the octal escapes of /proc."""
    return re.sub(r"\\([0-7]{3})", lambda code: chr(int(code[1], 8)), escaped)


def _device(name: str) -> str:
    return "/dev/" + name.replace("!", "/")


def _bus(path: Path) -> str:
    parts = path.resolve().parts
    if (path / "loop").is_dir() or path.name.startswith("loop"):
        return "loop"
    for bus, pattern in (
        ("virtual", r"virtual\Z"),
        ("usb", r"usb\d+\Z"),
        ("mmc", r"mmc_host\Z"),
        ("nvme", r"nvme\Z"),
        ("sata", r"ata\d+\Z"),
        ("virtio", r"virtio\d+\Z"),
    ):
        if any(re.match(pattern, part) for part in parts):
            return bus
    return "other"


def _model(path: Path) -> str:
    """Vendor and model, a card's own name, or the file behind a loop."""
    words = [_text(path / "device" / name) for name in ("vendor", "model")]
    told = " ".join(word for word in words if word and not word.startswith("0x"))
    return told or _text(path / "device/name") or _text(path / "loop/backing_file") or "unnamed disk"
