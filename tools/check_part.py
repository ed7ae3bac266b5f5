"""Check one part in a minute: lint, types, floors, and those of its tests that need nothing but the part.

Left out, and printed: a test file that imports another part too (it tests several), one that needs a library which is
not in this environment, and what has not begun when the time is over. Left out by their mark: tests that run commands
of several parts, and what `make test` leaves out as well.

The test files that were written last come first: what you are at is not what the minute leaves out.

    python tools/check_part.py core [--seconds 60]
"""

from __future__ import annotations

import argparse
import ast
import importlib.util
import os
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from pathlib import Path

from rooms import PARTS, ROOT

MAY_IMPORT = {part: {"auricle", package} for part, package in PARTS.items()}
MAY_IMPORT["edge"] |= {"auricle_learning"}
MAY_IMPORT["cloud"] |= {"auricle_learning"}
MAY_IMPORT["fleet"] |= {"auricle_learning", "auricle_edge", "auricle_cloud"}
MAY_IMPORT["export"] |= {"auricle_learning", "auricle_edge"}
"""Edge and cloud run what learning says that a round is, a fleet is made of both; what export compiles is tried in the
runtimes of learning and edge, for which its own libraries are enough."""
FAST = "not several and not slow and not arm64 and not boards and not firstboot"
RESERVE = 4.0
"""Seconds kept back for the tests that are under way when the time is over."""

LEAST = 15.0
"""Seconds that tests get from the first one on, also where starting has taken the minute: the first run in a new
environment compiles its libraries."""


def imported(path: Path) -> Iterator[str]:
    """Every module that a file names in an import, wherever the import stands."""
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
            yield node.module
            yield from (f"{node.module}.{alias.name}" for alias in node.names)


def needs(path: Path, root: Path = ROOT) -> set[str]:
    """Top-level packages that a test file imports, by the modules of tests that it imports too."""
    found: set[str] = set()
    open_files, seen = [path], {path}
    while open_files:
        for name in imported(open_files.pop()):
            helper = root / f"{name.replace('.', '/')}.py"
            if not name.startswith("tests."):
                found.add(name.partition(".")[0])
            elif helper.is_file() and helper not in seen:
                seen.add(helper)
                open_files.append(helper)
    return found - {"tests", "tools"} - ({"tomli"} if "tomllib" in sys.stdlib_module_names else set())


def chosen(part: str, root: Path = ROOT) -> tuple[list[Path], dict[Path, str]]:
    """The part's test files that run here, those written last first, and why each of the others does not."""
    run: list[Path] = []
    left_out: dict[Path, str] = {}
    for path in sorted((root / "tests" / part).rglob("test_*.py")):
        wanted = needs(path, root)
        others = sorted(wanted & set(PARTS.values()) - MAY_IMPORT[part])
        missing = sorted(name for name in wanted - set(others) if importlib.util.find_spec(name) is None)
        if others:
            left_out[path] = f"tests {', '.join(others)} too"
        elif missing:
            left_out[path] = f"needs {', '.join(missing)}"
        else:
            run.append(path)
    return sorted(run, key=lambda path: path.stat().st_mtime, reverse=True), left_out


def _step(name: str, command: Sequence[str], env: dict[str, str] | None = None) -> bool:
    began = time.monotonic()
    done = subprocess.run([sys.executable, *command], cwd=ROOT, env={**os.environ, **(env or {})}, check=False)
    print(f"{name}: {'ok' if done.returncode == 0 else 'FAILED'}, {time.monotonic() - began:.1f} s", flush=True)
    return done.returncode == 0


def environment() -> float:
    """Megabytes that this environment takes, as `du` counts them."""
    return sum(path.lstat().st_blocks for path in Path(sys.prefix).rglob("*")) * 512 / 2**20


def main(arguments: list[str] | None = None) -> int:
    """Run the checks; 0 where all passed."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("part", choices=PARTS)
    parser.add_argument("--seconds", type=float, default=60.0, help="for everything [60]")
    given = parser.parse_args(arguments)
    began = time.time()
    until = began + given.seconds - RESERVE
    folders = [given.part, f"tests/{given.part}"]
    run, left_out = chosen(given.part)
    print(
        f"{given.part}: lint and format of {' and '.join(folders)}, types of {PARTS[given.part]}, floors, and the "
        f"quick tests of {len(run)} of {len(run) + len(left_out)} test files; the end says which are left out",
        flush=True,
    )
    passed = [
        _step("lint", ["-m", "ruff", "check", "-q", *folders]),
        _step("format", ["-m", "ruff", "format", "-q", "--check", *folders]),
        _step("types", ["-m", "mypy", "-p", PARTS[given.part]]),
        _step("floors", ["tools/rooms.py", "--check", "--part", given.part]),
    ]
    tests = [
        "-m",
        "pytest",
        "-p",
        "tools.time_budget",
        "-n",
        "auto",
        "-m",
        FAST,
        *(str(p.relative_to(ROOT)) for p in run),
    ]
    passed.append(_step("tests", tests, {"AURICLE_TESTS_UNTIL": str(until), "AURICLE_TESTS_LEAST": str(LEAST)}))
    print(f"environment: {environment():.0f} MB; {time.time() - began:.0f} s in all")
    print(f"{len(left_out)} test files were left out by what they import{':' if left_out else '.'}")
    for path, why in left_out.items():
        print(f"  {path.relative_to(ROOT)} {why}")
    print("Also left out: marked several, slow, arm64, boards or firstboot; make test, slow and nightly run these.")
    return 0 if all(passed) else 1


if __name__ == "__main__":
    sys.exit(main())
