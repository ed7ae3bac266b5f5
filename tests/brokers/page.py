"""docs/brokers.json, what runs came to, and docs/brokers.md, the page that is made of it."""

from __future__ import annotations

import datetime
import json
import shlex
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from tests.brokers.check import Outcome
from tests.brokers.suite import check_names, check_of

ROOT = Path(__file__).parents[2]
RECORDED, PAGE = ROOT / "docs/brokers.json", ROOT / "docs/brokers.md"
HEAD = """# Brokers

Made by `python -m tests.brokers --page` of [brokers.json](brokers.json).

What Auricle needs of an MQTT broker is a suite of checks that runs on one by its URL. `required` is what Auricle cannot
do without (exit code 1 where it is missed); `used` is what it uses where it exists. Nightly they run on mosquitto with
the generated configurations, and on amqtt, the embedded one, which is for emulation on one machine.

<!-- not run: the address is an example -->

    python -m tests.brokers --url mqtts://broker.example.org:8883 --fleet home --json --ca authority.pem \\
      --cert coordinator=coordinator.pem --key coordinator=coordinator.key \\
      --cert dev-a=dev-a.pem --key dev-a=dev-a.key --cert dev-b=dev-b.pem --key dev-b=dev-b.key

With passwords: `--passwords FILE`, a JSON object by user, such as the one that `auricle fleet broker --device dev-a
--device dev-b` keeps. Users `crowd-00000` and so on are connected together, as many as asked for. Nobody else of
that fleet may be connected meanwhile.
"""
MARKS = {"held": "yes", "missed": "**no**", "not offered": "-", "not tried": "?"}
LEGEND = "yes: held. **no**: missed, see below. -: the broker does not have it. ?: not tried."
ELSEWHERE = """
## Others

Not run: Debian, PyPI and npm do not have them. Licences and limits are those of the sources beside them.

| broker | licence | cluster | documented limits | source |
|---|---|---|---|---|
"""


def record(name: str, version: str, results: Sequence[Outcome], given: Sequence[str], setup: Sequence[str]) -> None:
    """Enter a run, in the place of an earlier one of this name."""
    kept = _read()
    kept["runs"][name] = {
        "version": version,
        "date": datetime.date.today().isoformat(),
        "setup": list(setup),
        "command": f"python -m tests.brokers {shlex.join(_public(given))}",
        "checks": [{key: value for key, value in asdict(one).items() if key != "seconds"} for one in results],
    }
    RECORDED.write_text(json.dumps(kept, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")


def _public(given: Sequence[str]) -> list[str]:
    """Arguments without what only names the record, and without folders of one machine."""
    shown, skip = [], False
    for each in given:
        if skip or each in ("--record", "--version", "--setup"):
            skip = not skip
        else:
            shown.append(Path(each).name if each.startswith("/") else each)
    return shown


def _read() -> dict[str, Any]:
    if not RECORDED.is_file():
        return {"runs": {}, "elsewhere": []}
    kept: dict[str, Any] = json.loads(RECORDED.read_text(encoding="utf-8"))
    return kept


def text() -> str:
    """The page, of what is recorded."""
    kept = _read()
    runs: dict[str, Any] = kept["runs"]
    outcomes = {name: {one["name"]: one for one in run["checks"]} for name, run in runs.items()}
    lines = [
        HEAD,
        "## Outcomes",
        "",
        "| broker | version | date | command | required and missed |",
        "|---|---|---|---|---:|",
    ]
    for name, run in runs.items():
        missed = sum(one["need"] == "required" and one["verdict"] in ("missed", "not offered") for one in run["checks"])
        lines.append(f"| {name} | {run['version']} | {run['date']} | `{run['command']}` | {missed} |")
    lines += ["", LEGEND, "", f"| check | need | {' | '.join(runs)} |", f"|---|---|{'---|' * len(runs)}"]
    for check in check_names(()):
        cells = [_cell(outcomes[name].get(check)) for name in runs]
        lines.append(f"| {check} | {check_of(check).need} | {' | '.join(cells)} |")
    for name, run in runs.items():
        lines += ["", f"### {name}", ""]
        if run["setup"]:
            lines += ["```text", *run["setup"], "```", ""]
        notes = [one for one in run["checks"] if one["verdict"] == "missed"]
        lines += [f"- {one['name']} ({one['need']}): {one['sentence']}" for one in notes] or ["Nothing is missed."]
    lines.append(ELSEWHERE.rstrip("\n"))
    for row in kept["elsewhere"]:
        sources = ", ".join(f"[{number}]({url})" for number, url in enumerate(row["sources"], 1))
        lines.append(f"| {row['broker']} | {row['licence']} | {row['cluster']} | {row['limits']} | {sources} |")
    return "\n".join(lines) + "\n"


def _cell(one: dict[str, Any] | None) -> str:
    if one is None:
        return "?"
    shown = {name: f"{value:,}" if isinstance(value, int) else value for name, value in one["figures"].items()}
    figures = ", ".join(f"{name} {value}" for name, value in shown.items())
    return f"{MARKS[one['verdict']]}{f': {figures}' if figures else ''}"


def write() -> None:
    """Write the page."""
    PAGE.write_text(text(), encoding="utf-8")
