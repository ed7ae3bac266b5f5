"""A 32-bit Python is refused with a sentence, before anything is missed that cannot be installed there."""

from __future__ import annotations

import json
import shutil
import sys
import tempfile
from pathlib import Path

import pytest

from tests.arm64.armhf import armhf_root
from tests.arm64.board import progress
from tests.arm64.debian import INSIDE, alone
from tests.arm64.emulation import UnavailableError, tried
from tests.arm64.wheels import CHECKOUT, Target, UnreachableError, WheelError, resolved

AS_IF = """
import sys
sys.maxsize = 2**31 - 1
class Absent:
    def find_spec(self, name, path=None, target=None):
        if name.split(".")[0] in {"onnxruntime", "soundfile", "safetensors"}:
            raise ModuleNotFoundError(name, name=name)
sys.meta_path.insert(0, Absent())
from auricle.process.cli import main
sys.exit(main(sys.argv[1:]))
"""
SAYS = "use a 64-bit system, on a Raspberry Pi the 64-bit image, with a 64-bit Python."


@pytest.mark.parametrize("arguments", [("edge", "run"), ("edge", "--help"), ("edge",)])
def test_with_only_the_core_installed_the_word_size_is_said(arguments: tuple[str, ...]) -> None:
    done = tried([sys.executable, "-c", AS_IF, *arguments], timeout=60)

    assert done.returncode == 2, done.stderr
    assert done.stderr.startswith("auricle: This Python is 32-bit (")
    assert done.stderr.endswith(f"{SAYS}\n")
    assert done.stderr.count("\n") == 1


@pytest.mark.arm64
def test_there_is_still_no_onnxruntime_for_32_bit_arm() -> None:
    with pytest.raises(WheelError) as caught:
        resolved(Target(11, "armv7l"), "onnxruntime")

    if isinstance(caught.value, UnreachableError):
        pytest.skip(str(caught.value))
    assert "No matching distribution found for onnxruntime" in str(caught.value)


@pytest.mark.arm64
@pytest.mark.timeout(1500)
def test_a_32_bit_raspberry_pi_is_told_to_take_the_64_bit_image() -> None:
    """Debian armhf, whose own typer is what the command needs to start; nothing of the edge extra is there."""
    root = armhf_root()
    try:
        with alone(root.folder, progress):
            root.make(progress)
    except UnavailableError as error:
        pytest.skip(f"no armhf root: {error}")
    with tempfile.TemporaryDirectory(dir=root.path / "tmp") as folder:
        for source in ("core", "learning", "edge"):
            shutil.copytree(CHECKOUT / source, Path(folder) / source)
        inside = f"/tmp/{Path(folder).name}"

        command = root.command("/usr/bin/python3", "-m", "auricle", "edge", "run", "--json")
        done = tried(command, env={**INSIDE, "PYTHONPATH": f"{inside}/core:{inside}/learning:{inside}/edge"})

    assert root.run("/usr/bin/python3", "-c", "import sys; print(sys.maxsize)").strip() == str(2**31 - 1)
    assert done.returncode == 2, done.stderr
    assert done.stderr.startswith("auricle: This Python is 32-bit (arm"), done.stderr
    assert done.stderr.endswith(f"{SAYS}\n")
    assert json.loads(done.stdout)["error"] == done.stderr.removeprefix("auricle: ").strip()
