"""A new profile: an existing one with another name, its comments kept."""

from __future__ import annotations

import json
from pathlib import Path

import msgspec

from auricle.files import write_durably
from auricle_export.flash.board import Id
from auricle_export.flash.boards import profile_path
from auricle_export.flash.profile import BoardError, read_profile, read_text, require
from auricle_export.flash.toml_lines import key_lines


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
    text = _renamed(original.read_text("utf-8"), name, title or name)
    require(*read_text(text.encode(), str(place), name))
    write_durably(place, text.encode())
    return place


def _renamed(text: str, name: str, title: str) -> str:
    """The text with another name and title; what the original says of itself before its first key is left out."""
    lines = text.splitlines(keepends=True)
    where = key_lines(text)
    for key, value in (("name", name), ("title", title)):
        lines[where[key,] - 1] = f"{key} = {json.dumps(value, ensure_ascii=False)}\n"
    body = "".join(lines[min(where.values()) - 1 :])
    return f"# {title}. Change what is different, then: auricle flash boards validate {name}.toml\n{body}"
