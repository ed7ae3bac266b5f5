"""What commands share: late imports of large libraries, options that were given, and places to write."""

from __future__ import annotations

import importlib
import os
import shlex
from pathlib import Path
from types import ModuleType

import typer

from auricle.errors import AuricleError, SettingsError, StorageError, extra_command
from auricle.files import describe


def import_for(command: str, module: str, extra: str = "export", where: str = "") -> ModuleType:
    """Import `auricle_export.MODULE` for `auricle export COMMAND`.

    Raises
    ------
    AuricleError
        A library that it needs is not installed; the sentence says how to get `extra`, and `where`.
    """
    try:
        return importlib.import_module(f"auricle_export.{module}")
    except ModuleNotFoundError as error:
        if error.name is None or error.name.split(".")[0].startswith("auricle"):
            raise
        how = f"{where}{extra_command(extra, elsewhere=bool(where))}"
        raise AuricleError(f'"auricle export {command}" needs {error.name}, which is not installed: {how}.') from error


def given_options(**options: int | None) -> dict[str, int]:
    """The options that were given."""
    return {name: value for name, value in options.items() if value is not None}


def refuse_unwritable(out: Path, folder: Path, option: str = "--out", name: str = "my.tar.zst") -> None:
    """Refuse at once what would fail after the training; nothing is left of having tried."""
    if out.is_dir():
        raise SettingsError(f"{out} is a folder: name the file to write, as in {option} {out / name}.")
    for place in (out.parent, folder):
        refuse_unwritable_folder(place)


def refuse_unwritable_folder(place: Path) -> None:
    """Refuse a folder in which nothing can be written, there or not; nothing is left of having tried."""
    made = [one for one in (place, *place.parents) if not one.exists()]
    try:
        place.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise StorageError(describe(error, place)) from error
    writable = os.access(place, os.W_OK | os.X_OK)
    for one in made:
        one.rmdir()
    if not writable:
        raise StorageError(f"{place} cannot be written: check its permissions.")


def command(ctx: typer.Context, folder: Path | None = None) -> str:
    """The command as it was given; with a folder the one that goes on from the state there."""
    words = ["auricle", "export", ctx.command.name or "pretrain"]
    for option in ctx.command.params:
        given, standard = ctx.params.get(option.name or ""), option.get_default(ctx)
        if option.name == "as_json":
            words += ["--json"] if given else []
        elif option.name != "state" and given is not None and given != standard:
            several = given if isinstance(given, list | tuple) else [given]
            flag = [] if option.param_type_name == "argument" else [option.opts[0]]
            words += [word for value in several for word in (*flag, str(value))]
    return shlex.join([*words, *([] if folder is None else ["--state", str(folder)])])
