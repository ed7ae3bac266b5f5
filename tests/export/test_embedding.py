"""Google's speech embedding as its package has it: what a pack makes of it is what the file gives."""

from __future__ import annotations

from functools import partial

import numpy as np
import onnxruntime as ort
import pytest

from auricle.checks.onnx_network import frontend_of
from auricle_edge.runtimes.tflite import TfliteRuntime
from auricle_export.packs.build import Recipe, assemble, trace_model
from auricle_export.packs.models import HEAD, make_module
from auricle_export.packs.window import network_task
from auricle_export.tflite import with_tflite
from auricle_export.wakeword import embedding
from auricle_learning.native.runtime import NativeRuntime
from auricle_learning.runtimes.interface import frontend_of as frontend_by

from .frozen_toy import LABELS


@pytest.mark.slow
@pytest.mark.nightly
def test_the_embedding_in_a_pack_gives_what_its_file_gives() -> None:
    """But for what float16 takes off its weights: a hundredth of the spread of its numbers at most."""
    frozen = embedding.find_network("embedding")
    assert (frozen.chain.field, frozen.chain.stride, frozen.chain.size, frozen.chain.mels) == (76, 8, 96, 32)
    task = network_task(LABELS, frozen.frontend, 1.0)
    make = partial(make_module, HEAD, mels=96, frames=task.input_shape[0])
    model = trace_model(make, len(LABELS), task)
    pack = assemble("toy", LABELS, {HEAD: model}, HEAD, [Recipe("supervised", "sgd")], task, frozen)
    energies = np.random.default_rng(0).lognormal(-8, 2, (300, 32)).astype(np.float32)
    starts = np.arange(4, 300 - task.frames, 8)
    by_onnx, by_library = frontend_of(pack), frontend_by(NativeRuntime(pack))
    windows = by_onnx.windows(energies, starts)
    assert np.abs(by_library.windows(energies, starts) - windows).max() <= 1e-5 * np.abs(windows).max()
    stream = by_library.stream()
    heard = np.stack([stream(energies[at : at + 8]) for at in range(0, 296, 8)])
    last = (int(starts[-1]) + task.frames) // 8
    assert np.abs(heard[last - task.input_shape[0] : last] - windows[-1]).max() <= 1e-5 * np.abs(windows).max()
    by_litert = frontend_by(TfliteRuntime(with_tflite(pack, [HEAD], ["float32"])))
    assert np.abs(by_litert.windows(energies, starts) - windows).max() <= 1e-4
    session = ort.InferenceSession(embedding._embedding(), providers=["CPUExecutionProvider"])
    mels = np.log10(energies + np.float32(5e-9)) + np.float32(2 + 2 * np.log10(32_768))
    name = session.get_inputs()[0].name
    due = np.stack([session.run(None, {name: mels[None, at : at + 76, :, None]})[0].ravel() for at in starts[:20]])
    assert np.abs(windows[: len(due), 0] - due).max() <= 0.01 * due.std()
