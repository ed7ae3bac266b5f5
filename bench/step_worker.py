"""What one measured process does: it is asked over a pipe for blocks of steps and says how long each took.

Needs nothing but Python, so that what a process holds in memory is what its peer needs.
"""

from __future__ import annotations

import json
import os
import signal
import sys
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, TextIO

Step = Callable[[], float]
"""A training step: runs and returns its loss."""
Facts = dict[str, Any]
LINE = 64
"""Bytes of a cache line."""


def memory() -> dict[str, int]:
    """Bytes of this process: `rss` and `pss` now, `peak` the most that was ever resident."""
    status = dict(line.split(":", 1) for line in Path("/proc/self/status").read_text().splitlines() if ":" in line)
    shared = Path("/proc/self/smaps_rollup").read_text().splitlines()
    pss = next(line for line in shared if line.startswith("Pss:"))
    kilobytes = {"rss": status["VmRSS"], "peak": status["VmHWM"], "pss": pss.split(":")[1]}
    return {name: 1024 * int(value.split()[0]) for name, value in kilobytes.items()}


def block(step: Step, warm: int, steps: int, touched: bytearray | None = None) -> Facts:
    """Run `warm` steps that do not count and `steps` that do: wall-clock and CPU seconds of each, and the losses.

    Every cache line of `touched` is written before each step, uncounted, as if other work had been done between them.
    """
    losses = [step() for _ in range(warm)]
    seconds, cpu = [], []
    for _ in range(steps):
        if touched:
            touched[::LINE] = bytes(len(touched[::LINE]))
        began, used = time.perf_counter(), time.process_time()
        losses.append(step())
        seconds.append(time.perf_counter() - began)
        cpu.append(time.process_time() - used)
    return {"seconds": seconds, "cpu": cpu, "losses": losses}


def serve(make: Callable[[Any], tuple[Step, Mapping[str, object]]]) -> None:
    """Prepare a step of what the first argument says (a JSON file), then run what standard input asks for.

    Every line in is an object with `warm` and `steps`; the line that answers it is a `block`, with `memory` as it then
    is. The first line out says what was prepared. Ends with its input.
    """
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the process that asked ends this one
    out = _own_output()
    try:
        told = json.loads(Path(sys.argv[1]).read_text())
        step, facts = make(told)
    except Exception as error:  # noqa: BLE001 - whatever keeps a peer from running is its row in the table
        reason = (str(error).strip().splitlines() or [""])[0]
        print(json.dumps({"failed": f"{type(error).__name__}: {reason}"[:300]}), file=out, flush=True)
        return
    print(json.dumps({**facts, "pid": os.getpid()}), file=out, flush=True)
    touched = bytearray(told.get("touch", 0) << 20)
    for line in sys.stdin:
        asked = json.loads(line)
        answer = block(step, asked["warm"], asked["steps"], touched)
        print(json.dumps({**answer, "memory": memory()}), file=out, flush=True)


def _own_output() -> TextIO:
    """Standard output for the answers alone: what libraries print goes to standard error."""
    out = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)
    return out
