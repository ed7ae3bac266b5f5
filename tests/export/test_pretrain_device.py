"""Central training away from the CPU: every step of it on PyTorch's `meta` device, which has shapes and no numbers.

Whatever is left on the CPU there, and meets what is on the device, fails as it would on a GPU.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import torch
from tests.export.live_toy import LABELS, pack, toy_corpus, toy_streams
from tests.export.pretrain_toy import MODEL, WORDS, Tiny, crnn_pack, tiny_pack
from torch import Tensor

from auricle.packs.pack import load_pack
from auricle_export.packs.models import HEADS, WORD_MODELS, make_module
from auricle_export.pretrain.live import _Live
from auricle_export.pretrain.live_weights import LiveWeights
from auricle_export.pretrain.normalised import normalise
from auricle_export.pretrain.settings import LiveSettings, PretrainSettings, _OnDevice
from auricle_export.pretrain.speech import Part, PretrainSpeech
from auricle_export.pretrain.teachers import Taught
from auricle_export.pretrain.training import _Training

META = torch.device("meta")


@pytest.fixture
def on_meta(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_OnDevice, "torch_device", META)


def batch(size: int, labels: int) -> tuple[Tensor, Tensor]:
    """What a training draws, on the CPU: log-mels (B, 100, 40) and targets (B,)."""
    return torch.randn(size, 100, 40), torch.arange(size) % labels


def speech() -> PretrainSpeech:
    """A clip of each word, in every part."""
    part = Part(np.ones((len(WORDS), 100, 40), np.float32), np.arange(len(WORDS)), 1)
    return PretrainSpeech("ones", WORDS, part, part, part, None, None, (), "0" * 64)


def all_there(parameters: list[Tensor], optimizer: torch.optim.Optimizer) -> None:
    """Weights, gradients and the optimizer's slots are on the device, in the weights' shapes."""
    for parameter in parameters:
        slots = [value for name, value in optimizer.state[parameter].items() if name != "step"]
        assert len(slots) == 2 and parameter.grad is not None
        for tensor in (parameter, parameter.grad, *slots):
            assert (tensor.device, tensor.shape) == (META, parameter.shape)


@pytest.mark.parametrize("name", [*WORD_MODELS, *HEADS])
def test_every_built_in_model_and_its_twin_give_logits_there(name: str) -> None:
    for module in (make_module(name, 4), normalise(make_module(name, 4))):
        logits = module.to(META)(batch(6, 4)[0].to(META))
        assert (logits.device, logits.shape) == (META, (6, 4))


@pytest.mark.parametrize("model", [MODEL, *WORD_MODELS])
@pytest.mark.usefixtures("on_meta")
def test_a_step_on_clips_leaves_nothing_behind(model: str) -> None:
    toy = tiny_pack() if model == MODEL else crnn_pack(models=(model,))
    training = _Training(model, make_one(model), toy, speech(), PretrainSettings(batch=8, smoothing=0.1))

    loss = training.step(*batch(8, len(WORDS)))

    assert (loss.device, loss.shape, loss.dtype) == (META, (), torch.float64)
    all_there(list(training.tensors.values()), training.optimizer)


def make_one(model: str) -> torch.nn.Module:
    return Tiny(len(WORDS)) if model == MODEL else make_module(model, len(WORDS))


@pytest.mark.parametrize("model", WORD_MODELS)
@pytest.mark.usefixtures("on_meta")
def test_a_step_on_windows_with_a_teacher_and_pairs_leaves_nothing_behind(
    model: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(LiveWeights, "flat", lambda self: np.zeros(self.table.size, np.float32))  # numbers, at the end
    settings = LiveSettings(batch=8, steady=1.0)
    settings = replace(settings, windows=replace(settings.windows, shift=(3, 20)))
    teachers = [Taught(load_pack("home"), "resnet-lite")]
    live = _Live(model, pack(model), toy_corpus(), toy_streams(), settings, {}, None, teachers)
    live.weights.begin_epoch(1)

    for step in range(2):
        loss = live.step(step, *batch(8, len(LABELS)))

    assert (loss.device, loss.shape, loss.dtype) == (META, (), torch.float64)
    all_there(live.weights.trained, live.weights.optimizer)
    assert {p.device for p in (*live.weights.mean.parameters(), *live.weights.mean.buffers())} == {META}


def test_what_stays_on_the_cpu_is_noticed() -> None:
    """Else the tests above would say nothing."""
    module = make_module("crnn-lite", 4).to(META)
    with pytest.raises(RuntimeError, match=r"device|meta"):
        module(batch(2, 4)[0])
