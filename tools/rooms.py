"""How each part is laid out inside: rooms, floors, arrows between rooms, and those that go in a circle.

A room is a file or a folder directly in a part. An arrow goes from a room to another that it imports, once however many
imports there are, those for types alone included. A room's floor is one above the highest that it imports; rooms that
import each other in a circle share a floor, and their arrows count as arrows up. Arrows up are looked for in every
folder of a part, where its `__init__` is a room too: files in a circle are one there, whatever lies between them.

    python tools/rooms.py [--json] [--check] [--part PART]
"""

from __future__ import annotations

import argparse
import ast
import json
import sys
from collections import defaultdict
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass
from graphlib import CycleError, TopologicalSorter
from pathlib import Path

ROOT = Path(__file__).parents[1]
PARTS = {
    "core": "auricle",
    "learning": "auricle_learning",
    "edge": "auricle_edge",
    "cloud": "auricle_cloud",
    "export": "auricle_export",
    "fleet": "auricle_fleet",
}
MOST = {
    "core": (11, 6, 23),
    "learning": (6, 5, 8),
    "edge": (13, 7, 41),
    "cloud": (14, 8, 45),
    "export": (9, 5, 13),
    "fleet": (13, 10, 42),
}
"""Rooms, floors and arrows that a part may have; no part has an arrow up."""


@dataclass(frozen=True)
class House:
    """One part; `up` are the arrows of circles at any level."""

    part: str
    rooms: int
    floors: int
    arrows: int
    up: int
    files: int
    lines: int


def house(part: str, package: str) -> tuple[House, list[str]]:
    """Measure a part, and say each of its circles in a sentence."""
    base = ROOT / part / package
    modules = {_name(path, base, package): path for path in sorted(base.rglob("*.py"))}
    imports = {name: set(_imports(path, modules)) - {name} for name, path in modules.items()}
    top = _arrows(imports, package)
    circles: list[str] = []
    up = 0
    for folder in sorted(name for name, path in modules.items() if path.name == "__init__.py"):
        arrows = _arrows(imports, folder)
        for circle in _circles(arrows):
            circles.append(f"{folder}: {', '.join(sorted(circle))} import each other.")
            up += sum(other in circle for room in circle for other in arrows[room])
    together = {room: min(circle) for circle in _circles(top) for room in circle}
    measured = House(
        part=part,
        rooms=len(top),
        floors=_floors(top, together),
        arrows=sum(map(len, top.values())),
        up=up,
        files=len(modules),
        lines=sum(len(path.read_text().splitlines()) for path in modules.values()),
    )
    return measured, circles


def _name(path: Path, base: Path, package: str) -> str:
    parts = path.relative_to(base).with_suffix("").parts
    return ".".join((package, *(part for part in parts if part != "__init__")))


def _imports(path: Path, modules: Mapping[str, Path]) -> Iterator[str]:
    """Modules of the same part that a file imports, anywhere in it, for types alone too."""
    for node in ast.walk(ast.parse(path.read_text())):
        names: list[str] = []
        if isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom) and node.level == 0 and node.module:
            inside = [f"{node.module}.{alias.name}" for alias in node.names]
            names = [name if name in modules else node.module for name in inside]
        yield from (name for name in names if name in modules)


def _arrows(imports: Mapping[str, set[str]], folder: str) -> dict[str, set[str]]:
    """Arrows between the rooms of a folder, its `__init__` one of them where it is inside the part; each room a key."""
    arrows: dict[str, set[str]] = defaultdict(set)
    for name, others in imports.items():
        room = _room(name, folder)
        if room is not None:
            arrows[room] |= {found for other in others if (found := _room(other, folder)) not in (None, room)}
    return arrows


def _room(module: str, folder: str) -> str | None:
    """The room of a folder that a module is in; None outside, and for what a part begins with."""
    if module == folder and "." in folder:
        return "__init__"
    room = module.removeprefix(f"{folder}.").split(".")[0] if module.startswith(f"{folder}.") else None
    return None if room == "__main__" else room


def _reached(arrows: Mapping[str, set[str]], first: str) -> set[str]:
    found: set[str] = set()
    left = [first]
    while left:
        for other in arrows.get(left.pop(), set()) - found:
            found.add(other)
            left.append(other)
    return found


def _circles(arrows: Mapping[str, set[str]]) -> list[set[str]]:
    """Groups of rooms each of which reaches all the others."""
    reached = {room: _reached(arrows, room) for room in arrows}
    groups: list[set[str]] = []
    for room in arrows:
        if room in reached[room] and not any(room in group for group in groups):
            groups.append({other for other in reached[room] if room in reached.get(other, set())})
    return groups


def _floors(arrows: Mapping[str, set[str]], together: Mapping[str, str]) -> int:
    graph: dict[str, set[str]] = defaultdict(set)
    for room, others in arrows.items():
        here = together.get(room, room)
        graph[here] |= {together.get(other, other) for other in others} - {here}
    try:
        order = list(TopologicalSorter(graph).static_order())
    except CycleError as error:
        raise SystemExit(f"A circle is left: {error.args[1]}.") from error
    floor: dict[str, int] = {}
    for room in order:
        floor[room] = 1 + max((floor[other] for other in graph[room]), default=0)
    return max(floor.values(), default=0)


def main(arguments: list[str]) -> int:
    """Print the table; with --check fail where a part has more than it may have."""
    parser = argparse.ArgumentParser(description="Rooms, floors and arrows of each part.")
    parser.add_argument("--json", action="store_true", help="print a JSON object")
    parser.add_argument("--check", action="store_true", help="fail where a part has more than it may have")
    parser.add_argument("--part", choices=PARTS, help="one part [all]")
    given = parser.parse_args(arguments)
    found = [house(part, package) for part, package in PARTS.items() if given.part in (None, part)]
    houses = [each for each, _ in found]
    if given.json:
        print(json.dumps({each.part: asdict(each) for each in houses}))
    else:
        print(f"{'part':8}{'rooms':>7}{'floors':>8}{'arrows':>8}{'up':>5}{'files':>7}{'lines':>8}")
        for each in houses:
            print(f"{each.part:8}{each.rooms:7}{each.floors:8}{each.arrows:8}{each.up:5}{each.files:7}{each.lines:8}")
    for sentence in (sentence for _, circles in found for sentence in circles):
        print(sentence, file=sys.stderr)
    over = [each.part for each in houses if each.up or (each.rooms, each.floors, each.arrows) != _within(each)]
    if given.check and over:
        print(f"More rooms, floors or arrows than MOST in tools/rooms.py allows: {', '.join(over)}.", file=sys.stderr)
        return 1
    return 0


def _within(each: House) -> tuple[int, int, int]:
    rooms, floors, arrows = MOST[each.part]
    return min(each.rooms, rooms), min(each.floors, floors), min(each.arrows, arrows)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
