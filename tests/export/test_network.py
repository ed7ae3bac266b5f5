"""A frozen network in a pack: over whole windows, over one sound and frame by frame it gives the same vectors."""

from __future__ import annotations

import numpy as np
import onnxruntime as ort
import pytest
from msgspec import UNSET, structs

from auricle.checks.onnx_network import frontend_of
from auricle.checks.pack_checks import require_sound
from auricle.errors import PackError
from auricle.packs.manifest import NETWORK_FORMAT, Manifest
from auricle.packs.pack import Pack, load_pack
from auricle.packs.start import network_tensors
from auricle.speech.features import LogMel, mel_filters
from auricle_export.packs.facts import describe_pack
from auricle_export.packs.network import LOG_MELS, SHIFT, frozen_network
from auricle_learning.native.runtime import NativeRuntime
from auricle_learning.runtimes import StepRuntime
from auricle_learning.runtimes.interface import frontend_of as frontend_by

from .frozen_toy import (
    FIELD,
    LABELS,
    MELS,
    SIZE,
    STRIDE,
    Node,
    Tensor,
    layers,
    onnx_file,
    toy_network,
    toy_network_pack,
)

PACK = toy_network_pack()
TASK = PACK.manifest.task
SOUND = np.random.default_rng(3).lognormal(-6, 2, (203, MELS)).astype(np.float32)
FRONTENDS = [
    pytest.param(lambda: frontend_of(PACK), id="onnx"),
    pytest.param(lambda: frontend_by(StepRuntime(PACK)), id="step"),
    pytest.param(lambda: frontend_by(NativeRuntime(PACK)), id="native"),
]


def original(energies: Tensor) -> Tensor:
    """Vectors (T', size) of a sound by the file itself, which rounds no weight to float16."""
    chain = toy_network().chain
    names = [f"{number:02d}.{part}" for number, layer in enumerate(chain.layers) for part in ("weight", "bias")]
    rounded = network_tensors(PACK)
    tensors = iter([rounded[name] for name in names if name in rounded])
    nodes: list[Node] = [
        (operator, attributes, tuple(next(tensors) for _ in own) if operator == "Conv" else own)
        for operator, attributes, own in layers()
    ]
    session = ort.InferenceSession(onnx_file(nodes), providers=["CPUExecutionProvider"])
    mels = np.log10(energies + np.float32(LOG_MELS.floor)) + np.float32(SHIFT)
    vectors: Tensor = session.run(None, {"x": mels[None, ..., None].astype(np.float32)})[0][0, :, 0]
    return vectors


def test_the_pack_says_what_its_network_is() -> None:
    network = TASK.frontend.network
    assert network is not UNSET
    assert (network.field, network.stride, network.size) == (FIELD, STRIDE, SIZE)
    assert TASK.input_shape == ((50 - FIELD) // STRIDE + 1, SIZE)
    assert (TASK.unit, TASK.usual_hop) == (STRIDE, 0.08)
    assert PACK.manifest.format == NETWORK_FORMAT
    assert [graph.kind for graph in PACK.manifest.graphs if not graph.trains] == [
        "evaluate",
        "frontend",
        "frontend-step",
    ]
    require_sound(PACK)


def test_inspect_says_what_network_it_is() -> None:
    facts = describe_pack(PACK)
    assert facts.network is not None
    assert (facts.network.name, facts.network.size, facts.network.every) == ("toy", SIZE, 0.04)
    assert facts.network.weights == sum(tensor.size for tensor in network_tensors(PACK).values())
    assert describe_pack(load_pack("digits")).network is None


@pytest.mark.parametrize("make", FRONTENDS)
def test_whole_windows_one_sound_and_frame_by_frame_are_the_same(make: object) -> None:
    frontend: LogMel = make()  # type: ignore[operator]
    starts = np.arange(2, len(SOUND) - TASK.frames, 3)
    windows = frontend.finish(np.stack([SOUND[start : start + TASK.frames] for start in starts]))
    assert windows.shape == (len(starts), *TASK.input_shape)
    assert np.abs(frontend.windows(SOUND, starts) - windows).max() <= 1e-5
    due = original(SOUND[starts[0] :])
    assert np.abs(due[: TASK.input_shape[0]] - windows[0]).max() <= 1e-5
    stream = frontend.stream()
    heard = np.stack([stream(SOUND[at : at + STRIDE]) for at in range(0, 200, STRIDE)])
    first = -(-FIELD // STRIDE)  # vectors before look at frames before the sound
    assert np.abs(heard[first - 1 :] - original(SOUND[first * STRIDE - FIELD : 200])).max() <= 1e-5


@pytest.mark.parametrize("make", FRONTENDS)
def test_a_new_stream_remembers_nothing(make: object) -> None:
    frontend: LogMel = make()  # type: ignore[operator]
    first, piece = frontend.stream(), SOUND[:STRIDE]
    before = [first(piece) for _ in range(5)]
    again = frontend.stream()
    assert np.array_equal(before, [again(piece) for _ in range(5)])
    assert not np.array_equal(before[0], before[4])


def test_the_c_library_runs_both_graphs() -> None:
    runtime = NativeRuntime(PACK)
    runtime.network()
    assert runtime.reasons == {}


def test_windows_of_log_mels_are_those_that_finish_gives() -> None:
    bare = LogMel(structs.replace(TASK, frontend=structs.replace(TASK.frontend, network=UNSET)))
    starts = np.array([0, 7, 100])
    cut = np.stack([SOUND[start : start + TASK.frames] for start in starts])
    assert np.array_equal(bare.windows(SOUND, starts), bare.finish(cut))


def test_without_somebody_who_runs_it_there_are_energies_only() -> None:
    bare = LogMel(TASK)
    assert bare.energies(np.zeros((1, 8_000), np.float32)).shape == (1, 50, MELS)
    with pytest.raises(PackError, match="nothing here runs it"):
        bare.finish(SOUND[None, :50])


def test_filters_of_slaney_have_the_same_area() -> None:
    filters = mel_filters(structs.replace(LOG_MELS, mels=32), 16_000)
    assert filters.shape == (257, 32)
    areas = filters.astype(np.float64).sum(axis=0) * 16_000 / 512
    assert np.abs(areas[8:] - 1).max() < 0.06  # those below 500 Hz have 3 bins
    # of librosa.filters.mel(sr=16000, n_fft=512, n_mels=32, fmin=60, fmax=3800)
    assert filters[2:7, 0] == pytest.approx([0.00054526, 0.00736098, 0.01417671, 0.0085442, 0.00172847], abs=2e-8)
    assert filters[112:115, 31] == pytest.approx([0.00329961, 0.00382753, 0.0037416], abs=2e-8)


def test_other_words_keep_the_network() -> None:
    other = PACK.with_labels(("hello", "_unknown_"))
    assert other.manifest.task.frontend == TASK.frontend
    require_sound(other)


def test_a_device_that_holds_its_own_models_alone_has_the_network() -> None:
    pack = Pack(PACK.manifest, PACK.files)
    pack.hold_only(())
    assert frontend_of(pack).finish(SOUND[None, :50]).shape == (1, *TASK.input_shape)


def changed(**changes: object) -> Manifest:
    network = TASK.frontend.network
    assert network is not UNSET
    frontend = structs.replace(TASK.frontend, network=structs.replace(network, **changes))
    return structs.replace(PACK.manifest, task=structs.replace(TASK, frontend=frontend))


@pytest.mark.parametrize(
    ("manifest", "reason"),
    [
        (changed(name="other"), "is not one of its network"),
        (changed(field=60), "looks at 60 frames, and its window has 50"),
        (changed(file="frontend/none.safetensors"), "which is not there"),
        (changed(tensors=()), "is not one of its network"),
        (
            structs.replace(PACK.manifest, graphs=PACK.manifest.graphs[:-1]),
            "needs two graphs for the network of its front-end",
        ),
        (
            structs.replace(
                PACK.manifest,
                task=structs.replace(TASK, frontend=structs.replace(TASK.frontend, network=UNSET)),
            ),
            "is not one of its network",
        ),
    ],
)
def test_a_manifest_whose_network_is_not_whole_is_refused(manifest: Manifest, reason: str) -> None:
    with pytest.raises(PackError, match=reason):
        Pack(manifest, PACK.files)


@pytest.mark.parametrize(("field", "reason"), [("stride", "and not float32 of"), ("size", "and not float32 of")])
def test_graphs_that_are_not_what_the_manifest_says_are_refused(field: str, reason: str) -> None:
    pack = Pack(changed(**{field: 2}), PACK.files)
    with pytest.raises(PackError, match=reason):
        frontend_of(pack)


def broken(place: int, node: Node) -> bytes:
    nodes = layers()
    nodes[place] = node
    return onnx_file(nodes)


BROKEN = {
    "no file": (b"", "it is no whole ONNX file"),
    "pads time": (onnx_file(layers(pads=(1, 1, 1, 1))), "pads time"),
    "other operator": (broken(1, ("Softmax", {"axis": 1}, ())), "'Softmax' is not translated; there are Conv"),
    "skips": (broken(3, ("MaxPool", {"kernel_shape": [1, 2], "strides": [2, 2]}, ())), "skips frames"),
    "holes": (broken(4, ("Conv", {"dilations": [2, 1]}, layers()[4][2])), "has holes"),
    "many numbers": (broken(2, ("Max", {}, (np.zeros((1, 4, 1, 1), np.float32),))), "takes 4 numbers, and one is due"),
    "many bands": (onnx_file(layers()[:-1]), "leaves 2 bands, and has to leave one"),
    "not finite": (
        broken(0, ("Conv", {"pads": [0, 1, 0, 1]}, (np.full((4, 1, 3, 3), np.nan, np.float32),))),
        "holds NaN",
    ),
    "too large weights": (
        broken(0, ("Conv", {"pads": [0, 1, 0, 1]}, (np.full((4, 1, 3, 3), 1e6, np.float32),))),
        "do not fit a float16",
    ),
    "looks too far": (
        onnx_file([*layers()[:-1], ("Conv", {}, (np.zeros((6, 5, 60, 2), np.float32),))]),
        "looks at 246 frames for one output",
    ),
}


@pytest.mark.parametrize("case", BROKEN)
def test_a_file_that_breaks_the_contract_is_refused_in_a_sentence(case: str) -> None:
    data, reason = BROKEN[case]
    with pytest.raises(PackError, match=reason) as said:
        frozen_network(data, "toy", "Nobody", "The file toy.onnx")
    assert str(said.value).startswith("The file toy.onnx") and str(said.value).count("\n") == 0


def test_its_labels_are_the_task_s() -> None:
    assert PACK.labels == LABELS
