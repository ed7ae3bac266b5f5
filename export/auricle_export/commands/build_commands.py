"""`auricle export build`: packs from models."""

from __future__ import annotations

import json
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Literal

import typer
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

from auricle.errors import PackError, SettingsError
from auricle.files import write_durably
from auricle.packs.pack import Pack, load_pack, pack_bytes
from auricle.process.table import progress_bars
from auricle.speech.words import WORD_SETS
from auricle_export.commands.command_line import import_for, refuse_unwritable_folder


def build(
    names: list[str] | None = typer.Argument(
        None, help="Packs to build: digits, gsc12, gsc12-res, gsc35, home, home-more [all]."
    ),
    model: str | None = typer.Option(
        None,
        help="Your own module, FILE.py:NAME: log-mels (B, frames, mels) to logits (B, labels); or built-in models, "
        "a,b,c or fedmlac for the five of its table 3.",
    ),
    labels: str | None = typer.Option(
        None, help="Words of your own model: a,b,c, or the name of a shipped pack or a set."
    ),
    plugin: str = typer.Option("crnn-lite", help="What travels: a built-in model, or another FILE.py:NAME."),
    name: str | None = typer.Option(None, help="Name of your pack [that of the model]."),
    mels: int = typer.Option(40, min=1, max=1024, help="Mel bands of your model's input."),
    window: float = typer.Option(1.0, help="Seconds that your model looks at, 0.5 to 4: 100 frames a second."),
    out: Path | None = typer.Option(None, help="Folder for NAME.tar.zst."),
    check: str | None = typer.Option(
        None, help="Compare with what is there, and fail where it differs: shipped, or a folder of NAME.tar.zst."
    ),
    weights: str | None = typer.Option(
        None, help="Carry trained weights over from shipped, or from a folder of NAME.tar.zst [none]."
    ),
    bavd: bool = typer.Option(False, "--bavd", help="Models whose rounds may ask for MuPFL's activation dropout."),
    loss: Literal["ce", "mse"] = typer.Option(
        "ce", help="What --model's pack learns labels by; mse, of posteriors: its rounds are supervised ones."
    ),
    workers: int | None = typer.Option(None, min=1, help="Processes to compile in [one a core, at most four]."),
    as_json: bool = typer.Option(False, "--json", help="Print a JSON object, nothing else."),
) -> None:
    """Compile training graphs and write packs of them: the same bytes each time.

    Without --model the packs in the wheel (two minutes); with --model and --labels a,b,c a pack of your own.
    """
    if out is None and check is None:
        raise SettingsError("Say where the packs go with --out DIR, or what to compare them with by --check shipped.")
    if out is not None and out.exists() and not out.is_dir():
        raise SettingsError(f"{out} is a file: packs go into a folder, name one with --out.")
    if out is not None:
        refuse_unwritable_folder(out)
    if model is not None:
        if out is None or names or labels is None:
            raise SettingsError("Your own model needs --labels a,b,c and --out DIR, and no names of shipped packs.")
        _build_own(model, labels, plugin, name, mels, window, out, as_json, bavd=bavd, loss=loss)
        return
    for option, value in (
        ("--labels", labels),
        ("--name", name),
        ("--window", None if window == 1 else window),
        ("--loss", None if loss == "ce" else loss),
    ):
        if value is not None:
            raise SettingsError(
                f"{option} is for a model of your own: add --model FILE.py:NAME, or leave it out; a shipped pack has "
                "its own words, name, window and loss."
            )
    builder = import_for("build", "packs.build")
    wanted = list(names or builder.LABELS)
    builder.refuse_unknown(wanted)
    known = {pack: _pack_to_check(check, pack) for pack in wanted} if check is not None else {}
    trained = {pack: _pack_to_check(weights, pack) for pack in wanted} if weights is not None else {}
    with tempfile.TemporaryDirectory() as scratch, _bar(as_json) as bar:
        written: dict[str, Path] = builder.build_packs(
            wanted, out or Path(scratch), _show_progress(bar, as_json), workers, trained, bavd=bavd
        )
        built = {pack: load_pack(path) for pack, path in written.items()}
    reasons = [reason for pack in known if (reason := builder.differences(built[pack], known[pack])) is not None]
    if reasons:
        raise PackError(" ".join(reasons))
    if as_json:
        packs = {
            key: {"identity": pack.identity, "path": str(written[key]) if out else None} for key, pack in built.items()
        }
        typer.echo(json.dumps({"packs": packs, "same_as": check}))
        return
    for key, pack in built.items():
        typer.echo(f"{key} {pack.identity[:12]}" + (f" -> {written[key]}" if out else "") + _same(check))


def _build_own(
    model: str,
    labels: str,
    plugin: str,
    name: str | None,
    mels: int,
    window: float,
    out: Path,
    as_json: bool,
    *,
    bavd: bool,
    loss: str,
) -> None:
    builder = import_for("build", "packs.build")
    words = {**WORD_SETS, **builder.LABELS}.get(labels) or [word.strip() for word in labels.split(",") if word.strip()]
    key = name or builder.model_name(model.split(",")[0])
    with _bar(as_json) as bar:
        shown = _show_progress(bar, as_json)
        pack = builder.build_author_pack(
            model, words, key, plugin=plugin, mels=mels, window=window, progress=shown, bavd=bavd, loss=loss
        )
    path = out / f"{key}.tar.zst"
    write_durably(path, pack_bytes(pack))
    weights = {model: table.size for model, table in pack.tables.items()}
    if as_json:
        typer.echo(json.dumps({"packs": {key: {"identity": pack.identity, "path": str(path)}}, "weights": weights}))
        return
    typer.echo(f"{key} {pack.identity[:12]} -> {path}: " + ", ".join(f"{m} {n:,} weights" for m, n in weights.items()))


def _show_progress(bar: Progress, as_json: bool) -> Callable[[str, int, int], None]:
    """Shows which model was compiled last: as a bar, and as lines where standard error is not a terminal."""
    if as_json:
        return lambda *_: None
    if bar.disable:
        began = time.monotonic()
        typer.echo("compiling", err=True)
        return lambda what, done, total: typer.echo(
            f"compiled {what}: {done} of {total}, {time.monotonic() - began:.0f} s", err=True
        )
    task = bar.add_task("compiling", total=None)
    return lambda what, done, total: bar.update(task, description=what, completed=done, total=total)


def _pack_to_check(check: str, name: str) -> Pack:
    if check == "shipped":
        return load_pack(name)
    path = Path(check) / f"{name}.tar.zst"
    if not path.is_file():
        raise PackError(f"There is no {path}: give shipped, or a folder of NAME.tar.zst.")
    return load_pack(path)


def _same(check: str | None) -> str:
    return "" if check is None else f", the same as {'the shipped one' if check == 'shipped' else 'in ' + check}"


def _bar(as_json: bool) -> Progress:
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
    return progress_bars(*columns, hidden=as_json)
