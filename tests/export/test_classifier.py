"""Convolutions that are a linear classifier: the numbers of the equal `nn.Linear`, and what may not follow them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
from tests.export.compiled import BATCH, FRAMES, LABELS, MELS, Compiled
from tests.nightly import nightly_but
from torch import Tensor, nn

from auricle_export.compiler.intercept import CompileError
from auricle_export.compiler.trace import find_parts

WIDTH = 6


class Ended(nn.Module):
    """A convolution over time, SiLU in place, and an end."""

    def __init__(self, out: nn.Module, end: Callable[[Any, Tensor], Tensor]) -> None:
        super().__init__()
        self.first = nn.Conv1d(MELS, WIDTH, 3, stride=2)
        self.act = nn.SiLU(inplace=True)
        self.out, self._end = out, end

    def forward(self, x: Tensor) -> Tensor:
        return self._end(self, self.act(self.first(x.transpose(1, 2))))


PLACES = (FRAMES - 3) // 2 + 1


def _flat(x: Tensor) -> Tensor:
    return x.view(-1, x.shape[1])


ENDS: dict[str, tuple[Callable[[], nn.Module], Callable[[Any, Tensor], Tensor], Callable[[Tensor], Tensor]]] = {
    "on maps of one place": (
        lambda: nn.Conv2d(WIDTH, LABELS, 1),
        lambda m, h: _flat(m.out(h.mean(2)[:, :, None, None])),
        lambda h: h.mean(2),
    ),
    "before a mean over time": (
        lambda: nn.Conv1d(WIDTH, LABELS, 1),
        lambda m, h: nn.functional.adaptive_avg_pool1d(m.out(h), 1).squeeze(-1),
        lambda h: h.mean(2),
    ),
    "before a mean over two axes": (
        lambda: nn.Conv2d(WIDTH, LABELS, (1, 1)),
        lambda m, h: m.out(h.reshape(-1, WIDTH, PLACES, 1)).mean((2, 3)),
        lambda h: h.mean(2),
    ),
    "as large as its input": (
        lambda: nn.Conv1d(WIDTH, LABELS, PLACES),
        lambda m, h: m.out(h).flatten(1),
        lambda h: h.flatten(1),
    ),
}


@pytest.mark.slow
@pytest.mark.parametrize("case", nightly_but(list(ENDS), ["on maps of one place"]))
def test_a_convolution_at_the_end_is_the_equal_linear_layer(case: str) -> None:
    """Logits, loss and every gradient are those of the module that ends in `nn.Linear`, and of PyTorch."""
    torch.manual_seed(0)
    make, end, features = ENDS[case]
    module = Ended(make(), end)
    weight = module.out.weight.detach().flatten(1)
    linear = nn.Linear(weight.shape[1], LABELS)
    with torch.no_grad():
        linear.weight.copy_(weight)
        linear.bias.copy_(module.out.bias)
    twin = Ended(linear, lambda m, h: m.out(features(h)))
    twin.first.load_state_dict(module.first.state_dict())

    ours, theirs = Compiled(module), Compiled(twin)

    assert (ours.net.head, ours.net.features) == ("out", weight.shape[1])
    assert [spec.shape for spec in ours.table.specs] == [spec.shape for spec in theirs.table.specs]
    assert max(ours.evaluation_errors().values()) < 1e-6
    (found, loss), (due, same) = ours.gradients(), theirs.gradients()
    assert loss == pytest.approx(same, rel=1e-6)
    for name in due:
        np.testing.assert_allclose(found[name], due[name], rtol=1e-5, atol=1e-7)
    assert max(ours.gradient_errors().values()) < 1e-5


def _pointwise(end: Callable[[Any, Tensor], Tensor], **how: Any) -> nn.Module:
    return Ended(nn.Conv1d(WIDTH, LABELS, 1, **how), end)


class OtherInEvaluation(Ended):
    """Probabilities in eval mode, as some publish their nets."""

    def forward(self, x: Tensor) -> Tensor:
        logits = super().forward(x)
        return logits if self.training else logits.softmax(1)


REFUSED: dict[str, tuple[nn.Module, str]] = {
    "a ReLU before the mean": (_pointwise(lambda m, h: torch.relu(m.out(h)).mean(2)), "nothing else after it"),
    "the largest place": (_pointwise(lambda m, h: m.out(h).amax(2)), "a mean over all places may follow"),
    "one place of many": (_pointwise(lambda m, h: m.out(h)[:, :, 0]), "nothing else after it"),
    "a sum": (_pointwise(lambda m, h: m.out(h).sum(2)), "nothing else after it"),
    "dropout before the mean": (
        _pointwise(lambda m, h: nn.functional.dropout(m.out(h), 0.5, m.training).mean(2)),
        "nothing else after it",
    ),
    "places that are left out": (_pointwise(lambda m, h: m.out(h).mean(2), stride=2), "or in a 1x1 convolution"),
    "zeros around": (_pointwise(lambda m, h: m.out(h).mean(2), padding=1), "or in a 1x1 convolution"),
    "no bias": (_pointwise(lambda m, h: m.out(h).mean(2), bias=False), "use nn.Conv1d(..., bias=True)"),
    "probabilities in eval mode": (
        OtherInEvaluation(nn.Conv1d(WIDTH, LABELS, 1), lambda m, h: m.out(h).mean(2)),
        "in eval mode too",
    ),
    "an axis lost with one clip": (
        _pointwise(lambda m, h: m.out(h.mean(2, keepdim=True)).squeeze()),
        "flatten(1) in place of squeeze()",
    ),
}


@pytest.mark.parametrize("case", REFUSED)
def test_what_follows_a_convolution_and_is_no_mean_is_refused_with_its_line(case: str) -> None:
    module, why = REFUSED[case]
    with pytest.raises(CompileError) as refused:
        find_parts(module, LABELS, FRAMES, MELS, BATCH)
    assert why in str(refused.value)
    assert "\n" not in str(refused.value)
    if "nothing else" in why:
        assert str(refused.value).startswith("test_classifier.py, line ")
