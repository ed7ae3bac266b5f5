"""A file on the root partition of an image, without root: debugfs of e2fsprogs writes into the ext4 itself.

Source: debugfs(8), commands `write`, `dump` and `set_current_time`; `?offset=` is an option of ext2fs_open2.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import tempfile
from pathlib import Path

from auricle_export.flash.image.base import sha256
from auricle_export.flash.image.partitions import ImageError, Partition

FOLDER = "/var/lib/auricle-firstboot"
EPOCH = "19800101000000"


def put_on_root(image: Path, partition: Partition, source: Path) -> str:
    """Put a file onto the root partition of an image, and read it back.

    Returns
    -------
    str
        Its path on the running system.

    Raises
    ------
    ImageError
        There is no debugfs, or the partition is no ext4 or has no room for it.
    """
    program = shutil.which("debugfs", path=f"{os.environ.get('PATH', os.defpath)}:/usr/sbin:/sbin")
    if program is None:
        raise ImageError("The root partition is written by debugfs, which is not here: install e2fsprogs.")
    path = f"{FOLDER}/{source.name}"
    with tempfile.TemporaryDirectory(dir=image.parent, prefix=".root-") as scratch:
        work = Path(scratch)
        (work / "image").symlink_to(image.absolute())
        (work / "source").symlink_to(source.absolute())
        folders = ["/var", "/var/lib", FOLDER]
        commands = [f"set_current_time {EPOCH}", *(f"mkdir {folder}" for folder in folders)]
        commands += [f"write source {path}", f"dump {path} back"]
        (work / "commands").write_text("\n".join(commands) + "\n")
        where = f"image?offset={partition.start}"
        ran = subprocess.run(
            [program, "-w", "-f", "commands", where],
            cwd=work,
            env={"TZ": "UTC", "LC_ALL": "C"},
            capture_output=True,
            text=True,
            errors="replace",
            check=False,
        )
        back = work / "back"
        if ran.returncode or not back.is_file() or sha256(back) != sha256(source):
            raise ImageError(
                f"{source.name} ({source.stat().st_size >> 20} MiB) does not go onto the root partition: it is no ext4 "
                "or has no room before the first boot. Leave --where root out."
            )
    return path
