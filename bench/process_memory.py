"""What a process tree holds in memory, from the kernel's `smaps`: all of it, and mapping by mapping."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

GUEST = 1 << 40
"""What a program of another processor has mapped lies below this address, qemu-user itself above."""


@dataclass(frozen=True)
class Memory:
    """Of a process tree, MB (2^20 bytes)."""

    pss: float
    alone: float
    """As PSS, were no other program to map the same files."""
    private_dirty: float


@dataclass(frozen=True)
class Part:
    """What one process holds of one mapping, MB."""

    process: str
    name: str
    """A file, or `heap`, `stack`, `anonymous`."""
    private: float
    """Pages that are no file's."""
    file: float


def tree(pid: int) -> list[int]:
    """A process and all it has started."""
    found = [pid]
    for task in Path(f"/proc/{pid}/task").glob("*/children"):
        for child in task.read_text().split():
            found += tree(int(child))
    return found


def memory(pid: int, below: int = 1 << 64) -> Memory:
    """Of a process tree, now; a process that ends meanwhile does not count.

    Parameters
    ----------
    below
        Only what lies below this address: where a processor is emulated by qemu, `GUEST` leaves out the emulator.
    """
    pss = dirty = anonymous = 0
    files: dict[tuple[str, str, str], int] = {}
    for member in tree(pid):
        try:
            lines = Path(f"/proc/{member}/smaps").read_text().splitlines()
        except OSError:
            continue
        place, counts, resident = ("", "", ""), True, 0
        for line in lines:
            head = re.match(r"([0-9a-f]+)-[0-9a-f]+ \S+ ([0-9a-f]+) (\S+ \d+)\s*(.*)", line)
            if head:
                place, counts = (head[3], head[2], head[4]), int(head[1], 16) < below
            if head or not counts:
                continue
            name, _, rest = line.partition(":")
            value = int(rest.split()[0]) if rest.endswith("kB") else 0
            if name == "Pss":
                pss += value
            elif name == "Rss":
                resident = value
            elif name == "Private_Dirty":
                dirty += value
            elif name == "Anonymous":
                anonymous += value
                files[place] = max(files.get(place, 0), resident - value)
    return Memory(pss / 1024, (anonymous + sum(files.values())) / 1024, dirty / 1024)


def parts(pid: int, most: int) -> list[Part]:
    """The mappings of a process tree that hold most, so many of each process, the largest first."""
    found: list[Part] = []
    for number, member in enumerate(tree(pid)):
        held: dict[str, tuple[int, int]] = {}
        name, resident = "", 0
        try:
            lines = Path(f"/proc/{member}/smaps").read_text().splitlines()
        except OSError:
            continue
        for line in lines:
            if head := re.match(r"[0-9a-f]+-[0-9a-f]+ \S+ \S+ \S+ \d+\s*(.*)", line):
                name = Path(head[1]).name.strip("[]") or "anonymous"
                continue
            field, _, rest = line.partition(":")
            if field == "Rss":
                resident = int(rest.split()[0])
            elif field == "Anonymous":
                own, of_files = held.get(name, (0, 0))
                private = int(rest.split()[0])
                held[name] = own + private, of_files + resident - private
        largest = sorted(held.items(), key=lambda item: -sum(item[1]))
        process = "service" if number == 0 else f"child {number}"
        total = Part(process, "all", *(sum(each) / 1024 for each in zip(*held.values(), strict=True)))
        found += [
            total,
            *(Part(process, name, own / 1024, of_files / 1024) for name, (own, of_files) in largest[:most]),
        ]
    return found
