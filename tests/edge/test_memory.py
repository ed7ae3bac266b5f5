"""Memory given back: what is called comes again, and what was written stays."""

from __future__ import annotations

import subprocess
import sys

import numpy as np
import pytest

from auricle_edge.board.memory import give_back, rest, unwritten

PARTS = """\
7f0000000000-7f0000002000 r--p 00000000 fe:00 12 /usr/lib/libone.so
7f0000002000-7f0000008000 r-xp 00002000 fe:00 12 /usr/lib/libone.so
7f0000008000-7f0000009000 r--p 00008000 fe:00 12 /usr/lib/libone.so
7f0000009000-7f000000a000 rw-p 00009000 fe:00 12 /usr/lib/libone.so
7f0000010000-7f0000011000 r--p 00000000 fe:00 13 /usr/share/data
7f0000020000-7f0000021000 r-xp 00000000 00:00 0
7f0000030000-7f0000031000 r-xp 00000000 fe:00 14 /tmp/replaced.so (deleted)
"""


def test_only_unwritten_parts_of_libraries_are_given_back() -> None:
    """Not what was relocated or may be written, not a file of data, nothing without a name, nothing replaced."""
    maps: list[str] = []
    for number, line in enumerate(PARTS.splitlines()):
        maps += [line, "Rss:                   8 kB", f"Anonymous:             {4 if number == 2 else 0} kB"]
    assert unwritten(maps) == [(0x7F0000000000, 0x7F0000002000), (0x7F0000002000, 0x7F0000008000)]


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="pages are given back on Linux only")
def test_less_is_resident_and_everything_still_works() -> None:
    program = (
        "import re, ssl, numpy as np\n"
        "from pathlib import Path\n"
        "from auricle_edge.board.memory import keep_start\n"
        "def resident():\n"
        "    return int(re.search(r'VmRSS:\\s+(\\d+)', Path('/proc/self/status').read_text())[1])\n"
        "before = np.linalg.inv(np.eye(50) * 2)\n"
        "had = resident()\n"
        "keep_start()\n"
        "assert resident() < had - 1000, (had, resident())\n"
        "assert (np.linalg.inv(np.eye(50) * 2) == before).all()\n"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False, timeout=60)
    assert done.returncode == 0, done.stderr


def test_a_runtime_that_keeps_nothing_for_training_is_left_alone() -> None:
    kept = np.arange(1000)
    rest(object())
    give_back()
    assert kept.sum() == 499_500
