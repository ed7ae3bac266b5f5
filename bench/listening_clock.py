"""What the listening bench costs: seconds by the clock and of CPU time, and the machine's load."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

from bench.listening_result import Cost


@dataclass
class Clock:
    """Wall-clock and CPU seconds of this process, by phase; a phase may come again."""

    wall: dict[str, float] = field(default_factory=dict)
    cpu: dict[str, float] = field(default_factory=dict)
    load: float = field(default_factory=lambda: os.getloadavg()[0])

    @contextmanager
    def phase(self, name: str) -> Iterator[None]:
        """Measure what is inside, but for phases inside it."""
        wall, cpu = time.monotonic(), time.process_time()
        inner_wall, inner_cpu = sum(self.wall.values()), sum(self.cpu.values())
        yield
        inside_wall, inside_cpu = sum(self.wall.values()) - inner_wall, sum(self.cpu.values()) - inner_cpu
        self.wall[name] = self.wall.get(name, 0.0) + time.monotonic() - wall - inside_wall
        self.cpu[name] = self.cpu.get(name, 0.0) + time.process_time() - cpu - inside_cpu

    def cost(self) -> Cost:
        """What was measured."""
        return Cost(self.wall, self.cpu, self.load, os.getloadavg()[0])
