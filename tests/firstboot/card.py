"""A card: a boot partition (FAT) and a root (ext4), written without mounting anything."""

from __future__ import annotations

import shutil
import struct
import subprocess
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from tests.arm64.emulation import Say, run
from tests.firstboot.system import GuestSystem

SECTOR, MIB = 512, 1 << 20
BOOT_START, BOOT_SIZE = 4 * MIB, 256 * MIB
"""The start as on a card of Raspberry Pi OS, whose boot partition is twice as large."""
ROOT_START, ROOT_SIZE = BOOT_START + BOOT_SIZE, 1792 * MIB
DISK = 0x4B575331
FAT32, LINUX = 0x0C, 0x83
CMDLINE = f"console=serial0,115200 console=tty1 root=PARTUUID={DISK:08x}-02 rootfstype=ext4 fsck.repair=yes rootwait\n"
AS_SHIPPED = {
    "cmdline.txt": CMDLINE,
    "config.txt": "# What a board's firmware reads; nothing here does.\n[all]\n",
    "user-data": "#cloud-config\n",
    "meta-data": "instance-id: as-shipped\n",
    "network-config": "network:\n  version: 2\n",
}


def blank_card(system: GuestSystem, say: Say) -> Path:
    """The card that images are made of, kept beside the system; made unless it is there."""
    card = system.debian.folder / f"card-{system.identity[:12]}.img"
    if not card.exists():
        say("writing the blank card")
        new = card.with_suffix(".new")
        write_card(new, system.debian.path, AS_SHIPPED)
        for old in card.parent.glob("card-*.img"):
            old.unlink()
        new.rename(card)
    return card


def write_card(path: Path, root: Path, boot: Mapping[str, str]) -> None:
    """Write a card with the files of a folder as its root, and texts on its boot partition."""
    path.unlink(missing_ok=True)
    with path.open("wb") as file:
        file.truncate(ROOT_START + ROOT_SIZE)
        file.write(_partition_table())
    run(
        *("mkfs.vfat", "-F", "32", "-s", "4", "-n", "bootfs", "-i", f"{DISK:08x}", f"--offset={BOOT_START // SECTOR}"),
        *(path, str(BOOT_SIZE // 1024)),
    )
    run(
        *("mke2fs", "-q", "-F", "-t", "ext4", "-L", "rootfs", "-m", "0", "-d", root, "-E", f"offset={ROOT_START}"),
        *(path, f"{ROOT_SIZE // MIB}M"),
    )
    card = Card(path)
    for name, text in boot.items():
        card.write(name, text.encode())


def _partition_table() -> bytes:
    entries = b"".join(
        struct.pack("<B3sB3sII", 0, b"\xfe\xff\xff", kind, b"\xfe\xff\xff", start // SECTOR, size // SECTOR)
        for kind, start, size in ((FAT32, BOOT_START, BOOT_SIZE), (LINUX, ROOT_START, ROOT_SIZE))
    )
    return bytes(440) + struct.pack("<IH", DISK, 0) + entries + bytes(32) + b"\x55\xaa"


@dataclass(frozen=True)
class Card:
    """An image of a card, as somebody sees it who puts it into a reader."""

    path: Path

    def copy(self, path: Path) -> Card:
        """Another card with the same content; holes stay holes."""
        run("cp", "--sparse=always", self.path, path)
        return Card(path)

    def read(self, name: str) -> bytes | None:
        """A file of the boot partition; None without one."""
        done = subprocess.run(["mtype", "-i", self._boot, f"::{name}"], capture_output=True, check=False)
        return done.stdout if done.returncode == 0 else None

    def write(self, name: str, data: bytes) -> None:
        """Put a file on the boot partition, over one that is there."""
        subprocess.run(["mcopy", "-D", "o", "-i", self._boot, "-", f"::{name}"], input=data, check=True)

    def names(self) -> list[str]:
        """All files of the boot partition."""
        told = run("mdir", "-/", "-b", "-i", self._boot, "::")
        return [line.removeprefix("::/") for line in told.splitlines() if line]

    def root_file(self, path: str) -> str | None:
        """A file of the root, read without mounting it; None without one."""
        done = subprocess.run(
            ["debugfs", "-R", f"cat {path}", f"{self.path}?offset={ROOT_START}"], capture_output=True, check=False
        )
        missing = b"File not found" in done.stderr
        return None if missing else done.stdout.decode(errors="replace")

    def discard(self) -> None:
        """Throw it away."""
        shutil.rmtree(self.path) if self.path.is_dir() else self.path.unlink(missing_ok=True)

    @property
    def _boot(self) -> str:
        return f"{self.path}@@{BOOT_START}"
