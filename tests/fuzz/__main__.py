"""Fuzz the decoders: `python -m tests.fuzz [TARGET...] --cases N --seconds S --seed K --json`.

Each target has a process of its own, so that one which dies or does not come back is a finding as well.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import random
import signal
import sys
from pathlib import Path

from tests.fuzz.coverage import reached
from tests.fuzz.run import Result
from tests.fuzz.target import TARGETS, Target
from tests.fuzz.targets import load
from tests.fuzz.watched import watched

OUT = Path("out/fuzz")


def main(arguments: list[str] | None = None) -> int:
    """1 where something was found, 2 where a target does not exist, else 0."""
    given = _parser().parse_args(arguments)
    load()
    unknown = [name for name in given.targets if name not in TARGETS]
    if unknown:
        print(f'There is no target "{unknown[0]}"; there is: {", ".join(sorted(TARGETS))}.', file=sys.stderr)
        return 2
    targets = [TARGETS[name] for name in given.targets or sorted(TARGETS)]
    if given.list:
        print("\n".join(f"{target.name}: {', '.join(target.modules)}" for target in targets))
        return 0
    if given.write_corpus:
        for target in targets:
            write_corpus(target)
        return 0
    seed = random.SystemRandom().randrange(1 << 32) if given.seed is None else given.seed
    print(f"seed {seed}", file=sys.stderr)
    rows = []
    for target in targets:
        result = watched(target, seed, given.cases, given.seconds, None if given.quiet else _progress)
        kept = [str(path) for path in _keep(target, result, given.keep)]
        row = _row(result, kept)
        if given.coverage:
            row |= reached(target, seed, min(given.cases, 2000))
        rows.append(row)
        _say(row, result)
    if given.json:
        print(json.dumps(rows, indent=1))
    return 1 if any(row["findings"] for row in rows) else 0


def write_corpus(target: Target) -> None:
    """Write a target's examples into the tree; former findings stay."""
    target.corpus.mkdir(parents=True, exist_ok=True)
    for name, data in target.examples().items():
        (target.corpus / name).write_bytes(data)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m tests.fuzz", description=__doc__)
    parser.add_argument("targets", nargs="*", metavar="TARGET", help="which decoders [all]")
    parser.add_argument("--cases", type=int, default=10_000, help="inputs of each [10000]")
    parser.add_argument("--seconds", type=float, help="and no longer than this for each")
    parser.add_argument("--seed", type=int, help="the same seed gives the same inputs [drawn and printed]")
    parser.add_argument("--json", action="store_true", help="the result as JSON on standard output")
    parser.add_argument("--quiet", action="store_true", help="no progress on standard error")
    parser.add_argument("--coverage", action="store_true", help="also which lines 2,000 of the inputs reach")
    parser.add_argument("--keep", type=Path, default=OUT, help=f"folder for what was found [{OUT}]")
    parser.add_argument("--list", action="store_true", help="the targets and their modules, and nothing else")
    parser.add_argument("--write-corpus", action="store_true", help="make the examples in the tree again")
    return parser


def _progress(result: Result) -> None:
    rate = result.cases / max(result.seconds, 1e-9)
    print(f"  {result.target}: {result.cases:,} cases, {rate:,.0f}/s, {len(result.findings)} found", file=sys.stderr)


def _keep(target: Target, result: Result, folder: Path) -> list[Path]:
    paths = []
    for finding in result.findings.values():
        path = folder / target.name / f"found-{hashlib.sha256(finding.input).hexdigest()[:12]}"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(finding.input)
        path.with_suffix(".txt").write_text(f"{finding.what}, {finding.times} times\n{finding.trace}")
        paths.append(path)
    return paths


def _row(result: Result, kept: list[str]) -> dict[str, object]:
    same = ("target", "seed", "cases", "decoded", "refused")
    return {name: getattr(result, name) for name in same} | {
        "seconds": round(result.seconds, 1),
        "places": result.reached,
        "slowest_ms": round(result.slowest * 1e3, 1),
        "grown_mb": result.grown,
        "findings": list(result.findings),
        "kept": kept,
    }


def _say(row: dict[str, object], result: Result) -> None:
    covered = f", {row['lines_reached']} of {row['lines']} lines" if "lines" in row else ""
    print(
        f"{result.target}: {result.cases:,} cases in {result.seconds:.0f} s, {result.decoded:,} decoded, "
        f"{result.refused:,} refused at {result.reached} places, slowest {result.slowest * 1e3:.0f} ms"
        f"{covered}, {len(result.findings)} found",
        file=sys.stderr,
    )
    for finding in result.findings.values():
        print(f"  FOUND {finding.what}, {finding.times} times", file=sys.stderr)


if __name__ == "__main__":
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(128 + signal.SIGTERM))  # as Ctrl-C does, it ends the child first
    try:
        sys.exit(main())
    except KeyboardInterrupt:
        sys.exit(128 + signal.SIGINT)
