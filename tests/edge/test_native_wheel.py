"""The library that a wheel brings: built by the hook for every machine, tested on this one, and taken by `auto`."""

from __future__ import annotations

import platform
import shutil
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest
from tests.core import tiny_pack

from auricle.errors import AuricleError
from auricle_edge.runtimes import choose_runtime
from auricle_learning.native import compiling
from auricle_learning.native import library as native_library
from auricle_learning.native.compiling import SOURCES, WHEELS, shipped
from auricle_learning.native.library import (
    Library,
    brought_library,
    compile_library,
    compiler,
    library,
    why_not_brought,
)
from auricle_learning.native.self_test import fault_of, try_out

ROOT = Path(__file__).parents[2]
MACHINES = {"x86_64": 62, "aarch64": 183}
"""Numbers of processors in an ELF header."""
needs_compiler = pytest.mark.skipif(compiler() is None, reason="there is no C compiler here")


@pytest.fixture
def brought(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Where the wheel would have brought a library; there is none yet, and none was compiled for this test."""
    path = tmp_path / "step-here.so"
    monkeypatch.setattr(native_library, "found_library", lambda: None)
    monkeypatch.setattr(native_library, "shipped", lambda _: path)
    return path


@needs_compiler
def test_auto_takes_the_library_that_the_wheel_brings(brought: Path) -> None:
    library()
    shutil.copy(native_library.library_path(), brought)
    choice = choose_runtime("auto", tiny_pack.pack())
    assert choice.runtime.name == "native" and "wheel" in choice.reason
    assert "one thread" in choose_runtime("auto", tiny_pack.pack(), threads=2).reason
    found = brought_library()
    assert found is not None and fault_of(found) is None
    assert choose_runtime("step", tiny_pack.pack()).runtime.name == "step"


@needs_compiler
def test_auto_takes_a_library_that_was_compiled_before_and_compiles_none(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    library()
    kept = native_library.library_path()
    monkeypatch.setattr(native_library, "shipped", lambda _: tmp_path / "none.so")
    monkeypatch.setenv("STATE_DIRECTORY", str(tmp_path))
    assert choose_runtime("auto", tiny_pack.pack()).runtime.name == "step" and not (tmp_path / "native").exists()
    there = native_library.library_path()
    there.parent.mkdir(mode=0o700)
    there.write_bytes(b"\x7fELF of another system")
    there.chmod(0o700)
    assert choose_runtime("auto", tiny_pack.pack()).runtime.name == "step"
    shutil.copy(kept, there)
    there.chmod(0o700)
    choice = choose_runtime("auto", tiny_pack.pack())
    assert choice.runtime.name == "native" and "compiled on this machine" in choice.reason


def test_what_does_not_load_here_is_left_for_step(brought: Path, caplog: pytest.LogCaptureFixture) -> None:
    brought.write_bytes(b"\x7fELF of another system")
    caplog.set_level("INFO", "auricle.edge")
    assert brought_library() is None and brought_library() is None
    assert caplog.text.count("does not load") == 1
    assert choose_runtime("auto", tiny_pack.pack()).runtime.name == "step"
    assert "does not load" in why_not_brought()


@pytest.mark.slow
@needs_compiler
def test_a_library_that_computes_wrongly_is_left(
    brought: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in SOURCES:
        shutil.copy(compiling.HERE / name, tmp_path)
    kernels = tmp_path / "step_kernels.c"
    kernels.write_text(kernels.read_text().replace("- 3.333332910e-01f", "- 3.433332910e-01f"))
    found = compiler()
    assert found is not None
    monkeypatch.setattr(compiling, "HERE", tmp_path)
    shutil.move(compile_library(found, tmp_path), brought)
    with pytest.raises(AuricleError, match=r"computes wrongly on this processor \(tanh, by 0.0"):
        try_out(Library(brought))
    choice = choose_runtime("auto", tiny_pack.pack())
    assert choice.runtime.name == "step" and "computes wrongly" in choice.reason
    with pytest.raises(AuricleError, match="computes wrongly"):
        choose_runtime("native", tiny_pack.pack())


@pytest.mark.slow
@pytest.mark.nightly
def test_a_wheel_brings_the_library_for_every_machine_and_it_runs_here(tmp_path: Path) -> None:
    pytest.importorskip("hatchling")
    pytest.importorskip("ziglang", reason="ziglang is not installed")
    build = [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", str(tmp_path)]
    done = subprocess.run(build, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    (wheel,) = tmp_path.glob("*.whl")
    assert wheel.name.endswith("-py3-none-any.whl")
    with zipfile.ZipFile(wheel) as archive:
        for machine in WHEELS:
            data = archive.read(f"auricle_learning/native/{shipped(machine).name}")
            assert data[:5] == b"\x7fELF\x02" and data[18] == MACHINES[machine] and len(data) < 256_000
            for other in (tmp_path, ROOT):
                assert str(other).encode() not in data
        archive.extractall(tmp_path / "installed")
    here = tmp_path / "installed" / "auricle_learning" / "native" / shipped(platform.machine()).name
    if not here.is_file():
        pytest.skip(f"wheels bring no library for {platform.machine()}")
    probe = [sys.executable, "-m", "tests.learning.native_probe", str(here), "50"]
    done = subprocess.run(probe, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    brought = Library(here)
    try_out(brought)
    assert compiler() is None or brought.level == library().level
