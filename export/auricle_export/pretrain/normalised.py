"""Batch normalisation that is there while a model is trained and folded into its layers afterwards."""

from __future__ import annotations

import copy

import torch
from torch import Tensor, nn

from auricle_export.packs.models import AudioBroadcast, Crnn, EmbeddingHead, ResNet

MOMENTUM_SHARE = 0.05
"""Share of a batch in the running statistics."""


class NormalisedLinear(nn.Module):
    """A linear layer without bias, normalised by feature: (B, T, inside) to (B, T, outside)."""

    def __init__(self, layer: nn.Linear) -> None:
        super().__init__()
        self.linear = nn.Linear(layer.in_features, layer.out_features, bias=False)
        nn.init.kaiming_normal_(self.linear.weight, nonlinearity="relu")
        self.norm = nn.BatchNorm1d(layer.out_features, momentum=MOMENTUM_SHARE)

    def forward(self, h: Tensor) -> Tensor:
        """Transform and normalise."""
        y = self.linear(h)
        return self.norm(y.reshape(-1, y.shape[-1])).reshape(y.shape)  # type: ignore[no-any-return]

    def folded(self) -> tuple[Tensor, Tensor]:
        """Weight and bias of the one linear layer that does the same with the running statistics."""
        return _fold(self.linear.weight, self.norm)


class NormalisedConv(nn.Module):
    """A convolution without bias, normalised by channel."""

    def __init__(self, layer: nn.Conv1d) -> None:
        super().__init__()
        self.conv = nn.Conv1d(
            layer.in_channels, layer.out_channels, layer.kernel_size[0], padding=layer.kernel_size[0] // 2, bias=False
        )
        nn.init.kaiming_normal_(self.conv.weight, nonlinearity="relu")
        self.norm = nn.BatchNorm1d(layer.out_channels, momentum=MOMENTUM_SHARE)

    def forward(self, h: Tensor) -> Tensor:
        """Convolve and normalise (B, C, T)."""
        return self.norm(self.conv(h))  # type: ignore[no-any-return]

    def folded(self) -> tuple[Tensor, Tensor]:
        """Weight and bias of the one convolution that does the same with the running statistics."""
        return _fold(self.conv.weight, self.norm)


def _fold(weight: Tensor, norm: nn.BatchNorm1d) -> tuple[Tensor, Tensor]:
    assert norm.running_mean is not None and norm.running_var is not None
    scale = norm.weight / torch.sqrt(norm.running_var + norm.eps)
    shaped = scale.reshape(-1, *[1] * (weight.dim() - 1))
    return weight * shaped, norm.bias - norm.running_mean * scale


def normalise(module: nn.Module) -> nn.Module:
    """A copy of a built-in model with normalisation after each of its convolutions; any other module as it is."""
    twin = copy.deepcopy(module)
    if isinstance(twin, ResNet | EmbeddingHead):
        for part in twin.modules():
            if isinstance(part, AudioBroadcast):
                part.linear = NormalisedLinear(part.linear)  # type: ignore[assignment]
    elif isinstance(twin, Crnn):
        twin.conv = nn.ModuleList(NormalisedConv(conv) for conv in twin.conv)  # type: ignore[arg-type]
    return twin


def fold_into(twin: nn.Module, module: nn.Module) -> None:
    """Give a module the weights that make it compute what its normalised copy does with its running statistics."""
    target = dict(module.named_modules())
    with torch.no_grad():
        own = dict(module.named_parameters())
        for name, value in twin.named_parameters():
            if name in own:
                own[name].copy_(value)
        for name, part in twin.named_modules():
            if isinstance(part, NormalisedLinear | NormalisedConv):
                weight, bias = part.folded()
                layer = target[name]
                layer.weight.copy_(weight)
                layer.bias.copy_(bias)
