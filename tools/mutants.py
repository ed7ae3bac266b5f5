"""Change the sources one place at a time, run their tests, and print which changes no test sees.

`python tools/mutants.py [FILE ...] --sample 40` works in a copy of the tree; `mutants.toml` says which tests judge
which file, and which changes make no difference. See docs/testing.md.
"""

from __future__ import annotations

import argparse
import json
import random
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

sys.path.insert(0, str(Path(__file__).parent))
from mutant_runs import NOT_SWAPPED, PASSED, SLACK, Tree, preload
from mutations import Mutant, mutants_of

ROOT = Path(__file__).resolve().parent.parent
PLAN = Path(__file__).with_suffix(".toml")
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


def judge(tree: Tree, judged: Judged, sample: int, seed: int) -> Result:
    """Try the changes of one file; SystemExit where its tests fail without a change."""
    possible = mutants_of(judged.file, (ROOT / judged.file).read_bytes())
    counting = [mutant for mutant in possible if mutant.after not in judged.equivalent]
    drawn = counting
    if 0 < sample < len(counting):
        chosen = sorted(random.Random(f"{seed} {judged.file}").sample(range(len(counting)), sample))
        drawn = [counting[i] for i in chosen]
    _say(f"{judged.file}: {len(drawn)} of {len(possible)} changes")
    survived = []
    for number, (mutant, code) in enumerate(_codes(tree, judged, drawn), 1):
        if code == PASSED:
            survived.append(mutant)
            _say(f"  line {mutant.line} survived\n  - {mutant.before}\n  + {mutant.after}")
        if number % EVERY == 0:
            _say(f"  {number} tried, {len(survived)} survived")
    return Result(judged.file, len(possible), len(possible) - len(counting), len(drawn), tuple(survived))


def _codes(tree: Tree, judged: Judged, mutants: Sequence[Mutant]) -> Iterator[tuple[Mutant, int]]:
    """Each change with its tests' exit code: those inside of functions in place, then the others."""
    began = time.monotonic()
    inner = [mutant for mutant in mutants if mutant.inside]
    codes = tree.in_place(judged.file, judged.tests, [mutant.source for mutant in inner])
    if next(codes, None) != PASSED:
        raise SystemExit(f"The tests of {judged.file} do not pass as it is:\n{tree.said}")
    seconds = 10 * (time.monotonic() - began) + SLACK
    again = []
    for mutant, code in zip(inner, codes, strict=True):
        if code == NOT_SWAPPED:
            again.append(mutant)
        else:
            yield mutant, code
    for mutant in [mutant for mutant in mutants if not mutant.inside] + again:
        yield mutant, tree.from_start(judged.file, judged.tests, mutant.source, seconds)


def _say(text: str) -> None:
    print(text, file=sys.stderr, flush=True)


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
            del mutant["source"], mutant["file"], mutant["inside"]
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
    preload(tomllib.loads(text)["preload"])
    with tempfile.TemporaryDirectory(prefix="mutants-") as folder:
        tree = Tree(ROOT, Path(folder))
        results = [judge(tree, each, options.sample, options.seed) for each in judged]
    print(as_json(results) if options.json else table(results))
    return int(any(each.percent > options.limit for each in results))


if __name__ == "__main__":
    sys.exit(main())
