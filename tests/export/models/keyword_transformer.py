"""A small keyword transformer (Berg et al. 2021): patches of frames, a class token, learned positions."""

import torch
from torch import nn


class KeywordTransformer(nn.Module):
    """Two pre-norm encoder layers over patches of four frames."""

    def __init__(self, num_classes: int, width: int = 48, heads: int = 4, patch: int = 4) -> None:
        super().__init__()
        self.patch = patch
        self.embed = nn.Linear(40 * patch, width)
        self.token = nn.Parameter(torch.zeros(1, 1, width))
        self.positions = nn.Parameter(torch.randn(1, 100 // patch + 1, width) * 0.02)
        self.dropout = nn.Dropout(0.1)
        layer = nn.TransformerEncoderLayer(
            width, heads, 2 * width, dropout=0.1, activation="gelu", batch_first=True, norm_first=True
        )
        self.encoder = nn.TransformerEncoder(layer, 2, enable_nested_tensor=False)
        self.norm = nn.LayerNorm(width)
        self.head = nn.Linear(width, num_classes)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        batch, frames, mels = x.shape
        x = self.embed(x.reshape(batch, frames // self.patch, self.patch * mels))
        x = torch.cat([self.token.expand(batch, -1, -1), x], dim=1)
        x += self.positions
        x = self.encoder(self.dropout(x))
        return self.head(self.norm(x[:, 0]))
