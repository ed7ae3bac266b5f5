"""Reading a board's profile: every mistake in it, with its line and the nearest thing that would have been right."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from auricle_export.flash.board import Board
from auricle_export.flash.checks import objections
from auricle_export.flash.document import DocumentError, Problem, first_of, quoted, read_content, read_document
from auricle_export.flash.toml_lines import Path as KeyPath


class BoardError(DocumentError):
    """A profile that cannot be used; `problems` has all that is wrong with it."""


def read_profile(path: Path) -> tuple[Board | None, list[Problem]]:
    """Read and check a profile.

    Returns
    -------
    tuple
        The board, None where something is wrong; and all mistakes in the order of their lines.

    Raises
    ------
    BoardError
        The file cannot be read.
    """
    return read_text(read_content(path, "profile", BoardError), str(path), path.stem)


def read_text(content: bytes, file: str, stem: str) -> tuple[Board | None, list[Problem]]:
    """Read a profile's text, as `read_profile` does; `stem` is what its name has to be."""

    def contradictions(board: Board) -> Iterator[tuple[KeyPath, str]]:
        yield from objections(board)
        if board.name != stem:
            yield ("name",), f"the name of {stem}.toml has to be {quoted(stem)}, not {quoted(board.name)}"

    return read_document(Board, content, file, "profile", contradictions)


def require(board: Board | None, problems: list[Problem]) -> Board:
    """The board; BoardError with the first mistake, and how many more there are."""
    if board is None:
        raise BoardError(first_of(problems), tuple(problems))
    return board
