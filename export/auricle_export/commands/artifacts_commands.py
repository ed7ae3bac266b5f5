"""`auricle export artifacts`: put onnxruntime-training's artifacts into a pack."""

from __future__ import annotations

import json
from pathlib import Path

import typer
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn

from auricle.errors import PackError
from auricle.files import write_durably
from auricle.packs.pack import Pack, load_pack, pack_bytes
from auricle_export.commands.late_import import import_for

INSTALL = 'in an environment of its own with Python 3.10 or 3.11 on x86_64, pip install "auricle[ort-training]".'


def artifacts(
    pack: str = typer.Argument(..., help="home, gsc12-res, gsc12, gsc35, digits, a folder or a .tar.zst."),
    out: Path = typer.Option(..., help="The pack to write, a .tar.zst."),
    models: str = typer.Option("all", help="Models to make them for, parted by commas, or all."),
    words: str | None = typer.Option(None, help="Make the pack for these words, parted by commas [its own]."),
    as_json: bool = typer.Option(False, "--json", help="Print a JSON object, nothing else."),
) -> None:
    """Add what the runtime ort-training needs (run it where onnxruntime-training is installed; no PyTorch)."""
    maker = import_for("artifacts", "packs.ort_artifacts", INSTALL)
    loaded = load_pack(pack)
    if words is not None:
        loaded = loaded.with_labels([word.strip() for word in words.split(",")], loaded.manifest.name)
    names = _names(loaded, models)
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn())
    with Progress(*columns, console=Console(stderr=True), disable=as_json, transient=True) as bar:
        task = bar.add_task("differentiating", total=len(names))
        made: Pack = maker.with_artifacts(
            loaded, names, lambda model, done, _: bar.update(task, description=model, completed=done)
        )
    write_durably(out, pack_bytes(made))
    if as_json:
        typer.echo(json.dumps({"identity": made.identity, "path": str(out), "models": names}))
        return
    unsigned = "" if loaded.signature is None else ", not signed: auricle export sign"
    typer.echo(f"{made.manifest.name} {made.identity[:12]} -> {out}, now with {', '.join(names)}{unsigned}")


def _names(pack: Pack, models: str) -> list[str]:
    names = list(pack.tables) if models == "all" else [name.strip() for name in models.split(",") if name.strip()]
    if not names:
        raise PackError("--models names no model: give some, parted by commas, or all.")
    for name in names:
        pack.table(name)
    return names
