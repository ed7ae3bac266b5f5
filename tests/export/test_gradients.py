"""The shipped step graphs against PyTorch's float64 autograd of the plain module, tensor by tensor."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

# ruff: noqa: E402 - PyTorch may be missing
torch = pytest.importorskip("torch", reason="the reference is PyTorch in float64")
onnx = pytest.importorskip("onnx", reason="the graphs are looked into with onnx")

from torch.nn import functional as F

from auricle.pack import Pack, load_pack
from auricle.tensors import TensorTable
from auricle_edge.runtimes import StepRuntime, joined_parts, named_parts
from auricle_export.models import ARCHITECTURES, PLUGIN, Crnn

BATCH = 16
TOLERANCE = 1e-5
LABELS = 7
ALPHA, PLUGIN_CE = 0.3, 0.4
SHIPPED = load_pack("gsc12")
RUNTIMES: dict[int, StepRuntime] = {}
WEIGHT = np.array([1, 0.5, 0, 1, 0.25, 1, 1, 0, 0.75, 1, 1, 1, 0.1, 1, 0, 1], np.float32)
"""Of each sample; some are absent, as in a last batch."""
HYPER = {"rate": 0.05, "momentum": 0.9, "decay": 0.0, "clip": np.inf, "beta1": 0.9, "beta2": 0.999, "epsilon": 1e-8,
         "step": 1.0}  # fmt: skip


def _runtime(labels: int) -> StepRuntime:
    """Sessions for a number of labels, kept for the module."""
    if labels not in RUNTIMES:
        RUNTIMES[labels] = StepRuntime(SHIPPED.with_labels([f"w{i}" for i in range(labels)]))
    return RUNTIMES[labels]


def _weights(table: TensorTable, seed: int) -> np.ndarray:
    """Twice PyTorch's initialisation: gates leave their linear range, ReLUs switch, and all gradients are sizeable."""
    return 2 * table.initial(seed)


def _batch(labels: int, seed: int = 0) -> dict[str, np.ndarray]:
    rng = np.random.default_rng(seed)
    return {
        "x": rng.standard_normal((BATCH, 100, 40)).astype(np.float32),
        "target": np.eye(labels, dtype=np.float32)[rng.integers(0, labels, BATCH)],
        "weight": WEIGHT,
    }


def _module(architecture: str, table: TensorTable, flat: np.ndarray) -> Any:
    module = Crnn(ARCHITECTURES[architecture], table.specs[-1].shape[0]).double()
    with torch.no_grad():
        for name, parameter in module.named_parameters():
            parameter.copy_(torch.from_numpy(table.tensor(flat, name).astype(np.float64)))
    return module


def _gradient(module: Any, table: TensorTable) -> np.ndarray:
    named = dict(module.named_parameters())
    return np.concatenate([named[spec.name].grad.numpy().ravel() for spec in table.specs])


def _cross_entropy(logits: Any, target: Any) -> Any:
    return -(target * F.log_softmax(logits, 1)).sum(1)


def _divergence(teacher: Any, student: Any) -> Any:
    """KL(softmax teacher || softmax student) a sample; no gradient to the teacher."""
    return F.kl_div(F.log_softmax(student, 1), F.softmax(teacher.detach(), 1), reduction="none").sum(1)


def _losses(kind: str, modules: dict[str, Any], batch: dict[str, np.ndarray]) -> dict[str, Any]:
    """ALGORITHMS 3.1, as means over the batch by sample weight."""
    x, y, v = (torch.from_numpy(batch[name].astype(np.float64)) for name in ("x", "target", "weight"))
    v = v / v.sum()
    if kind == "supervised":
        return {"loss": (v * _cross_entropy(modules["model"](x), y)).sum()}
    a, b = modules["local"](x), modules["plugin"](x)
    local = ALPHA * _cross_entropy(a, y) + (1 - ALPHA) * _divergence(b, a)
    plugin = _divergence(a, b) + PLUGIN_CE * _cross_entropy(b, y)
    return {"loss.local": (v * local).sum(), "loss.plugin": (v * plugin).sum()}


def _roles(kind: str, architecture: str) -> dict[str, str]:
    return {"local": architecture, "plugin": PLUGIN} if kind == "mutual" else {"model": architecture}


def _feeds(
    pack: Pack, graph: Any, roles: dict[str, str], start: dict[str, np.ndarray], **hyper: float
) -> dict[str, Any]:
    feeds: dict[str, Any] = {"alpha": np.float32(ALPHA), "plugin_ce": np.float32(PLUGIN_CE)}
    for role, architecture in roles.items():
        table = pack.table(architecture)
        feeds.update(named_parts(role, table, start[role]))
        for slot in ("momentum", "first", "second"):
            feeds.update(named_parts(f"{role}.{slot}", table, np.zeros(table.size, np.float32)))
        feeds.update({f"{role}.{name}": np.float32(value) for name, value in {**HYPER, **hyper}.items()})
    return {name: np.asarray(value, np.float32) for name, value in feeds.items() if name in graph.inputs}


def _check(kind: str, architecture: str, optimiser: str, labels: int, seed: int = 0) -> None:
    runtime = _runtime(labels)
    pack, roles = runtime.pack, _roles(kind, architecture)
    graph = pack.graph(kind, architecture, optimiser)
    start = {role: _weights(pack.table(a), seed + i) for i, (role, a) in enumerate(roles.items())}
    batch = _batch(labels, seed)

    outputs = dict(zip(graph.outputs, runtime.step(graph, {**_feeds(pack, graph, roles, start), **batch}), strict=True))

    modules = {role: _module(a, pack.table(a), start[role]) for role, a in roles.items()}
    losses = _losses(kind, modules, batch)
    sum(losses.values()).backward()
    for name, loss in losses.items():
        assert outputs[name] == pytest.approx(loss.item(), rel=1e-5)
    slot, scale = ("momentum", 1.0) if optimiser == "sgd" else ("first", 0.1)
    for role, a in roles.items():
        table = pack.table(a)
        state = joined_parts(f"new/{role}.{slot}", table, outputs).astype(np.float64) / scale
        reference = _gradient(modules[role], table)
        for spec in table.specs:
            expected = reference[table.offsets[spec.name]]
            size = np.linalg.norm(expected)
            assert size > 1e-4, f"{role} {spec.name}: a gradient this small proves nothing"
            error = np.linalg.norm(state[table.offsets[spec.name]] - expected) / size
            assert error <= TOLERANCE, f"{role} {spec.name}: {error:.2e}"


@pytest.mark.parametrize("architecture", list(ARCHITECTURES))
@pytest.mark.parametrize("kind", ["supervised", "mutual"])
@pytest.mark.parametrize("optimiser", ["sgd", "adamw"])
def test_every_step_graph_computes_pytorchs_gradients(architecture: str, kind: str, optimiser: str) -> None:
    _check(kind, architecture, optimiser, LABELS)


@pytest.mark.parametrize("labels", [2, 16, 35, 37, 64, 100])
def test_no_constant_of_a_graph_depends_on_the_number_of_labels(labels: int) -> None:
    """Also at the batch size, the hidden size, the frames, and the count the graph was traced with."""
    _check("mutual", "crnn-lite", "sgd", labels, seed=3)


@pytest.mark.parametrize("kind", ["supervised", "mutual"])
@pytest.mark.parametrize("optimiser", ["sgd", "adamw"])
def test_fifty_steps_stay_with_pytorchs_optimiser_in_float64(kind: str, optimiser: str) -> None:
    """With momentum, weight decay and a norm that clips some steps.

    AdamW at its usual 1e-3: at 2e-3 PyTorch's own float32 is 2e-3 away from its float64 in one tensor, for AdamW
    divides gradients near zero by themselves.
    """
    runtime, rate, decay = _runtime(LABELS), 0.02 if optimiser == "sgd" else 1e-3, 0.01
    clip = 0.22 if kind == "mutual" else 0.5
    pack, roles = runtime.pack, _roles(kind, "crnn-base" if kind == "mutual" else "crnn-lite")
    graph = pack.graph(kind, next(iter(roles.values())), optimiser)
    start = {role: pack.table(a).initial(i) for i, (role, a) in enumerate(roles.items())}
    feeds = _feeds(pack, graph, roles, start, rate=rate, decay=decay, clip=clip)
    modules = {role: _module(a, pack.table(a), start[role]) for role, a in roles.items()}
    reference = {
        role: torch.optim.SGD(module.parameters(), rate, momentum=0.9, weight_decay=decay)
        if optimiser == "sgd"
        else torch.optim.AdamW(module.parameters(), rate, weight_decay=decay)
        for role, module in modules.items()
    }
    clipped = 0

    for step in range(1, 51):
        batch = _batch(LABELS, seed=step % 8)
        feeds.update({name: np.array(step, np.float32) for name in feeds if name.endswith(".step")})
        outputs = dict(zip(graph.outputs, runtime.step(graph, {**feeds, **batch}), strict=True))
        feeds.update({name.removeprefix("new/"): v for name, v in outputs.items() if name.startswith("new/")})
        for module in modules.values():
            module.zero_grad()
        sum(_losses(kind, modules, batch).values()).backward()
        for role, module in modules.items():
            clipped += float(torch.nn.utils.clip_grad_norm_(module.parameters(), clip)) > clip
            reference[role].step()

    assert 0 < clipped < 50 * len(roles), "the norm should clip some steps and not others"
    for role, a in roles.items():
        table, named = pack.table(a), dict(modules[role].named_parameters())
        ours = joined_parts(role, table, feeds).astype(np.float64)
        moved = np.linalg.norm(ours - start[role]) / np.linalg.norm(start[role])
        assert moved > 0.02, "weights that hardly moved prove nothing"
        for spec in table.specs:
            expected = named[spec.name].detach().numpy().ravel()
            error = np.linalg.norm(ours[table.offsets[spec.name]] - expected) / np.linalg.norm(expected)
            assert error <= 1e-3, f"{role} {spec.name}: {error:.2e}"


@pytest.mark.parametrize("architecture", list(ARCHITECTURES))
@pytest.mark.parametrize("count", [1, 5, 65])
def test_the_evaluation_graph_is_the_module(architecture: str, count: int) -> None:
    runtime = _runtime(LABELS)
    table = runtime.pack.table(architecture)
    flat = _weights(table, 4)
    x = np.random.default_rng(count).standard_normal((count, 100, 40)).astype(np.float32)

    ours = runtime.logits(architecture, flat, x)

    with torch.no_grad():
        expected = _module(architecture, table, flat)(torch.from_numpy(x.astype(np.float64))).numpy()
    assert np.linalg.norm(ours - expected) <= TOLERANCE * np.linalg.norm(expected)


@pytest.mark.parametrize("graph", SHIPPED.manifest.graphs, ids=lambda graph: graph.file)
def test_a_graph_is_standard_onnx_for_old_runtimes(graph: Any) -> None:
    """No operator but ONNX's own, opset at most 21, IR at most 10 (JetPack's onnxruntime), nothing outside the file."""
    model = onnx.load_from_string(SHIPPED.files[graph.file])

    assert [(entry.domain, entry.version <= 21) for entry in model.opset_import] == [("", True)]
    assert model.ir_version <= 10
    assert not model.functions
    assert {node.domain for node in model.graph.node} == {""}
    assert not any(tensor.external_data for tensor in model.graph.initializer)
    assert not any(a.HasField("g") or a.graphs for node in model.graph.node for a in node.attribute)
    assert tuple(value.name for value in model.graph.input) == graph.inputs
    assert tuple(value.name for value in model.graph.output) == graph.outputs
    assert not model.metadata_props
    assert model.producer_name == "auricle"
    assert not any(node.doc_string for node in model.graph.node)


def test_step_graphs_hold_no_scatter_and_little_but_matrix_products() -> None:
    """What was measured to be slow must not come back unseen (DESIGN, section 3)."""
    model = onnx.load_from_string(SHIPPED.files["graphs/crnn-lite.supervised.sgd.onnx"])
    kinds = [node.op_type for node in model.graph.node]

    assert not {"ScatterND", "ScatterElements", "Scatter", "Loop", "Scan", "If"} & set(kinds)
    assert kinds.count("Pad") + kinds.count("Where") <= 4
    assert len(kinds) < 1100
