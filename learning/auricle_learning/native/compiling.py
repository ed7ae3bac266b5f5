"""How the C library is compiled: the commands, for the machine that runs or for another one.

Python's own modules alone are imported: the build of a wheel reads this file, too (`hatch_build.py`).
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

HERE = Path(__file__).parent
PARTS = ("step", "sums", "clips")
"""Each has a header, kernels that are compiled once a level, and what checks and calls them."""
SOURCES = tuple(f"{part}{ending}" for part in PARTS for ending in (".h", "_core.c", "_kernels.c"))
FLAGS = ("-std=c11", "-O3", "-fPIC", "-fwrapv", "-ffp-contract=fast", "-fno-math-errno", "-fno-trapping-math")
X86_LEVELS = {
    "plain": (4, ()),
    "avx2": (8, ("-mavx2", "-mfma")),
    "avx512": (16, ("-mavx2", "-mfma", "-mavx512f", "-mavx512vl", "-mavx512bw", "-mavx512dq")),
}
"""Numbers in a vector, and what the compiler may use; the library chooses when it is loaded."""
LEVELS = tuple(X86_LEVELS)
WHEELS = {"x86_64": "x86_64-linux-gnu.2.17", "aarch64": "aarch64-linux-gnu.2.17"}
"""Machines whose library a wheel brings, with the targets of zig: Linux with glibc 2.17 (2012) or newer."""


def commands(
    compiler: Sequence[str], machine: str, folder: Path, extra: Sequence[str] = ()
) -> tuple[list[list[str]], list[str]]:
    """The commands that compile the kernels, in any order, and the one that links them after that.

    Parameters
    ----------
    compiler
        The command of a C compiler, with what names another machine.
    machine
        For which processor, as `platform.machine()` says it.
    folder
        Where the object files and the library, `step.so`, will be.
    extra
        Further flags.
    """
    x86 = machine.lower() in ("x86_64", "amd64")
    levels = X86_LEVELS if x86 else {"plain": (4, ())}
    common = [*compiler, *FLAGS, *extra]
    kernels, objects = [], []
    for level, (lanes, flags) in levels.items():
        defined = {
            "step": (f"-DSTEP_LANES={lanes}", f"-DSTEP_RUN=step_run_{level}"),
            "sums": ("-ffp-contract=off", f"-DSUMS_TABLE=sums_{level}"),
            "clips": ("-ffp-contract=off", f"-DSTEP_LANES={lanes}", f"-DCLIPS_RUN=clips_{level}"),
        }
        for part in PARTS:
            made = str(folder / f"{part}-{level}.o")
            source = str(HERE / f"{part}_kernels.c")
            kernels.append([*common, *flags, "-Wno-psabi", *defined[part], "-c", source, "-o", made])
            objects.append(made)
    core = ("-DSTEP_X86",) if x86 else ()
    sources = (*(str(HERE / f"{part}_core.c") for part in PARTS), *objects)
    return kernels, [*common, *core, "-shared", *sources, "-o", str(folder / "step.so"), "-lm"]


def shipped(machine: str) -> Path:
    """Where a wheel brings the library for a machine."""
    return HERE / f"step-{machine.lower()}.so"
