"""Change the sources one place at a time, run their tests, and print which changes no test sees.

`python tools/mutants.py [FILE ...] --sample 40` works in a copy of the tree; `mutants.toml` says which tests judge
which file, and which changes make no difference. See docs/testing.md.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import random
import shutil
import signal
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from importlib import import_module
from importlib.util import cache_from_source
from multiprocessing import connection, get_context
from pathlib import Path
from typing import Any

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

sys.path.insert(0, str(Path(__file__).parent))
from mutations import Mutant, mutants_of

ROOT = Path(__file__).resolve().parent.parent
PLAN = Path(__file__).with_suffix(".toml")
PARTS = ("core", "edge", "cloud", "export", "fleet")
LEFT_OUT = (".*", "__pycache__", "node_modules")
SLACK = 30.0
"""Seconds a run of tests may take beyond ten times what it takes without a change."""
EVERY = 10
"""Changes between two lines of progress."""


@dataclass(frozen=True)
class Judged:
    """A source file and the tests that judge it."""

    file: str
    tests: tuple[str, ...]
    equivalent: frozenset[str]
    """Changed lines that make no difference."""


@dataclass(frozen=True)
class Result:
    """What became of the changes of one file."""

    file: str
    possible: int
    equivalent: int
    tried: int
    survived: tuple[Mutant, ...]

    @property
    def percent(self) -> float:
        """Survivors of those tried."""
        return 100 * len(self.survived) / self.tried if self.tried else 0.0


def read_plan(text: str, wanted: Sequence[str]) -> list[Judged]:
    """The files to judge: all of the plan, or those that are named; SystemExit where one has no tests."""
    plan = tomllib.loads(text)
    alike: dict[str, set[str]] = {}
    for each in plan.get("equivalent", []):
        alike.setdefault(each["file"], set()).add(each["after"])
    known = {
        file: Judged(file, tuple(group["tests"]), frozenset(alike.get(file, ())))
        for group in plan["judged"]
        for pattern in group["files"]
        for file in sorted(str(path.relative_to(ROOT)) for path in ROOT.glob(pattern))
    }
    for name in wanted:
        if name not in known:
            raise SystemExit(f"{name} is not in {PLAN.name}: add it there with the tests that judge it.")
    return [known[name] for name in wanted or known]


class Tree:
    """A copy of the project in which one file is changed at a time."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        shutil.copytree(ROOT, folder, ignore=shutil.ignore_patterns(*LEFT_OUT), dirs_exist_ok=True)

    def write(self, file: str, source: bytes) -> None:
        """Put a source in place, without what was compiled of the one before."""
        path = self.folder / file
        path.write_bytes(source)
        Path(cache_from_source(str(path))).unlink(missing_ok=True)

    def start(self, tests: Sequence[str], *, compiled: bool = False) -> Any:
        """Run tests in a child process, which keeps what it `compiled`; its exit code is pytest's."""
        process = get_context("fork").Process(target=_run, args=(self.folder, tests, compiled))
        process.start()
        return process


def _run(folder: Path, tests: Sequence[str], compiled: bool) -> None:
    os.setpgid(0, 0)
    said = os.open(folder / "said.txt", os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
    for stream in (1, 2):
        os.dup2(said, stream)
    os.chdir(folder)
    paths = [str(folder / part) for part in PARTS]
    sys.path[:0] = [str(folder), *paths]
    os.environ["PYTHONPATH"] = os.pathsep.join(paths)
    sys.dont_write_bytecode = not compiled
    os.environ["PYTEST_DISABLE_PLUGIN_AUTOLOAD"] = "1"  # they take longer than most tests
    plugins = ["-p", "no:cacheprovider", "-p", "_hypothesis_pytestplugin", "-p", "pytest_timeout"]
    options = ["-x", "-q", *plugins, "-m", "not slow", "--hypothesis-seed=0"]
    code = import_module("pytest").main([*options, *tests])
    sys.stdout.flush()
    os._exit(int(code))


def ended(process: Any, seconds: float) -> bool:
    """Whether a run ended in time; one that did not is killed with all it started."""
    connection.wait([process.sentinel], seconds)
    in_time = not process.is_alive()
    with contextlib.suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)
    process.join()
    return in_time


def survivors(tree: Tree, judged: Judged, mutants: Sequence[Mutant], seconds: float) -> Iterator[Mutant]:
    """Those of the changes with which all tests pass; progress and each of them are told on standard error."""
    for number, mutant in enumerate(mutants, 1):
        tree.write(mutant.file, mutant.source)
        process = tree.start(judged.tests)
        survived = ended(process, seconds) and process.exitcode == 0
        if survived or number % EVERY == 0 or number == len(mutants):
            _say(f"{judged.file}: {number} of {len(mutants)} changes tried")
        if survived:
            _say(f"  line {mutant.line} survived\n  - {mutant.before}\n  + {mutant.after}")
            yield mutant


def _say(text: str) -> None:
    print(text, file=sys.stderr, flush=True)


def judge(tree: Tree, judged: Judged, sample: int, seed: int) -> Result:
    """Try the changes of one file; SystemExit where its tests fail without a change."""
    source = (ROOT / judged.file).read_bytes()
    tree.write(judged.file, source)
    began = time.monotonic()
    unchanged = tree.start(judged.tests, compiled=True)
    if not ended(unchanged, 1800) or unchanged.exitcode != 0:
        said = (tree.folder / "said.txt").read_text(errors="replace")
        raise SystemExit(f"The tests of {judged.file} do not pass as it is:\n{said[-3000:]}")
    seconds = 10 * (time.monotonic() - began) + SLACK
    possible = mutants_of(judged.file, source)
    counting = [mutant for mutant in possible if mutant.after not in judged.equivalent]
    drawn = counting
    if 0 < sample < len(counting):
        chosen = sorted(random.Random(f"{seed} {judged.file}").sample(range(len(counting)), sample))
        drawn = [counting[i] for i in chosen]
    _say(f"{judged.file}: {len(drawn)} of {len(possible)} changes")
    survived = tuple(survivors(tree, judged, drawn, seconds))
    tree.write(judged.file, source)
    return Result(judged.file, len(possible), len(possible) - len(counting), len(drawn), survived)


def table(results: Sequence[Result]) -> str:
    """One line a file, and every survivor."""
    lines = [f"{'file':<52} {'possible':>8} {'alike':>6} {'tried':>6} {'survived':>8}"]
    for each in results:
        count = f"{len(each.survived):>4} {each.percent:3.0f}%"
        lines.append(f"{each.file:<52} {each.possible:>8} {each.equivalent:>6} {each.tried:>6} {count}")
    for mutant in (mutant for each in results for mutant in each.survived):
        lines += [f"{mutant.file}:{mutant.line}", f"  - {mutant.before}", f"  + {mutant.after}"]
    return "\n".join(lines)


def as_json(results: Sequence[Result]) -> str:
    """The same for programs; the sources are left out."""
    rows = [asdict(each) for each in results]
    for row in rows:
        for mutant in row["survived"]:
            del mutant["source"], mutant["file"]
    return json.dumps(rows, indent=1)


def main() -> int:
    """Judge the files that are named and say whether every one keeps to the limit."""
    parser = argparse.ArgumentParser(description="Print the changes of a source that no test sees.")
    parser.add_argument("files", nargs="*", help="of mutants.toml; none: all of it")
    parser.add_argument("--sample", type=int, default=0, help="so many changes of each file, drawn; 0: all")
    parser.add_argument("--seed", type=int, default=0, help="of the draw")
    parser.add_argument("--limit", type=float, default=10.0, help="most percent of a file's changes that may survive")
    parser.add_argument("--json", action="store_true", help="print JSON")
    options = parser.parse_args()
    text = PLAN.read_text()
    judged = read_plan(text, options.files)
    os.environ["OMP_NUM_THREADS"] = "1"
    for name in tomllib.loads(text)["preload"]:
        with contextlib.suppress(ImportError):  # its tests are skipped
            import_module(name)
    with tempfile.TemporaryDirectory(prefix="mutants-") as folder:
        tree = Tree(Path(folder))
        results = [judge(tree, each, options.sample, options.seed) for each in judged]
    print(as_json(results) if options.json else table(results))
    return int(any(each.percent > options.limit for each in results))


if __name__ == "__main__":
    sys.exit(main())
