"""Build hook: the C library, compiled for the machines that wheels are for, goes into the wheel.

`ziglang` compiles for all of them on any machine. Where it is not installed beside hatchling the wheel is built without
the library, and a machine with a C compiler makes its own.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from importlib.util import find_spec, module_from_spec, spec_from_file_location
from pathlib import Path
from types import ModuleType

from hatchling.builders.hooks.plugin.interface import BuildHookInterface

NATIVE = Path("learning/auricle_learning/native")
QUIET = ("-g0", "-s", "-Wno-unused-command-line-argument", "-fno-unroll-loops")
"""Nothing for debuggers; loops as gcc leaves them, of which the figures are: unrolled ones take 35 kB more."""


class NativeHook(BuildHookInterface):  # type: ignore[type-arg]
    """Compiles once for each machine."""

    PLUGIN_NAME = "custom"

    def initialize(self, version: str, build_data: dict[str, dict[str, str]]) -> None:
        """Compile, unless the project is only linked to."""
        if version == "editable" or find_spec("ziglang") is None:
            return
        self._folder = tempfile.TemporaryDirectory(prefix="auricle-native-")
        place = Path(self._folder.name)
        compiling = _compiling(Path(self.root) / NATIVE / "compiling.py")
        for machine, target in compiling.WHEELS.items():
            try:
                made = _compiled(compiling, machine, target, place)
            except (OSError, subprocess.CalledProcessError) as error:
                self.app.display_warning(f"The wheel is built without the library for {machine}: {error}")
                continue
            inside = f"auricle_learning/native/{compiling.shipped(machine).name}"
            build_data["force_include"][str(made)] = inside

    def finalize(self, version: str, build_data: dict[str, dict[str, str]], artifact_path: str) -> None:
        """Remove what was compiled."""
        if hasattr(self, "_folder"):
            self._folder.cleanup()


def _compiling(path: Path) -> ModuleType:
    """The module that knows the commands; the package around it needs what is not installed here."""
    spec = spec_from_file_location("compiling", path)
    assert spec is not None and spec.loader is not None
    module = module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def _compiled(compiling: ModuleType, machine: str, target: str, place: Path) -> Path:
    """The library for one machine."""
    folder = place / machine
    folder.mkdir()
    caches = {f"ZIG_{kind}_CACHE_DIR": str(place / "zig") for kind in ("GLOBAL", "LOCAL")}
    zig = (sys.executable, "-m", "ziglang", "cc", "-target", target)
    kernels, link = compiling.commands(zig, machine, folder, QUIET)
    for command in (*kernels, link):
        subprocess.run(command, check=True, env={**os.environ, **caches}, cwd=folder)
    return folder / "step.so"
