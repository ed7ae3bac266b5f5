"""A whole training step as one graph of standard ONNX operators: batch, weights and optimizer state in, new ones out.

A traced body (`compiler.trace`) is put between its classifier, a loss and an optimizer. The graph is label-count free:
the classifier's first dimension is symbolic, so one file serves every word list. A model is three tensors: its *body*
(every tensor but the classifier, flattened in the pack's order), `head.weight` and `head.bias`; its optimizer state has
the same three parts. Weights are inputs, so one session serves every device.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Literal

import onnx
import onnxruntime as ort
from msgspec import UNSET, structs

from auricle.packs.graph_interface import PARTS, TAKEN, Graph, step_inputs, step_outputs
from auricle.wire.gradient_terms import Term
from auricle_export.compiler import losses
from auricle_export.compiler.builder import GraphBuilder, Shape
from auricle_export.compiler.contract import Net
from auricle_export.compiler.evaluation import trace_evaluation
from auricle_export.compiler.intercept import CompileError
from auricle_export.compiler.losses import Loss
from auricle_export.compiler.optimizers import update
from auricle_export.compiler.trace import trace_training, train_inputs, train_outputs

Kind = Literal["supervised", "mutual", "alternating", "fixmatch", "distill", "evaluate"]
LocalLoss = Literal["ce", "mse"]


@dataclass(frozen=True)
class Traced:
    """A module's two fragments."""

    net: Net
    training: onnx.ModelProto
    evaluation: onnx.ModelProto

    @property
    def shapes(self) -> list[Shape]:
        """Shapes of the model's three parts."""
        return [(self.net.body,), ("labels", self.net.features), ("labels",)]


def trace(net: Net) -> Traced:
    """Trace a module once; every graph is made of the result.

    Raises
    ------
    CompileError
        An operator has no place in ONNX's standard set, or onnxruntime does not run it.
    """
    traced = Traced(net, trace_training(net), trace_evaluation(net))
    for fragment in (traced.training, traced.evaluation):
        options = ort.SessionOptions()
        options.log_severity_level = 4
        try:
            ort.InferenceSession(fragment.SerializeToString(), options, providers=["CPUExecutionProvider"])
        except Exception as error:
            reason = str(error).strip().splitlines()[0]
            raise CompileError(
                f"onnxruntime does not run what {type(net.module).__name__} compiles to: {reason}"
            ) from error
    return traced


@dataclass
class _Model:
    """One model inside a step: its forward pass and, once there is a gradient for its logits, its backward pass."""

    b: GraphBuilder
    traced: Traced
    role: str
    weights: list[str]

    @classmethod
    def declared(cls, b: GraphBuilder, traced: Traced, role: str) -> _Model:
        """The model whose weights are the inputs of that role."""
        names = [b.input(f"{role}/{part}", shape) for part, shape in zip(PARTS, traced.shapes, strict=True)]
        return cls(b, traced, role, names)

    def run(self, x: str, view: str = "") -> _Pass:
        """A forward pass over x; `view` tells several passes of one model apart."""
        return _Pass(self, x, f"{view}." if view else "")


class _Pass:
    """A forward pass through a body and its classifier, and the way back."""

    def __init__(self, model: _Model, x: str, view: str) -> None:
        b, net = model.b, model.traced.net
        self.model, self._b, self._pending = model, b, f"pending_{model.role}_{view}{x}"
        given = {"x": x, "body": model.weights[0], "d_features": self._pending}
        for i, shape in enumerate(net.noise):
            given[f"noise.{i}"] = b.input(f"{model.role}.{view}noise.{i}", shape)
        for name, shape in net.maps:
            given[f"map.{name}"] = b.input(f"{model.role}.bavd.{name}", shape)
        if net.maps:
            given["seen"] = b.input(f"{model.role}.bavd.seen", (1,))
        wanted = train_outputs(net)
        assert set(given) == set(train_inputs(net))
        self.features, self._d_body, *self.means = b.include(model.traced.training, given, wanted)
        self.logits = b("Gemm", self.features, *model.weights[1:], transB=1)

    def back(self, d_logits: str, d_features: str | None = None) -> list[str]:
        """Gradients of the model's three parts for those of its logits and of its features."""
        b = self._b
        arriving = b("Gemm", d_logits, self.model.weights[1])
        if d_features is not None:
            arriving = b("Add", arriving, d_features)
        b.alias(self._pending, arriving)
        d_weight = b("Gemm", d_logits, self.features, transA=1)
        return [self._d_body, d_weight, b("ReduceSum", d_logits, b.constant([0]), keepdims=0)]

    def carry_maps(self, loss: str) -> None:
        """BAVD: the maps after this step's loss is known (MuPFL eq. 6, A17-A19)."""
        b, net, role = self._b, self.model.traced.net, self.model.role
        if not net.maps:
            return
        seen, before = b.input(f"{role}.bavd.seen", (1,)), b.input(f"{role}.bavd.loss", (1,))
        begun = b("Cast", seen, to=9)
        gain = b("Sub", before, loss)
        for (name, shape), mean in zip(net.maps, self.means, strict=True):
            layer = net.module.get_submodule(name)
            psi = b("Mul", gain, float(layer.direction))  # type: ignore[arg-type]
            grown = b("Add", b.input(f"{role}.bavd.{name}", shape), b("Mul", psi, mean))
            b.output(f"new/{role}.bavd.{name}", b("Where", begun, grown, mean), shape)
        b.output(f"new/{role}.bavd.loss", b("Reshape", loss, b.constant([1])), (1,))
        b.output(f"new/{role}.bavd.seen", b("Max", seen, b.constant_floats([1.0])), (1,))


def step_graph(
    kind: Kind,
    model: Traced,
    plugin: Traced | None,
    optimizer: Literal["sgd", "adamw"],
    terms: Sequence[Term] = (),
    *,
    loss: LocalLoss = "ce",
    name: str = "model",
    plugin_name: str | None = None,
    file: str = "graphs/step.onnx",
) -> tuple[Graph, onnx.ModelProto]:
    """Put a step together.

    Parameters
    ----------
    kind
        `supervised`: the weighted loss of the labels. `mutual`: FedMLAC eq. 5-8 from one forward pass of each model;
        `alternating`: the plug-in learns from the local model after its step (A6). `fixmatch`: labelled and
        pseudo-labelled samples (FedRPO). `distill`: cross-entropy and class means (FedKAD).
    loss
        What `supervised` minimises: the cross-entropy, or "mse", the squared error of posteriors.
    model, plugin
        What is trained; mutual kinds train `model` as `local`, and `plugin`.

    Returns
    -------
    tuple
        The manifest's entry and the graph.
    """
    b = GraphBuilder()
    makers: dict[str, Callable[..., None]] = {
        "supervised": partial(_add_supervised, of=losses.cross_entropy if loss == "ce" else losses.brier_score),
        "fixmatch": _fixmatch,
        "distill": _distill,
        "mutual": partial(_mutual, alternating=False),
        "alternating": partial(_mutual, alternating=True),
    }
    for taken in TAKEN[kind]:
        b.input(taken, _input_shape(taken, model))
    makers[kind](b, model, plugin, optimizer, tuple(terms))
    given = {name: tuple(int(size) for size in shape) for name, shape in b.inputs.items() if "labels" not in shape}
    graph = Graph(
        kind=kind,
        model=name,
        plugin=plugin_name,
        optimizer=optimizer,
        terms=tuple(terms),
        loss=UNSET if loss == "ce" else loss,
        file=file,
        batch=model.net.batch,
        inputs=(),
        outputs=(),
        noise={n: shape for n, shape in given.items() if ".noise." in n},
        state={n: shape for n, shape in given.items() if ".bavd." in n},
    )
    inputs, outputs = step_inputs(graph), step_outputs(graph)
    graph = structs.replace(graph, inputs=tuple(inputs), outputs=tuple(outputs))
    return graph, b.build(inputs, outputs)


def _input_shape(taken: str, model: Traced) -> Shape:
    net = model.net
    shapes: dict[str, Shape] = {
        "target": (net.batch, "labels"),
        "weight": (net.batch,),
        "weight.unlabelled": (net.batch,),
        "means": ("labels", net.features),
        "valid": ("labels",),
        **dict.fromkeys(("x", "weak", "strong"), (net.batch, net.frames, net.mels)),
        **{f"teacher/{part}": shape for part, shape in zip(PARTS, model.shapes, strict=True)},
    }
    return shapes.get(taken, ())


def _finish(
    b: GraphBuilder, run: _Pass, loss: Loss, optimizer: str, terms: Sequence[Term], more: str | None = None
) -> None:
    """Backward pass, optimizer and BAVD of one model."""
    update(b, run.model.role, optimizer, terms, run.back(loss.gradient, more), run.model.traced.shapes)


def _add_supervised(
    b: GraphBuilder,
    model: Traced,
    _: Traced | None,
    optimizer: str,
    terms: Sequence[Term],
    of: Callable[[GraphBuilder, str, str, str], Loss],
) -> None:
    run = _Model.declared(b, model, "model").run("x")
    loss = of(b, run.logits, "target", losses.shares(b, "weight"))
    _finish(b, run, loss, optimizer, terms)
    run.carry_maps(loss.value)
    b.output("loss", loss.value)


def _mutual(
    b: GraphBuilder, local: Traced, plugin: Traced | None, optimizer: str, terms: Sequence[Term], alternating: bool
) -> None:
    assert plugin is not None
    share = losses.shares(b, "weight")
    own, shared = _Model.declared(b, local, "local").run("x"), _Model.declared(b, plugin, "plugin").run("x")
    supervised = losses.cross_entropy(b, own.logits, "target", share)
    taught = losses.divergence(b, own.logits, shared.logits, share, "temperature")
    loss = losses.weigh(b, [("alpha", supervised), (b("Sub", 1.0, "alpha"), taught)])
    _finish(b, own, loss, optimizer, terms)
    own.carry_maps(loss.value)
    teacher = own.logits
    if alternating:
        moved = [b.value(f"new/local/{part}") for part in PARTS]
        teacher = _Model(b, local, "local", moved).run("x").logits
    learnt = losses.divergence(b, shared.logits, teacher, share, "temperature")
    labelled = losses.cross_entropy(b, shared.logits, "target", share)
    both = losses.weigh(b, [("plugin_ce", labelled), (b.constant(1.0), learnt)])
    _finish(b, shared, both, optimizer, terms)
    shared.carry_maps(both.value)
    b.output("loss.local", loss.value)
    b.output("loss.plugin", both.value)


def _fixmatch(b: GraphBuilder, model: Traced, _: Traced | None, optimizer: str, terms: Sequence[Term]) -> None:
    declared = _Model.declared(b, model, "model")
    weak, strong = declared.run("x"), declared.run("strong", "strong")
    given = {"x": "weak", **{f"model/{part}": f"teacher/{part}" for part in PARTS}}
    (teacher,) = b.include(model.evaluation, given, ["logits"])
    labelled = losses.cross_entropy(b, weak.logits, "target", losses.shares(b, "weight"))
    pseudo = losses.pseudo_labels(b, strong.logits, teacher, losses.shares(b, "weight.unlabelled"), "threshold")
    value = b("Add", labelled.value, b("Mul", "lambda", pseudo.loss.value))
    first, second = weak.back(labelled.gradient), strong.back(b("Mul", "lambda", pseudo.loss.gradient))
    grads = [b("Add", g, h) for g, h in zip(first, second, strict=True)]
    update(b, "model", optimizer, terms, grads, model.shapes)
    weak.carry_maps(value)
    for name, scalar in (
        ("loss", value),
        ("loss.labelled", labelled.value),
        ("loss.unlabelled", pseudo.loss.value),
        ("confident", pseudo.confident),
    ):
        b.output(name, scalar)


def _distill(b: GraphBuilder, model: Traced, _: Traced | None, optimizer: str, terms: Sequence[Term]) -> None:
    run = _Model.declared(b, model, "model").run("x")
    share = losses.shares(b, "weight")
    labelled = losses.cross_entropy(b, run.logits, "target", share)
    pull = losses.class_means(b, run.features, model.net.features, "target", share, "means", "valid")
    value = b("Add", labelled.value, b("Mul", "beta", pull.value))
    _finish(b, run, Loss(value, labelled.gradient), optimizer, terms, b("Mul", "beta", pull.gradient))
    run.carry_maps(value)
    b.output("loss", value)
    b.output("loss.means", pull.value)


def evaluate_graph(
    model: Traced, *, name: str = "model", file: str = "graphs/evaluate.onnx"
) -> tuple[Graph, onnx.ModelProto]:
    """The evaluation graph: log-mels (B, T, mels) of any batch to logits (B, labels) and features (B, H)."""
    graph = Graph(kind="evaluate", model=name, file=file, inputs=(), outputs=())
    named = structs.replace(graph, inputs=tuple(step_inputs(graph)), outputs=tuple(step_outputs(graph)))
    return named, model.evaluation
