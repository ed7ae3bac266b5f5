"""A frozen network in the hands of LiteRT: what onnxruntime makes, window by window and step by step."""

from __future__ import annotations

import hashlib
import importlib.util
from concurrent.futures import ThreadPoolExecutor
from functools import cache

import msgspec
import numpy as np
import pytest

pytest.importorskip("torch")

from tests.export.frozen_toy import MELS, STRIDE, toy_network_pack
from tests.export.tflite_toy import needs_litert

from auricle.checks.onnx_network import OnnxNetwork
from auricle.checks.pack_checks import require_sound
from auricle.errors import PackError
from auricle.packs.manifest import FileEntry
from auricle.packs.pack import Pack

needs_litert()

from auricle_edge.runtimes.tflite import TfliteRuntime  # noqa: E402
from auricle_edge.runtimes.tflite_network import TfliteNetwork  # noqa: E402
from auricle_export.tflite import with_tflite  # noqa: E402

PLAIN = toy_network_pack()
MELS_OF = np.random.default_rng(0).normal(0, 2, (4, PLAIN.manifest.task.frames, MELS)).astype(np.float32)


@cache
def translated() -> Pack:
    """The toy's pack with `.tflite` files."""
    pack = with_tflite(PLAIN, list(PLAIN.tables))
    require_sound(pack)
    return pack


def test_its_windows_are_onnxruntimes() -> None:
    runtime = TfliteRuntime(translated())
    assert isinstance(runtime.network(), TfliteNetwork)
    assert runtime.network() is runtime.network()
    due = OnnxNetwork(PLAIN).vectors(MELS_OF)
    assert np.abs(runtime.network().vectors(MELS_OF) - due).max() <= 1e-5 * np.abs(due).max()
    assert runtime.network().vectors(MELS_OF[:0]).shape == (0, *due.shape[1:])


def test_its_stream_is_onnxruntimes_from_the_first_step() -> None:
    made, due = (network.stream() for network in (TfliteRuntime(translated()).network(), OnnxNetwork(PLAIN)))
    for at in range(0, MELS_OF.shape[1] - STRIDE, STRIDE):
        mels = MELS_OF[0, at : at + STRIDE]
        assert np.abs(made(mels) - due(mels)).max() <= 1e-5


def test_sounds_beside_each_other_do_not_mix() -> None:
    network = TfliteRuntime(translated()).network()
    alone = [network.vectors(window[None]) for window in MELS_OF]
    with ThreadPoolExecutor(4) as pool:
        beside = list(pool.map(lambda window: network.vectors(window[None]), MELS_OF))
    assert np.array_equal(alone, beside)


def test_the_weights_are_in_the_pack_once() -> None:
    entry = next(each for each in translated().manifest.tflite if each.model == "toy")
    content = translated().files[entry.file]
    shapes = {tensor.name: tensor.shape for tensor in translated().manifest.network.tensors}  # type: ignore[union-attr]
    assert {buffer.tensor for buffer in entry.buffers} == shapes.keys()
    for buffer in entry.buffers:
        assert not any(content[buffer.offset : buffer.offset + 4 * int(np.prod(shapes[buffer.tensor]))])


def test_a_file_that_remembers_something_else_is_refused() -> None:
    """The file of a model in place of the network's."""
    pack = translated()
    entry, other = (
        next(each for each in pack.manifest.tflite if (each.model == "toy") is network) for network in (True, False)
    )
    content = pack.files[other.file]
    listed = FileEntry(path=entry.file, bytes=len(content), sha256=hashlib.sha256(content).hexdigest())
    files = tuple(listed if each.path == entry.file else each for each in pack.manifest.files)
    wrong = Pack(msgspec.structs.replace(pack.manifest, files=files), {**pack.files, entry.file: content})
    with pytest.raises(PackError, match="does not take or give"):
        TfliteRuntime(wrong).network()


def test_without_its_file_onnxruntime_runs_it_or_a_sentence_says_what_to_do(monkeypatch: pytest.MonkeyPatch) -> None:
    pack = translated()
    kept = tuple(each for each in pack.manifest.tflite if each.model != "toy")
    named = {each.file for each in pack.manifest.tflite} - {each.file for each in kept}
    files = tuple(each for each in pack.manifest.files if each.path not in named)
    content = {path: data for path, data in pack.files.items() if path not in named}
    without = Pack(msgspec.structs.replace(pack.manifest, files=files, tflite=kept), content)
    assert isinstance(TfliteRuntime(without).network(), OnnxNetwork)
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    with pytest.raises(PackError, match=r"auricle export tflite, or for onnxruntime .*pip install .*\[edge\]") as said:
        TfliteRuntime(without).network()
    assert str(said.value).count(". ") == 0
