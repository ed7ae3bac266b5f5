"""What the pages hold: blocks of code, the shell commands in them, and the notes beside them.

A block is fenced, or indented by four spaces after an empty line. It holds commands when its language is `sh` or
`console`, or, without a language, when its first line begins with a known program. A note is an HTML comment on the
line above a block: `<!-- not run: needs a board -->`, or `<!-- file: run.toml -->` for a block that is written to a
file of that name before the page's commands run.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parents[1]
PROGRAMS = re.compile(
    r"auricle|auricle-cloud|make|python[0-9.]*|pytest|pip|sudo|apt|mosquitto|export|alias|docker|compose|kubectl|deploy/prepare|"
    r"mkdir|cd|git|openssl|install|umask|systemctl|systemd-analyze|\.|[\w./]+/s?bin/\w+"
)
"""A block without a language whose first word is one of these programs holds commands."""
SHELL = ("sh", "console", "bash")
_NOTE = re.compile(r"<!-- (not run|file): (.+?) -->")
_MENTION = re.compile(r"(?<!`)`((?:[^`\n]|\n(?!\n))+)`(?!`)")
_OPERATOR = re.compile(r"[;&|()]+")
_REDIRECTION = re.compile(r"[<>]+")


@dataclass(frozen=True)
class Block:
    """A block of code."""

    line: int
    """Of its first line of code, from 1."""
    language: str
    """Of the fence; empty for none."""
    text: str
    not_run: str
    """Why it is not run, as the note beside it says; empty without one."""
    file: str
    """The file that it is; empty for none."""

    @property
    def kind(self) -> str:
        """Its language, by its first line where the fence does not say."""
        if self.language:
            return self.language
        lines = [line for line in self.text.splitlines() if line.strip() and not line.startswith("#")] or [""]
        if re.match(r"(from [\w.]+ )?import ", lines[0]):
            return "python"
        return "toml" if re.fullmatch(r"\[[\w.]+\](\s+#.*)?|\w+ = .*", lines[0]) else ""


@dataclass(frozen=True)
class Command:
    """A command of a page: a line of a block with those that continue it."""

    line: int
    text: str
    not_run: str

    @property
    def parts(self) -> list[list[str]]:
        """Words of each program that it calls."""
        return list(simple_commands(self.text))


WRONG = ROOT / "docs" / "mistakes.md"
"""Its commands are wrong on purpose; `tests/mistakes/` runs them."""


STARTS = (ROOT / "README.md", *sorted((ROOT / "docs").glob("quick-start-*.md")))
"""What somebody reads first."""


def pages() -> list[Path]:
    """README.md and all below docs/, but the page of mistakes."""
    return [ROOT / "README.md", *(path for path in sorted((ROOT / "docs").rglob("*.md")) if path != WRONG)]


MADE = re.compile(r"<!-- made by tools/\w+\.py -->|^(Generated|Made) by `python ", re.MULTILINE)
"""In the first lines of a page that a tool writes, but those of docs/results, which have no such line."""
_PART_MADE = re.compile(r"<!-- (\w+) -->.*?<!-- end \1 -->|<!-- made by tools/\w+\.py from here on -->.*", re.DOTALL)


def written_by_hand(path: Path) -> str:
    """Return a page without what a tool makes of it; an empty text where that is all."""
    page = path.read_text(encoding="utf-8")
    made = path.parent == ROOT / "docs" / "results" or MADE.search("\n".join(page.splitlines()[:8]))
    return "" if made else _PART_MADE.sub("", page)


def words() -> dict[Path, tuple[int, int]]:
    """Count the words of each page, CONTRIBUTING.md and CHANGELOG.md: those by hand, those that tools made."""
    found: dict[Path, tuple[int, int]] = {}
    for path in [*pages(), WRONG, ROOT / "CONTRIBUTING.md", ROOT / "CHANGELOG.md"]:
        by_hand = len(written_by_hand(path).split())
        found[path] = (by_hand, len(path.read_text(encoding="utf-8").split()) - by_hand)
    return found


def blocks(page: str) -> list[Block]:
    """The blocks of a page, in its order."""
    found: list[Block] = []
    lines = page.splitlines()
    note = ("", "")
    at = 0
    while at < len(lines):
        start, language, code = at, "", []
        if (fence := re.match(r"(```+)(\w*)", lines[at])) is not None:
            language, at = fence[2], at + 1
            while at < len(lines) and not lines[at].startswith(fence[1]):
                code.append(lines[at])
                at += 1
            start, at = start + 1, at + 1
        elif lines[at].startswith("    ") and (at == 0 or not lines[at - 1].strip() or note != ("", "")):
            while at < len(lines) and (lines[at].startswith("    ") or not lines[at].strip()):
                code.append(lines[at][4:])
                at += 1
        else:
            told = _NOTE.fullmatch(lines[at].strip())
            if told is not None or lines[at].strip():
                note = (told[1], told[2]) if told is not None else ("", "")
            at += 1
            continue
        text = "\n".join(code).rstrip()
        named = dict([note])
        found.append(Block(start + 1, language, text, named.get("not run", ""), named.get("file", "")))
        note = ("", "")
    return found


def commands(page: str) -> list[Command]:
    """The commands of all blocks of a page; lines that a `console` shows as answers are none."""
    found: list[Command] = []
    for block in blocks(page):
        lines = block.text.splitlines()
        prompted = any(line.startswith("$ ") for line in lines)
        first = next((line for line in lines if line.strip() and not line.startswith("#")), "")
        if block.language not in SHELL and (block.language or not _is_command(first.removeprefix("$ "))):
            continue
        begun = ""
        for number, line in enumerate(lines, block.line):
            if not begun and ((prompted and not line.startswith("$ ")) or not line.split("#")[0].strip()):
                continue
            begun = f"{begun}\n{line}" if begun else line.removeprefix("$ ")
            if not line.endswith("\\"):
                at = number - begun.count("\n")
                found.append(Command(at, begun.replace("\\\n", " "), block.not_run))
                begun = ""
    return found


def first_commands(path: Path) -> list[str]:
    """What a reader types first: of README its section Start, of another page its first block of commands."""
    page = path.read_text(encoding="utf-8")
    typed = commands(page)
    if path.name == "README.md":
        start = page.index("\n## Start")
        first, last = page.count("\n", 0, start), page.count("\n", 0, page.index("\n## ", start + 1))
        return [each.text for each in typed if first < each.line < last]
    block = next(each for each in blocks(page) if each.line <= typed[0].line <= each.line + each.text.count("\n"))
    return [each.text for each in typed if each.line <= block.line + block.text.count("\n")]


def _is_command(line: str) -> bool:
    words = [word for word in line.split() if not re.match(r"[A-Z_]+=", word)]
    return bool(words) and PROGRAMS.fullmatch(words[0]) is not None


def mentions(page: str) -> Iterator[tuple[int, str]]:
    """What stands between backticks outside of blocks, with its line."""
    lines = page.splitlines()
    for block in blocks(page):
        for number in range(block.line - 1, block.line + block.text.count("\n")):
            lines[number] = ""
    outside = "\n".join("" if line.startswith("```") else line for line in lines)
    for match in _MENTION.finditer(outside):
        yield outside.count("\n", 0, match.start()) + 1, " ".join(match[1].split())


def simple_commands(text: str) -> Iterator[list[str]]:
    """The words of each program that a line of the shell calls; without redirections, `a|b` a command for each.

    Raises
    ------
    ValueError
        A quotation that does not end.
    """
    text = text.replace("$(which auricle)", "auricle")
    marked = re.sub(r"(?<=\w)\|(?=\w)", "\N{BROKEN BAR}", re.sub(r"(?<!\S)\d?>&\d", " ", text))
    lexer = shlex.shlex(marked, posix=True, punctuation_chars=True)
    lexer.whitespace_split = True
    words: list[str] = []
    drop = False
    for word in [*lexer, ";"]:
        if _OPERATOR.fullmatch(word):
            if words:
                yield from _alternatives(words)
            words = []
        elif _REDIRECTION.fullmatch(word):
            drop = True
        elif drop:
            drop = False
        else:
            words.append(word)


def _alternatives(words: list[str]) -> Iterator[list[str]]:
    for at, word in enumerate(words):
        if "\N{BROKEN BAR}" in word:
            for one in word.split("\N{BROKEN BAR}"):
                yield from _alternatives([*words[:at], one, *words[at + 1 :]])
            return
    yield words
