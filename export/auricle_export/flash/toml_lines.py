"""Where each key of a TOML document stands; Python's parser gives the values without their lines.

The text must have been parsed by `tomllib` before: here only its tokens are followed.
"""

from __future__ import annotations

import re
import sys
from bisect import bisect_left

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

Path = tuple[str | int, ...]
"""Keys and indices from the top of a document: `("os", 0, "python")`."""

_STRING = re.compile(r'"""(?:\\.|[^\\])*?"{3,5}' r"|'''.*?'{3,5}" r'|"(?:\\.|[^"\\])*"' r"|'[^']*'", re.DOTALL)
_BARE_KEY = re.compile(r"[A-Za-z0-9_-]+")
_BARE_VALUE = re.compile(r"[^,\]}\n#]+")
_BLANK = re.compile(r"(?:[ \t\r\n]|#[^\n]*)*")


def key_lines(text: str) -> dict[Path, int]:
    """Find the line, from 1, in which each key, table and element of an array first stands.

    Parameters
    ----------
    text
        A valid TOML document.
    """
    return _Walk(text).lines


def line_of(lines: dict[Path, int], path: Path) -> int:
    """The line of a path, or of the innermost table around it that stands in the text; 1 for the document."""
    return next((lines[path[:end]] for end in range(len(path), 0, -1) if path[:end] in lines), 1)


class _Walk:
    def __init__(self, text: str) -> None:
        self._text, self._at = text, 0
        self._ends = [match.start() for match in re.finditer("\n", text)]
        self._tables: dict[Path, int] = {}
        """How many tables each array of tables has so far."""
        self.lines: dict[Path, int] = {}
        self._document()

    def _document(self) -> None:
        table: Path = ()
        while self._skip_blank():
            if self._text.startswith("[[", self._at):
                table = self._header(2)
            elif self._text[self._at] == "[":
                table = self._header(1)
            else:
                self._pair(table)

    def _header(self, brackets: int) -> Path:
        """Read `[a.b]` or `[[a.b]]`; a name on the way that is an array of tables means its last one."""
        begun = self._at
        self._at += brackets
        keys = self._keys()
        self._skip_blank()
        self._at += brackets
        path: Path = ()
        for depth, key in enumerate(keys, 1):
            path = (*path, key)
            self._note(path, begun)
            if brackets == 2 and depth == len(keys):
                self._tables[path] = self._tables.get(path, 0) + 1
            if path in self._tables:
                path = (*path, self._tables[path] - 1)
                self._note(path, begun)
        return path

    def _pair(self, table: Path) -> None:
        begun = self._at
        path = table
        for key in self._keys():
            path = (*path, key)
            self._note(path, begun)
        self._skip_blank()
        self._at += 1
        self._value(path)

    def _keys(self) -> list[str]:
        """Read a key and its dotted parts."""
        keys = []
        while True:
            self._skip_blank()
            quoted = _STRING.match(self._text, self._at)
            bare = quoted or _BARE_KEY.match(self._text, self._at)
            assert bare is not None
            self._at = bare.end()
            keys.append(_plain(bare[0]) if quoted else bare[0])
            self._skip_blank()
            if self._text[self._at] != ".":
                return keys
            self._at += 1

    def _value(self, path: Path) -> None:
        self._skip_blank()
        first = self._text[self._at]
        if first == "[":
            self._array(path)
        elif first == "{":
            self._inline_table(path)
        else:
            match = _STRING.match(self._text, self._at) or _BARE_VALUE.match(self._text, self._at)
            assert match is not None
            self._at = match.end()

    def _array(self, path: Path) -> None:
        self._at += 1
        index = 0
        while self._skip_blank() and self._text[self._at] != "]":
            self._note((*path, index), self._at)
            self._value((*path, index))
            index += 1
            self._comma()
        self._at += 1

    def _inline_table(self, path: Path) -> None:
        self._at += 1
        while self._skip_blank() and self._text[self._at] != "}":
            self._pair(path)
            self._comma()
        self._at += 1

    def _comma(self) -> None:
        self._skip_blank()
        if self._text[self._at] == ",":
            self._at += 1

    def _note(self, path: Path, at: int) -> None:
        self.lines.setdefault(path, bisect_left(self._ends, at) + 1)

    def _skip_blank(self) -> bool:
        """Pass white space and comments; whether something follows."""
        match = _BLANK.match(self._text, self._at)
        assert match is not None
        self._at = match.end()
        return self._at < len(self._text)


def _plain(quoted: str) -> str:
    """The text of a quoted key."""
    text: str = next(iter(tomllib.loads(f"{quoted} = 0")))
    return text
