"""The plug-in as an attacker with PyTorch has it: its gradient, its classifier's features, its activation maps."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from auricle.packs.pack import Pack
from auricle.wire.tensors import Flat
from auricle_export.packs.models import Crnn, make_module

AT_ONCE = 256
"""Clips that go through a model together."""


def unit(sent: NDArray[np.float64]) -> NDArray[np.float64]:
    """Maps (..., M) less their mean, of length one: how much a map is worth depends on how the loss fell."""
    sent = sent - sent.mean(-1, keepdims=True)
    return sent / (np.linalg.norm(sent, axis=-1, keepdims=True) + 1e-12)


class AttackedNet:
    """A pack's plug-in with weights that change.

    Parameters
    ----------
    pack
        Whose plug-in it is, one of the built-in CRNNs.
    """

    def __init__(self, pack: Pack) -> None:
        self._specs, mels = pack.plugin_table.specs, pack.manifest.task.frontend.mels
        module = make_module(pack.manifest.plugin, len(pack.labels), mels, bavd=True)
        assert isinstance(module, Crnn)
        self._module = module

    def parameters(self, weights: Flat) -> dict[str, Tensor]:
        """The weights (P,) by tensor."""
        whole, at, found = torch.from_numpy(np.array(weights, np.float32)), 0, {}
        for spec in self._specs:
            found[spec.name] = whole[at : at + spec.size].reshape(spec.shape).requires_grad_()
            at += spec.size
        return found

    def gradient(self, parameters: dict[str, Tensor], x: Tensor, targets: Tensor, *, differentiable: bool) -> Tensor:
        """The gradient (P,) of the mean cross-entropy on clips (B, T, mels) of these words (B,)."""
        self._module.eval()
        logits = torch.func.functional_call(self._module, parameters, (x,))
        loss = nn.functional.cross_entropy(logits, targets)
        tensors = [parameters[spec.name] for spec in self._specs]
        found = torch.autograd.grad(loss, tensors, create_graph=differentiable)
        return torch.cat([each.reshape(-1) for each in found])

    def seen_of(self, moved: NDArray[np.float64], word: int) -> NDArray[np.float64]:
        """What the classifier saw (d,) of the clips of a word, of what its training changed (P,)."""
        places, at = {}, 0
        for spec in self._specs:
            places[spec.name] = moved[at : at + spec.size].reshape(spec.shape)
            at += spec.size
        bias = float(places["head.bias"][word])
        return np.asarray(places["head.weight"][word] / (bias if bias else 1.0), np.float64)

    def features(self, weights: Flat, clips: NDArray[np.float32]) -> NDArray[np.float64]:
        """What the classifier sees of clips (B, T, mels): (B, d)."""
        return self._hooked(weights, clips, [self._module.head], lambda given, _: given[0].detach())

    def maps(self, weights: Flat, clips: NDArray[np.float32]) -> NDArray[np.float64]:
        """The mean activation of each clip by place in time, the layers one after the other: (B, M)."""
        return self._hooked(weights, clips, self._module.drop, lambda _, out: out.detach().mean(1))

    def _hooked(
        self,
        weights: Flat,
        clips: NDArray[np.float32],
        layers: Iterable[nn.Module],
        take: Callable[[tuple[Tensor, ...], Tensor], Tensor],
    ) -> NDArray[np.float64]:
        """What `take` makes of the inputs and the output of layers, one layer after the other."""
        self._module.eval()
        seen: list[list[Tensor]] = []
        handles = []
        for layer in layers:
            into: list[Tensor] = []
            seen.append(into)
            handles.append(layer.register_forward_hook(lambda _, given, out, into=into: into.append(take(given, out))))
        parameters = self.parameters(weights)
        with torch.no_grad():
            for at in range(0, len(clips), AT_ONCE):
                torch.func.functional_call(self._module, parameters, (torch.from_numpy(clips[at : at + AT_ONCE]),))
        for handle in handles:
            handle.remove()
        return np.concatenate([torch.cat(each).numpy() for each in seen], axis=1).astype(np.float64)

    def sent_map(
        self, weights: Flat, clips: NDArray[np.float32], targets: Sequence[int], epochs: int, rate: float
    ) -> NDArray[np.float64]:
        """The map (M,) that a device sends of a round on these clips: full batches of plain SGD, layers that drop."""
        module = self._module
        own = {name: each.detach().clone() for name, each in self.parameters(weights).items()}
        module.load_state_dict(own)
        module.train()
        for layer in module.drop:
            layer.reset()  # type: ignore[operator]
        x, wanted = torch.from_numpy(clips), torch.tensor(list(targets))
        tensors = list(module.parameters())
        for _ in range(epochs):
            for at in range(0, len(x), 16):
                loss = nn.functional.cross_entropy(module(x[at : at + 16]), wanted[at : at + 16])
                moved = torch.autograd.grad(loss, tensors)
                with torch.no_grad():
                    for tensor, change in zip(tensors, moved, strict=True):
                        tensor -= rate * change
                for layer in module.drop:
                    layer.update(loss.item())  # type: ignore[operator]
        return np.concatenate([layer.map.reshape(-1).numpy() for layer in module.drop]).astype(np.float64)
