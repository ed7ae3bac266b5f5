"""Jobs on step graphs: what is fed, what is carried from step to step, and what is left neutral."""

from __future__ import annotations

from typing import Any

import msgspec
import numpy as np
import onnx
import pytest
from onnx import helper, numpy_helper
from tests.core import tiny_pack

from auricle.errors import AuricleError, PackError
from auricle.packs.graph_interface import Graph, step_inputs, step_outputs
from auricle.packs.pack import Pack, load_pack
from auricle_learning.native.library import compiler
from auricle_learning.native.runtime import NativeRuntime
from auricle_learning.runtimes import Job, StepRuntime
from auricle_learning.runtimes.feeds import first_feeds
from auricle_learning.runtimes.interface import ManySteps, joined_parts

SIZE = 15
SEEN, MAP = "model.bavd.seen", "model.bavd.drop"
RATES = {"model.rate": 0.5, "model.momentum": 0.25}
X = np.zeros((tiny_pack.BATCH, tiny_pack.FRAMES, tiny_pack.MELS), np.float32)
BATCH = {
    "x": X,
    "target": np.eye(3, dtype=np.float32)[np.arange(tiny_pack.BATCH) % 3],
    "weight": np.ones(tiny_pack.BATCH, np.float32),
}


def _job(**changes: object) -> Job:
    values = {"kind": "supervised", "models": {"model": "lite"}, "optimizer": "sgd", "scalars": RATES}
    return Job(**{**values, "weights": {"model": np.arange(SIZE, dtype=np.float32)}, **changes})  # type: ignore[arg-type]


def _with_state(nodes: list[Any], loss: str, shape: tuple[int, ...], noise: tuple[str, ...], *state: str) -> Pack:
    """The tiny pack whose step also computes these nodes, of which one sum is its loss, with noise and state."""
    model = onnx.load_from_string(tiny_pack.files()[tiny_pack.STEP])
    model.graph.node.extend([*nodes, helper.make_node("ReduceSum", [loss], ["sum"], keepdims=0)])
    for node in model.graph.node:
        node.output[:] = ["squared" if name == "loss" else "loss" if name == "sum" else name for name in node.output]
    model.graph.input.extend([tiny_pack.value(name, list(shape)) for name in (*noise, *state)])
    model.graph.output.extend([tiny_pack.value(f"new/{name}", list(shape)) for name in state])
    evaluate, step = tiny_pack.graphs()
    step = msgspec.structs.replace(step, noise=dict.fromkeys(noise, shape), state=dict.fromkeys(state, shape))
    return tiny_pack.pack({tiny_pack.STEP: model.SerializeToString()}, graphs=(evaluate, _named(step)))


def _with_noise_and_state() -> Pack:
    """The tiny pack whose step also adds up its noise in a state, and has the sum as its loss."""
    return _with_state([helper.make_node("Add", ["seen", "mask"], ["new/seen"])], "new/seen", (2,), ("mask",), "seen")


def _named(graph: Graph) -> Graph:
    return msgspec.structs.replace(graph, inputs=tuple(step_inputs(graph)), outputs=tuple(step_outputs(graph)))


needs_compiler = pytest.mark.skipif(compiler() is None, reason="there is no C compiler here")
RUNTIMES = [StepRuntime, pytest.param(NativeRuntime, marks=needs_compiler)]
Made = type[StepRuntime] | type[NativeRuntime]


@pytest.mark.parametrize("made", RUNTIMES)
def test_weights_and_state_are_carried_from_step_to_step_and_a_job_keeps_what_it_gave(made: Made) -> None:
    """The tiny step is m <- m / 4 + w, w <- w - m / 2, here from w = 8 and m = 0.

    m1 = 8, w1 = 8 - 4 = 4; m2 = 2 + 4 = 6, w2 = 4 - 3 = 1; m3 = 1.5 + 1 = 2.5, w3 = 1 - 1.25 = -0.25.
    """
    given, zero = np.full(SIZE, 8, np.float32), np.zeros(SIZE, np.float32)
    training = made(tiny_pack.pack()).begin(_job(weights={"model": given}, slots={"model.momentum": zero}))
    seen = []
    for _ in range(3):
        training.step(BATCH)
        seen.append((training.weights("model")[0], training.slots()["model.momentum"][0]))
    assert seen == [(4, 8), (1, 6), (-0.25, 2.5)]
    assert (training.steps, training.batch) == (3, tiny_pack.BATCH)
    assert np.array_equal(given, np.full(SIZE, 8)) and not zero.any()


def test_the_loss_is_that_of_the_weights_before_the_step() -> None:
    """All clips are zeros, so the logits are the biases (0, 0, 2): per clip the squared distance to its label."""
    weights = np.zeros(SIZE, np.float32)
    weights[-1] = 2
    losses = StepRuntime(tiny_pack.pack()).begin(_job(weights={"model": weights})).step(BATCH)
    assert losses == {"loss": 5 + 5 + 1 + 5}


def test_a_job_goes_on_with_the_state_it_is_given() -> None:
    runtime = StepRuntime(tiny_pack.pack())
    whole, first = runtime.begin(_job()), runtime.begin(_job())
    for _ in range(3):
        whole.step(BATCH)
    first.step(BATCH)
    second = runtime.begin(_job(weights={"model": first.weights("model")}, slots=first.slots(), steps=first.steps))
    for _ in range(2):
        second.step(BATCH)
    assert np.array_equal(second.weights("model"), whole.weights("model"))
    assert second.steps == 3


def test_a_scalar_that_stands_in_a_batch_holds_from_then_on() -> None:
    training = StepRuntime(tiny_pack.pack()).begin(_job())
    training.step({**BATCH, "model.rate": np.array(0, np.float32)})
    training.step(BATCH)
    assert np.array_equal(training.weights("model"), np.arange(SIZE))


def test_scalars_that_do_nothing_need_not_be_named() -> None:
    named = {**RATES, "model.momentum": 0.0, "model.decay": 0.0, "model.clip": np.inf}
    runtime = StepRuntime(tiny_pack.pack())
    short, long = (runtime.begin(_job(scalars=scalars)) for scalars in ({"model.rate": 0.5}, named))
    assert short.step(BATCH) == long.step(BATCH)
    assert np.array_equal(short.weights("model"), long.weights("model"))


def test_a_scalar_that_nobody_can_guess_is_asked_for() -> None:
    with pytest.raises(AuricleError, match=r"model\.rate"):
        StepRuntime(tiny_pack.pack()).begin(_job(scalars={}))


def test_noise_is_drawn_anew_at_every_step_and_state_adds_it_up() -> None:
    training = StepRuntime(_with_noise_and_state()).begin(_job(seed=3))
    sums = np.array([training.step(BATCH)["loss"] for _ in range(50)])
    drawn = np.random.default_rng(3).random((50, 2), np.float32)
    assert sums == pytest.approx(drawn.sum(1).cumsum(), rel=1e-5)
    assert np.abs(drawn - 0.5).max() < 0.5


def test_the_same_seed_draws_the_same_noise_and_a_new_job_starts_at_zero() -> None:
    runtime = StepRuntime(_with_noise_and_state())
    first, same, other = (runtime.begin(_job(seed=seed)).step(BATCH)["loss"] for seed in (1, 1, 2))
    assert first == same
    assert first != other


@needs_compiler
def test_noise_of_several_steps_in_one_call_is_that_of_one_after_the_other() -> None:
    """Also of those that a stop left: they are drawn again."""
    runtime = NativeRuntime(_with_noise_and_state())
    one, many = runtime.begin(_job(seed=3)), runtime.begin(_job(seed=3))
    assert isinstance(many, ManySteps)
    alone = [one.step(BATCH) for _ in range(6)]
    together = many.step_through([BATCH] * 3, np.ones(1, np.int32)) + many.step_through([BATCH] * 5)
    assert together == alone


def _with_terms(*terms: str) -> Pack:
    """The tiny pack whose step graph takes the inputs of these terms and does nothing with them but `keep`'s sum."""
    evaluate, step = tiny_pack.graphs()
    step = _named(msgspec.structs.replace(step, terms=terms))
    model = onnx.load_from_string(tiny_pack.files()[tiny_pack.STEP])
    known = {value.name for value in model.graph.input}
    shapes = tiny_pack.SHAPES
    model.graph.input.extend(
        tiny_pack.value(name, shapes[name.split("/")[1]] if "/" in name else [])
        for name in step.inputs
        if name not in known
    )
    spoken = {"freeze": "model.keep/head.bias", "drift": "model.anchor/head.bias"}[terms[0]]
    for node in model.graph.node:
        node.output[:] = ["squared" if name == "loss" else name for name in node.output]
    model.graph.node.append(helper.make_node("ReduceSum", [spoken], ["loss"], keepdims=0))
    return tiny_pack.pack({tiny_pack.STEP: model.SerializeToString()}, graphs=(evaluate, step))


def test_a_graph_with_more_terms_than_asked_for_runs_with_them_neutral() -> None:
    """Without a word, `keep` is 1 for each of the three biases and the anchor is 0."""
    assert StepRuntime(_with_terms("freeze", "drift")).begin(_job()).step(BATCH) == {"loss": 3}
    assert StepRuntime(_with_terms("drift")).begin(_job()).step(BATCH) == {"loss": 0}


def test_a_terms_vector_reaches_the_graph() -> None:
    anchor = np.arange(SIZE, dtype=np.float32)
    job = _job(terms=("drift",), vectors={"model.anchor": anchor})
    assert StepRuntime(_with_terms("drift")).begin(job).step(BATCH) == {"loss": 12 + 13 + 14}


def test_a_term_that_no_graph_has_or_maps_that_no_layer_drops_by_are_refused() -> None:
    for changes, says in (({"terms": ("drift",)}, "drift"), ({"drops": True}, "layers")):
        with pytest.raises(PackError, match=says):
            StepRuntime(tiny_pack.pack()).begin(_job(**changes))


def test_what_the_classifier_sees_is_given_beside_the_logits() -> None:
    """Mean over time of ones is (1, 1, 1); times the matrix ((0, 1), (2, 3), (4, 5)): (6, 9)."""
    runtime, weights = StepRuntime(tiny_pack.pack()), np.arange(SIZE, dtype=np.float32)
    ones = np.ones((3, tiny_pack.FRAMES, tiny_pack.MELS), np.float32)
    assert runtime.embeddings("lite", weights, ones).tolist() == [[6, 9]] * 3
    assert runtime.logits("lite", weights, ones)[0].tolist() == [36 + 63 + 12, 48 + 81 + 13, 60 + 99 + 14]
    assert runtime.embeddings("lite", weights, ones[:0]).shape == (0, 2)


# -- maps of dropped activations


def _with_maps() -> Pack:
    """The tiny pack whose step counts in a map how often it ran with it, and has the count before as its loss."""
    bounds = [numpy_helper.from_array(np.array([i], np.int64), n) for i, n in enumerate(("from", "to"))]
    nodes = [
        *(helper.make_node("Constant", [], [bound.name], value=bound) for bound in bounds),
        helper.make_node("Slice", ["weight", "from", "to"], ["weight.first"]),
        helper.make_node("Add", [MAP, "weight.first"], [f"new/{MAP}"]),
        helper.make_node("Identity", [SEEN], [f"new/{SEEN}"]),
    ]
    return _with_state(nodes, MAP, (1,), (), SEEN, MAP)


@pytest.mark.parametrize("made", RUNTIMES)
def test_maps_are_carried_in_a_job_that_drops_by_them(made: Made) -> None:
    runtime = made(_with_maps())

    def counts(**changes: object) -> list[float]:
        training = runtime.begin(_job(**changes))
        losses = [training.step(BATCH)["loss"] for _ in range(3)]
        return [*losses, *training.maps("model")]

    assert counts(drops=True) == [0, 1, 2, 3]
    assert counts(drops=True) == [0, 1, 2, 3], "a round begins with empty maps"
    assert counts() == [0, 0, 0, 0]


def test_steps_give_the_bits_of_a_loop_that_passes_everything_in_and_out() -> None:
    """A mutual AdamW job of the shipped models, on arrays that nobody may write."""
    pack, rng = load_pack("digits"), np.random.default_rng(0)
    graph = next(g for g in pack.manifest.graphs if g.kind == "mutual" and g.optimizer == "adamw" and not g.terms)
    models = dict(zip(("local", "plugin"), (graph.model, pack.manifest.plugin), strict=True))
    weights = {role: pack.table(model).initial(seed) for seed, (role, model) in enumerate(models.items())}
    scalars = {f"{role}.{name}": value for role in models for name, value in (("rate", 0.01), ("clip", 1.0))}
    scalars |= {"alpha": 0.5, "plugin_ce": 1.0, "temperature": 2.0}
    count, labels, clip = (
        graph.batch or 0,
        len(pack.labels),
        (pack.manifest.task.frames, pack.manifest.task.frontend.mels),
    )
    batch = {
        "x": rng.standard_normal((count, *clip), np.float32),
        "target": np.eye(labels, dtype=np.float32)[rng.integers(0, labels, count)],
        "weight": np.ones(count, np.float32),
    }
    for array in (*weights.values(), *batch.values()):
        array.setflags(write=False)
    runtime = StepRuntime(pack)
    job = Job(kind="mutual", models=models, optimizer="adamw", scalars=scalars, weights=weights)
    training = runtime.begin(job)
    feeds = first_feeds(graph, {role: pack.table(model) for role, model in models.items()}, job)
    for number in range(1, 5):
        counters = {name: np.array(number, np.float32) for name in graph.inputs if name.endswith(".step")}
        due = dict(zip(graph.outputs, runtime.step(graph, {**feeds, **counters, **batch}), strict=True))
        feeds |= {name.removeprefix("new/"): value for name, value in due.items() if name.startswith("new/")}
        assert training.step(batch) == {name: float(due[name]) for name in ("loss.local", "loss.plugin")}
    for role, model in models.items():
        assert np.array_equal(training.weights(role), joined_parts(role, pack.table(model), feeds))
        assert np.array_equal(
            training.slots()[f"{role}.second"], joined_parts(f"{role}.second", pack.table(model), feeds)
        )
