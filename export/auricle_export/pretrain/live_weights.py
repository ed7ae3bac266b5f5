"""The weights of a training on live windows: how a step moves them, their mean, and what of them is kept."""

from __future__ import annotations

import copy
import math
from collections.abc import Callable

import numpy as np
import torch
from torch import Tensor, nn

from auricle.packs.pack import Pack
from auricle.wire.tensors import Flat
from auricle_export.pretrain.modules import Modules, module_for, tensors_of
from auricle_export.pretrain.normalised import fold_into, normalise
from auricle_export.pretrain.settings import LiveSettings
from auricle_export.pretrain.state import State
from auricle_export.pretrain.warm_start import WarmStart, begin_with

DECAY, CLIP = 0.02, 5.0
"""AdamW's weight decay of matrices, and the largest gradient norm."""
WARMUP_STEPS = 300
"""Steps in which the learning rate rises to its height."""
AVERAGE_SHARE = 0.999
"""Share of the mean of the weights that stays in each step."""


class LiveWeights:
    """A twin of the model, with normalisation of its own, is trained; the mean of its weights is what is judged.

    Parameters
    ----------
    model, pack, modules
        As of `train_live`.
    settings
        How it is trained.
    start
        Weights to begin with, in place of random ones.
    windows
        Log-mels (N, T, mels) from which each normalisation of a start takes its mean and variance; asked where there
        is one.
    """

    def __init__(
        self,
        model: str,
        pack: Pack,
        settings: LiveSettings,
        modules: Modules,
        start: WarmStart | None,
        windows: Callable[[], Tensor],
    ) -> None:
        self.settings, self.table, self.device = settings, pack.table(model), settings.torch_device
        torch.manual_seed(settings.seed)
        self.module = module_for(model, pack, modules)
        self.twin = normalise(self.module)
        if start is not None:
            begin_with(start, model, self.module, self.twin, list(pack.labels), windows(), modules)
        self.mean = copy.deepcopy(self.twin).to(self.device)
        self.twin.to(self.device)
        self.tensors = tensors_of(self.module, self.table)
        self.trained = [p for p in self.twin.parameters() if p.requires_grad]
        matrices = [p for p in self.trained if p.dim() > 1]
        vectors = [p for p in self.trained if p.dim() <= 1]
        head = {id(p) for name, p in self.twin.named_parameters() if name.startswith("head.") and start is not None}
        groups = [
            {
                "params": [p for p in parameters if (id(p) in head) == is_head],
                "weight_decay": decay,
                "share": 1.0 if start is None or is_head else start.body,
            }
            for parameters, decay in ((matrices, DECAY), (vectors, 0.0))
            for is_head in (False, True)
        ]
        self.optimizer = torch.optim.AdamW([group for group in groups if group["params"]], settings.rate)

    def begin_epoch(self, number: int) -> None:
        """Train from now on; what dropout leaves out depends on the number of the epoch alone."""
        torch.manual_seed(self.settings.seed * 1_000_003 + number)
        self.twin.train()

    def move(self, step: int, loss: Tensor) -> None:
        """One step of the optimizer against a loss of the twin's, and of the mean after it."""
        s = self.settings
        share = step / (s.epochs * s.steps)
        rate = s.rate * min(1.0, (step + 1) / WARMUP_STEPS) * (0.01 + 0.99 * 0.5 * (1 + math.cos(math.pi * share)))
        for group in self.optimizer.param_groups:
            group["lr"] = rate * group["share"]
        self.optimizer.zero_grad()
        torch.autograd.backward(loss)
        nn.utils.clip_grad_norm_(self.trained, CLIP)
        self.optimizer.step()
        self._average(step)

    def _average(self, step: int) -> None:
        new = 1 - min(AVERAGE_SHARE, (step + 1) / (step + 10))
        with torch.no_grad():
            for mean, now in zip(self.mean.parameters(), self.twin.parameters(), strict=True):
                mean.lerp_(now, new)
            for kept, newest in zip(self.mean.buffers(), self.twin.buffers(), strict=True):
                if kept.is_floating_point():  # statistics have to be those of the mean, not of the newest weights
                    kept.lerp_(newest, new)
                else:
                    kept.copy_(newest)

    @property
    def finite(self) -> bool:
        """Whether every weight still is."""
        return all(bool(torch.isfinite(p).all()) for p in self.trained)

    def flat(self) -> Flat:
        """The mean (P,) in the pack's order, normalisation folded in."""
        fold_into(self.mean, self.module)
        parts = [self.tensors[spec.name].detach().cpu().numpy().ravel() for spec in self.table.specs]
        flat: Flat = np.concatenate(parts).astype(np.float32)
        return flat

    def state(self) -> dict[str, Tensor]:
        """All that a training goes on from, by name."""
        tensors = {f"model/{name}": tensor for name, tensor in self.twin.state_dict().items()}
        tensors |= {f"mean/{name}": tensor for name, tensor in self.mean.state_dict().items()}
        for place, slots in self.optimizer.state_dict()["state"].items():
            tensors |= {f"optimizer/{place}/{slot}": tensor for slot, tensor in slots.items()}
        return tensors

    def resume(self, state: State) -> None:
        """Take up a state; RuntimeError, KeyError or ValueError where it is of another model."""
        self.twin.load_state_dict(state.group("model"))
        self.mean.load_state_dict(state.group("mean"))
        slots = {place: state.group(f"optimizer/{place}") for place in range(len(self.trained))}
        self.optimizer.load_state_dict({"state": slots, "param_groups": self.optimizer.state_dict()["param_groups"]})
