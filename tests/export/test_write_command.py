"""`auricle flash write` on files and real block devices: what is written and refused, what an interruption leaves."""

from __future__ import annotations

import hashlib
import json
import lzma
import os
import pty
import shutil
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from tests.export.written_cards import image_bytes, loop_device

from auricle.errors import DataError
from auricle.process.cli import main
from auricle_export.flash.write.card import CHUNK_BYTES, InterruptedWriteError, Step, open_target, write_image
from auricle_export.flash.write.disks import DiskError, Machine
from auricle_export.flash.write.image import Image, open_image
from auricle_export.flash.write_commands import _require_same

Printed = pytest.CaptureFixture[str]
SIZE = CHUNK_BYTES + CHUNK_BYTES // 2 + 512
"""Two chunks, the second one short and no multiple of a page."""


@pytest.fixture(params=["raw", "xz"])
def image(request: pytest.FixtureRequest, tmp_path: Path) -> Path:
    content = image_bytes(SIZE)
    path = tmp_path / ("card.img" if request.param == "raw" else "card.img.xz")
    path.write_bytes(content if request.param == "raw" else lzma.compress(content, preset=0))
    return path


def test_a_file_gets_the_image_unpacked(image: Path, tmp_path: Path, capsys: Printed) -> None:
    card = tmp_path / "card"
    assert main(["flash", "write", str(image), str(card), "--file", "--json"]) == 0
    assert card.stat().st_mode & 0o077 == 0
    assert card.read_bytes() == image_bytes(SIZE)
    told = {"device": str(card), "size": SIZE, "sha256": hashlib.sha256(image_bytes(SIZE)).hexdigest()}
    assert json.loads(capsys.readouterr().out) == told | {"verified": True}


@pytest.mark.parametrize("more", [8192, -512])
def test_a_block_device_keeps_what_lies_behind_the_image(
    more: int, image: Path, tmp_path: Path, capsys: Printed
) -> None:
    before = b"\xee" * (SIZE + more)
    (tmp_path / "card").write_bytes(before)
    with loop_device(tmp_path / "card") as device:
        assert main(["flash", "write", str(image), str(device), "--yes"]) == 2
        assert "built in" in capsys.readouterr().err
        assert device.read_bytes() == before

        assert main(["flash", "write", str(image), str(device), "--yes", "--force-fixed"]) == (0 if more > 0 else 2)

        told = capsys.readouterr()
        assert ("the same" in told.out and "checking" in told.err) if more > 0 else "larger" in told.err
        assert device.read_bytes() == (image_bytes(SIZE) + b"\xee" * more if more > 0 else before)


@pytest.mark.parametrize("use", ["mount", "swapon"])
def test_a_block_device_in_use_is_refused(use: str, image: Path, tmp_path: Path, capsys: Printed) -> None:
    make = ["mkfs.ext4", "-q"] if use == "mount" else ["mkswap"]
    if shutil.which(make[0]) is None:
        pytest.skip(f"{make[0]} is not installed")
    (tmp_path / "card").write_bytes(bytes(16 << 20))
    (tmp_path / "mounted").mkdir()
    with loop_device(tmp_path / "card") as device:
        subprocess.run([*make, str(device)], check=True, capture_output=True)
        begin = [use, str(device), *([str(tmp_path / "mounted")] if use == "mount" else [])]
        if subprocess.run(begin, check=False, capture_output=True).returncode != 0:
            pytest.skip("no device can be used here")
        try:
            assert main(["flash", "write", str(image), str(device), "--yes", "--force-fixed"]) == 2
            assert (str(tmp_path / "mounted") if use == "mount" else "swap") in capsys.readouterr().err
            if use == "mount":
                with pytest.raises(DiskError, match="in use"), open_target(device, 512):
                    pass
        finally:
            subprocess.run(["umount" if use == "mount" else "swapoff", str(device)], check=True)


def test_a_device_that_was_exchanged_meanwhile_is_left_alone(tmp_path: Path) -> None:
    (tmp_path / "one").write_bytes(bytes(1 << 20))
    (tmp_path / "two").write_bytes(bytes(1 << 20))
    with loop_device(tmp_path / "one") as first, loop_device(tmp_path / "two") as second:
        looked_at = Machine().at(first)
        with open_target(second, 512) as target, pytest.raises(DiskError, match="another disk"):
            _require_same(looked_at, target)
        with open_target(first, 512) as target:
            _require_same(looked_at, target)


@pytest.mark.parametrize(("answer", "code"), [("n", 130), ("y", 0)])
@pytest.mark.slow
def test_somebody_at_a_terminal_is_asked(answer: str, code: int, tmp_path: Path) -> None:
    (tmp_path / "card.img").write_bytes(image_bytes(4096))
    (tmp_path / "card").write_bytes(b"keep")
    ours, theirs = pty.openpty()
    os.write(ours, f"{answer}\n".encode())
    files = [str(tmp_path / "card.img"), str(tmp_path / "card")]
    command = [sys.executable, "-m", "auricle", "flash", "write", *files, "--file"]

    done = subprocess.run(command, stdin=theirs, capture_output=True, text=True, timeout=60, check=False)

    os.close(ours)
    os.close(theirs)
    assert done.returncode == code, done.stderr
    assert f"to {files[1]}?" in done.stdout
    assert ((tmp_path / "card").read_bytes() == b"keep") is (answer == "n")


@pytest.mark.parametrize("target", ["/dev/null", "/", "image", "unasked"])
def test_a_file_is_no_device_nor_the_image_itself(target: str, image: Path, tmp_path: Path, capsys: Printed) -> None:
    (tmp_path / "unasked").write_bytes(b"keep")
    named = {"image": str(image), "unasked": str(tmp_path / "unasked")}.get(target, target)
    yes = [] if target == "unasked" else ["--yes"]
    assert main(["flash", "write", str(image), named, "--file", "--json", *yes]) == 2
    said = capsys.readouterr()
    assert ("another file" if yes else "--yes") in said.out + said.err
    assert (tmp_path / "unasked").read_bytes() == b"keep"


def test_what_is_not_given_back_as_it_was_written_is_told(tmp_path: Path) -> None:
    (tmp_path / "card.img").write_bytes(image_bytes(SIZE))
    card = tmp_path / "card"

    def heard(step: Step, done: int) -> None:
        if (step, done) == ("writing", SIZE):
            with card.open("r+b") as file:
                file.seek(CHUNK_BYTES + 77)
                file.write(b"worn out")

    with open_target(card) as target, pytest.raises(DiskError, match="4,194,304"):
        write_image(open_image(tmp_path / "card.img"), target, heard)


def test_an_image_that_ends_early_or_has_another_size_leaves_nothing_that_boots(tmp_path: Path) -> None:
    packed = bytearray(lzma.compress(image_bytes(SIZE), preset=0))
    packed[len(packed) // 2] ^= 1
    (tmp_path / "card.img.xz").write_bytes(packed)
    (tmp_path / "card").write_bytes(image_bytes(SIZE))

    image = open_image(tmp_path / "card.img.xz")
    with open_target(tmp_path / "card") as target, pytest.raises(DataError, match="damaged"):
        write_image(image, target, lambda step, done: None)

    assert (tmp_path / "card").read_bytes()[:512] == bytes(512)
    (tmp_path / "card.img").write_bytes(image_bytes(SIZE))
    for announced, reason in ((SIZE - 512, "longer"), (SIZE + 512, "early")):
        with open_target(tmp_path / "card") as target, pytest.raises(DataError, match=reason):
            write_image(Image(tmp_path / "card.img", announced, False), target, lambda step, done: None)


@pytest.mark.parametrize(("when", "sentence"), [("writing", "part of the image"), ("checking", "not read back")])
def test_an_interruption_says_what_the_card_holds(when: Step, sentence: str, tmp_path: Path) -> None:
    """The process gets a real SIGINT as soon as it has done one chunk of that step."""
    (tmp_path / "card.img").write_bytes(image_bytes(SIZE))
    card = tmp_path / "card"

    def heard(step: Step, done: int) -> None:
        if step == when and done == CHUNK_BYTES:
            signal.raise_signal(signal.SIGINT)

    with pytest.raises(InterruptedWriteError, match=sentence), open_target(card) as target:
        write_image(open_image(tmp_path / "card.img"), target, heard)

    assert (card.read_bytes()[:512] == bytes(512)) is (when == "writing")
    assert InterruptedWriteError.exit_code == 130
