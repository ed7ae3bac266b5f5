"""Parts of a training step in several forms on onnxruntime, in turns: CPU time, and how exact a sum of squares is.

Sums of squares of long vectors (what clipping compares), the recurrences of one and of three GRUs of equal size
(a mutual step of CRNN-Base and CRNN-Lite has three), the gradient of a ReLU, a convolution. One thread; the ratio is to
the first form of each part, taken round by round.

    python bench/step_forms.py [--rounds 40] [--calls 4] [--part squares] [--json]
"""

from __future__ import annotations

import argparse
import os
import random
import statistics
import sys
import time
from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

import numpy as np
import onnxruntime as ort

from bench import step_form_graphs as graphs
from bench.answer import answer
from bench.comparison_table import table

LENGTHS = (25_792, 70_016, 151_000, 1_000_000)
"""The bodies of CRNN-Lite and CRNN-Base, the vector on which the error was first seen, and a large model."""
SEEDS = 20
PARTS: dict[str, list[tuple[str, Callable[[], dict[str, bytes]]]]] = {
    "squares": [(f"sum of {length:,} squares", partial(graphs.squares, length)) for length in LENGTHS],
    "recurrences": [
        *((f"{count} GRU forward", partial(graphs.forward, count)) for count in (1, 3)),
        ("3 GRU backward", partial(graphs.backward, 3)),
    ],
    "elementwise": [("ReLU's gradient", graphs.relu_gradient), ("convolution", graphs.convolution)],
}


class Running:
    """A form as a session with inputs that stay."""

    def __init__(self, form: bytes) -> None:
        options = ort.SessionOptions()
        options.intra_op_num_threads = options.inter_op_num_threads = 1
        options.log_severity_level = 3
        self.session = ort.InferenceSession(form, options, providers=["CPUExecutionProvider"])
        self.feeds = {value.name: _drawn(value.name, value.shape) for value in self.session.get_inputs()}

    def outputs(self) -> list[Any]:
        """What it gives."""
        return self.session.run(None, self.feeds)  # type: ignore[no-any-return]

    def seconds(self, calls: int) -> tuple[float, float]:
        """Wall-clock and CPU time of a call."""
        self.outputs()
        began, used = time.perf_counter(), time.process_time()
        for _ in range(calls):
            self.outputs()
        return (time.perf_counter() - began) / calls, (time.process_time() - used) / calls


def _drawn(name: str, shape: list[int]) -> Any:
    """The same numbers for an input of a name, whatever the form."""
    rng = np.random.default_rng(list(name.encode()))
    return rng.standard_normal(shape, np.float32) * np.float32(1 if name == "x" else 0.1)


def measure(title: str, forms: Mapping[str, bytes], given: argparse.Namespace) -> dict[str, Any]:
    """Each form's times by round, all in turns; and how far it is from the first one, or from float64."""
    running = {name: Running(form) for name, form in forms.items()}
    first = next(iter(running))
    due, found = running[first].outputs(), {}
    taken: dict[str, list[tuple[float, float]]] = {name: [] for name in forms}
    order = list(forms)
    for number in range(given.rounds):
        random.Random(number).shuffle(order)
        for name in order:
            taken[name].append(running[name].seconds(given.calls))
    for name, each in taken.items():
        ratios = sorted(mine[1] / other[1] for mine, other in zip(each, taken[first], strict=True))
        found[name] = {
            "wall": statistics.median(wall for wall, _ in each),
            "cpu": statistics.median(cpu for _, cpu in each),
            "ratio": statistics.median(ratios),
            "range": [ratios[len(ratios) // 10], ratios[-1 - len(ratios) // 10]],
            "off": _off(running[name]) if "squares" in title else _apart(running[name].outputs(), due),
        }
    return {"title": title, "forms": found}


def _off(running: Running) -> float:
    """The largest relative distance of a sum of squares from float64's, over vectors drawn for it."""
    length, worst = len(running.feeds["x"]), 0.0
    for seed in range(SEEDS):
        x = np.random.default_rng(seed).standard_normal(length, np.float32)
        due = float((x.astype(np.float64) ** 2).sum())
        worst = max(worst, abs(float(np.ravel(running.session.run(None, {"x": x})[0])[0]) - due) / due)
    return worst


def _apart(mine: list[Any], due: list[Any]) -> float:
    """How far the squares of all that two forms give are apart, in sum, whatever the order of their outputs."""
    sums = [sum(float((np.asarray(each, np.float64) ** 2).sum()) for each in outputs) for outputs in (mine, due)]
    return abs(sums[0] - sums[1]) / sums[1]


def report(result: dict[str, Any]) -> str:
    """The tables."""
    how = f"{result['rounds']} rounds of {result['calls']} calls in turns, medians; load {result['load']}"
    lines = [f"onnxruntime {result['onnxruntime']}, one thread, {how}"]
    for part in result["parts"]:
        rows = [
            [
                name,
                f"{1e3 * of['wall']:.3f}",
                f"{1e3 * of['cpu']:.3f}",
                f"{of['ratio']:.2f} ({of['range'][0]:.2f}-{of['range'][1]:.2f})",
                f"{of['off']:.1e}",
            ]
            for name, of in part["forms"].items()
        ]
        off = "off float64" if "squares" in part["title"] else "off the first"
        lines += ["", table((part["title"], "ms", "CPU ms", "x the first (range)", off), rows)]
    return "\n".join(lines)


def run(given: argparse.Namespace) -> dict[str, Any]:
    """Measure the parts that were asked for."""
    load = [round(value, 2) for value in os.getloadavg()]
    chosen = [each for part in given.part or PARTS for each in PARTS[part]]
    facts = {"onnxruntime": ort.__version__, "rounds": given.rounds, "calls": given.calls, "load": load}
    return {**facts, "parts": [measure(title, make(), given) for title, make in chosen]}


def arguments(given: list[str] | None = None) -> argparse.Namespace:
    """The command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=40)
    parser.add_argument("--calls", type=int, default=4, help="of a round")
    parser.add_argument("--part", choices=tuple(PARTS), action="append", help="one of them only")
    parser.add_argument("--json", action="store_true")
    found = parser.parse_args(given)
    if found.rounds < 1 or found.calls < 1:
        parser.error("--rounds and --calls have to be at least 1")
    return found


def main() -> int:
    """Measure and print."""
    given = arguments()
    return answer(lambda: run(given), report, as_json=given.json)


if __name__ == "__main__":
    sys.exit(main())
