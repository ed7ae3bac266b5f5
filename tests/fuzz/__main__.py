"""Fuzz the decoders: `python -m tests.fuzz [TARGET...] --cases N --seconds S --seed K --workers W --json`.

Each target has a process of its own, so that one which dies or does not come back is a finding as well. With
`--campaign FOLDER` what was done is kept: the same command goes on where it was interrupted.
"""

from __future__ import annotations

import argparse
import random
import secrets
import signal
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory

import msgspec

from auricle.errors import AuricleError
from tests.fuzz.campaign import Campaign
from tests.fuzz.run import Result
from tests.fuzz.table import record_page, table
from tests.fuzz.target import TARGETS, Target
from tests.fuzz.targets import load

OUT = Path("out/fuzz")


def main(arguments: list[str] | None = None) -> int:
    """1 where something was found, 2 where a target does not exist or a folder holds no campaign, else 0."""
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
    try:
        return _campaign(given, targets)
    except AuricleError as error:
        print(error, file=sys.stderr)
        return 2


def _campaign(given: argparse.Namespace, targets: list[Target]) -> int:
    seed = random.SystemRandom().randrange(1 << 32) if given.seed is None else given.seed
    print(f"seed {seed}", file=sys.stderr)
    with _folder(given.campaign) as folder:
        campaign = Campaign(
            folder=folder,
            seed=seed,
            cases=given.cases,
            seconds=given.seconds,
            command=secrets.token_hex(8),
            kept=given.keep or given.campaign or OUT,
            coverage=given.coverage,
            progress=None if given.quiet else _say_progress,
        )
        if not given.status:
            campaign.work(targets, given.workers)
        records = [campaign.read(target) for target in targets]
    if given.page:
        record_page(records)
    print(msgspec.json.format(msgspec.json.encode(records), indent=1).decode() if given.json else table(records))
    return 1 if any(record.findings for record in records) else 0


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
    parser.add_argument("--workers", type=int, default=1, help="targets at the same time [1]")
    parser.add_argument("--campaign", type=Path, metavar="FOLDER", help="keep what was done here, and go on with it")
    parser.add_argument("--status", action="store_true", help="run nothing: say how far a campaign is")
    parser.add_argument("--page", action="store_true", help="also write docs/fuzzing.md of the result")
    parser.add_argument("--json", action="store_true", help="the result as JSON on standard output, no table")
    parser.add_argument("--quiet", action="store_true", help="no progress on standard error")
    parser.add_argument("--coverage", action="store_true", help="also which lines in functions the inputs reach")
    parser.add_argument("--keep", type=Path, help=f"folder for what was found [the campaign's, or {OUT}]")
    parser.add_argument("--list", action="store_true", help="the targets and their modules, and nothing else")
    parser.add_argument("--write-corpus", action="store_true", help="make the examples in the tree again")
    return parser


@contextmanager
def _folder(campaign: Path | None) -> Iterator[Path]:
    """The folder of a campaign, or one that is removed."""
    if campaign is not None:
        yield campaign
        return
    with TemporaryDirectory(prefix="fuzz-") as folder:
        yield Path(folder)


def _say_progress(result: Result) -> None:
    rate = result.cases / max(result.seconds, 1e-9)
    print(
        f"  {result.target}: {result.known.cases:,} cases, {rate:,.0f}/s, {len(result.findings)} found",
        file=sys.stderr,
        flush=True,
    )


if __name__ == "__main__":
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(128 + signal.SIGTERM))  # as Ctrl-C does, it ends the child first
    try:
        sys.exit(main())
    except KeyboardInterrupt:
        sys.exit(128 + signal.SIGINT)
