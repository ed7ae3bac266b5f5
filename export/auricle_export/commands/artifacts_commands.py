"""What other runtimes need, put into a pack: `auricle export artifacts` and `auricle export tflite`."""

from __future__ import annotations

import json
from pathlib import Path

import msgspec
import typer
from rich.progress import BarColumn, MofNCompleteColumn, TextColumn

from auricle.errors import DataError, PackError, SettingsError, nearest
from auricle.files import normal_form, read_kept, write_durably
from auricle.packs.pack import Pack, load_pack, pack_bytes
from auricle.packs.start import read_start
from auricle.process.table import progress_bars
from auricle.speech.spelling import Spelling
from auricle.wire.tensors import Flat
from auricle_export.commands.command_line import import_for
from auricle_export.packs.facts import describe_pack

ENVIRONMENT = "in an environment of its own with Python 3.10 or 3.11 on x86_64, "


def artifacts(
    pack: str = typer.Argument(..., help="home, home-more, gsc12-res, gsc12, gsc35, digits, a folder or a .tar.zst."),
    out: Path = typer.Option(..., help="The pack to write, a .tar.zst."),
    models: str = typer.Option("all", help="Models to make them for, separated by commas, or all."),
    words: str | None = typer.Option(None, help="Make the pack for these words, separated by commas [its own]."),
    as_json: bool = typer.Option(False, "--json", help="Print a JSON object, nothing else."),
) -> None:
    """Add what the runtime ort-training needs (run it where onnxruntime-training is installed; no PyTorch)."""
    maker = import_for("artifacts", "packs.ort_artifacts", "ort-training", ENVIRONMENT)
    loaded = load_pack(pack)
    if words is not None:
        loaded = loaded.with_labels(_spelt(words, loaded), loaded.manifest.name)
    names = _names(loaded, models)
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn())
    with progress_bars(*columns, hidden=as_json) as bar:
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
        raise PackError("--models names no model: give some, separated by commas, or all.")
    for name in names:
        pack.table(name)
    return names


def tflite(
    pack: str = typer.Argument(..., help="home, home-more, gsc12-res, gsc12, gsc35, digits, a folder or a .tar.zst."),
    out: Path = typer.Option(..., help="The pack to write, a .tar.zst."),
    models: str = typer.Option("all", help="Models to translate, separated by commas, or all."),
    precision: str = typer.Option("float32,int8", help="float32, int8, or both separated by a comma."),
    words: str | None = typer.Option(None, help="Make the pack for these words, separated by commas [its own]."),
    weights: Path | None = typer.Option(
        None, help="safetensors to put in, a run's result for the one model that is named [what the pack starts from]."
    ),
    as_json: bool = typer.Option(False, "--json", help="Print a JSON object, nothing else."),
) -> None:
    """Add .tflite models to a pack, made of its evaluation graphs; a device replaces their weights in place."""
    builder = import_for("tflite", "tflite.pack")
    base = load_pack(pack)
    if words is not None:
        base = base.with_labels(_spelt(words, base), base.manifest.name)
    names = list(base.tables) if models == "all" else _split_words(models)
    precisions = _split_words(precision)
    for wanted in precisions:
        if wanted not in builder.PRECISIONS:
            raise SettingsError(f'There is no precision "{wanted}": {nearest(wanted, builder.PRECISIONS)}')
    chosen = _weights(base, names, weights) if weights is not None else None
    made: Pack = builder.with_tflite(base, names, precisions, chosen)
    write_durably(out, pack_bytes(made))
    facts = [
        each
        for each in describe_pack(made).tflite
        if (each.model in names and each.precision in precisions) or each.model not in base.tables
    ]
    if as_json:
        typer.echo(json.dumps({"identity": made.identity, "path": str(out), "models": msgspec.to_builtins(facts)}))
        return
    for fact in facts:
        typer.echo(f"{fact.model} {fact.precision}: {fact.bytes / 1000:,.0f} kB, {fact.file}")
    typer.echo(f"{made.manifest.name} {made.identity[:12]} -> {out}" + _signature_hint(base))


def _split_words(words: str) -> list[str]:
    return [word.strip() for word in words.split(",")]


def _spelt(words: str, pack: Pack) -> list[str]:
    """Words for a pack, as it has them where it knows them."""
    spelling = Spelling(pack.labels)
    return [spelling.find(word) or normal_form(word) for word in _split_words(words)]


def _weights(pack: Pack, names: list[str], path: Path) -> dict[str, Flat]:
    """A run's weights for the one model that is translated."""
    if len(names) != 1:
        raise SettingsError(f"{path} holds one model's weights: say whose with --models NAME.")
    try:
        data = read_kept(path)
    except OSError as error:
        raise DataError(f"{path} cannot be read ({error.strerror}).") from error
    return {names[0]: read_start(data, pack.table(names[0]), str(path))}


def _signature_hint(base: Pack) -> str:
    return "" if base.signature is None else ", not signed: auricle export sign"
