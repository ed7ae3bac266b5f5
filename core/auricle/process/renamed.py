"""Options under the names of the version before: they still work, with a line on standard error."""

from __future__ import annotations

import sys
from collections.abc import Sequence

RENAMED: dict[tuple[str, ...], dict[str, str]] = {
    ("cloud", "models", "download"): {"--output": "--out"},
    ("cloud", "models", "evaluate"): {"--device": "--compute"},
    ("cloud", "rounds", "show"): {"--fate": "--outcome"},
    ("cloud", "rounds", "start"): {"--count": "--rounds"},
    ("cloud", "rounds", "why"): {"--fate": "--outcome"},
    ("cloud", "why"): {"--fate": "--outcome"},
    ("edge", "run"): {"--speech": "--data"},
    ("export", "pretrain"): {"--device": "--compute"},
}
"""Old and new names of options, by the words that call their command."""


def with_names_of_today(given: Sequence[str]) -> list[str]:
    """A command line in which options have the names that they have now; the old ones are told on standard error."""
    path, rest = _command(given)
    if path not in RENAMED:
        return list(given)
    names = RENAMED[path]
    changed = list(given)
    for at in range(rest, len(given)):
        if given[at] == "--":
            break
        name, equals, value = given[at].partition("=")
        if name in names:
            changed[at] = f"{names[name]}{equals}{value}"
            print(f"{name} is now {names[name]}; the old name goes with the next version.", file=sys.stderr)
    return changed


def _command(given: Sequence[str]) -> tuple[tuple[str, ...], int]:
    """The words that call a command with renamed options, and where its own arguments begin; () where it is another.

    Options of a group, which stand before its command, all have a value.
    """
    path: tuple[str, ...] = ()
    at = 0
    while at < len(given) and path not in RENAMED:
        if given[at].startswith("-"):
            at += 1 if "=" in given[at] else 2
            continue
        path += (given[at],)
        at += 1
        if not any(known[: len(path)] == path for known in RENAMED):
            return (), at
    return path, at
