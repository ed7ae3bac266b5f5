"""From what was seen of engines to tables: clients a second, CPU time, memory, and how often one is as fast."""

from __future__ import annotations

import statistics
from collections.abc import Mapping, Sequence
from typing import Any

from bench.comparison_table import ratio, table, times
from bench.engines_process import Seen
from bench.engines_work import CLIPS, NEAR, WATCHED

HEADER = ("", "clients/s", "x pfl", "CPU ms", "MB", "apart")
COMPARED = (
    ("ours, native", "pfl"),
    ("ours, native", "Flower"),
    ("ours", "pfl"),
    ("ours", "Flower"),
    ("ours, pfl's trainer", "pfl"),
)


def side_of(turns: Sequence[Seen], clients: int) -> dict[str, Any]:
    """What is said of one engine.

    Parameters
    ----------
    turns
        What was seen of it.
    clients
        Of a round.

    Returns
    -------
    dict
        `seconds` of every timed round by turn; `rate`, clients a second by turn, from the median round; `cpu`, seconds
        a client by turn; `megabytes` at most.
    """
    return {
        "with": turns[0].made_of,
        "seconds": [list(turn.seconds) for turn in turns],
        "rate": [clients / statistics.median(turn.seconds) for turn in turns],
        "cpu": [turn.cpu / len(turn.seconds) / clients for turn in turns],
        "megabytes": max(turn.megabytes for turn in turns),
        "apart": 0.0,
    }


def own_time(turns: Sequence[Seen], clients: int) -> dict[str, Any]:
    """The engine's own seconds a client, round by round: those of a round without those of `Trainer.run` in a loop."""
    lines = [line for seen in turns for line in seen.lines]
    rounds = [line["seconds"] / clients for line in lines]
    alone = [line["alone"] / clients for line in lines]
    return {
        "round": rounds,
        "alone": alone,
        "own": [whole - bare for whole, bare in zip(rounds, alone, strict=True)],
        "cpu": sum(seen.cpu for seen in turns) / len(rounds) / clients,
        "alone_cpu": statistics.fmean(line["alone_cpu"] for line in lines) / clients,
    }


def spread(values: Sequence[float], digits: int) -> str:
    """Median, least and most."""
    return f"{statistics.median(values):.{digits}f} ({min(values):.{digits}f}-{max(values):.{digits}f})"


def row_of(name: str, side: Mapping[str, Any], pfl: Mapping[str, Any] | None) -> list[str]:
    """An engine's row."""
    return [
        name,
        spread(side["rate"], 0),
        "-" if pfl is None or side is pfl else times(ratio(pfl["seconds"], side["seconds"])),
        f"{1e3 * statistics.median(side['cpu']):.2f}",
        f"{side['megabytes']:.0f}",
        f"{side['apart']:.1e}" if side["apart"] else "-",
    ]


def compared(sides: Mapping[str, Mapping[str, Any]]) -> list[str]:
    """How many times as much one takes for a client as another, by CPU time and by the clock."""
    return [
        f"  {other} / {one}: CPU {times(ratio(_each(sides[other]), _each(sides[one])))}, "
        f"clock {times(ratio(sides[other]['seconds'], sides[one]['seconds']))}"
        for one, other in COMPARED
        if one in sides and other in sides
    ]


def _each(side: Mapping[str, Any]) -> list[list[float]]:
    """CPU seconds a client of each turn, as `ratio` takes them."""
    return [[cpu] for cpu in side["cpu"]]


def report(result: Mapping[str, Any]) -> str:
    """All tables of a run, and what is needed to read them."""
    found = result["supervised"]
    sides, (least, most) = found["sides"], found["load"]
    cores = "one core" if result["cores"] == 1 else f"{result['cores']} cores"
    lines = [
        f"supervised: {result['clients']} clients of {CLIPS} clips, one step each; {cores};",
        f"{result['turns']} turns of {result['rounds']} rounds, median (least-most) of turns; load {least}-{most};",
        "CPU time of a client and most memory (PSS) with all processes of an engine;",
        f"apart: of the plain loop's models after rounds {' and '.join(map(str, WATCHED))}, by the largest weight",
        f"(at most {NEAR:g}, or no speeds are printed)",
        table(HEADER, [row_of(name, side, sides.get("pfl")) for name, side in sides.items()]),
        *compared(sides),
        *(f"  {name}: {side['with']}" for name, side in sides.items()),
        *(f"  {name}: not measured: {reason}" for name, reason in found["failed"].items()),
    ]
    if "own" not in result:
        return "\n".join(lines)
    rows = []
    for name, own in result["own"].items():
        middle = statistics.median(own["round"])
        cpu = f"{1e3 * own['cpu']:.2f}, {1e3 * own['alone_cpu']:.2f}"
        rows.append([name, f"{1 / middle:.0f}", *(spread([1e3 * v for v in own[k]], 2) for k in ("alone", "own")), cpu])
    lines += [
        "",
        f"ours, median (least-most) of {len(own['round'])} rounds; ms of a client:",
        "Trainer.run in a loop; the engine's own, a round less that; CPU time of both",
        table(("", "clients/s", "Trainer.run", "own", "CPU: round, loop"), rows),
    ]
    return "\n".join(lines)
