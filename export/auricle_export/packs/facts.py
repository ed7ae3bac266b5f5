"""What is in a pack, as plain values and as tables."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from rich.console import Console

from auricle.packs.graph_interface import Graph
from auricle.packs.manifest import OrtTraining, Tflite
from auricle.packs.pack import Pack
from auricle.process.table import Column, Grid


def describe_pack(pack: Pack) -> dict[str, Any]:
    """The facts of a pack as plain values: what `inspect --json` prints."""
    manifest = pack.manifest
    sizes = {entry.path: entry.bytes for entry in manifest.files}
    return {
        "name": manifest.name,
        "identity": pack.identity,
        "format": manifest.format,
        "signed_by": None if pack.signature is None else pack.signature.key,
        "labels": list(pack.labels),
        "sample_rate": manifest.task.sample_rate,
        "clip_samples": manifest.task.clip_samples,
        "plugin": manifest.plugin,
        "models": {
            name: {"weights": table.size, "layers": list(dict.fromkeys(spec.layer for spec in table.specs))}
            for name, table in pack.tables.items()
        },
        "graphs": [_graph(graph, sizes) for graph in manifest.graphs],
        "start": {
            model: {
                "file": start.file,
                "bytes": sizes[start.file],
                "data": start.data,
                "clips": start.clips,
                "speakers": start.speakers,
                "accuracy": start.accuracy,
                "judged_clips": start.judged_clips,
                "seed": start.seed,
            }
            for model, start in manifest.start.items()
        },
        "ort_training": {model: _training(entry, sizes) for model, entry in manifest.ort_training.items()},
        "tflite": [_tflite(entry, sizes) for entry in manifest.tflite],
        "files": len(sizes),
        "bytes": sum(sizes.values()),
        "producers": dict(manifest.producers),
    }


def _graph(graph: Graph, sizes: dict[str, int]) -> dict[str, Any]:
    return {
        "file": graph.file,
        "kind": graph.kind,
        "model": graph.model,
        "optimizer": graph.optimizer,
        "terms": list(graph.terms),
        "batch": graph.batch,
        "bytes": sizes[graph.file],
    }


def _training(entry: OrtTraining, sizes: dict[str, int]) -> dict[str, Any]:
    files = [entry.training, entry.evaluation, *entry.optimizers.values(), entry.checkpoint]
    return {
        "files": files,
        "optimizers": list(entry.optimizers),
        "batch": entry.batch,
        "bytes": sum(sizes[file] for file in files),
    }


def _tflite(entry: Tflite, sizes: dict[str, int]) -> dict[str, Any]:
    return {
        "file": entry.file,
        "model": entry.model,
        "precision": entry.precision,
        "batch": entry.batch,
        "bytes": sizes[entry.file],
    }


def print_facts(facts: dict[str, Any], console: Console) -> None:
    """Print what `describe_pack` found, for people."""
    console.print(f"{facts['name']}  {facts['identity']}", soft_wrap=True, highlight=False)
    signer = f"signed by {facts['signed_by']}" if facts["signed_by"] else "not signed"
    console.print(f"{signer}; {facts['files']} files, {kilobytes(facts['bytes'])} kB", soft_wrap=True, highlight=False)
    console.print(f"{len(facts['labels'])} labels: {' '.join(facts['labels'])}", markup=False, highlight=False)
    made = ", ".join(f"{tool} {version}" for tool, version in facts["producers"].items())
    console.print(f"made with {made}", markup=False, highlight=False)
    console.print(_table(("model", "weights", "layers"), list(_model_rows(facts))))
    console.print(_table(("graph", "kind", "optimizer", "terms", "batch", "kB"), list(_graph_rows(facts))))
    if facts["start"]:
        names = ("weights of", "trained on", "clips", "speakers", "accuracy", "judged on", "kB")
        console.print(_table(names, list(_start_rows(facts))))
    others = list(_runtime_rows(facts))
    if others:
        console.print(_table(("for runtime", "model", "kind", "batch", "kB"), others))


def _model_rows(facts: dict[str, Any]) -> Iterator[Sequence[str]]:
    for name, model in facts["models"].items():
        plugin = " (plug-in)" if name == facts["plugin"] else ""
        yield name + plugin, f"{model['weights']:,}", " ".join(model["layers"])


def _graph_rows(facts: dict[str, Any]) -> Iterator[Sequence[str]]:
    for g in facts["graphs"]:
        batch = str(g["batch"] or "any")
        yield g["file"], g["kind"], g["optimizer"] or "", " ".join(g["terms"]), batch, kilobytes(g["bytes"])


def _start_rows(facts: dict[str, Any]) -> Iterator[Sequence[str]]:
    for model, s in facts["start"].items():
        counts = (f"{s['clips']:,}", f"{s['speakers']:,}", f"{s['accuracy']:.1%}", f"{s['judged_clips']:,} clips")
        yield model, s["data"], *counts, kilobytes(s["bytes"])


def _runtime_rows(facts: dict[str, Any]) -> Iterator[Sequence[str]]:
    for model, entry in facts["ort_training"].items():
        kind = " ".join(entry["optimizers"])
        yield "ort-training", model, kind, str(entry["batch"]), kilobytes(entry["bytes"])
    for entry in facts["tflite"]:
        yield "tflite", entry["model"], entry["precision"], str(entry["batch"]), kilobytes(entry["bytes"])


def kilobytes(size: int) -> str:
    """A size for people."""
    return f"{size / 1000:,.1f}"


def _table(names: Sequence[str], rows: Sequence[Sequence[str]]) -> Grid:
    return Grid([Column(name, i) for i, name in enumerate(names)], lambda _short: rows)
