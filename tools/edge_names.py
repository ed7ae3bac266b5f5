"""The names of the agent's settings for the part that writes bundles, made of the agent's own settings.

`python tools/edge_names.py` writes export/auricle_export/flash/edge_names.py, `--check` compares: export may not import
edge, and nobody types the names twice.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from msgspec.structs import fields

from auricle_edge.settings import TABLES, EdgeSettings

WRITTEN = Path(__file__).parents[1] / "export" / "auricle_export" / "flash" / "edge_names.py"
HEAD = '''"""What the agent's settings are called: made by `python tools/edge_names.py`; a test holds it to them."""

from __future__ import annotations
'''


def text() -> str:
    """The file, as the formatter has it."""
    plain = [f'    "{field.name}",' for field in fields(EdgeSettings) if field.name not in TABLES]
    lines = [HEAD, "PLAIN = (", *plain, ")", "TABLES: dict[str, tuple[str, ...]] = {"]
    for table, kind in TABLES.items():
        names = [f'"{field.name}"' for field in fields(kind)]
        short = f'    "{table}": ({", ".join(names)}{"," if len(names) == 1 else ""}),'
        if len(names) == 1:
            lines.append(short)
        else:
            lines += [f'    "{table}": (', *(f"        {name}," for name in names), "    ),"]
    return "\n".join([*lines, "}"]) + "\n"


def main(arguments: list[str] | None = None) -> int:
    """Write the names, or say that they are not those of the settings."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--check", action="store_true", help="change nothing; exit 1 where the names are out of date")
    given = parser.parse_args(arguments)
    if not given.check:
        WRITTEN.write_text(text(), encoding="utf-8")
    elif WRITTEN.read_text(encoding="utf-8") != text():
        print("The agent's settings have other names: run python tools/edge_names.py", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
