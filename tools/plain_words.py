"""Phrases that people who read English as a second language stumble over, in what is said to people.

Looked through: the pages, and in the code every string that is not a docstring, docstrings of commands (their help),
and the operator's page.

    python tools/plain_words.py
"""

from __future__ import annotations

import ast
import re
import sys
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).parents[1]
PARTS = ("core", "learning", "edge", "cloud", "export", "fleet")
INSTEAD = {
    r"\banew\b": "again",
    r"\bis none\b": "is not a ..., or: there is no ...",
    r"\bbesides\b": "also, or: beside",
    r"\bleans? on\b": "relies on",
    r"\bfare[sd]\b": "what became of it",
    r"\bwas well with\b": "worked with",
    r"\bno plain file\b": "not a regular file",
    r"\bwhat it was not asked\b": "something else",
    r"\bwhence\b|\bthereof\b|\bhitherto\b|\bhence\b": "a plain word",
    r"\bwhoever\b": "who",
    r"\bis no longer to be had\b|\bto be had\b": "available",
    r"\bby (?:itself|themselves)\b(?!,| \d)": "automatically, on its own, or: alone",
    r"\bonce more\b": "again",
    r"\bbelieves\b|\bnot believed\b": "trusts, accepts, uses",
    r"\bwants (?:an?|no|the)\b": "needs, or: asks for",
    r"\bshall\b": "may, will, or the imperative",
    r"\bturned away\b": "refused",
    r"\bis to be\b": "will be, or the imperative",
    r"\bevery so often\b": "regularly",
    r"\bin vain\b": "without success",
    r"(?<![Tt]here )\bis no (?:host|time|URL|key|text|number|pack|bundle|device|model|file|folder)\b": "is not a ...",
    r"\bparted by\b": "separated by",
    r"\btold with\b": "reported with",
}
"""What to write instead of a phrase."""


def sentences(path: Path) -> Iterator[tuple[int, str]]:
    """What a file says to people, with its line."""
    if path.suffix != ".py":
        yield from enumerate(path.read_text().splitlines(), 1)
        return
    tree = ast.parse(path.read_text())
    silent = set() if "commands" in str(path) else _docstrings(tree)
    for node in ast.walk(tree):
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and node not in silent:
            yield node.lineno, node.value


def _docstrings(tree: ast.Module) -> set[ast.Constant]:
    """Docstrings of modules, classes and functions, and those below an attribute."""
    return {
        statement.value
        for node in ast.walk(tree)
        for statement in _body(node)
        if isinstance(statement, ast.Expr) and isinstance(statement.value, ast.Constant)
    }


def _body(node: ast.AST) -> list[ast.stmt]:
    body = getattr(node, "body", [])
    return body if isinstance(body, list) else []


def files() -> Iterator[Path]:
    """Pages, code and the operator's page."""
    yield from sorted(ROOT.glob("*.md"))
    yield from sorted((ROOT / "docs").rglob("*.md"))
    for part in PARTS:
        for suffix in ("*.py", "*.js", "*.html"):
            yield from sorted((ROOT / part).rglob(suffix))


def main() -> int:
    """Print every phrase found, with what to write instead; 1 when there is one."""
    found = 0
    for path in files():
        for line, text in sentences(path):
            for phrase, instead in INSTEAD.items():
                for match in re.finditer(phrase, text):
                    found += 1
                    print(f'{path.relative_to(ROOT)}:{line}: "{match.group()}": {instead}')
    if found:
        print(f"{found} phrases in all.", file=sys.stderr)
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
