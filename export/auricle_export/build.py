"""Build training packs: every graph of every architecture behind one manifest, the same bytes each time."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterator
from importlib.metadata import version
from pathlib import Path

import onnx

from auricle.files import write_durably
from auricle.pack import FORMAT, FileEntry, Graph, Manifest, Pack, Task, pack_bytes
from auricle.tensors import TensorSpec
from auricle_export import evalgraph
from auricle_export.models import ARCHITECTURES, PLUGIN, CrnnShape, init_bound, layer_of
from auricle_export.stepgraph import BATCH, OPTIMISERS, Trace, body_tensors, export, mutual_step, supervised_step

Progress = Callable[[str], None]

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


def _traces() -> Iterator[tuple[Graph, Trace | None]]:
    """Every graph of the default packs; evaluation graphs have no trace."""
    for name, shape in ARCHITECTURES.items():
        for optimiser in OPTIMISERS:
            for kind in ("supervised", "mutual"):
                step = (
                    supervised_step(shape, optimiser)
                    if kind == "supervised"
                    else mutual_step(shape, ARCHITECTURES[PLUGIN], optimiser)
                )
                yield Graph(
                    kind=kind, model=name, plugin=PLUGIN if kind == "mutual" else None, optimiser=optimiser,  # type: ignore[arg-type]
                    file=f"graphs/{name}.{kind}.{optimiser}.onnx", batch=BATCH, inputs=step.inputs, outputs=step.outputs,
                ), step  # fmt: skip
        yield Graph(
            kind="evaluate", model=name, file=f"graphs/{name}.evaluate.onnx",
            inputs=evalgraph.INPUTS, outputs=evalgraph.OUTPUTS,
        ), None  # fmt: skip


def build_graphs(progress: Progress = lambda _: None) -> tuple[tuple[Graph, ...], dict[str, bytes]]:
    """Compile every graph once; they serve any list of words."""
    graphs, files = [], {}
    for graph, trace in _traces():
        progress(graph.file)
        model: onnx.ModelProto = export(trace) if trace else evalgraph.evaluate(ARCHITECTURES[graph.model])
        files[graph.file] = model.SerializeToString(deterministic=True)
        graphs.append(graph)
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


def build_packs(names: list[str], out: Path, progress: Progress = lambda _: None) -> dict[str, Path]:
    """Build named packs into a folder as `NAME.tar.zst`; returns their paths."""
    graphs, files = build_graphs(progress)
    written = {}
    for name in names:
        path = out / f"{name}.tar.zst"
        write_durably(path, pack_bytes(assemble(name, LABELS[name], graphs, files)))
        written[name] = path
    return written
