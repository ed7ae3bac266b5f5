"""The shelf of profiles: `firmware-configs/` of a checkout, which an installed wheel has inside."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from auricle.errors import nearest
from auricle_export.flash.board import Board
from auricle_export.flash.profile import BoardError, read_profile, require

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
