"""What a round costs with 1,000 to 1,000,000 devices, and what to buy; from constants that this measures.

    python bench/capacity.py                 # the tables
    python bench/capacity.py --measure       # the constants, into docs/capacity.json
    python bench/capacity.py --page          # docs/capacity.md of it; --check compares it
    python bench/capacity.py --json

A measurement that was cut off goes on where it was, or with `--again` begins again. It runs real brokers, coordinators
and devices (`bench/coordinator.py`), rules, and rounds with an S3 server (rclone), and needs mosquitto. CPU is the
processes' own; on a busy machine it is somewhat more, and the page says how busy it was.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from bench.capacity_lines import lines_of, of_kind
from bench.capacity_measure import machine, measure
from bench.capacity_model import Load
from bench.capacity_page import BOUGHT, COHORT_BOUGHT, errors, first_limit, loads, page
from bench.capacity_plan import bursts_of, cost_of, purchase_for

DOCS = Path(__file__).resolve().parents[1] / "docs"
DATA, PAGE = DOCS / "capacity.json", DOCS / "capacity.md"
PARTIAL = DATA.with_suffix(".part")
"""Of a measurement that is not over."""
COMMAND = "python bench/capacity.py --measure"


def measured_again(again: bool) -> dict[str, Any]:
    """Measure, and write the document of it; what an earlier call has is kept, unless `again`."""
    before = {} if again or not PARTIAL.exists() else json.loads(PARTIAL.read_text())
    facts = measure(lambda text: print(text, file=sys.stderr), lambda now: PARTIAL.write_text(json.dumps(now)), before)
    document = document_of(facts)
    DATA.write_text(json.dumps(document, indent=1) + "\n")
    PARTIAL.unlink()
    return document


def document_of(facts: Mapping[str, Any]) -> dict[str, Any]:
    """What is kept: what was measured where and when, and the constants of it."""
    seen = [run["machine_load"] for kind in ("fit", "asking", "check") for run in of_kind(facts, kind)]
    return {
        "command": COMMAND,
        "date": time.strftime("%d %B %Y").lstrip("0"),
        "machine": machine(),
        "machine_load": [min(seen), max(seen)],
        "lines": lines_of(facts),
        "measured": facts,
    }


def figures(document: Mapping[str, Any]) -> dict[str, Any]:
    """What `--json` prints."""
    lines, rows = document["lines"], []
    for load in loads():
        cost = cost_of(load, lines)
        limit, share = first_limit(load, cost)
        about = {"devices": load.devices, "updates": load.updates, "first_limit": limit, "share_of_limit": share}
        rows.append({**about, **asdict(cost), "bursts": bursts_of(load)})
    bought = {n: asdict(purchase_for(Load(n, min(n, COHORT_BOUGHT)), lines)) for n in BOUGHT}
    return {**document, "rounds": rows, "bought": bought, "errors": errors(document)}


def main(given: Sequence[str] | None = None) -> int:
    """Measure, or say what was measured."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--measure", action="store_true")
    parser.add_argument("--again", action="store_true", help="measure what an earlier call has, too")
    parser.add_argument("--page", action="store_true")
    parser.add_argument("--check", action="store_true")
    parser.add_argument("--json", action="store_true")
    told = parser.parse_args(given)
    document = measured_again(told.again) if told.measure else json.loads(DATA.read_text())
    text = page(document)
    if told.check:
        stale = text != PAGE.read_text(encoding="utf-8")
        print(
            "docs/capacity.md is not that of capacity.json: --page makes it." if stale else "docs/capacity.md is right."
        )
        return int(stale)
    if told.page:
        PAGE.write_text(text, encoding="utf-8")
    elif told.json:
        print(json.dumps(figures(document)))
    else:
        print(text)
    return 0


if __name__ == "__main__":
    sys.exit(main())
