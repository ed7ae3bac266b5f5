"""A plug-in of your own: a PyTorch module becomes the model that travels, in a pack that boards train without PyTorch.

python examples/model.py [FOLDER]       # needs auricle[export]; writes FOLDER/small.tar.zst [runs/example-model]
auricle fleet run --pack runs/example-model/small.tar.zst --local small
"""

import sys
from pathlib import Path

import numpy as np
import torch
from torch import nn

from auricle import load_pack
from auricle.packs.pack import pack_bytes
from auricle_export.packs.build import build_author_pack
from auricle_learning.runtimes import StepRuntime

WORDS = ("yes", "no", "stop")


class Small(nn.Module):
    """Log-mels (B, 100, 40) to logits (B, labels)."""

    def __init__(self, labels: int) -> None:
        super().__init__()
        self.conv = nn.Conv1d(40, 24, 5, stride=2)
        self.norm = nn.GroupNorm(4, 24)
        self.out = nn.Linear(24, labels)

    def forward(self, mels: torch.Tensor) -> torch.Tensor:
        heard = torch.relu(self.norm(self.conv(mels.transpose(1, 2))))
        return self.out(heard.mean(2))


def main(folder: Path) -> None:
    # FILE.py:NAME twice: the devices' own model, and the plug-in that travels.
    here = f"{__file__}:Small"
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / "small.tar.zst"
    path.write_bytes(pack_bytes(build_author_pack(here, WORDS, "small", plugin=here)))

    pack = load_pack(path)  # checked as a device checks it
    weights = pack.plugin_table.initial(seed=0)
    logits = StepRuntime(pack).logits(pack.manifest.plugin, weights, np.zeros((1, 100, 40), np.float32))
    print(f"{path}: {weights.size:,} weights travel, {logits.shape[1]} words, pack {pack.identity[:12]}")


if __name__ == "__main__":
    main(Path(sys.argv[1] if len(sys.argv) > 1 else "runs/example-model"))
