"""`.tflite` models of modules as an author writes them, compiled to an evaluation graph first."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
from tests.export.tflite_toy import assert_agrees, needs_litert, pack_around
from torch import nn

from auricle_export.compiler.evaluation import trace_evaluation
from auricle_export.compiler.trace import find_parts
from auricle_export.packs.author import tensor_specs

needs_litert()

from auricle_export.tflite import with_tflite  # noqa: E402


class BlockNet(nn.Module):
    """Broadcast blocks over images: dilation, depth, groups, group norm, SiLU, both average pools."""

    def __init__(self, labels: int) -> None:
        super().__init__()
        self.first = nn.Conv2d(1, 16, 5, stride=(2, 1), padding=2)
        self.bands = nn.Conv2d(16, 16, (1, 3), padding=(0, 1), groups=16)
        self.norm = nn.GroupNorm(4, 16)
        self.time = nn.Conv2d(16, 16, (3, 1), padding=(2, 0), dilation=(2, 1), groups=16)
        self.mix = nn.Conv2d(16, 16, 1)
        self.grouped = nn.Conv2d(16, 32, 3, groups=4, stride=2)
        self.head = nn.Linear(32, labels)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Logits."""
        h = torch.relu(self.first(x.unsqueeze(1).transpose(2, 3)))
        y = self.norm(self.bands(h))
        z = self.time(y.mean(2, keepdim=True).transpose(2, 3)).transpose(2, 3)
        h = torch.relu(h + y + self.mix(nn.functional.silu(z)))
        h = nn.functional.avg_pool2d(nn.functional.silu(self.grouped(h)), 2)
        return self.head(nn.functional.adaptive_avg_pool2d(h, 1).flatten(1))  # type: ignore[no-any-return]


class Attentive(nn.Module):
    """A transformer layer with GELU, learnt positions, and attention once more."""

    def __init__(self, labels: int) -> None:
        super().__init__()
        self.enter = nn.Linear(40, 32)
        self.place = nn.Parameter(torch.randn(100, 32) * 0.1)
        self.layer = nn.TransformerEncoderLayer(32, 4, 64, 0.0, "gelu", batch_first=True, norm_first=True)
        self.attend = nn.MultiheadAttention(32, 4, batch_first=True)
        self.norm = nn.LayerNorm(32)
        self.head = nn.Linear(32, labels)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Logits."""
        h = self.layer(self.enter(x) + self.place)
        attended, _ = self.attend(h, h, h, need_weights=False)
        return self.head(self.norm(h + attended).mean(1))  # type: ignore[no-any-return]


class TwoLstms(nn.Module):
    """Stacked LSTMs in both directions, read at the end and on average."""

    def __init__(self, labels: int) -> None:
        super().__init__()
        self.lstm = nn.LSTM(40, 24, 2, batch_first=True, bidirectional=True)
        self.head = nn.Linear(48, labels)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Logits."""
        y, _ = self.lstm(x)
        return self.head(y[:, -1] + y.mean(1))  # type: ignore[no-any-return]


class BareGru(nn.Module):
    """A GRU without biases, the largest of each unit over time."""

    def __init__(self, labels: int) -> None:
        super().__init__()
        self.gru = nn.GRU(40, 24, batch_first=True, bias=False)
        self.head = nn.Linear(24, labels)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Logits."""
        y, _ = self.gru(x)
        return self.head(torch.tanh(y).amax(1))  # type: ignore[no-any-return]


@pytest.mark.parametrize(
    "make",
    [BlockNet, *(pytest.param(net, marks=pytest.mark.slow) for net in (Attentive, TwoLstms, BareGru))],
)
def test_a_module_of_an_author_is_translated_as_it_was_compiled(make: Callable[[int], nn.Module]) -> None:
    torch.manual_seed(0)
    net = find_parts(make(5), 5)
    pack = pack_around(trace_evaluation(net).SerializeToString(), tensor_specs(net, 5), 5, 100, 40)
    made = with_tflite(pack, ["net"])

    assert_agrees(made, "net", "float32", 1e-5)
    assert_agrees(made, "net", "int8", 0.05)
