"""What is in a pack, as facts and as tables."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence

import msgspec
from msgspec import UNSET
from rich.console import Console

from auricle.packs.manifest import OrtTraining, Task
from auricle.packs.pack import Pack
from auricle.process.table import Column, Grid
from auricle.wire.kinds import plain


class ModelFacts(msgspec.Struct, frozen=True):
    """A model: how many weights, and the names of its layers."""

    weights: int
    layers: list[str]


class GraphFacts(msgspec.Struct, frozen=True):
    """A graph's declaration."""

    file: str
    kind: str
    model: str
    optimizer: str | None
    terms: tuple[str, ...]
    batch: int | None
    bytes: int


class StartFacts(msgspec.Struct, frozen=True):
    """Trained weights, and what they were trained and judged on."""

    file: str
    bytes: int
    data: str
    clips: int
    speakers: int
    accuracy: float
    judged_clips: int
    seed: int


class TrainingFacts(msgspec.Struct, frozen=True):
    """Artifacts of onnxruntime-training."""

    files: list[str]
    optimizers: list[str]
    batch: int
    bytes: int


class TfliteFacts(msgspec.Struct, frozen=True):
    """A model for LiteRT."""

    file: str
    model: str
    precision: str
    batch: int
    bytes: int


class NetworkFacts(msgspec.Struct, frozen=True):
    """The frozen network of a front-end."""

    file: str
    name: str
    weights: int
    size: int
    """Numbers of a vector."""
    every: float
    """Seconds from one vector to the next."""
    attribution: str
    bytes: int


class VoteFacts(msgspec.Struct, frozen=True):
    """A second model that votes, and the front-end through which it hears."""

    model: str
    weights: int
    share: float
    """Of the mean of log posteriors."""
    clip_samples: int
    network: NetworkFacts | None


class PackFacts(msgspec.Struct, frozen=True, kw_only=True):
    """What `inspect --json` prints."""

    name: str
    identity: str
    format: int
    signed_by: str | None
    labels: tuple[str, ...]
    sample_rate: int
    clip_samples: int
    network: NetworkFacts | None
    plugin: str
    models: dict[str, ModelFacts]
    graphs: list[GraphFacts]
    start: dict[str, StartFacts]
    ort_training: dict[str, TrainingFacts]
    tflite: list[TfliteFacts]
    vote: VoteFacts | None
    files: int
    bytes: int
    producers: dict[str, str]


def describe_pack(pack: Pack) -> PackFacts:
    """The facts of a pack."""
    manifest = pack.manifest
    sizes = {entry.path: entry.bytes for entry in manifest.files}
    return PackFacts(
        name=manifest.name,
        identity=pack.identity,
        format=manifest.format,
        signed_by=None if pack.signature is None else pack.signature.key,
        labels=tuple(pack.labels),
        sample_rate=manifest.task.sample_rate,
        clip_samples=manifest.task.clip_samples,
        network=_network(manifest.task, sizes),
        plugin=manifest.plugin,
        models={
            name: ModelFacts(table.size, list(dict.fromkeys(spec.layer for spec in table.specs)))
            for name, table in pack.tables.items()
        },
        graphs=[
            GraphFacts(g.file, g.kind, g.model, g.optimizer, g.terms, g.batch, sizes[g.file]) for g in manifest.graphs
        ],
        start={
            model: StartFacts(s.file, sizes[s.file], s.data, s.clips, s.speakers, s.accuracy, s.judged_clips, s.seed)
            for model, s in manifest.start.items()
        },
        ort_training={model: _training(entry, sizes) for model, entry in manifest.ort_training.items()},
        tflite=[TfliteFacts(t.file, t.model, t.precision, t.batch, sizes[t.file]) for t in manifest.tflite],
        vote=_vote(pack, sizes),
        files=len(sizes),
        bytes=sum(sizes.values()),
        producers=dict(manifest.producers),
    )


def _network(task: Task, sizes: dict[str, int]) -> NetworkFacts | None:
    network = task.frontend.network
    if network is UNSET:
        return None
    weights = sum(math.prod(shape) for shape in network.shapes.values())
    every = network.stride * task.frontend.hop / task.sample_rate
    return NetworkFacts(
        network.file, network.name, weights, network.size, every, network.attribution, sizes[network.file]
    )


def _vote(pack: Pack, sizes: dict[str, int]) -> VoteFacts | None:
    vote, voter = pack.manifest.vote, pack.voter
    if vote is UNSET or voter is None:
        return None
    task = voter.manifest.task
    return VoteFacts(vote.model, voter.plugin_table.size, vote.share, task.clip_samples, _network(task, sizes))


def _training(entry: OrtTraining, sizes: dict[str, int]) -> TrainingFacts:
    files = [entry.training, entry.evaluation, *entry.optimizers.values(), entry.checkpoint]
    return TrainingFacts(files, list(entry.optimizers), entry.batch, sum(sizes[file] for file in files))


def print_facts(facts: PackFacts, console: Console) -> None:
    """Print what `describe_pack` found, for people."""
    console.print(f"{facts.name}  {facts.identity}", soft_wrap=True, highlight=False)
    signer = f"signed by {facts.signed_by}" if facts.signed_by else "not signed"
    console.print(f"{signer}; {facts.files} files, {kilobytes(facts.bytes)} kB", soft_wrap=True, highlight=False)
    labels = " ".join(f'"{label}"' if " " in label else label for label in facts.labels)
    console.print(f"{len(facts.labels)} labels: {labels}", markup=False, highlight=False)
    console.print(f"window {facts.clip_samples / facts.sample_rate:g} s", highlight=False)
    if facts.network is not None:
        console.print(f"front-end: {_network_line(facts.network)}", highlight=False)
    if (vote := facts.vote) is not None:
        through = "log-mels of its own" if vote.network is None else _network_line(vote.network)
        console.print(
            f"vote: {plain(vote.model)}, {vote.weights:,} weights, a share of {vote.share:g}, window "
            f"{vote.clip_samples / facts.sample_rate:g} s; it hears through {through}",
            highlight=False,
        )
    made = plain(", ".join(f"{tool} {version}" for tool, version in facts.producers.items()))
    console.print(f"made with {made}", markup=False, highlight=False)
    console.print(_table(("model", "weights", "layers"), list(_model_rows(facts))))
    console.print(_table(("graph", "kind", "optimizer", "terms", "batch", "kB"), list(_graph_rows(facts))))
    if facts.start:
        names = ("weights of", "trained on", "clips", "speakers", "accuracy", "judged on", "kB")
        console.print(_table(names, list(_start_rows(facts))))
    others = list(_runtime_rows(facts))
    if others:
        console.print(_table(("for runtime", "model", "kind", "batch", "kB"), others))


def _network_line(network: NetworkFacts) -> str:
    return (
        f"the frozen network {network.name}, {network.weights:,} weights, {network.size} numbers every "
        f"{network.every:g} s, {network.bytes / 1e3:,.1f} kB: {plain(network.attribution)}"
    )


def _model_rows(facts: PackFacts) -> Iterator[Sequence[str]]:
    for name, model in facts.models.items():
        plugin = " (plug-in)" if name == facts.plugin else ""
        yield name + plugin, f"{model.weights:,}", " ".join(model.layers)


def _graph_rows(facts: PackFacts) -> Iterator[Sequence[str]]:
    for g in facts.graphs:
        batch = str(g.batch or "any")
        yield g.file, g.kind, g.optimizer or "", " ".join(g.terms), batch, kilobytes(g.bytes)


def _start_rows(facts: PackFacts) -> Iterator[Sequence[str]]:
    for model, s in facts.start.items():
        counts = (f"{s.clips:,}", f"{s.speakers:,}", f"{s.accuracy:.1%}", f"{s.judged_clips:,} clips")
        yield model, plain(s.data), *counts, kilobytes(s.bytes)


def _runtime_rows(facts: PackFacts) -> Iterator[Sequence[str]]:
    for model, entry in facts.ort_training.items():
        kind = " ".join(entry.optimizers)
        yield "ort-training", model, kind, str(entry.batch), kilobytes(entry.bytes)
    for t in facts.tflite:
        yield "tflite", t.model, t.precision, str(t.batch), kilobytes(t.bytes)


def kilobytes(size: int) -> str:
    """A size for people."""
    return f"{size / 1000:,.1f}"


def _table(names: Sequence[str], rows: Sequence[Sequence[str]]) -> Grid:
    return Grid([Column(name, i) for i, name in enumerate(names)], lambda _short: rows)
