"""`auricle export tflite`: inference models for LiteRT, into a pack."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import typer

from auricle.errors import DataError, SettingsError, nearest
from auricle.files import write_durably
from auricle.packs.pack import Pack, load_pack, pack_bytes
from auricle.packs.start import read_start
from auricle.wire.tensors import Flat
from auricle_export.commands.late_import import import_for


def tflite(
    pack: str = typer.Argument(..., help="home, gsc12-res, gsc12, gsc35, digits, a folder or a .tar.zst."),
    out: Path = typer.Option(..., help="The pack to write, a .tar.zst."),
    models: str = typer.Option("all", help="Models to translate, parted by commas, or all."),
    precision: str = typer.Option("float32,int8", help="float32, int8, or both parted by a comma."),
    words: str | None = typer.Option(None, help="Make the pack for these words, parted by commas [its own]."),
    weights: Path | None = typer.Option(
        None, help="safetensors to put in, a run's result for the one model that is named [what the pack starts from]."
    ),
    as_json: bool = typer.Option(False, "--json", help="Print a JSON object, nothing else."),
) -> None:
    """Add .tflite models to a pack, made of its evaluation graphs; a device replaces their weights in place."""
    builder = import_for("tflite", "tflite.pack")
    base = load_pack(pack)
    if words is not None:
        base = base.with_labels(_parted(words), base.manifest.name)
    names = list(base.tables) if models == "all" else _parted(models)
    precisions = _parted(precision)
    for wanted in precisions:
        if wanted not in builder.PRECISIONS:
            raise SettingsError(f'There is no precision "{wanted}": {nearest(wanted, builder.PRECISIONS)}')
    chosen = _weights(base, names, weights) if weights is not None else None
    made: Pack = builder.with_tflite(base, names, precisions, chosen)
    write_durably(out, pack_bytes(made))
    facts = _facts(made, names, precisions)
    if as_json:
        typer.echo(json.dumps({"identity": made.identity, "path": str(out), "models": facts}))
        return
    for fact in facts:
        typer.echo(f"{fact['model']} {fact['precision']}: {fact['bytes'] / 1000:,.0f} kB, {fact['file']}")
    typer.echo(f"{made.manifest.name} {made.identity[:12]} -> {out}" + _unsigned(base))


def _parted(words: str) -> list[str]:
    return [word.strip() for word in words.split(",")]


def _weights(pack: Pack, names: list[str], path: Path) -> dict[str, Flat]:
    """A run's weights for the one model that is translated."""
    if len(names) != 1:
        raise SettingsError(f"{path} holds one model's weights: say whose with --models NAME.")
    try:
        data = path.read_bytes()
    except OSError as error:
        raise DataError(f"{path} cannot be read ({error.strerror}).") from error
    return {names[0]: read_start(data, pack.table(names[0]), str(path))}


def _facts(pack: Pack, names: list[str], precisions: list[str]) -> list[dict[str, Any]]:
    return [
        {"model": entry.model, "precision": entry.precision, "file": entry.file, "bytes": len(pack.files[entry.file])}
        for entry in pack.manifest.tflite
        if entry.model in names and entry.precision in precisions
    ]


def _unsigned(base: Pack) -> str:
    return "" if base.signature is None else ", not signed: auricle export sign"
