"""What a module changes in place, without changing anything: a step graph has values, not memory."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

import torch
from torch import Tensor
from torch.utils._pytree import tree_map_only

T = TypeVar("T")

SHARING = frozenset(
    """
    __getitem__ __get__ __iter__ view view_as reshape reshape_as flatten unflatten squeeze unsqueeze permute transpose t
    swapaxes movedim expand expand_as broadcast_to contiguous detach to float type type_as chunk split tensor_split
    split_with_sizes unbind narrow select identity
    """.split()  # noqa: SIM905 - as a list it fills a page
)
"""Calls whose result may be the memory of their argument."""

WHOLE: dict[str, Callable[..., Tensor]] = {
    "zero_": lambda x: torch.zeros_like(x),
    "fill_": lambda x, value: torch.full_like(x, float(value)),
    "copy_": lambda x, other, non_blocking=False: other.expand_as(x).to(x.dtype),
    "__ipow__": torch.pow,
}
"""Calls that change their first argument and whose name without `_` does not say what to."""


def makes_new(name: str) -> Callable[..., Tensor] | None:
    """What gives, as a new tensor, what a call would have put into its first argument; None for other calls."""
    if name in WHOLE:
        return WHOLE[name]
    if name.endswith("_") and not name.startswith("_"):
        return getattr(Tensor, name[:-1], None)
    return None


class StaleTensor(Exception):  # noqa: N818 - becomes a sentence with the user's line
    """A tensor is read whose memory was changed under another name."""


class Changes:
    """Tensors that were changed in place, with what they hold now; and which tensors may share their memory."""

    def __init__(self) -> None:
        self._now: dict[int, Tensor] = {}
        self._groups: dict[int, list[Tensor]] = {}
        self._stale: dict[int, str] = {}
        self._kept: list[Tensor] = []

    def current(self, values: T) -> T:
        """Arguments with every changed tensor's present value in its place."""
        if not self._now:
            return values
        present: T = tree_map_only(Tensor, self._read, values)
        return present

    def _read(self, x: Tensor) -> Tensor:
        if id(x) in self._stale:
            raise StaleTensor(self._stale[id(x)])
        return self._now.get(id(x), x)

    def share(self, source: object, results: object) -> None:
        """Note that results may lie in the memory of their source."""
        if not isinstance(source, Tensor):
            return
        group = self._groups.setdefault(id(source), [source])
        for result in results if isinstance(results, tuple | list) else [results]:
            if isinstance(result, Tensor) and result is not source:
                group.append(result)
                self._groups[id(result)] = group

    def change(self, x: Tensor, value: Tensor, where: str) -> Tensor:
        """Let x hold a value from now on; whatever shared its memory cannot be read any more."""
        for other in self._groups.pop(id(x), []):
            if other is not x:
                self._stale[id(other)] = where
                self._kept.append(other)
        self._kept.append(x)
        self._now[id(x)] = value.to(x.dtype)
        return x
