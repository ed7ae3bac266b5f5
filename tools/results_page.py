"""docs/results/: a page for each suite that was run, and a first page: which method for which fleet, and all claims.

Everything is made of docs/results/data/NAME.json, the results.json of a suite. docs/results/fleets.toml says which
suite answers for which fleet; docs/results/notes/NAME.md, by hand, stands in the page of that suite.
Claims are those of the suite's file as it is today, and what the print has is of the package's files of the papers.

    python tools/results_page.py                       write all pages
    python tools/results_page.py --check               exit 1 where one is out of date
    python tools/results_page.py --take suites/NAME    take the results and pictures of a suite, then write all pages
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

import msgspec

if __package__ in (None, ""):
    sys.path.insert(0, str(Path(__file__).parents[1]))

from auricle.errors import AuricleError, DataError, SettingsError
from auricle_fleet.suite.claims import HEAD as CLAIM_HEAD
from auricle_fleet.suite.claims import Verdict, methods_alike, verdict_row, verdicts
from auricle_fleet.suite.plan import Condition, Method, Suite, read_suite, shipped
from auricle_fleet.suite.prints import find_item
from auricle_fleet.suite.record import SuiteRecord
from auricle_fleet.suite.targets import is_to_target
from auricle_fleet.suite.written import Table, markdown, tables
from tools.results_fleets import HEAD, fleet_row, read_fleets

ROOT = Path(__file__).parents[1]
FOLDER = ROOT / "docs" / "results"
FULL = "-full"
DIGITS = 6
LARGEST = 60_000
"""Bytes of a committed results.json above which what only pictures are made of is left out."""
MOST_PICTURES = 8
LEFT_OUT = ("confusion-", "loss-")
"""Beginnings of the names of pictures that are not taken."""
SHARED = ("preset", "method", "method_options", "labelled")
"""Settings of a suite that say of its methods what they are."""
RERUN = "run python tools/results_page.py"
OTHERS = ("attacks.md",)
"""Pages of the folder that something else makes: `bench/attacks.py`."""
FIRST = """# Results

What the suites that come with this package ([suites](../suites.md)) came to, with the data and on the machines that
their pages name. A claim is **shown** where the 95 % interval of the paired differences over the seeds lies wholly on
the claimed side, **refuted** where wholly on the other, and **undecided** otherwise. It is **not judged** where one
of its methods has learnt nothing: all rates that were tried for it reached the same accuracy, or it stands less than a
tenth of the way from chance to all right. `could show` is half of the interval, the smallest difference that these
seeds can show. Pages of suites are
made by `python tools/results_page.py`; with `--take FOLDER` it takes in a suite that was run. Beside
them: [every method against every attack](attacks.md).

## Which method for which fleet

The best method by the mean of the seeds; where its interval beside FedAvg holds 0, FedAvg. `with` is what differs
between the methods; words, rounds, epochs and what else all have in common are in the suite's file.

"""


@dataclass(frozen=True)
class Ran:
    """A suite whose results are here."""

    name: str
    record: SuiteRecord
    suite: Suite
    """As its results have it, with the claims and settings of its file."""

    @property
    def judged(self) -> tuple[Verdict, ...]:
        """Its claims."""
        return verdicts(self.suite.claims, self.record.tables, methods_alike(self.record.tuned))

    def claim_row(self, judged: Verdict) -> list[str]:
        """A claim with what the print says, its verdict and the numbers; none where a method could not be tuned."""
        row = verdict_row(judged, find_item(self.name.removesuffix(FULL)))
        return [*row[:2], f"**{row[2]}**", *row[3:]]


def read(path: Path) -> Ran:
    """A suite by its results.

    Raises
    ------
    DataError
        They cannot be read.
    SettingsError
        A claim of its file is of what the results do not have.
    """
    try:
        record = msgspec.json.decode(path.read_bytes(), type=SuiteRecord)
    except msgspec.DecodeError as error:
        raise DataError(f"{path.name} is not the results.json of a suite: {error}") from error
    name = path.stem.removesuffix(FULL)
    of_file = read_suite(name)[0] if name in shipped() else None
    shared = {} if of_file is None else {name: of_file.settings[name] for name in SHARED if name in of_file.settings}
    known = {} if of_file is None else {method.name: _whole(method, shared) for method in of_file.methods}
    entries = record.tables.entries
    try:
        suite = Suite(
            about=record.about,
            seeds=record.seeds,
            methods=tuple(known.get(method, Method(name=method)) for method in record.methods),
            conditions=tuple(Condition(name=condition) for condition in record.conditions),
            reference=record.reference,
            target=record.target,
            target_figure=record.target_figure,
            target_seconds=record.target_seconds,
            target_devices=record.target_devices,
            figures=tuple(each for each in dict.fromkeys(e.figure for e in entries) if not is_to_target(each)),
            claims=() if of_file is None else of_file.claims,
        )
    except SettingsError as error:
        raise SettingsError(f"{path.name} is older than its suite, or of another: {error}") from error
    return Ran(path.stem, record, suite)


def _whole(method: Method, shared: Mapping[str, object]) -> Method:
    """A method with what the suite's settings say of it; what it tunes its results tell."""
    return msgspec.structs.replace(method, settings={**shared, **method.settings}, constant=None)


def _rank(picture: Path) -> tuple[bool, str]:
    """Pictures of the shared plug-in come first: only so many are taken."""
    return picture.name.startswith(("personal", "precision-recall")), picture.name


def page(ran: Ran, note: str = "", pictures: tuple[str, ...] = ()) -> str:
    """The page of a suite."""
    record = ran.record
    made = ", ".join(f"{name} {number}" for name, number in record.versions.items())
    parts = [
        f"# {ran.name}\n",
        f"{record.about}\n",
        f"{len(record.methods)} methods in {len(record.conditions)} conditions, seeds "
        f"{', '.join(map(str, record.seeds))}, {record.size} size, on {record.machine.cores} cores "
        f"({record.machine.processor}) with {made}:\n",
        f"<!-- not run: a suite takes up to hours -->\n\n    {record.command}\n",
    ]
    if ran.judged:
        parts += ["## Claims of the print\n", _table(CLAIM_HEAD, [ran.claim_row(each) for each in ran.judged])]
    if note:
        parts += ["## Notes\n", f"{note.strip()}\n"]
    parts += [
        "## Tables\n",
        *(
            markdown(each)
            for each in tables(ran.suite, record.tables, (find_item(ran.name.removesuffix(FULL)), ()))
            if each.model != "claims"
        ),
    ]
    if record.tuned:
        rows = [[each.method, each.tries(), str(each.kept)] for each in record.tuned]
        parts += [f"## Tuned: {record.setting}\n", _table(["method", "tried", "kept"], rows)]
    if record.failed:
        rows = [[name, why] for name, why in sorted(record.failed.items())]
        parts += ["## Runs that failed\n", _table(["run", "why"], rows)]
    if pictures:
        parts += ["## Curves\n", *(f"![{Path(name).stem}](figures/{ran.name}/{name})\n" for name in pictures)]
    return "\n".join(parts)


def first_page(found: Mapping[str, Ran], fleets: Path) -> str:
    """The page that a newcomer reads first."""
    answers, missing = [], []
    for fleet in read_fleets(fleets) if fleets.is_file() else ():
        ran = found.get(fleet.suite)
        if ran is None:
            missing.append(f"{fleet.fleet} (`{fleet.suite}`)")
        else:
            row = fleet_row(fleet, ran.record, ran.suite)
            answers.append(row)
    parts = [
        FIRST,
        _table(HEAD, answers) if answers else "No suite that answers for a fleet has been run yet.\n",
    ]
    if missing:
        parts.append(f"\nNot run yet: {'; '.join(missing)}.\n")
    rows = [
        [f"[{ran.name}]({ran.name}.md)", *ran.claim_row(each)[:1], *ran.claim_row(each)[2:]]
        for ran in found.values()
        for each in ran.judged
    ]
    if rows:
        parts += ["\n## Claims of the prints\n\n", _table(["suite", CLAIM_HEAD[0], *CLAIM_HEAD[2:]], rows)]
    if found:
        listed = "".join(f"- [{ran.name}]({ran.name}.md): {ran.record.about}\n" for ran in found.values())
        parts += ["\n## All suites\n\n", listed]
    return "".join(parts)


def _table(head: list[str], rows: list[list[str]]) -> str:
    return markdown(Table("", head, rows)).removeprefix("****\n\n")


def written(folder: Path) -> dict[Path, str]:
    """Every page of the folder, by its path; AuricleError where something it is made of cannot be read."""
    found = {path.stem: read(path) for path in sorted((folder / "data").glob("*.json"))}
    made = {folder / "README.md": first_page(found, folder / "fleets.toml")}
    for name, ran in found.items():
        note = folder / "notes" / f"{name}.md"
        pictures = tuple(sorted(each.name for each in (folder / "figures" / name).glob("*.svg")))
        told = note.read_text(encoding="utf-8") if note.is_file() else ""
        made[folder / f"{name}.md"] = page(ran, told, pictures)
    return made


def stale(folder: Path, made: Mapping[Path, str]) -> Iterator[str]:
    """The pages that are not as they would be written, and those that nothing is behind."""
    for path, text in made.items():
        if not path.is_file() or path.read_text(encoding="utf-8") != text:
            yield path.name
    yield from (path.name for path in sorted(folder.glob("*.md")) if path not in made and path.name not in OTHERS)


def take(suite: Path, folder: Path) -> None:
    """Copy results and pictures of a suite's folder; DataError where it has none."""
    source = suite / "results.json"
    if not source.is_file():
        raise DataError(f"{suite} has no results.json: run the suite, then name its folder.")
    try:
        record = msgspec.json.decode(source.read_bytes(), type=SuiteRecord)
    except msgspec.DecodeError as error:
        raise DataError(f"{source} is not the results.json of a suite: {error}") from error
    name = record.name + (FULL if record.size == "full" and not record.name.endswith(FULL) else "")
    target = folder / "data" / f"{name}.json"
    target.parent.mkdir(parents=True, exist_ok=True)
    target.write_bytes(_small(record))
    drawn = folder / "figures" / name
    for before in drawn.glob("*.svg"):
        before.unlink()
    drawn_now = (each for each in sorted(suite.glob("figures/*.svg"), key=_rank) if not each.name.startswith(LEFT_OUT))
    pictures = [each for each in drawn_now if each.stat().st_size <= LARGEST]
    for picture in pictures[:MOST_PICTURES]:
        drawn.mkdir(parents=True, exist_ok=True)
        (drawn / picture.name).write_bytes(picture.read_bytes())


def _small(record: SuiteRecord) -> bytes:
    """A record as JSON with figures of `DIGITS` digits, without what only pictures need where it is too large."""
    found = msgspec.json.encode(rounded(msgspec.to_builtins(record)))
    if len(found) > LARGEST:
        small = msgspec.structs.replace(record.tables, precision=(), confusions=())
        found = msgspec.json.encode(rounded(msgspec.to_builtins(msgspec.structs.replace(record, tables=small))))
    return msgspec.json.format(found, indent=1) + b"\n"


def rounded(told: object) -> object:
    """The same with every number to `DIGITS` digits behind the point."""
    if isinstance(told, float):
        return round(told, DIGITS)
    if isinstance(told, dict):
        return {name: rounded(value) for name, value in told.items()}
    return [rounded(each) for each in told] if isinstance(told, list | tuple) else told


def main(arguments: list[str] | None = None, folder: Path = FOLDER) -> int:
    """Write the pages, or say with `--check` which are out of date; 1 where one is, or something cannot be read."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--check", action="store_true", help="change nothing; exit 1 where a page is out of date")
    parser.add_argument("--take", type=Path, metavar="FOLDER", help="of a suite that was run: take its results first")
    given = parser.parse_args(arguments)
    try:
        if given.take is not None and not given.check:
            take(given.take, folder)
        made = written(folder)
    except AuricleError as error:
        print(error, file=sys.stderr)
        return 1
    if given.check:
        names = list(stale(folder, made))
        if names:
            print(f"docs/results/ is out of date ({', '.join(names)}): {RERUN}", file=sys.stderr)
        return int(bool(names))
    for path, text in made.items():
        path.write_text(text, encoding="utf-8")
    for path in folder.glob("*.md"):
        if path not in made and path.name not in OTHERS:
            path.unlink()
    return 0


if __name__ == "__main__":
    sys.exit(main())
