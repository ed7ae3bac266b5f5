"""A board whose state folder lies in memory: its doctor says what is lost, and no token is used up for it."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from auricle_edge.board.lasting import read_mounts, why_not_lasting
from auricle_edge.service.checkup import lasting

DISK = "22 1 179:2 / / rw,noatime - ext4 /dev/mmcblk0p2 rw\n"
OVERLAYROOT = """\
20 1 179:2 / /media/root-ro ro - ext4 /dev/mmcblk0p2 ro
21 1 0:20 / /media/root-rw rw - tmpfs tmpfs-root rw
22 1 0:21 / / rw - overlay overlayroot rw,lowerdir=/media/root-ro,upperdir=/media/root-rw/overlay,workdir=/w
"""
RASPBERRY = "22 1 0:21 / / rw - overlay overlay rw,lowerdir=/lower,upperdir=/upper/data,workdir=/upper/work\n"
CONTAINER = "22 1 0:21 / / rw - overlay overlay rw,lowerdir=/l,upperdir=/var/lib/docker/overlay2/a/diff,workdir=/w\n"


def board(folder: Path, mounts: str, told: str = "root=/dev/mmcblk0p2") -> Path:
    """A root with a /proc that says so."""
    (folder / "proc/self").mkdir(parents=True)
    (folder / "proc/self/mountinfo").write_text(mounts)
    (folder / "proc/cmdline").write_text(told + "\n")
    return folder


@pytest.mark.parametrize(
    ("mounts", "told", "why"),
    [
        (DISK, "", None),
        (
            OVERLAYROOT,
            "overlayroot=tmpfs",
            "an overlay that is written to memory: /media/root-rw lies in memory (tmpfs)",
        ),
        (OVERLAYROOT.replace("tmpfs tmpfs-root", "ext4 /dev/sda1"), "overlayroot=device:dev=/dev/sda1", None),
        (RASPBERRY, "boot=overlay", "an overlay that is written to memory: the kernel was started so"),
        (CONTAINER, "", None),
        (DISK + "30 22 0:30 / /var rw - tmpfs tmpfs rw\n", "", "/var lies in memory (tmpfs)"),
        (DISK + "30 22 253:0 / /var rw - ext4 /dev/zram1 rw\n", "", "/var lies in memory (ext4)"),
        (RASPBERRY + "30 22 179:3 / /var rw - ext4 /dev/mmcblk0p3 rw\n", "boot=overlay", None),
        (DISK + "30 22 0:30 / /var rw - tmpfs t rw\n31 30 179:3 / /var rw - ext4 /dev/mmcblk0p3 rw\n", "", None),
        ("nonsense\n\n1 2 - \n", "", None),
    ],
)
def test_what_is_lost_at_the_next_start(tmp_path: Path, mounts: str, told: str, why: str | None) -> None:
    found = why_not_lasting(Path("/var/lib"), board(tmp_path, mounts, told))
    assert (found is None) == (why is None)
    assert why is None or why in (found or "")
    verdict, sentence = lasting(tmp_path, Path("/var/lib"))
    assert verdict == ("good" if why is None else "bad")
    assert why is None or "certificate" in sentence


def test_a_place_with_a_space_is_read() -> None:
    assert read_mounts("1 2 0:3 / /a\\040b rw - tmpfs t rw\n")[0].point == Path("/a b")


def test_a_claim_into_memory_is_refused_before_its_token_is_used(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """In a tmpfs that is really mounted, in a namespace of its own."""
    monkeypatch.delenv("AURICLE_EDGE_IN_MEMORY", raising=False)
    place, token = tmp_path / "memory", tmp_path / "token"
    place.mkdir()
    token.write_text("t" * 43)
    inside = ["unshare", "-Urm", "sh", "-c", 'mount -t tmpfs tmpfs "$0" && exec "$@"', str(place)]
    if (
        shutil.which("unshare") is None
        or subprocess.run([*inside, "true"], capture_output=True, check=False).returncode
    ):
        pytest.skip("this system does not let us mount a tmpfs")
    told = ["--server", "https://127.0.0.1:1", "--ca-pin", "0" * 64, "--token-file", str(token)]
    command = [*inside, sys.executable, "-m", "auricle", "edge", "claim", *told, "--state", str(place / "state")]
    refused = subprocess.run(command, capture_output=True, text=True, check=False)
    assert (refused.returncode, refused.stdout) == (2, "")
    assert "lies in memory (tmpfs)" in refused.stderr and "--in-memory" in refused.stderr
    assert token.read_text() == "t" * 43
    allowed = subprocess.run([*command, "--in-memory"], capture_output=True, text=True, check=False)
    assert allowed.returncode == 75  # it went on, and nobody answers
