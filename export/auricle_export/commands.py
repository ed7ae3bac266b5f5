"""`auricle export`: build and inspect training packs."""

from __future__ import annotations

import json
import tempfile
from pathlib import Path
from types import ModuleType
from typing import Any

import typer
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn
from rich.table import Table

from auricle.errors import AuricleError, PackError, SettingsError
from auricle.pack import Pack, load_pack

app = typer.Typer(no_args_is_help=True)


@app.callback()
def export() -> None:
    """Build and inspect training packs."""


@app.command()
def build(
    names: list[str] | None = typer.Argument(None, help="Packs to build: digits, gsc12, gsc35 [all]."),
    out: Path | None = typer.Option(None, help="Folder for NAME.tar.zst."),
    check: str | None = typer.Option(
        None, help="Compare with what is there, and fail where it differs: shipped, or a folder of NAME.tar.zst."
    ),
    workers: int | None = typer.Option(None, min=1, help="Processes to compile in [one a core, at most four]."),
    as_json: bool = typer.Option(False, "--json", help="Print a JSON object, nothing else."),
) -> None:
    """Compile the training graphs (minutes) and write packs of them: the same bytes each time."""
    if out is None and check is None:
        raise SettingsError("Say where the packs go with --out DIR, or what to compare them with by --check shipped.")
    builder = _builder()
    wanted = list(names or builder.LABELS)
    builder.refuse_unknown(wanted)
    known = {name: _known(check, name) for name in wanted} if check is not None else {}
    with tempfile.TemporaryDirectory() as scratch, _bar(as_json) as bar:
        task = bar.add_task("compiling graphs", total=None)
        written: dict[str, Path] = builder.build_packs(
            wanted,
            out or Path(scratch),
            lambda file, done, total: bar.update(task, description=file, completed=done, total=total),
            workers,
        )
        built = {name: load_pack(path) for name, path in written.items()}
    reasons = [reason for name in known if (reason := builder.differences(built[name], known[name])) is not None]
    if reasons:
        raise PackError(" ".join(reasons))
    if as_json:
        packs = {
            name: {"identity": built[name].identity, "path": str(written[name]) if out else None} for name in built
        }
        typer.echo(json.dumps({"packs": packs, "same_as": check}))
        return
    for name, pack in built.items():
        typer.echo(f"{name} {pack.identity[:12]}" + (f" -> {written[name]}" if out else "") + _same(check))


@app.command()
def inspect(
    pack: str = typer.Argument(..., help="gsc12, gsc35, digits, a folder or a .tar.zst."),
    as_json: bool = typer.Option(False, "--json", help="Print a JSON object, nothing else."),
) -> None:
    """Show what a pack holds: words, models, graphs, and the hash that names it."""
    facts = describe_pack(load_pack(pack))
    if as_json:
        typer.echo(json.dumps(facts))
        return
    typer.echo(f"{facts['name']}  {facts['identity']}")
    typer.echo(f"{len(facts['labels'])} labels: {' '.join(facts['labels'])}")
    typer.echo(f"made with {', '.join(f'{tool} {version}' for tool, version in facts['producers'].items())}")
    console = Console()
    console.print(_table(("model", "weights", "layers"), [
        (name + (" (plug-in)" if name == facts["plugin"] else ""), f"{model['weights']:,}", " ".join(model["layers"]))
        for name, model in facts["models"].items()
    ]))  # fmt: skip
    console.print(_table(("graph", "kind", "optimiser", "batch", "kB"), [
        (g["file"], g["kind"], g["optimiser"] or "", str(g["batch"] or "any"), f"{g['bytes'] / 1000:,.0f}")
        for g in facts["graphs"]
    ]))  # fmt: skip


def describe_pack(pack: Pack) -> dict[str, Any]:
    """The facts of a pack as plain values: what `inspect --json` prints."""
    manifest = pack.manifest
    sizes = {entry.path: entry.bytes for entry in manifest.files}
    return {
        "name": manifest.name,
        "identity": pack.identity,
        "format": manifest.format,
        "labels": list(pack.labels),
        "sample_rate": manifest.task.sample_rate,
        "clip_samples": manifest.task.clip_samples,
        "plugin": manifest.plugin,
        "models": {
            name: {"weights": table.size, "layers": list(dict.fromkeys(spec.layer for spec in table.specs))}
            for name, table in pack.tables.items()
        },
        "graphs": [
            {
                "file": graph.file, "kind": graph.kind, "model": graph.model, "optimiser": graph.optimiser,
                "batch": graph.batch, "bytes": sizes[graph.file],
            }
            for graph in manifest.graphs
        ],
        "bytes": sum(sizes.values()),
        "producers": dict(manifest.producers),
    }  # fmt: skip


def _builder() -> ModuleType:
    """The module that needs PyTorch, loaded only by who builds."""
    try:
        from auricle_export import build as builder
    except ModuleNotFoundError as error:
        if error.name is None or error.name.split(".")[0].startswith("auricle"):
            raise
        raise AuricleError(
            f'"auricle export build" needs {error.name}, which is not installed: pip install "auricle[export]"'
        ) from error
    return builder


def _known(check: str, name: str) -> Pack:
    if check == "shipped":
        return load_pack(name)
    path = Path(check) / f"{name}.tar.zst"
    if not path.is_file():
        raise PackError(f"There is no {path} to compare with: --check takes shipped, or a folder of NAME.tar.zst.")
    return load_pack(path)


def _same(check: str | None) -> str:
    return "" if check is None else f", the same as {'the shipped one' if check == 'shipped' else 'in ' + check}"


def _bar(as_json: bool) -> Progress:
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
    return Progress(*columns, console=Console(stderr=True), disable=as_json, transient=True)


def _table(names: tuple[str, ...], rows: list[tuple[str, ...]]) -> Table:
    table = Table(*names, box=None, pad_edge=False)
    for row in rows:
        table.add_row(*row)
    return table
