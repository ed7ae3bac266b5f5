"""The shelf of profiles, `firmware-configs/` of a checkout or a wheel's: read with every mistake in them, or copied."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import msgspec

from auricle.errors import nearest
from auricle.files import decode_text, write_durably
from auricle_export.flash.board import Board, Id
from auricle_export.flash.checks import objections
from auricle_export.flash.document import DocumentError, Problem, first_of, quote, read_content, read_document
from auricle_export.flash.toml_lines import Path as KeyPath
from auricle_export.flash.toml_lines import key_lines


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
            yield ("name",), f"the name of {stem}.toml has to be {quote(stem)}, not {quote(board.name)}"

    return read_document(Board, content, file, "profile", contradictions)


def require(board: Board | None, problems: list[Problem]) -> Board:
    """The board; BoardError with the first mistake, and how many more there are."""
    if board is None:
        raise BoardError(first_of(problems), tuple(problems))
    return board


INSTALLED = Path(__file__).parent / "profiles"
CHECKOUT = Path(__file__).parents[3] / "firmware-configs"


def shelf() -> Path:
    """The folder of the profiles that come with this program. BoardError: it is not there."""
    found = next((folder for folder in (INSTALLED, CHECKOUT) if folder.is_dir()), None)
    if found is None:
        raise BoardError("The boards' profiles are missing from this installation: install auricle again.")
    return found


def board_names() -> list[str]:
    """The boards that profiles come for, in alphabetical order."""
    return sorted(path.stem for path in shelf().glob("*.toml"))


def profile_path(board: str | Path) -> Path:
    """The file of a board's profile.

    Parameters
    ----------
    board
        A name of `board_names`, or the path of a file that ends in `.toml`.

    Raises
    ------
    BoardError
        There is no such board or file.
    """
    text = str(board)
    if text.endswith(".toml") or "/" in text:
        path = Path(text)
        if not path.is_file():
            raise BoardError(f"There is no profile {path}: give a file, or the name of a board.")
        return path
    names = board_names()
    if text not in names:
        raise BoardError(f'There is no board "{text}": {nearest(text, names)}')
    return shelf() / f"{text}.toml"


def load_board(board: str | Path) -> Board:
    """Read a board's profile.

    Parameters
    ----------
    board
        As in `profile_path`.

    Raises
    ------
    BoardError
        There is no such board, or its profile has mistakes: the first one with file and line.
    """
    return require(*read_profile(profile_path(board)))


def load_boards() -> Iterator[Board]:
    """All boards that profiles come for."""
    return (load_board(name) for name in board_names())


def write_profile(name: str, like: str | Path, folder: Path, title: str | None = None) -> Path:
    """Copy a profile under another name.

    Parameters
    ----------
    name
        Name of the new board, and of its file.
    like
        The board, or file, that is copied.
    folder
        Where the file goes.
    title
        What people call the board; None: its name.

    Returns
    -------
    Path
        The new file.

    Raises
    ------
    BoardError
        The name cannot be one, the file exists, or the original has mistakes.
    """
    try:
        msgspec.convert(name, Id)
    except msgspec.ValidationError as error:
        raise BoardError(
            f'"{name}" cannot be the name of a board: take lower-case letters, digits, dots and dashes.'
        ) from error
    place = folder / f"{name}.toml"
    if place.exists():
        raise BoardError(f"{place} exists: choose another name or folder, or remove it.")
    original = profile_path(like)
    require(*read_profile(original))
    content = read_content(original, "profile", BoardError)
    text = _rename(decode_text(content, str(original), BoardError), name, title or name)
    require(*read_text(text.encode(), str(place), name))
    write_durably(place, text.encode())
    return place


def _rename(text: str, name: str, title: str) -> str:
    """The text with another name and title; what the original says of itself before its first key is left out."""
    lines = text.splitlines(keepends=True)
    where = key_lines(text)
    for key, value in (("name", name), ("title", title)):
        lines[where[key,] - 1] = f"{key} = {json.dumps(value, ensure_ascii=False)}\n"
    body = "".join(lines[min(where.values()) - 1 :])
    return f"# {title}. Change what is different, then: auricle flash boards validate {name}.toml\n{body}"
