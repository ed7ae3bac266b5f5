"""Images to write, and loop devices that stand for cards."""

from __future__ import annotations

import os
import random
import shutil
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest


def image_bytes(size: int) -> bytes:
    """An image of a disk: a boot sector, then blocks that tell their place."""
    noise = random.Random(4).randbytes(496)
    blocks = b"".join(place.to_bytes(16, "big") + noise for place in range(-(-size // 512)))[:size]
    return blocks[:510] + b"\x55\xaa" + blocks[512:]


@contextmanager
def loop_device(backing: Path) -> Iterator[Path]:
    """A real block device over a file; skips where the machine gives none."""
    if shutil.which("losetup") is None or os.geteuid() != 0:
        pytest.skip("loop devices need losetup and root")
    made = subprocess.run(["losetup", "--show", "-f", str(backing)], capture_output=True, text=True, check=False)
    if made.returncode != 0:
        pytest.skip(f"no loop device: {made.stderr.strip()}")
    device = made.stdout.strip()
    try:
        yield Path(device)
    finally:
        subprocess.run(["losetup", "-d", device], check=True)
