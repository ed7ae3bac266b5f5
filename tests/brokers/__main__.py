"""What Auricle needs of an MQTT broker, tried on one: `python -m tests.brokers --url mqtt://127.0.0.1:1883 ...`.

The broker knows the users coordinator, dev-a and dev-b, each with its password (`--passwords`, a JSON object) or its
certificate (`--ca`, and `--cert ROLE=FILE --key ROLE=FILE` for each), and has the access list that `auricle cloud enrol
broker` writes for the fleet of `--fleet`. With one user in the URL for everybody, checks of who may do what are left
out. No coordinator or device of that fleet runs meanwhile. Exit code 1 where something that is required is missed.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import sys
import tempfile
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import asdict
from pathlib import Path

from auricle.errors import AuricleError
from auricle.process.open_files import raise_open_files
from tests.brokers import page
from tests.brokers.check import Outcome, Target
from tests.brokers.other_broker import target, with_protocol
from tests.brokers.own_brokers import KINDS, run_broker, version_of
from tests.brokers.suite import check_names, failures, outcomes


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m tests.brokers", description=(__doc__ or "").partition("\n")[0])
    where = parser.add_mutually_exclusive_group()
    where.add_argument("--url", help="mqtt:// or mqtts://, with user and password if all roles share one")
    where.add_argument("--start", choices=KINDS, help="start this broker as Auricle configures it")
    where.add_argument("--page", action="store_true", help="write the table of docs/brokers.md again")
    where.add_argument("--list", action="store_true", help="print the checks")
    parser.add_argument("--passwords", type=Path, metavar="FILE", help="JSON object: password by user")
    parser.add_argument("--ca", type=Path, metavar="FILE", help="PEM of the authority to trust")
    parser.add_argument("--cert", action="append", default=[], metavar="ROLE=FILE", help="PEM chain of a role")
    parser.add_argument("--key", action="append", default=[], metavar="ROLE=FILE", help="PEM key of a role")
    parser.add_argument("--fleet", default="f", help="third level of every topic [f]")
    parser.add_argument("--connections", type=int, default=1000, metavar="N", help="size of the crowd [1000]")
    parser.add_argument(
        "--only", action="append", default=[], metavar="CHECK", help="this check alone; several allowed"
    )
    parser.add_argument("--json", action="store_true", help="print the outcomes as JSON")
    parser.add_argument("--record", metavar="NAME", help="enter the outcomes in docs/brokers.json under this name")
    parser.add_argument("--version", default="", help="of the broker, for --record")
    parser.add_argument("--setup", action="append", default=[], metavar="LINE", help="how it was set up, for --record")
    return parser


@asynccontextmanager
async def _place(options: argparse.Namespace) -> AsyncIterator[Target]:
    if options.start is None:
        files = {"passwords": options.passwords, "ca": options.ca, "certs": options.cert, "keys": options.key}
        yield await with_protocol(target(options.url, options.fleet, **files))
        return
    with tempfile.TemporaryDirectory() as folder:
        Path(folder).chmod(0o755)
        async with run_broker(options.start, Path(folder), options.connections) as place:
            yield place


async def _run(options: argparse.Namespace) -> list[Outcome]:
    raise_open_files()
    results = []
    async with _place(options) as place:
        place.crowd = options.connections
        async for one in outcomes(place, options.only):
            results.append(one)
            if not options.json:
                print(_line(one), flush=True)
    return results


def _line(one: Outcome) -> str:
    figures = ", ".join(f"{name} {value}" for name, value in one.figures.items())
    return (
        f"{one.verdict:12} {one.need:9} {one.name}{f': {one.sentence or figures}' if one.sentence or figures else ''}"
    )


def main(arguments: Sequence[str] | None = None) -> int:
    """Try a broker, or write the page."""
    parser = _parser()
    options = parser.parse_args(arguments)
    if options.page:
        page.write()
        return 0
    if options.list:
        print("\n".join(check_names(())))
        return 0
    if options.url is None and options.start is None:
        parser.error("one of --url, --start, --page, --list is needed")
    try:
        check_names(options.only)
        results = asyncio.run(_run(options))
    except AuricleError as error:
        print(f"tests.brokers: {error}", file=sys.stderr)
        return 2
    missed = failures(results)
    if options.json:
        print(json.dumps({"checks": [asdict(one) for one in results], "required and missed": missed}, indent=1))
    else:
        untried = sum(one.verdict == "not tried" and one.need == "required" for one in results)
        print(f"{len(missed)} required checks missed{f', {untried} not tried' if untried else ''}")
    if options.record:
        given = list(sys.argv[1:] if arguments is None else arguments)
        page.record(options.record, options.version or version_of(options.start), results, given, options.setup)
    return 1 if missed else 0


if __name__ == "__main__":
    sys.exit(main())
