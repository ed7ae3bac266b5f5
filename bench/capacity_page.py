"""The page of capacity, docs/capacity.md, of what was measured: tables, and what each is."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from auricle_cloud.link.batch import LARGEST
from auricle_cloud.settings import RunSettings
from auricle_cloud.storage.database import BUSY_SECONDS
from auricle_cloud.storage.remote_blobs import ANSWER_SECONDS, AT_ONCE
from auricle_edge.fleet.agent_context import AgentSettings
from bench.capacity_lines import load_in, of_kind
from bench.capacity_model import CODEC_BYTES, Line, Load, share_of_error, value
from bench.capacity_plan import (
    BUSY,
    KEEPALIVE_SECONDS,
    REQUEST_SECONDS,
    ROUNDS_A_DAY,
    Cost,
    bursts_of,
    cost_of,
    limits_of,
    most_devices,
    purchase_for,
)

DEVICES = (1_000, 10_000, 100_000, 1_000_000)
COHORTS = (100, 1_000, None)
"""None: everybody."""
BOUGHT = (1_000, 10_000, 100_000)
RULE_CLIENTS = (100, 1_000, 10_000)
COHORT_BOUGHT = 1_000
WEIGHTS = (28_067, 126_000)
EXTRAPOLATED = r" **\***"
PAIRS = {
    "coordinator_ms": "coordinator, CPU ms an update",
    "broker_ms": "broker, CPU ms an update",
    "coordinator_mb": "coordinator, MB",
    "broker_mb": "broker, MB",
    "commits": "commits",
    "seconds": "seconds",
}
"""Figures that are compared with what was measured, and their names."""


def loads() -> list[Load]:
    """The rows of the first table."""
    return [
        Load(devices, devices if c is None else c)
        for devices in DEVICES
        for c in dict.fromkeys(COHORTS)
        if c != devices
    ]


def largest_measured(measured: Mapping[str, Any]) -> int:
    """Devices of the largest run: what is above it is extrapolated."""
    return max(load_in(run).devices for kind in ("fit", "check") for run in of_kind(measured, kind))


def first_limit(load: Load, cost: Cost) -> tuple[str, float]:
    """What a load meets first, and the share of it that is needed."""
    return max(limits_of(load, cost).items(), key=lambda entry: entry[1])


def errors(document: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Predicted and measured, of each run that was made for it."""
    lines, rows = document["lines"], []
    for run in of_kind(document["measured"], "check"):
        load = load_in(run)
        cost = cost_of(load, lines)
        pairs = {
            "coordinator_ms": [1e3 * each / load.updates for each in (cost.coordinator_cpu, run["coordinator_cpu"])],
            "broker_ms": [1e3 * each / load.updates for each in (cost.broker_cpu, run["broker_cpu"])],
            "seconds": [cost.coordinator_cpu, max(0.0, run["seconds"] - run["waited"])],
            "coordinator_mb": [value(lines["coordinator_mb"], load), run["coordinator_mb"]],
            "broker_mb": [cost.broker_bytes / 1e6, run["broker_mb"]],
            "commits": [cost.commits, run["commits"]],
        }
        rows.append({"options": run["options"], "machine_load": run["machine_load"], "wall": run["seconds"], **pairs})
    return rows


def size(count: float) -> str:
    """Bytes in the largest unit that leaves a number of at least 1."""
    for unit in ("B", "kB", "MB", "GB"):
        if count < 999.5:
            return f"{_digits(count)} {unit}"
        count /= 1000
    return f"{_digits(count)} TB"


def _digits(number: float) -> str:
    if number and abs(number) < 0.01:
        return f"{number:.1g}"
    return f"{number:,.0f}" if abs(number) >= 99.5 else f"{number:.3g}"


def span(seconds: float) -> str:
    """Seconds; a dash where a round would not end."""
    return "-" if math.isinf(seconds) else f"{_digits(seconds)}"


def table(header: Sequence[str], rows: Sequence[Sequence[str]]) -> Iterator[str]:
    """Lines of a table, and an empty one."""
    yield f"| {' | '.join(header)} |"
    yield "|" + "---|" * len(header)
    yield from (f"| {' | '.join(row)} |" for row in rows)
    yield ""


def page(document: Mapping[str, Any]) -> str:
    """The whole page, of the document that `bench/capacity.py --measure` wrote."""
    measured, lines = document["measured"], document["lines"]
    machine, most = document["machine"], largest_measured(measured)
    low, high = document["machine_load"]
    parts = (
        [
            "# Capacity",
            "",
            "Made by `python bench/capacity.py --page` of [capacity.json](capacity.json); measured by",
            "",
            "    python bench/capacity.py --measure",
            "",
            f"on {document['date']}, {machine['cores']} cores of {machine['processor']}, which other programs used "
            f"(load {low:g} to {high:g}): CPU is that of the processes, "
            "less on an idle machine ([coordinator.md](coordinator.md#how-much-it-takes-in)). `--json` prints all.",
            "",
            "## A round",
            "",
            "All updates come at once, float32, of a plug-in of 28,067 weights; rule `lpa`; devices of "
            f"`auricle edge run`, which ask what is next every {AgentSettings.ask_every:g} s and keep alive every "
            f"{KEEPALIVE_SECONDS} s; no TLS. **\\***: more than the {most:,} devices that were measured, extrapolated. "
            "Seconds are without training; with an object store, of requests of "
            f"{1e3 * REQUEST_SECONDS:g} ms, {AT_ONCE} at once.",
            "",
        ],
        _rounds(lines, most),
        _bursts(),
        ["## What to buy", ""],
        _bought(lines, most),
        ["## An update", ""],
        _updates(lines),
        ["## Rules", "", "CPU seconds, and memory beside the updates', of 28,067 weights.", ""],
        _rules(lines),
        ["## Requests to an object store", "", "Of a round with `fedavg`, counted as they were sent.", ""],
        _requests(lines),
        ["## Time limits", ""],
        _limits(),
        ["## How well it predicts", ""],
        _errors(document),
        ["## Constants", "", "CPU in seconds, memory in MB.", ""],
        _constants(lines),
    )
    return "\n".join(line for part in parts for line in part).rstrip("\n") + "\n"


def _rounds(lines: Mapping[str, Any], most: int) -> Iterator[str]:
    rows = []
    for load in loads():
        cost = cost_of(load, lines)
        limit, share = first_limit(load, cost)
        rows.append(
            [
                _count(load.devices, most),
                f"{load.updates:,}",
                f"{_digits(cost.coordinator_cpu)} / {_digits(cost.broker_cpu)}",
                f"{100 * cost.asking:.0f} / {100 * cost.broker_idle:.0f}",
                f"{size(cost.coordinator_bytes)} / {size(cost.broker_bytes)}",
                f"{size(cost.up)} / {size(cost.down)}",
                size(cost.idle_bytes),
                f"{cost.rows:,.0f} / {size(cost.database_bytes)}",
                f"{sum(cost.requests.values()):,.0f}",
                f"{span(cost.seconds)} / {span(cost.stored_seconds)}",
                f"{limit}: {100 * share:,.0f} %",
            ]
        )
    header = ["devices", "updates", "CPU s: coordinator / broker", "% of a core while idle", "memory", "up / down"]
    header += ["idle, a second", "database: rows, bytes", "requests", "seconds: files / object store", "first limit"]
    yield from table(header, rows)
    yield f"A limit is met at 100 %: a core a process, 64 GB, 1 Gbit/s, the deadline of {RunSettings.deadline:g} s."
    yield ""


def _bursts() -> Iterator[str]:
    yield "Updates that come at once and can be held; the others are sent again after"
    yield f"{AgentSettings.resend_every:g} s. Updates of several messages wait unfinished; the queue is mosquitto's."
    yield ""
    rows = []
    for load in (Load(1000, 1000, weights, codec) for weights in WEIGHTS for codec in CODEC_BYTES):
        held = {name: f"{load.updates / share:,.0f}" for name, share in bursts_of(load).items() if share}
        rows.append([f"{load.weights:,}", load.codec, held.get("unfinished", "-"), held["queue"]])
    yield from table(["weights", "codec", "unfinished updates", "updates in the queue"], rows)


def _count(devices: int, most: int) -> str:
    return f"{devices:,}" + (EXTRAPOLATED if devices > most else "")


def _bought(lines: Mapping[str, Any], most: int) -> Iterator[str]:
    rows = []
    for devices in BOUGHT:
        load = Load(devices, min(devices, COHORT_BOUGHT))
        bought = purchase_for(load, lines)
        cost = cost_of(Load(math.ceil(devices / bought.fleets), math.ceil(load.updates / bought.fleets)), lines)
        rows.append(
            [
                _count(devices, most),
                f"{bought.fleets}",
                f"{bought.cores} cores, {bought.gigabytes} GB",
                "mosquitto" if cost.broker_idle < BUSY else "EMQX",
                f"SQLite, {size(bought.disk)} a year",
                f"{size(cost.idle_bytes)} a second, {size(max(cost.up, cost.down))} a round",
            ]
        )
    yield f"{ROUNDS_A_DAY} rounds a day of at most {COHORT_BOUGHT:,} devices. Questions of {most_devices(lines):,} idle"
    yield f"devices take {100 * BUSY:.0f} % of a coordinator's core: more are several fleets, each with its own."
    yield ""
    yield from table(["devices", "fleets", "server of each", "broker", "database", "network of each"], rows)


def _updates(lines: Mapping[str, Any]) -> Iterator[str]:
    rows = []
    for weights in WEIGHTS:
        for codec in CODEC_BYTES:
            load = Load(1000, 1000, weights, codec)
            cost = cost_of(load, lines)
            cpu = [f"{each:.2f}" for each in (cost.coordinator_cpu, cost.broker_cpu)]
            up, down = size(cost.up / load.updates), size(cost.down / load.updates)
            rows.append([f"{weights:,}", codec, up, f"{load.parts}", down, *cpu])
    header = ["weights", "codec", "up", "messages", "down, with the model", "coordinator, ms", "broker, ms"]
    yield from table(header, rows)


def _rules(lines: Mapping[str, Any]) -> Iterator[str]:
    cohorts = [Load(clients, clients) for clients in RULE_CLIENTS]
    rows = []
    for rule, of in lines["rules"].items():
        cells = (f"{_digits(value(of['cpu'], load))} s, {size(value(of['memory'], load))}" for load in cohorts)
        rows.append([f"`{rule}`", *cells])
    yield from table(["rule", *(f"{clients:,} updates" for clients in RULE_CLIENTS)], rows)


def _requests(lines: Mapping[str, Any]) -> Iterator[str]:
    rows = [[f"`{kind}`", _digits(line["once"]), _digits(line["update"])] for kind, line in lines["requests"].items()]
    yield from table(["request", "a round", "an update"], rows)


def _limits() -> Iterator[str]:
    rows = [
        ("a round", f"{RunSettings.deadline:g} s", "`--deadline`; without a quorum it is aborted"),
        ("an update without an answer", f"{AgentSettings.resend_every:g} s", "it is sent again"),
        ("a device that fetches a model", f"{AgentSettings.fetch_timeout:g} s", "it asks again"),
        ("a request to the object store", f"{ANSWER_SECONDS:g} s", f"given up and tried again; {AT_ONCE} at once"),
        ("a transaction that waits for SQLite", f"{BUSY_SECONDS} s", f"one holds at most {LARGEST} updates"),
        ("devices at the start", f"{RunSettings.gather:g} s", "the run begins with those that are there"),
    ]
    yield from table(["what", "limit", "then"], rows)


def _errors(document: Mapping[str, Any]) -> Iterator[str]:
    yield "Predicted / measured, and the error, of runs that no constant is from: `python bench/coordinator.py` with"
    yield "these options. Seconds leave out those in which the coordinator's first thread waited for a core, but not"
    yield "the waits of its other threads, of broker and devices: on a busy machine they say little."
    yield ""
    rows = [
        [f"`{row['options']}`", *(_pair(row[name]) for name in PAIRS), f"{row['wall']:.1f}", f"{row['machine_load']:g}"]
        for row in errors(document)
    ]
    yield from table(["options", *PAIRS.values(), "all seconds", "load"], rows)
    rules = document["measured"]["rules"]
    clients, weights = rules[-1]["clients"], rules[-1]["weights"]
    load, lines = Load(clients, clients, weights), document["lines"]["rules"]
    cells = [
        [f"`{row['rule']}`", _pair((value(lines[row["rule"]]["cpu"], load), row["cpu"]))]
        for row in rules
        if (row["clients"], row["weights"]) == (clients, weights)
    ]
    yield from table([f"rule, {clients:,} updates of {weights:,} weights", "CPU s"], cells)


def _pair(pair: Sequence[float]) -> str:
    error = f" ({100 * share_of_error(*pair):+.0f} %)" if pair[1] else ""
    return f"{_digits(pair[0])} / {_digits(pair[1])}{error}"


def _constants(lines: Mapping[str, Any]) -> Iterator[str]:
    def say(line: Line) -> str:
        return ", ".join(f"{each:.4g} {name}" for name, each in line.items() if each)

    figures = {name: line for name, line in lines.items() if name not in ("rules", "requests")}
    rows = [[f"`{name}`", say(line)] for name, line in figures.items()]
    rows += [[f"`{rule}`, {what}", say(line)] for rule, of in lines["rules"].items() for what, line in of.items()]
    yield from table(["figure", "so much for each"], rows)
