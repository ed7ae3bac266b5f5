"""One mistake that people make, and what the command has to say to it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Literal

import msgspec

from auricle.settings import read_toml

FOLDER = Path(__file__).parent
PARTS = ("edge", "cloud", "fleet", "export", "flash")
AT_HAND = frozenset({"board", "empty", "flat", "key", "long", "music", "recordings", "texts"})
"""What exists before in some milliseconds."""
Habit = Literal[
    "wrong", "missing", "twice", "half", "huge", "Ctrl-C", "no root", "full disk", "80 columns", "no network", "pipe"
]


class Mistake(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """A record of `tests/mistakes/PART.toml`.

    `{dir}` in `command` and `environment` is the folder that it runs in; other names in braces are what its `before`
    tells, such as `{port}`.
    """

    what: str
    """The mistake, for the table."""
    habit: Habit
    command: str
    """As it is typed, quotes included; no shell reads it."""
    code: int
    """The exit code."""
    says: Sequence[str] = ()
    """Each stands in what is printed."""
    silent: Sequence[str] = ()
    """None stands in what is printed."""
    before: Sequence[str] = ()
    """What has to exist before: names of functions in `before.py`."""
    files: Mapping[str, str] = {}
    """Text files that have to exist before."""
    environment: Mapping[str, str] = {}
    typed: str = ""
    """What comes on standard input."""
    without_root: bool = False
    """Who types it has only the rights that files say."""
    largest: int = 0
    """Bytes that a file may have at most, 0 for any: what a full disk does."""
    interrupt: str = ""
    """Ctrl-C comes when this was printed."""
    cut: bool = False
    """What reads its output goes away, as `| head -1` does."""
    terminal: bool = False
    """It runs on a terminal of 80 columns."""
    unchanged: Sequence[str] = ()
    """Files and folders that are afterwards as before, to the byte."""
    made_none: bool = False
    """Nothing new lies in the folder afterwards."""
    told: bool = False
    """Standard output says why: it was asked for, and is not there yet."""
    wide: bool = False
    """A line of standard output may be longer than 80 characters: a path, or JSON."""
    slow: bool = False
    """Takes more than some tenths of a second."""

    @property
    def quick(self) -> bool:
        """Whether it is a command line, and at most some files, which is refused at once."""
        return not self.slow and AT_HAND.issuperset(self.before)


def read_mistakes(part: str) -> list[Mistake]:
    """The records of a part, in the file's order."""
    values = read_toml(FOLDER / f"{part}.toml")
    return msgspec.convert(values["mistake"], list[Mistake])
