"""Change the sources one place at a time, run their tests, and print which changes no test sees.

`python tools/mutants.py [FILE ...] --sample 40` works in a copy of the tree; `mutants.toml` says which tests judge
which file, and which changes make no difference. `--draw 18` takes so many changes of each area, by the date: what
the nightly tests run. See docs/testing.md.
"""

from __future__ import annotations

import argparse
import datetime
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
OF_A_FILE = 6
"""Drawn changes of one file, where its area has others: to collect a file's tests takes longer than to try these."""


@dataclass(frozen=True)
class Judged:
    """A source file and the tests that judge it."""

    file: str
    tests: tuple[str, ...]
    equivalent: frozenset[str]
    """Changed lines that make no difference."""
    area: str
    """What `--draw` counts it to; empty where that leaves it out."""


@dataclass(frozen=True)
class Result:
    """What became of the changes of one file."""

    file: str
    area: str
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
        file: Judged(file, tuple(group["tests"]), frozenset(alike.get(file, ())), group.get("area", ""))
        for group in plan["judged"]
        for pattern in group["files"]
        for file in sorted(str(path.relative_to(ROOT)) for path in ROOT.glob(pattern))
    }
    for name in wanted:
        if name not in known:
            raise SystemExit(f"{name} is not in {PLAN.name}: add it there with the tests that judge it.")
    return [known[name] for name in wanted or known]


def counting(judged: Judged) -> list[Mutant]:
    """The changes of a file that make a difference."""
    possible = mutants_of(judged.file, (ROOT / judged.file).read_bytes())
    return [mutant for mutant in possible if mutant.after not in judged.equivalent]


def sampled(judged: Judged, sample: int, seed: int) -> list[Mutant]:
    """So many of a file's changes; all where `sample` is 0."""
    found = counting(judged)
    if not 0 < sample < len(found):
        return found
    chosen = sorted(random.Random(f"{seed} {judged.file}").sample(range(len(found)), sample))
    return [found[i] for i in chosen]


def drawn(plan: Sequence[Judged], count: int, seed: int) -> list[tuple[Judged, list[Mutant]]]:
    """So many changes of each area, `OF_A_FILE` of a file in turn, in the order of the plan."""
    chosen: dict[str, list[Mutant]] = {}
    for area in sorted({each.area for each in plan} - {""}):
        draw, left = random.Random(f"{seed} {area}"), count
        files = [each for each in plan if each.area == area]
        draw.shuffle(files)
        pools: dict[str, list[Mutant]] = {}
        while left and files:
            for each in list(files):
                if each.file not in pools:
                    pools[each.file] = counting(each)
                    draw.shuffle(pools[each.file])
                taken = [pools[each.file].pop() for _ in range(min(OF_A_FILE, left, len(pools[each.file])))]
                chosen.setdefault(each.file, []).extend(taken)
                left -= len(taken)
                if not pools[each.file]:
                    files.remove(each)
    return [(each, sorted(chosen[each.file], key=lambda mutant: mutant.line)) for each in plan if chosen.get(each.file)]


def judge(tree: Tree, judged: Judged, mutants: Sequence[Mutant]) -> Result:
    """Try changes of one file; SystemExit where its tests fail without a change."""
    possible = mutants_of(judged.file, (ROOT / judged.file).read_bytes())
    alike = sum(mutant.after in judged.equivalent for mutant in possible)
    _say(f"{judged.file}: {len(mutants)} of {len(possible)} changes")
    survived = []
    for number, (mutant, code) in enumerate(_codes(tree, judged, mutants), 1):
        if code == PASSED:
            survived.append(mutant)
            _say(f"  line {mutant.line} survived\n  - {mutant.before}\n  + {mutant.after}")
        if number % EVERY == 0:
            _say(f"  {number} tried, {len(survived)} survived")
    return Result(judged.file, judged.area, len(possible), alike, len(mutants), tuple(survived))


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


def total(results: Sequence[Result], name: str = "all") -> Result:
    """The changes of several files together."""
    survived = tuple(mutant for each in results for mutant in each.survived)
    sums = (sum(getattr(each, field) for each in results) for field in ("possible", "equivalent", "tried"))
    return Result(name, "", *sums, survived)


def by_area(results: Sequence[Result]) -> list[Result]:
    """A sum for each area, and of all."""
    areas = sorted({each.area for each in results})
    return [*(total([each for each in results if each.area == area], area) for area in areas), total(results)]


def table(results: Sequence[Result], sums: Sequence[Result] = ()) -> str:
    """One line a file, and every survivor."""
    lines = [f"{'file':<52} {'possible':>8} {'alike':>6} {'tried':>6} {'survived':>8}"]
    for each in (*results, *sums):
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
    """Judge the files that are named and say whether every one, or what is drawn, keeps to the limit."""
    parser = argparse.ArgumentParser(description="Print the changes of a source that no test sees.")
    parser.add_argument("files", nargs="*", help="of mutants.toml; none: all of it")
    parser.add_argument("--sample", type=int, default=0, help="so many changes of each file, drawn; 0: all")
    parser.add_argument("--draw", type=int, default=0, help="so many changes of each area instead, by the date")
    parser.add_argument("--seed", type=int, help="of the draw; else 0, with --draw the day's ordinal number")
    parser.add_argument("--limit", type=float, help="most percent of a file's changes, or of all drawn, that survive")
    parser.add_argument("--json", action="store_true", help="print JSON")
    options = parser.parse_args()
    text = PLAN.read_text()
    plan = read_plan(text, options.files)
    seed = options.seed if options.seed is not None else datetime.date.today().toordinal() if options.draw else 0
    limit = options.limit if options.limit is not None else 1.0 if options.draw else 10.0
    if options.draw:
        _say(f"again: python tools/mutants.py --draw {options.draw} --seed {seed} {' '.join(options.files)}")
        chosen = drawn(plan, options.draw, seed)
    else:
        chosen = [(each, sampled(each, options.sample, seed)) for each in plan]
    preload(tomllib.loads(text)["preload"])
    with tempfile.TemporaryDirectory(prefix="mutants-") as folder:
        tree = Tree(ROOT, Path(folder))
        results = [judge(tree, each, mutants) for each, mutants in chosen]
    sums = by_area(results) if options.draw else []
    print(as_json(results) if options.json else table(results, sums))
    return int(any(each.percent > limit for each in (sums[-1:] or results)))


if __name__ == "__main__":
    sys.exit(main())
