"""Build training packs: every graph of every architecture behind one manifest, the same bytes each time."""

from __future__ import annotations

import hashlib
import logging
import multiprocessing
import os
from collections.abc import Callable, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path
from typing import Literal, get_args

from auricle.errors import PackError, nearest
from auricle.files import write_durably
from auricle.pack import FORMAT, FileEntry, Graph, Manifest, Pack, Task, pack_bytes
from auricle.tensors import TensorSpec
from auricle_export import evalgraph
from auricle_export.models import ARCHITECTURES, PLUGIN, CrnnShape, init_bound, layer_of
from auricle_export.stepgraph import BATCH, body_tensors, export, mutual_step, supervised_step

Optimiser = Literal["sgd", "adamw"]
Progress = Callable[[str, int, int], None]
"""What was compiled last, how many graphs are done, of how many."""

LABELS: dict[str, tuple[str, ...]] = {
    "digits": ("zero", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine"),
    "gsc12": ("yes", "no", "up", "down", "left", "right", "on", "off", "stop", "go", "_unknown_", "_silence_"),
    "gsc35": (
        "backward", "bed", "bird", "cat", "dog", "down", "eight", "five", "follow", "forward", "four", "go", "happy",
        "house", "learn", "left", "marvin", "nine", "no", "off", "on", "one", "right", "seven", "sheila", "six",
        "stop", "three", "tree", "two", "up", "visual", "wow", "yes", "zero",
    ),
}  # fmt: skip
"""Word lists of the packs in the wheel."""


def specs(shape: CrnnShape, labels: int) -> tuple[TensorSpec, ...]:
    """Tensor table of a CRNN: the body's tensors by name, then the classifier."""
    width = shape.hidden * (2 if shape.bidirectional else 1)
    named = [*body_tensors(shape), ("head.weight", (labels, width)), ("head.bias", (labels,))]
    return tuple(
        TensorSpec(name, dims, layer_of(name), round(init_bound(shape, name, dims), 9)) for name, dims in named
    )


@dataclass(frozen=True)
class GraphJob:
    """One graph to compile."""

    kind: Literal["mutual", "supervised", "evaluate"]
    model: str
    optimiser: Optimiser | None = None

    @property
    def file(self) -> str:
        """Where it lies in the pack."""
        return "graphs/" + ".".join(filter(None, (self.model, self.kind, self.optimiser, "onnx")))


def graph_jobs() -> list[GraphJob]:
    """Every graph of the default packs, in the manifest's order."""
    jobs = []
    for model in ARCHITECTURES:
        for optimiser in get_args(Optimiser):
            jobs += [GraphJob("supervised", model, optimiser), GraphJob("mutual", model, optimiser)]
        jobs.append(GraphJob("evaluate", model))
    return jobs


def compile_graph(job: GraphJob) -> tuple[Graph, bytes]:
    """Compile one graph: 5 to 40 s for a step graph. The same versions of the tools give the same bytes."""
    logging.getLogger("torch.onnx").setLevel(logging.ERROR)  # it warns of torchvision, which nothing here uses
    shape = ARCHITECTURES[job.model]
    if job.optimiser is None:
        model = evalgraph.evaluate(shape)
        graph = Graph(kind=job.kind, model=job.model, file=job.file, inputs=evalgraph.INPUTS, outputs=evalgraph.OUTPUTS)
    else:
        mutual = job.kind == "mutual"
        step = (
            mutual_step(shape, ARCHITECTURES[PLUGIN], job.optimiser)
            if mutual
            else supervised_step(shape, job.optimiser)
        )
        model = export(step)
        graph = Graph(
            kind=job.kind, model=job.model, plugin=PLUGIN if mutual else None, optimiser=job.optimiser, file=job.file,
            batch=BATCH, inputs=step.inputs, outputs=step.outputs,
        )  # fmt: skip
    return graph, model.SerializeToString(deterministic=True)


def build_graphs(
    progress: Progress = lambda *_: None, workers: int | None = None
) -> tuple[tuple[Graph, ...], dict[str, bytes]]:
    """Compile every graph once; they serve any list of words.

    Parameters
    ----------
    progress
        Called after every graph.
    workers
        Processes to compile in, each of about 1 GB; without, one a core and at most four.
    """
    jobs = graph_jobs()
    processes = workers or min(4, os.cpu_count() or 1)
    graphs, files = [], {}
    with ProcessPoolExecutor(processes, multiprocessing.get_context("spawn")) as pool:
        for done, (graph, data) in enumerate(pool.map(compile_graph, jobs), 1):
            files[graph.file] = data
            graphs.append(graph)
            progress(graph.file, done, len(jobs))
    return tuple(graphs), files


def assemble(name: str, labels: tuple[str, ...], graphs: tuple[Graph, ...], files: dict[str, bytes]) -> Pack:
    """Put compiled graphs and a word list behind a manifest."""
    entries = [FileEntry(path, len(data), hashlib.sha256(data).hexdigest()) for path, data in sorted(files.items())]
    manifest = Manifest(
        format=FORMAT,
        name=name,
        task=Task(labels),
        plugin=PLUGIN,
        architectures={key: specs(shape, len(labels)) for key, shape in ARCHITECTURES.items()},
        graphs=graphs,
        files=tuple(entries),
        producers={part: version(part).split("+")[0] for part in ("onnx", "onnxscript", "torch")},
    )
    return Pack(manifest, files)


def refuse_unknown(names: Sequence[str]) -> None:
    """PackError, with a hint, for a pack that has no words here."""
    for name in names:
        if name not in LABELS:
            raise PackError(f'There is no pack "{name}" to build: {nearest(name, LABELS)}')


def build_packs(
    names: Sequence[str], out: Path, progress: Progress = lambda *_: None, workers: int | None = None
) -> dict[str, Path]:
    """Build named packs into a folder as `NAME.tar.zst`; returns their paths.

    Raises
    ------
    PackError
        There are no words for a pack of that name.
    """
    refuse_unknown(names)
    graphs, files = build_graphs(progress, workers)
    written = {}
    for name in names:
        path = out / f"{name}.tar.zst"
        write_durably(path, pack_bytes(assemble(name, LABELS[name], graphs, files)))
        written[name] = path
    return written


def differences(built: Pack, known: Pack) -> str | None:
    """Say in a sentence what makes a built pack another one than a known one; None when they are the same."""
    if built.identity == known.identity:
        return None
    name = built.manifest.name
    ours, theirs = built.manifest.producers, known.manifest.producers
    if ours != theirs:
        made = ", ".join(f"{tool} {theirs[tool]}" for tool in sorted(theirs) if theirs[tool] != ours.get(tool))
        return f"The pack {name} differs because the other one was made with {made}: install these versions to compare."
    other = sorted(path for path in {*built.files, *known.files} if built.files.get(path) != known.files.get(path))
    if other:
        return f"The pack {name} differs in {len(other)} of {len(built.files)} files, the first of them {other[0]}."
    return f"The pack {name} has the same files but another manifest: its words, models or front-end differ."
