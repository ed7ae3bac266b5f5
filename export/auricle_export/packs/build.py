"""Build training packs: every graph of every architecture behind one manifest, the same bytes each time."""

from __future__ import annotations

import multiprocessing
import os
import re
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass, replace
from functools import partial
from importlib.metadata import version
from pathlib import Path
from types import MappingProxyType
from typing import Literal, NamedTuple, get_args

import torch
from msgspec import structs
from torch import nn

from auricle.errors import PackError, nearest
from auricle.files import normal_form, write_durably
from auricle.packs.graph_interface import Graph
from auricle.packs.manifest import FORMAT, FileEntry, Manifest, Task, refuse_label
from auricle.packs.pack import Pack, pack_bytes
from auricle.speech.words import WORD_SETS
from auricle.wire.gradient_terms import Term
from auricle.wire.tensor_specs import TensorSpec
from auricle_export.compiler.contract import Net
from auricle_export.compiler.intercept import CompileError
from auricle_export.compiler.trace import find_parts
from auricle_export.packs.author import Maker, load_module, tensor_specs
from auricle_export.packs.models import (
    FEDMLAC,
    PLUGIN,
    RESNETS,
    USUAL_MELS,
    WHEEL_CRNNS,
    WORD_MODELS,
    make_module,
)
from auricle_export.packs.network import Frozen
from auricle_export.packs.start_weights import with_start_of, without_start
from auricle_export.packs.stepgraph import LocalLoss, Traced, evaluate_graph, step_graph, trace
from auricle_export.packs.window import task_of

Optimizer = Literal["sgd", "adamw"]
Progress = Callable[[str, int, int], None]
"""What was compiled last, how many models are done, of how many."""

LABELS: dict[str, tuple[str, ...]] = {
    **{name: WORD_SETS[name] for name in ("digits", "gsc12", "gsc35")},
    "gsc12-res": WORD_SETS["gsc12"],
    **dict.fromkeys(("home", "home-more"), ("computer", "jarvis", *WORD_SETS["gsc12"])),
}
"""Word lists of the packs in the wheel."""
RESIDUAL = ("gsc12-res", "home", "home-more")
"""Packs whose models are the residual networks; the others have the CRNNs of the papers."""
RESIDUAL_PLUGIN = "resnet-lite"
NETS: dict[str, tuple[str, ...]] = {"fedmlac": FEDMLAC}
"""Models of a paper, under one name."""


Kind = Literal["supervised", "mutual", "alternating", "fixmatch", "distill"]


class Recipe(NamedTuple):
    """One step graph to make for every model."""

    kind: Kind
    optimizer: Optimizer
    terms: tuple[Term, ...] = ()
    loss: LocalLoss = "ce"

    def file(self, model: str) -> str:
        """Where it lies in the pack."""
        return "graphs/" + ".".join([model, self.kind, self.optimizer, *self.terms, "onnx"])


RECIPES = tuple(
    Recipe(kind, optimizer, terms)
    for kind in get_args(Kind)
    for optimizer in get_args(Optimizer)
    for terms in ((), get_args(Term))
    if not terms or kind in ("supervised", "mutual")
)
"""The step graphs of a pack, for each of its models."""
LOSS_RECIPES: dict[LocalLoss, tuple[Recipe, ...]] = {
    "ce": RECIPES,
    "mse": tuple(each._replace(loss="mse") for each in RECIPES if each.kind == "supervised"),
}
"""Those of a pack by its loss; with another one no other kind, so that no method trains by cross-entropy unnoticed."""


@dataclass(frozen=True)
class Model:
    """A traced model and its tensor table's makings."""

    traced: Traced
    specs: tuple[TensorSpec, ...]
    """For the labels it was traced with; the classifier's rows are set when a pack is assembled."""


def trace_model(make: Maker, labels: int, task: Task | None = None) -> Model:
    """Trace a module, 5 to 30 s. Raises CompileError."""
    task = task or Task(LABELS["gsc12"])
    torch.manual_seed(0)
    net = find_parts(make(labels), labels, *task.input_shape)
    return Model(trace(net), tensor_specs(net, labels))


def _trace_shipped(name: str, *, bavd: bool = False) -> Model:
    labels = len(LABELS["gsc12"])
    model = trace_model(partial(make_module, name, bavd=bavd), labels)
    bare = replace(model.traced.net, module=_bare(model.traced.net))
    return replace(model, traced=replace(model.traced, net=bare))


def _bare(net: Net) -> nn.Module:
    """Nothing of a module without BAVD is needed once it is traced."""
    return net.module if net.maps else nn.Identity()


def trace_models(
    makers: Mapping[str, Maker | None],
    labels: int,
    task: Task | None = None,
    progress: Progress = lambda *_: None,
    workers: int | None = None,
    *,
    bavd: bool = False,
) -> dict[str, Model]:
    """Trace several models; those of this package (maker None) in parallel processes of about 1 GB each.

    With `bavd` the layers of the latter drop activations as MuPFL's do.
    """
    shipped = [name for name, make in makers.items() if make is None]
    models: dict[str, Model] = {}
    processes = min(workers or min(4, os.cpu_count() or 1), max(1, len(shipped)))
    if shipped:
        with ProcessPoolExecutor(processes, multiprocessing.get_context("spawn")) as pool:
            for name, model in zip(shipped, pool.map(partial(_trace_shipped, bavd=bavd), shipped), strict=True):
                models[name] = model
                progress(name, len(models), len(makers))
    for name, make in makers.items():
        if make is not None:
            models[name] = trace_model(make, labels, task)
            progress(name, len(models), len(makers))
    return {name: models[name] for name in makers}


def make_graphs(
    models: Mapping[str, Model], plugin: str, recipes: Sequence[Recipe] = RECIPES
) -> tuple[tuple[Graph, ...], dict[str, bytes]]:
    """Put every step graph and evaluation graph together: milliseconds each, the same bytes each time."""
    graphs, files = [], {}
    for name, model in models.items():
        made = [evaluate_graph(model.traced, name=name, file=f"graphs/{name}.evaluate.onnx")]
        for recipe in recipes:
            two = recipe.kind in ("mutual", "alternating")
            made.append(
                step_graph(
                    recipe.kind,
                    model.traced,
                    models[plugin].traced if two else None,
                    recipe.optimizer,
                    recipe.terms,
                    loss=recipe.loss,
                    name=name,
                    plugin_name=plugin if two else None,
                    file=recipe.file(name),
                )
            )
        for graph, proto in made:
            graphs.append(graph)
            files[graph.file] = proto.SerializeToString(deterministic=True)
    return tuple(graphs), files


def assemble(
    name: str,
    labels: tuple[str, ...],
    models: Mapping[str, Model],
    plugin: str = PLUGIN,
    recipes: Sequence[Recipe] = RECIPES,
    task: Task | None = None,
    frozen: Frozen | None = None,
) -> Pack:
    """Put traced models and a word list behind a manifest; `frozen` is the network of the task's front-end."""
    graphs, files = make_graphs(models, plugin, recipes)
    if frozen is not None and task is not None:
        more, parts = frozen.parts(task)
        graphs, files = (*graphs, *more), {**files, **parts}
    entries = [FileEntry.of(path, data) for path, data in sorted(files.items())]
    manifest = Manifest(
        format=FORMAT,
        name=name,
        task=structs.replace(task, labels=labels) if task else Task(labels),
        plugin=plugin,
        architectures={key: _with_rows(model.specs, len(labels)) for key, model in models.items()},
        graphs=graphs,
        files=tuple(entries),
        producers={part: version(part).split("+")[0] for part in ("onnx", "onnxscript", "torch")},
    )
    return Pack(manifest, files)


def _with_rows(specs: tuple[TensorSpec, ...], labels: int) -> tuple[TensorSpec, ...]:
    head = (structs.replace(spec, shape=(labels, *spec.shape[1:])) for spec in specs[-2:])
    return (*specs[:-2], *head)


def models_of(name: str) -> Mapping[str, str]:
    """The models of a pack in the wheel: what it calls them, and the built-in ones that they are."""
    return {model: model for model in RESNETS} if name in RESIDUAL else WHEEL_CRNNS


def refuse_unknown(names: Sequence[str]) -> None:
    """PackError, with a hint, for a pack that has no words here."""
    for name in names:
        if name not in LABELS:
            raise PackError(f'There is no pack "{name}" to build: {nearest(name, LABELS)}')


def build_packs(
    names: Sequence[str],
    out: Path,
    progress: Progress = lambda *_: None,
    workers: int | None = None,
    trained: Mapping[str, Pack] = MappingProxyType({}),
    *,
    bavd: bool = False,
) -> dict[str, Path]:
    """Build named packs into a folder as `NAME.tar.zst`; returns their paths.

    Parameters
    ----------
    trained
        Packs by name whose trained weights to carry over, where their models are the same.
    bavd
        Whether rounds may ask these models for MuPFL's activation dropout; their weights are the same with and without.

    Raises
    ------
    PackError
        There are no words for a pack of that name.
    """
    refuse_unknown(names)
    wanted = [model for model in WORD_MODELS if any(model in models_of(name).values() for name in names)]
    models = trace_models(dict.fromkeys(wanted), 0, None, progress, workers, bavd=bavd)
    written = {}
    for name in names:
        path = out / f"{name}.tar.zst"
        chosen = {model: models[net] for model, net in models_of(name).items()}
        pack = assemble(name, LABELS[name], chosen, RESIDUAL_PLUGIN if name in RESIDUAL else PLUGIN)
        write_durably(path, pack_bytes(with_start_of(pack, trained[name]) if name in trained else pack))
        written[name] = path
    return written


def build_author_pack(
    source: str,
    labels: Sequence[str],
    name: str,
    *,
    plugin: str = PLUGIN,
    mels: int = 40,
    window: float = 1.0,
    progress: Progress = lambda *_: None,
    bavd: bool = False,
    loss: LocalLoss = "ce",
) -> Pack:
    """Compile models, a model author's own `FILE.py:NAME` or built-in ones, with a plug-in into a pack for these words.

    Parameters
    ----------
    source
        The local models with commas between them: `FILE.py:NAME`, one of `models.WORD_MODELS` or of `NETS`; each also
        gets every graph that a plug-in has, so that it can travel itself.
    plugin
        One of `models.WORD_MODELS`, or another `FILE.py:NAME`.
    window
        Seconds of sound that the models look at, 0.5 to 4 (`window.task_of`).
    bavd
        Whether rounds may ask these models for MuPFL's activation dropout: a built-in plug-in gets layers for it, and
        a module that has none is refused.
    loss
        What the labels are learnt by: "mse" has supervised step graphs alone.

    Raises
    ------
    CompileError
        A module cannot be found or compiled; the sentence says where and what to use instead. One has no layer that
        drops activations, with `bavd`.
    PackError
        Fewer than two words, a word twice or that cannot be a label, a name that is not a name, a window that is none.
    """
    words = tuple(map(normal_form, labels))
    for word in words:
        refuse_label(word, "--labels")
    task = task_of(words, mels, window)
    makers: dict[str, Maker | None] = {}
    wanted = dict.fromkeys((*sources_of(source), plugin))
    as_in_the_wheel = len(wanted) > 2 and mels == USUAL_MELS and window == 1.0  # several at a time
    for model in wanted:
        built = None if as_in_the_wheel else partial(make_module, model, mels=mels, bavd=bavd)
        makers.setdefault(_name_of(model), built if model in WORD_MODELS else _load(model))
    shared = _name_of(plugin)
    models = trace_models(makers, len(task.labels), task, progress, bavd=bavd)
    for key in models if bavd else ():
        if not models[key].traced.net.maps:
            raise CompileError(
                f"{key} has no layer that drops activations: put auricle_export.compiler.layers.Bavd after its ReLUs, "
                "or leave out --bavd."
            )
    return assemble(name, task.labels, models, shared, LOSS_RECIPES[loss], task)


def sources_of(source: str) -> tuple[str, ...]:
    """The models that a text with commas names."""
    parts = (part.strip() for part in source.split(","))
    return tuple(model for part in parts for model in NETS.get(part, (part,)))


def _load(model: str) -> Maker:
    """A module of the user's own; CompileError for what can only be the name of a built-in one that there is not."""
    if ":" not in model and not model.endswith(".py"):
        raise CompileError(f'There is no built-in model "{model}": {nearest(model, (*WORD_MODELS, *NETS))}')
    return load_module(model)


def _name_of(model: str) -> str:
    return model if model in WORD_MODELS else model_name(model)


def model_name(source: str) -> str:
    """`FILE.py:TinyNet` as the name of a model, `tiny-net`."""
    name = source.rpartition(":")[2]
    return re.sub(r"(?<=[a-z0-9])(?=[A-Z])|_+", "-", name).strip("-").lower() or "model"


def differences(built: Pack, known: Pack) -> str | None:
    """Say in a sentence what makes a built pack another one than a known one; None when they are the same.

    Trained weights to start from are left out: they are not the same bits on every processor.
    """
    ours, theirs = (without_start(pack) for pack in (built, known))
    if ours.identity == theirs.identity:
        return None
    name = built.manifest.name
    made, wanted = ours.manifest.producers, theirs.manifest.producers
    if made != wanted:
        tools = ", ".join(f"{tool} {wanted[tool]}" for tool in sorted(wanted) if wanted[tool] != made.get(tool))
        return (
            f"The pack {name} differs because the other one was made with {tools}: install these versions to compare."
        )
    other = sorted(path for path in {*ours.files, *theirs.files} if ours.files.get(path) != theirs.files.get(path))
    if other:
        return f"The pack {name} differs in {len(other)} of {len(ours.files)} files, the first of them {other[0]}."
    return f"The pack {name} has the same files but another manifest: its words, models or front-end differ."
