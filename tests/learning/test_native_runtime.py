"""The runtime native: what the C library computes, what it refuses, and the same training as onnxruntime's."""

from __future__ import annotations

import os
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import helper
from tests.core import tiny_pack
from tests.learning import depthwise_cases, native_probe
from tests.learning.sanitizers import sanitized
from tests.learning.toy import PACK, clips, device
from tests.learning.toy_training import PLUGIN

from auricle.errors import AuricleError
from auricle.packs.pack import Pack, load_pack
from auricle.wire.plan import FixMatch, Plan
from auricle_learning.native import library as native_library
from auricle_learning.native import runtime
from auricle_learning.native.depthwise import correlations, sum_places
from auricle_learning.native.library import compiler, library
from auricle_learning.native.loaded_program import LoadedProgram
from auricle_learning.native.program import Program, UnsupportedError
from auricle_learning.native.runtime import NativeRuntime
from auricle_learning.native.writer import DEPTHWISE
from auricle_learning.runtimes import Job, StepRuntime, recogniser
from auricle_learning.training.speech_data import DeviceData
from auricle_learning.training.train import Trainer

pytestmark = pytest.mark.skipif(compiler() is None, reason="there is no C compiler here")
ROOT = Path(__file__).parents[2]
SIZE = 15
BATCH = {
    "x": np.zeros((tiny_pack.BATCH, tiny_pack.FRAMES, tiny_pack.MELS), np.float32),
    "target": np.eye(3, dtype=np.float32)[np.arange(tiny_pack.BATCH) % 3],
    "weight": np.ones(tiny_pack.BATCH, np.float32),
}


@cache
def _pack(name: str) -> Pack:
    return PACK if name == "toy" else load_pack(name)


def _batches(pack: Pack, count: int, seed: int = 0) -> list[dict[str, np.ndarray]]:
    """Batches of 16 with a partial one among them."""
    rng, task = np.random.default_rng(seed), pack.manifest.task
    made = []
    for i in range(count):
        weight = np.ones(16, np.float32)
        weight[11:] = i % 3 != 0
        x = rng.standard_normal((16, task.frames, task.frontend.mels)).astype(np.float32)
        target = np.eye(len(pack.labels), dtype=np.float32)[rng.integers(0, len(pack.labels), 16)]
        made.append({"x": x, "target": target, "weight": weight})
    return made


def _job(pack: Pack, kind: str, models: dict[str, str], optimizer: str, terms: tuple[str, ...] = ()) -> Job:
    """Momentum or decay, clipping, and what the kind and the terms need."""
    rng = np.random.default_rng(7)
    sizes = {role: pack.table(model).size for role, model in models.items()}
    weights = {role: pack.table(model).initial(i) for i, (role, model) in enumerate(models.items())}
    rates = {"rate": 0.05, "momentum": 0.5} if optimizer == "sgd" else {"rate": 1e-3, "decay": 0.01, "epsilon": 1e-3}
    scalars = {f"{role}.{name}": value for role in models for name, value in {**rates, "clip": 2.0, "mu": 0.1}.items()}
    scalars |= {"alpha": 0.5, "plugin_ce": 1.0, "temperature": 2.0, "threshold": 0.1, "lambda": 1.0, "beta": 0.5}
    vectors = {f"{role}.anchor": weights[role] for role in models} if "drift" in terms else {}
    if "freeze" in terms:
        vectors |= {f"{role}.keep": rng.integers(0, 2, size).astype(np.float32) for role, size in sizes.items()}
    inputs: dict[str, np.ndarray] = {}
    if kind == "fixmatch":
        shape = (16, pack.manifest.task.frames, pack.manifest.task.frontend.mels)
        vectors["teacher"] = weights["model"]
        inputs = {name: rng.standard_normal(shape).astype(np.float32) for name in ("weak", "strong")}
        inputs["weight.unlabelled"] = np.ones(16, np.float32)
    if kind == "distill":
        width = pack.table(models["model"]).specs[-2].shape[1]
        inputs = {"means": rng.standard_normal((len(pack.labels), width)).astype(np.float32)}
        inputs["valid"] = np.ones(len(pack.labels), np.float32)
    more: dict[str, Any] = {"terms": terms, "weights": weights, "scalars": scalars, "vectors": vectors}
    return Job(kind=kind, models=models, optimizer=optimizer, inputs=inputs, **more)


LITE, BOTH = {"model": "crnn-lite"}, {"local": "crnn-lite", "plugin": "crnn-lite"}
RES = {"model": "resnet-lite"}


@pytest.mark.parametrize(
    ("name", "kind", "models", "optimizer", "terms", "steps"),
    [
        ("toy", "supervised", LITE, "sgd", (), 40),
        ("toy", "supervised", LITE, "adamw", ("drift", "freeze"), 20),
        ("toy", "mutual", BOTH, "sgd", ("drift", "freeze"), 20),
        ("toy", "mutual", BOTH, "adamw", (), 8),
        ("toy", "alternating", BOTH, "sgd", (), 5),
        ("toy", "fixmatch", LITE, "sgd", (), 10),
        ("toy", "distill", LITE, "sgd", (), 10),
        ("gsc12-res", "supervised", RES, "sgd", (), 20),
    ],
    ids=lambda value: value if isinstance(value, str) else None,
)
@pytest.mark.slow
def test_weights_after_some_steps_are_onnxruntimes(
    name: str, kind: str, models: dict[str, str], optimizer: str, terms: tuple[str, ...], steps: int
) -> None:
    """Relative to how far they moved; losses, weights and optimizer state of every role."""
    pack = _pack(name)
    job, native = _job(pack, kind, models, optimizer, terms), NativeRuntime(pack)
    ours, theirs = native.begin(job), StepRuntime(pack).begin(job)

    for batch in _batches(pack, steps):
        mine, its = ours.step(batch), theirs.step(batch)
        assert mine == pytest.approx(its, rel=1e-5, abs=1e-6)

    assert native.reasons == {}
    assert ours.steps == theirs.steps == steps
    for role in models:
        moved = theirs.weights(role) - job.weights[role]
        assert np.linalg.norm(ours.weights(role) - theirs.weights(role)) < 2e-5 * np.linalg.norm(moved)
        if "freeze" in terms:
            still = job.vectors[f"{role}.keep"] == 0
            assert np.array_equal(ours.weights(role)[still], job.weights[role][still])
    for slot, value in theirs.slots().items():
        assert np.linalg.norm(ours.slots()[slot] - value) < 2e-5 * np.linalg.norm(value)


@pytest.mark.parametrize(
    ("name", "model"), [("toy", "crnn-lite"), ("toy", "crnn-stacked"), ("gsc12-res", "resnet-lite")]
)
def test_logits_and_embeddings_are_onnxruntimes_whatever_the_batch(name: str, model: str) -> None:
    """And to the last bit the same, however many samples are judged at once."""
    pack, native = _pack(name), NativeRuntime(_pack(name))
    task, weights = pack.manifest.task, pack.table(model).initial(3)
    x = np.random.default_rng(5).standard_normal((35, task.frames, task.frontend.mels)).astype(np.float32)
    step = StepRuntime(pack)
    logits, seen = native.logits(model, weights, x), native.embeddings(model, weights, x[:5])
    assert native.reasons == {}
    np.testing.assert_allclose(logits, step.logits(model, weights, x), rtol=1e-5, atol=2e-6)
    np.testing.assert_allclose(seen, step.embeddings(model, weights, x[:5]), rtol=1e-5, atol=2e-6)
    for count in (1, 3):
        assert np.array_equal(native.logits(model, weights, x[:count]), logits[:count])
    assert native.logits(model, weights, x[:0]).shape == (0, len(pack.labels))


@pytest.mark.parametrize("labelled", [True, False], ids=["labels, mutual", "no labels, FixMatch"])
def test_a_devices_round_is_the_same(labelled: bool) -> None:
    """The trainer draws and gives both runtimes the same; without labels it takes the step graph of FixMatch."""
    data = device(16) if labelled else DeviceData(clips(0), clips(0), None, clips(16))
    semi = Plan(mode="supervised", rate=1.0, epochs=2, fixmatch=FixMatch(threshold=0.34))
    plan = Plan(rate=0.1, local_rate=0.1, plugin_ce=1.0, epochs=2) if labelled else semi
    ours, theirs = (
        trainer.run(plan, 1, PLUGIN, trainer.first_state())
        for trainer in (Trainer(runtime, "crnn-lite", data, 0) for runtime in (NativeRuntime(PACK), StepRuntime(PACK)))
    )
    moved = np.linalg.norm(theirs.plugin - PLUGIN)
    assert moved > 1e-3
    assert np.linalg.norm(ours.plugin - theirs.plugin) < 2e-5 * moved


def test_many_threads_get_what_one_gets() -> None:
    native, x = NativeRuntime(PACK), np.random.default_rng(1).standard_normal((4, 100, 40)).astype(np.float32)
    models = [PACK.plugin_table.initial(seed) for seed in range(6)]
    alone = [native.logits("crnn-lite", weights, x).tobytes() for weights in models]
    with ThreadPoolExecutor(4) as pool:
        together = list(pool.map(lambda w: native.logits("crnn-lite", w, x).tobytes(), models * 4))
    assert together == alone * 4


def _tiny(**changes: object) -> Job:
    values = {"kind": "supervised", "models": {"model": "lite"}, "optimizer": "sgd"}
    scalars = {"model.rate": 0.5, "model.momentum": 0.25}
    return Job(**{**values, "scalars": scalars, "weights": {"model": np.full(SIZE, 8, np.float32)}, **changes})  # type: ignore[arg-type]


def test_a_diverged_training_shows_that_it_did() -> None:
    training = NativeRuntime(PACK).begin(_job(PACK, "supervised", LITE, "sgd"))
    (batch,) = _batches(PACK, 1)
    batch["x"][0, 0, 0] = np.nan
    assert np.isnan(training.step(batch)["loss"])
    assert np.isnan(training.weights("model")).any()


def test_what_is_not_of_the_graph_is_refused_by_name() -> None:
    lacking = {name: BATCH[name] for name in ("x", "weight")}
    for batch, says in (
        ({**BATCH, "x": BATCH["x"][:1]}, r"x is of shape \(1, 5, 3\)"),
        ({**BATCH, "speed": np.float32(1)}, "speed"),
        (lacking, "target"),
    ):
        with pytest.raises(AuricleError, match=says):
            NativeRuntime(tiny_pack.pack()).begin(_tiny()).step(batch)


def with_cosine() -> Pack:
    """The tiny pack whose evaluation graph has an operator that the library has not."""
    model = onnx.load_from_string(tiny_pack.files()[tiny_pack.EVALUATE])
    for node in model.graph.node:
        node.output[:] = ["before" if name == "logits" else name for name in node.output]
    model.graph.node.append(helper.make_node("Cos", ["before"], ["logits"]))
    return tiny_pack.pack({tiny_pack.EVALUATE: model.SerializeToString()})


def test_a_graph_with_an_unknown_operator_runs_on_onnxruntime_with_a_reason() -> None:
    pack, weights = with_cosine(), np.arange(SIZE, dtype=np.float32)
    x = np.ones((3, tiny_pack.FRAMES, tiny_pack.MELS), np.float32)
    native = NativeRuntime(pack)
    assert native.logits("lite", weights, x).tolist() == StepRuntime(pack).logits("lite", weights, x).tolist()
    assert "Cos" in native.reasons[tiny_pack.EVALUATE]


def test_a_step_too_large_for_a_cache_is_left_to_onnxruntime_where_it_is(monkeypatch: pytest.MonkeyPatch) -> None:
    job = _job(PACK, "supervised", LITE, "sgd")
    kept = NativeRuntime(PACK)
    kept.begin(job)
    assert kept.reasons == {}
    monkeypatch.setattr(runtime, "LARGEST_STEP", 1000)
    left = NativeRuntime(PACK)
    left.begin(job)
    (reason,) = left.reasons.values()
    assert "MB" in reason
    monkeypatch.setattr(runtime, "usable", lambda: False)
    alone = NativeRuntime(PACK)
    alone.begin(job)
    assert alone.reasons == {}


def test_native_gives_up_what_training_needs() -> None:
    runtime = NativeRuntime(tiny_pack.pack())
    runtime.begin(_tiny()).step(BATCH)
    assert runtime.trains
    runtime.end_training()
    assert not runtime.trains


def test_a_library_that_others_can_write_is_not_loaded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("STATE_DIRECTORY", str(tmp_path))
    path = native_library.library_path()
    path.parent.mkdir(mode=0o700)
    path.write_bytes(b"not a library")
    for mode, says in ((0o777, "others"), (0o700, "load")):
        path.chmod(mode)
        with pytest.raises(AuricleError, match=says):
            library()


@pytest.mark.parametrize("check", native_probe.OPERATORS, ids=lambda check: check.__name__)
def test_every_kernel_at_every_level_gives_numpys_numbers(check: object) -> None:
    for level in native_probe.levels(library()):
        check(library(), level)  # type: ignore[operator]


def test_every_level_trains_alike() -> None:
    job, batches = _job(PACK, "supervised", LITE, "sgd"), _batches(PACK, 5)
    found = []
    for level in native_probe.levels(library()):
        training = NativeRuntime(PACK, level=level).begin(job)
        for batch in batches:
            training.step(batch)
        found.append(training.weights("model"))
    for other in found[1:]:
        assert np.linalg.norm(other - found[0]) < 1e-5 * np.linalg.norm(found[0] - job.weights["model"])


@pytest.mark.parametrize(
    ("word", "values"),
    [
        (0, [99, 0]),  # no such operation
        (1, [1 << 20, 0]),  # longer than the program
        (2, [-1, 100]),  # no such kernel
        (6, [0, 1 << 30]),  # an axis of nothing, and one longer than the arena
        (7, [-1, 1 << 30]),  # before the arena, and after it
        (11, [-(1 << 30)]),
    ],
)
def test_a_program_that_leaves_its_arena_is_refused(word: int, values: list[int]) -> None:
    """Words of the only instruction: operation, length, kind, four sizes, an offset and four strides of each value."""
    case = native_probe.Case()
    program = case.writer.program([case.writer.elementwise("add", [case.array(np.ones((3, 40))), case.array(1.0)])])
    loaded = LoadedProgram(library(), program)
    wrong = [Program(program.words, 100), Program(program.words[:-1], program.arena)]
    for value in values:
        words = program.words.copy()
        words[word] = value
        wrong.append(Program(words, program.arena))
    for each in wrong:
        with pytest.raises(UnsupportedError, match="arena"):
            LoadedProgram(library(), each)
    with pytest.raises(AuricleError, match="too small"):
        loaded.run(np.zeros(program.arena, np.float32))


@pytest.mark.parametrize(
    ("word", "values"),
    [
        (1, [18, 16]),  # half a place, and none
        (2, [-1, 2]),  # neither sum nor gradient
        (3, [0, -1, 6, 1 << 30]),  # outputs of the first axis: none, fewer than a place sees, too many
        (5, [0, 1 << 30]),  # rows
        (6, [0, 1 << 30]),  # channels
        (7, [0, -1, 8]),  # steps
        (8, [0, 6]),
        (9, [1 << 30, -(1 << 30)]),  # strides of what is seen
        (11, [1 << 30]),
        (12, [-1, 1 << 30]),  # what is made
        (13, [-(1 << 30)]),
        (16, [-1, 1 << 30]),  # of a place: what it sees
        (17, [-1, 1 << 30]),  # its weights
        (18, [-1, 7, (1 << 31) - 1]),  # the first output that sees it
        (19, [0, -1, 8, (1 << 31) - 1]),  # how many do
        (20, [-1, 5]),
        (21, [0, 6]),
    ],
)
@pytest.mark.parametrize("weighted", [True, False])
def test_a_depthwise_convolution_that_leaves_its_arena_is_refused(word: int, values: list[int], weighted: bool) -> None:
    """Words: operation, length, whether weighted, sizes, steps, strides of what is seen, what is made, six a place."""
    case, due = native_probe.Case(), depthwise_cases.CASES[0]
    x, y = (case.array(np.zeros((*sizes, due.batch, due.channels))) for sizes in (due.sizes, due.out))
    if weighted:
        weights = case.array(np.zeros((len(due.places), due.channels)))
        rows = [weights.cut(0, i, 1).without(0) for i in range(len(due.places))]
        sum_places(case.writer, depthwise_cases.shifts(due), x, rows, y)
    else:
        correlations(case.writer, depthwise_cases.shifts(due), x, y)
    program = case.writer.program([view for view, _ in case.given])
    start = 0
    while program.words[start] != DEPTHWISE:
        start += program.words[start + 1]
    LoadedProgram(library(), program)
    for value in values:
        words = program.words.copy()
        words[start + word] = value
        with pytest.raises(UnsupportedError, match="arena"):
            LoadedProgram(library(), Program(words, program.arena))


def _probe(path: Path, count: int, **environment: str) -> tuple[int, int]:
    command = [sys.executable, "-m", "tests.learning.native_probe", path, str(count)]
    more = {**os.environ, **environment}
    done = subprocess.run(command, cwd=ROOT, env=more, capture_output=True, text=True, check=False, timeout=200)
    assert done.returncode == 0, done.stderr[-3000:]
    refused, ran = map(int, done.stdout.split())
    return refused, ran


@pytest.mark.slow
def test_no_mutation_of_a_program_ends_the_process() -> None:
    library()
    refused, ran = _probe(native_library.library_path(), 200)
    assert refused > 60 and ran > 20


@pytest.mark.slow
@pytest.mark.nightly
def test_sanitizers_find_nothing_in_the_kernels_or_in_mutations(tmp_path: Path) -> None:
    made, environment = sanitized(tmp_path)
    refused, ran = _probe(made, 600, **environment)
    assert refused > 200 and ran > 60


def test_recognisers_of_one_runtime_keep_their_own_weights() -> None:
    """Weights that cannot change stay in the library's memory from window to window; others are taken each time."""
    ours, theirs, plugin = NativeRuntime(PACK), StepRuntime(PACK), PACK.manifest.plugin
    table = PACK.table(plugin)
    x = np.random.default_rng(4).standard_normal((1, 100, 40)).astype(np.float32)
    flat = table.initial(0)
    own = recogniser(ours, plugin, flat), recogniser(ours, plugin, table.initial(1))
    wanted = [recogniser(theirs, plugin, table.initial(seed))(x) for seed in (0, 1)]
    flat[:] = 0
    for _ in range(4):
        for recognise, right in zip(own, wanted, strict=True):
            np.testing.assert_allclose(recognise(x), right, atol=1e-6)
    for seed in (1, 0):
        flat[:] = table.initial(seed)
        np.testing.assert_allclose(ours.logits(plugin, flat, x), theirs.logits(plugin, flat, x), atol=1e-5)
