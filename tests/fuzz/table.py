"""The table of a campaign: for a terminal, and as the page docs/fuzzing.md, made of docs/fuzzing.json."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import msgspec

from tests.fuzz.campaign import Record

DOCS = Path(__file__).parents[2] / "docs"
PAGE, RECORDED = DOCS / "fuzzing.md", DOCS / "fuzzing.json"
WANTED = 1_000_000
"""Inputs of each target."""

HEADS = ("target", "inputs", "CPU s", "inputs/s", "decoded", "places", "lines", "slowest ms", "found")


def cells(record: Record) -> tuple[str, ...]:
    """A line of the table."""
    rate = record.cases / record.processor_seconds if record.processor_seconds else 0.0
    lines = "" if record.lines is None else f"{record.lines_reached} of {record.lines}"
    return (
        record.target,
        f"{record.cases:,}",
        f"{record.processor_seconds:,.0f}",
        f"{rate:,.0f}",
        f"{record.decoded:,}",
        f"{record.places:,}",
        lines,
        f"{record.slowest_ms:,.0f}",
        str(len(record.findings)),
    )


def table(records: Sequence[Record]) -> str:
    """All records in columns, a sentence about their sum, and what was found."""
    rows = [HEADS, *map(cells, records)]
    widths = [max(len(row[place]) for row in rows) for place in range(len(HEADS))]
    lines = []
    for name, *others in rows:
        numbers = [cell.rjust(width) for cell, width in zip(others, widths[1:], strict=True)]
        lines.append("  ".join([name.ljust(widths[0]), *numbers]))
    for record in records:
        for each in record.findings:
            lines.append(f"FOUND by {record.target}: {each.what}, {each.times} times, {each.input}")
    return "\n".join([*lines, total(records)])


def total(records: Sequence[Record]) -> str:
    """How many inputs of how many targets, and how much of their code they reached."""
    counted = [record for record in records if record.lines]
    lines, reached = (sum(getattr(each, name) or 0 for each in counted) for name in ("lines", "lines_reached"))
    share = f", {reached:,} of {lines:,} lines reached" if lines else ""
    found = sum(len(record.findings) for record in records)
    return (
        f"{len(records)} targets, {sum(record.cases for record in records):,} inputs, "
        f"{sum(record.processor_seconds for record in records) / 3600:.2f} h of a core{share}, {found} found."
    )


def record_page(records: Sequence[Record]) -> None:
    """Write the page of a campaign, and what it is made of."""
    kept = [msgspec.structs.replace(each, command="", not_reached={}) for each in records]
    RECORDED.write_bytes(b"[\n" + b",\n".join(map(msgspec.json.encode, kept)) + b"\n]\n")
    PAGE.write_text(page(read_recorded()), encoding="utf-8")


def read_recorded() -> list[Record]:
    """What the page is made of."""
    return msgspec.json.decode(RECORDED.read_bytes(), type=list[Record])


def page(records: Sequence[Record]) -> str:
    """The page of a campaign."""
    begun = [record for record in records if record.cases]
    done = sum(record.cases >= WANTED for record in begun)
    seeds = ", ".join(sorted({str(record.seed) for record in begun}))
    rows = [HEADS, ("---", *("--:" for _ in HEADS[1:])), *map(cells, begun)]
    return "\n".join(
        [
            "# Fuzzing",
            "",
            "Made by `python -m tests.fuzz --campaign FOLDER --page` of [fuzzing.json](fuzzing.json); what a target "
            "is and what a",
            "finding, says [testing](testing.md#almost-valid-input).",
            "",
            f"**{done} of {len(records)} targets have had a million inputs**; {total(begun)} Seed {seeds}.",
            "",
            "Lines are those in functions of the target's modules; they are counted once a target is done.",
            "",
            *("| " + " | ".join(row) + " |" for row in rows),
            "",
        ]
    )
