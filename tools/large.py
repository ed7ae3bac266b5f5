"""Files of more than 300 lines and functions of more than 60, largest first: a place to look for a second reason.

python tools/large.py [--lines 300] [--function 60] [PART ...]
"""

from __future__ import annotations

import argparse
import ast
import sys
from collections.abc import Iterator
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))  # where it is imported, too

from rooms import PARTS, ROOT

FOLDERS = (*PARTS, "tools")


def large(folders: list[str], lines: int, function: int) -> Iterator[tuple[int, str]]:
    """Lines and place of what is longer."""
    for path in sorted(path for folder in folders for path in (ROOT / folder).rglob("*.py")):
        text, place = path.read_text(encoding="utf-8"), str(path.relative_to(ROOT))
        count = len(text.splitlines())
        if count > lines:
            yield count, place
        for node in ast.walk(ast.parse(text)):
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
                own = (node.end_lineno or 0) - node.lineno + 1
                if own > function:
                    yield own, f"{place}:{node.lineno} {node.name}"


def main(arguments: list[str]) -> int:
    """Print them."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("parts", nargs="*", metavar="PART", help="core, edge, cloud, export, fleet or tools [all]")
    parser.add_argument("--lines", type=int, default=300, help="more than so many lines of a file [300]")
    parser.add_argument("--function", type=int, default=60, help="more than so many lines of a function [60]")
    given = parser.parse_args(arguments)
    unknown = [part for part in given.parts if part not in FOLDERS]
    if unknown:
        parser.error(f"There is no part {unknown[0]}; there are {', '.join(FOLDERS)}.")
    found = sorted(
        large(given.parts or list(FOLDERS), given.lines, given.function), key=lambda each: (-each[0], each[1])
    )
    for count, place in found:
        print(f"{count:5} {place}")
    print(f"{len(found)} in all.")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
