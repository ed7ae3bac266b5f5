"""The constants of `capacity_model.py`, from what `capacity_measure.py` has measured."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from bench.capacity_model import Line, Load, fit, value

Facts = Mapping[str, Any]
Lines = dict[str, Line]

ROUND_TERMS = ("once", "invited", "update", "byte")
RULE_TERMS = {"krum": ("number", "pair number")}
RULE_MEMORY = {"krum": ("number", "pair")}
"""Of rules that compare everybody with everybody; of others it is so much a number."""


def load_in(run: Facts) -> Load:
    """The load of a measured run."""
    return Load(**run["load"])


def of_kind(measured: Facts, kind: str) -> list[Facts]:
    """Runs that were made for the fit, the check, ..."""
    return [run for name, run in measured.items() if name.partition(" ")[0] == kind]


def rule_lines(measured: Facts) -> dict[str, Lines]:
    """By rule: `cpu`, seconds, and `memory`, bytes; of all shapes but the last, which is compared with them."""
    rows = measured["rules"]
    shapes = list(dict.fromkeys((row["clients"], row["weights"]) for row in rows))[:-1]
    found: dict[str, Lines] = {}
    for rule in dict.fromkeys(row["rule"] for row in rows):
        mine = [row for row in rows if row["rule"] == rule and (row["clients"], row["weights"]) in shapes]
        terms = [Load(row["clients"], row["clients"], row["weights"]).terms for row in mine]
        found[rule] = {
            "cpu": fit(RULE_TERMS.get(rule, ("number",)), terms, [row["cpu"] for row in mine]),
            "memory": fit(RULE_MEMORY.get(rule, ("number",)), terms, [max(1.0, row["bytes"]) for row in mine]),
        }
    return found


def request_lines(measured: Facts) -> Lines:
    """By kind of request: so many a round and an update, from the last rounds of two cohorts."""
    few, many = ((load_in(run).updates, _last(run["requests"])) for run in measured["requests"])
    found: Lines = {}
    for kind in sorted({*few[1], *many[1]}):
        each = (many[1].get(kind, 0) - few[1].get(kind, 0)) / (many[0] - few[0])
        found[kind] = {"once": few[1].get(kind, 0) - each * few[0], "update": each}
    return found


def _last(totals: Sequence[Mapping[str, int]]) -> dict[str, int]:
    """Requests of the last round, from sums up to each."""
    return {kind: count - totals[-2].get(kind, 0) for kind, count in totals[-1].items()}


def lines_of(measured: Facts) -> dict[str, Any]:
    """All constants: a line a figure, and by rule and kind of request.

    CPU is in seconds and memory in MB (10^6 bytes); of a round, but for what stays: memory, and what joining costs.
    """
    runs, asking = of_kind(measured, "fit"), of_kind(measured, "asking")
    rules, every = rule_lines(measured), [*runs, *asking, *measured["requests"]]
    lpa = rules["lpa"]["cpu"]
    terms = [load_in(run).terms for run in runs]
    alone = [run["coordinator_cpu"] - value(lpa, load_in(run)) for run in runs]
    found: dict[str, Any] = {
        "coordinator_cpu": fit(ROUND_TERMS, terms, alone),
        "broker_cpu": fit(ROUND_TERMS, terms, [run["broker_cpu"] for run in runs]),
        "coordinator_mb": fit(("once", "device", "number"), terms, [run["coordinator_mb"] for run in runs]),
        "commits": fit(("once", "update"), terms, [run["commits"] for run in runs]),
        "statements": fit(("once", "invited", "update"), terms, [run["statements"] for run in runs]),
        "rows": _grown(every, "rows", ("once", "invited", "update")),
        "database_bytes": _grown(every, "database_bytes", ("once", "invited", "update")),
        "received": _grown(every, "bytes_received", ("invited", "update")),
        "sent": _sent(runs),
    }
    found |= _idle(measured, runs)
    found |= _asked(asking[0], runs, found, lpa)
    return {**found, "rules": rules, "requests": request_lines(measured)}


def _grown(runs: Sequence[Facts], name: str, terms: Sequence[str], less: Sequence[float] = ()) -> Line:
    """A line of what grew over whole runs: so much at the start and a device, the rest a round, without `less`."""
    figures = [run[name] - away for run, away in zip(runs, less or [0.0] * len(runs), strict=True)]
    return fit(("start", "device", *terms), [_whole(run) for run in runs], figures)


def _whole(run: Facts) -> dict[str, float]:
    """Terms of all rounds of a run; its start and its devices are there once."""
    rounds: int = run["rounds"]
    terms = {name: term * (1 if name == "device" else rounds) for name, term in load_in(run).terms.items()}
    return {**terms, "start": 1}


def _sent(runs: Sequence[Facts]) -> Line:
    """Bytes that devices send: on registering, and beside the body in each message of an update."""
    bodies = [_whole(run)["byte"] for run in runs]
    return {**_grown(runs, "bytes_sent", ("part",), bodies), "byte": 1.0}


def _idle(measured: Facts, runs: Sequence[Facts]) -> Lines:
    """What a connection costs a broker that does nothing else, and its memory beyond that in rounds."""
    idle = of_kind(measured, "idle")
    none, most = idle[0], idle[-1]
    each = (most["broker_mb"] - none["broker_mb"]) / most["devices"]
    terms = [load_in(run).terms for run in runs]
    held = [run["broker_mb"] - none["broker_mb"] - each * of["device"] for run, of in zip(runs, terms, strict=True)]
    alive = most["devices"] * most["seconds"] / most["keepalive"]
    rounds = fit(("once", "byte"), terms, [max(0.01, mb) for mb in held])
    line = {"once": round(none["broker_mb"] + rounds["once"], 2), "device": float(f"{each:.4g}")}
    return {
        "broker_mb": {**line, "byte": rounds["byte"]},
        "keepalive_cpu": _a_time((most["idle_cpu"] - none["idle_cpu"]) / alive),
        "connect_cpu": _a_time((most["connect_cpu"] - none["connect_cpu"]) / most["devices"]),
    }


def _a_time(each: float) -> Line:
    """The line of what is not of a round: so much each time."""
    return {"once": max(0.0, float(f"{each:.4g}"))}


def _asked(asking: Facts, runs: Sequence[Facts], lines: Mapping[str, Line], lpa: Line) -> Lines:
    """What a question of an idle device costs, and its registration; seconds of CPU, and bytes."""
    most = max(runs, key=lambda run: run["load"]["devices"] * (run["load"]["invited"] == run["load"]["updates"]))
    load = load_in(most)
    joined = {
        "coordinator": most["first_cpu"]["coordinator"] - value(lines["coordinator_cpu"], load) - value(lpa, load),
        "broker": most["first_cpu"]["broker"] - value(lines["broker_cpu"], load),
    }
    of = load_in(asking)
    asks = asking["messages_sent"] - of.devices - asking["rounds"] * of.updates * of.parts
    found: Lines = {}
    for part, seconds in joined.items():
        each = max(0.0, seconds / load.devices)
        rest = asking["cpu"][part] - each * of.devices - asking["rounds"] * value(lines[f"{part}_cpu"], of)
        found[f"{part}_join_cpu"] = _a_time(each)
        found[f"{part}_ask_cpu"] = _a_time(rest / asks)
    bodies = asking["rounds"] * of.updates * of.body
    said = {"device": of.devices, "part": asking["rounds"] * of.updates * of.parts}
    before = sum(lines["sent"][name] * count for name, count in said.items())
    return {**found, "ask_bytes": {"once": round((asking["bytes_sent"] - bodies - before) / asks)}}
