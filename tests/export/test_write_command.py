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
from auricle_export.flash.write.card import CHUNK, InterruptedWriteError, Step, opened, write_image
from auricle_export.flash.write.disks import DiskError, Machine
from auricle_export.flash.write.image import Image, open_image
from auricle_export.flash.write_commands import _require_same

SIZE = CHUNK + CHUNK // 2 + 512
"""Two chunks, the second one short and no multiple of a page."""


@pytest.fixture(params=["raw", "xz"])
def image(request: pytest.FixtureRequest, tmp_path: Path) -> Path:
    """An image of `SIZE` bytes."""
    content = image_bytes(SIZE)
    path = tmp_path / ("card.img" if request.param == "raw" else "card.img.xz")
    path.write_bytes(content if request.param == "raw" else lzma.compress(content, preset=0))
    return path


def test_a_file_gets_the_image_unpacked(image: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    card = tmp_path / "card"

    assert main(["flash", "write", str(image), str(card), "--file", "--json"]) == 0
    assert card.stat().st_mode & 0o077 == 0

    assert card.read_bytes() == image_bytes(SIZE)
    assert json.loads(capsys.readouterr().out) == {
        "device": str(card),
        "size": SIZE,
        "sha256": hashlib.sha256(image_bytes(SIZE)).hexdigest(),
        "verified": True,
    }


def test_a_block_device_gets_the_image_and_keeps_what_lies_behind(
    image: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "card").write_bytes(b"\xee" * (SIZE + 8192))
    with loop_device(tmp_path / "card") as device:
        assert main(["flash", "write", str(image), str(device), "--yes"]) == 2
        assert "is built in" in capsys.readouterr().err
        assert device.read_bytes()[:SIZE] == b"\xee" * SIZE

        assert main(["flash", "write", str(image), str(device), "--yes", "--force-fixed"]) == 0

        told = capsys.readouterr()
        assert "read back: they are the same" in told.out
        assert "checking" in told.err
        assert device.read_bytes() == image_bytes(SIZE) + b"\xee" * 8192


def test_a_block_device_one_sector_too_small_is_left_alone(
    image: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "card").write_bytes(b"\xee" * (SIZE - 512))
    with loop_device(tmp_path / "card") as device:
        assert main(["flash", "write", str(image), str(device), "--yes", "--force-fixed"]) == 2

        assert "take a larger one" in capsys.readouterr().err
        assert device.read_bytes() == b"\xee" * (SIZE - 512)


@pytest.mark.skipif(shutil.which("mkfs.ext4") is None, reason="mkfs.ext4 is not installed")
def test_a_block_device_that_is_mounted_is_refused_twice(
    image: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "card").write_bytes(bytes(16 << 20))
    (tmp_path / "mounted").mkdir()
    with loop_device(tmp_path / "card") as device:
        subprocess.run(["mkfs.ext4", "-q", str(device)], check=True)
        if subprocess.run(["mount", str(device), str(tmp_path / "mounted")], check=False).returncode != 0:
            pytest.skip("nothing may be mounted here")
        try:
            assert main(["flash", "write", str(image), str(device), "--yes", "--force-fixed"]) == 2
            assert f"is mounted at {tmp_path / 'mounted'}: unmount it first" in capsys.readouterr().err
            with pytest.raises(DiskError, match="is in use by the system"), opened(device, 512):
                pass
        finally:
            subprocess.run(["umount", str(device)], check=True)


@pytest.mark.skipif(shutil.which("mkswap") is None, reason="mkswap is not installed")
def test_a_block_device_that_is_swapped_to_is_refused(
    image: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "card").write_bytes(bytes(16 << 20))
    with loop_device(tmp_path / "card") as device:
        subprocess.run(["mkswap", str(device)], check=True, capture_output=True)
        if subprocess.run(["swapon", str(device)], check=False, capture_output=True).returncode != 0:
            pytest.skip("nothing may be swapped to here")
        try:
            assert main(["flash", "write", str(image), str(device), "--yes", "--force-fixed"]) == 2
            assert "is in use as swap space" in capsys.readouterr().err
        finally:
            subprocess.run(["swapoff", str(device)], check=True)


def test_a_device_that_was_exchanged_meanwhile_is_left_alone(tmp_path: Path) -> None:
    (tmp_path / "one").write_bytes(bytes(1 << 20))
    (tmp_path / "two").write_bytes(bytes(1 << 20))
    with loop_device(tmp_path / "one") as first, loop_device(tmp_path / "two") as second:
        looked_at = Machine().at(first)
        with opened(second, 512) as target, pytest.raises(DiskError, match="is another disk than a moment ago"):
            _require_same(looked_at, target)
        with opened(first, 512) as target:
            _require_same(looked_at, target)


def test_nobody_is_asked_where_nobody_answers(image: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "card").write_bytes(b"keep")

    assert main(["flash", "write", str(image), str(tmp_path / "card"), "--file", "--json"]) == 2

    assert "give --yes where nobody can be asked" in capsys.readouterr().err
    assert (tmp_path / "card").read_bytes() == b"keep"


@pytest.mark.parametrize(("answer", "code"), [("n", 130), ("y", 0)])
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
    assert f"Write card.img (0 MiB) to {files[1]}? Everything on it is lost." in done.stdout
    assert ((tmp_path / "card").read_bytes() == b"keep") is (answer == "n")


@pytest.mark.parametrize("target", ["/dev/null", "/", "image"])
def test_a_file_is_a_regular_one_and_not_the_image(
    target: str, image: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    named = str(image) if target == "image" else target

    assert main(["flash", "write", str(image), named, "--file", "--yes"]) == 2

    assert "name another file" in capsys.readouterr().err


def test_what_is_not_given_back_as_it_was_written_is_told(tmp_path: Path) -> None:
    (tmp_path / "card.img").write_bytes(image_bytes(SIZE))
    card = tmp_path / "card"

    def heard(step: Step, done: int) -> None:
        if (step, done) == ("writing", SIZE):
            with card.open("r+b") as file:
                file.seek(CHUNK + 77)
                file.write(b"worn out")

    with opened(card) as target, pytest.raises(DiskError, match=r"card does not give back .* from byte 4,194,304 on"):
        write_image(open_image(tmp_path / "card.img"), target, heard)


def test_an_image_that_ends_early_leaves_nothing_that_boots(tmp_path: Path) -> None:
    packed = bytearray(lzma.compress(image_bytes(SIZE), preset=0))
    packed[len(packed) // 2] ^= 1
    (tmp_path / "card.img.xz").write_bytes(packed)
    (tmp_path / "card").write_bytes(image_bytes(SIZE))

    image = open_image(tmp_path / "card.img.xz")
    with opened(tmp_path / "card") as target, pytest.raises(DataError, match=r"is damaged .* nothing boots from"):
        write_image(image, target, lambda step, done: None)

    assert (tmp_path / "card").read_bytes()[:512] == bytes(512)


@pytest.mark.parametrize("announced", [SIZE - 512, SIZE + 512], ids=["longer", "shorter"])
def test_an_image_of_another_size_than_it_says_is_refused(announced: int, tmp_path: Path) -> None:
    (tmp_path / "card.img").write_bytes(image_bytes(SIZE))

    reason = "it is longer than it says" if announced < SIZE else "it ends early"
    with opened(tmp_path / "card") as target, pytest.raises(DataError, match=reason):
        write_image(Image(tmp_path / "card.img", announced, False), target, lambda step, done: None)


@pytest.mark.parametrize(
    ("when", "sentence"),
    [("writing", "holds a part of the image, from which nothing boots"), ("checking", "was written but not read back")],
)
def test_an_interruption_says_what_the_card_holds(when: Step, sentence: str, tmp_path: Path) -> None:
    """The process gets a real SIGINT as soon as it has done one chunk of that step."""
    (tmp_path / "card.img").write_bytes(image_bytes(SIZE))
    card = tmp_path / "card"

    def heard(step: Step, done: int) -> None:
        if step == when and done == CHUNK:
            signal.raise_signal(signal.SIGINT)

    with pytest.raises(InterruptedWriteError, match=sentence), opened(card) as target:
        write_image(open_image(tmp_path / "card.img"), target, heard)

    assert (card.read_bytes()[:512] == bytes(512)) is (when == "writing")
    assert InterruptedWriteError.exit_code == 130
