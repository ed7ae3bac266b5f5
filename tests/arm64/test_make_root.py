"""Making the root: what it refuses, with one sentence, and what it leaves alone."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.arm64.board import FOLDER, SUITE, Board
from tests.arm64.debian import MIRROR, debian_mirror, discard
from tests.arm64.emulation import RootError, tried
from tests.arm64.wheels import CHECKOUT

DEB822 = """\
Types: deb
URIs: http://mirror.example/debian-security
Suites: bookworm-security

Types: deb
URIs: http://mirror.example/debian
Suites: bookworm
"""


def make_root(*before: str, **environment: str) -> subprocess.CompletedProcess[str]:
    command = [*before, sys.executable, "-m", "tests.arm64.make_root"]
    return tried(command, cwd=CHECKOUT, env={**os.environ, **environment}, timeout=100)


@pytest.mark.parametrize(
    ("text", "mirror"),
    [
        (DEB822, "http://mirror.example/debian"),
        (
            "deb [signed-by=/k.gpg] https://mirror.example/pub/debian/ bookworm main\n",
            "https://mirror.example/pub/debian",
        ),
        ("# deb http://old.example/debian bookworm main\n", None),
        ("deb http://mirror.example/ubuntu noble main\n", None),
        ("", None),
    ],
)
def test_the_archive_is_that_of_this_machines_apt(text: str, mirror: str | None, tmp_path: Path) -> None:
    (tmp_path / "sources.list.d").mkdir()
    (tmp_path / "sources.list.d" / "debian.sources").write_text(text)
    sources = (tmp_path / "sources.list", tmp_path / "sources.list.d")

    assert debian_mirror({}, sources) == mirror
    assert debian_mirror({MIRROR: "http://named.example/debian"}, sources) == "http://named.example/debian"


def test_a_folder_in_the_checkout_and_an_unknown_suite_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(FOLDER, str(CHECKOUT / "root"))
    with pytest.raises(RootError, match="lies in the checkout"):
        Board.from_environment()

    monkeypatch.setenv(SUITE, "buster")
    with pytest.raises(RootError, match="is buster; there is: bookworm, trixie"):
        Board.from_environment()


@pytest.mark.slow
def test_without_root_it_says_so_and_makes_nothing(tmp_path: Path) -> None:
    """In a user namespace, where root is nobody, when we are root."""
    before = ("unshare", "--user") if os.geteuid() == 0 else ()
    if before and subprocess.run([*before, "true"], check=False).returncode:
        pytest.skip("this machine does not let us make a user namespace")

    done = make_root(*before, **{FOLDER: str(tmp_path / "board")})

    assert done.returncode == 2
    assert done.stderr == "arm64: debootstrap and chroot need root: run this as root.\n"
    assert not (tmp_path / "board" / "root").exists()


@pytest.mark.skipif(os.geteuid() != 0, reason="mounting needs root")
def test_what_is_left_of_an_interrupted_try_is_removed_unless_something_is_mounted_in_it(tmp_path: Path) -> None:
    left = tmp_path / "root.new"
    (left / "proc").mkdir(parents=True)
    if subprocess.run(["mount", "-t", "tmpfs", "tmpfs", str(left / "proc")], check=False).returncode:
        pytest.skip("this machine does not let us mount a tmpfs")
    try:
        with pytest.raises(RootError, match="Something is mounted below"):
            discard(left)
    finally:
        subprocess.run(["umount", str(left / "proc")], check=True)

    discard(left)

    assert not left.exists()
    discard(left)


@pytest.mark.arm64
def test_an_archive_that_cannot_be_reached_is_said_and_leaves_no_root(board: Board, tmp_path: Path) -> None:
    """The fixture sees to it that everything else is there."""
    done = make_root(**{FOLDER: str(tmp_path / "board"), MIRROR: "http://127.0.0.1:9/debian"})

    assert done.returncode == 2
    assert done.stderr.splitlines()[-1].startswith("arm64: debootstrap could not finish (")
    assert f"look at the network and at {tmp_path / 'board'}/debootstrap.log" in done.stderr
    assert "Traceback" not in done.stderr
    assert not (tmp_path / "board" / "root").exists()


@pytest.mark.arm64
def test_what_is_made_is_not_made_again(board: Board) -> None:
    said: list[str] = []

    board.make(said.append)

    assert said == []
