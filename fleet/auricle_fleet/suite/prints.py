"""What the papers print: which table or figure a suite stands for, its methods and conditions, and its numbers.

A file a paper lies in `prints/`; a test holds every suite against it. Numbers are facts of the prints, each with its
table; where a figure has no numbers in the text there are none.
"""

from __future__ import annotations

from functools import cache
from pathlib import Path
from typing import Annotated, Literal

from msgspec import Meta, Struct

from auricle.settings import from_mapping, read_toml
from auricle_fleet.suite.parts import Name, Values

FOLDER = Path(__file__).parent / "prints"
Text = Annotated[str, Meta(min_length=1, max_length=600)]


class PrintedTable(Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """Numbers of one column of a print."""

    figure: Name
    """Of the suite, that they are of."""
    condition: Name
    """Of the suite."""
    of: Text
    """Of what sound or images, and where that is said, what target."""
    unit: Literal["%", "points", "rounds", "seconds"]
    values: dict[str, float]
    """By method."""


class PaperItem(Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """A table or figure of a paper."""

    item: Text
    """As the paper numbers it."""
    holds: Text
    """What it shows, and by what."""
    suite: str = ""
    """That stands for it; none where `left_out` says why."""
    left_out: str = ""
    figure: str = ""
    """The suite's first one: what the print judges by."""
    methods: tuple[str, ...] = ()
    """Rows that the suite has, under these names."""
    conditions: tuple[str, ...] = ()
    """Columns that the suite has in its full size, under these names."""
    settings: Values = {}
    """Of the print's fleet: the full size of the suite has them."""
    printed: tuple[PrintedTable, ...] = ()

    def value(self, figure: str, condition: str, method: str) -> float | None:
        """The first number that the print has of a figure of a method in a condition; None where it has none.

        A distance from another method, in points, is not one.
        """
        found = (
            each
            for each in self.printed
            if (each.figure, each.condition) == (figure, condition) and each.unit != "points"
        )
        return next((each.values[method] for each in found if method in each.values), None)


class Paper(Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """A paper's file."""

    name: Name
    """Of its method."""
    cited: Text
    items: Annotated[tuple[PaperItem, ...], Meta(min_length=1)]


@cache
def read_papers() -> tuple[Paper, ...]:
    """Read all papers, in the order of their files' names; SettingsError where one is not as it has to be."""
    return tuple(from_mapping(Paper, read_toml(path), str(path)) for path in sorted(FOLDER.glob("*.toml")))


def find_item(suite: str) -> PaperItem | None:
    """The table or figure that a suite of this name stands for; None where it stands for none."""
    return next((item for paper in read_papers() for item in paper.items if item.suite == suite), None)
