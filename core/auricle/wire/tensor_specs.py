"""What a tensor table says of a tensor, without NumPy: manifests and settings hold no numbers."""

from __future__ import annotations

from typing import Annotated

import msgspec

Dim = Annotated[int, msgspec.Meta(ge=1, le=1 << 20)]
Name = Annotated[str, msgspec.Meta(min_length=1, max_length=200)]


class TensorSpec(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """One tensor of a model."""

    name: Name
    shape: Annotated[tuple[Dim, ...], msgspec.Meta(min_length=1, max_length=8)]
    layer: Name
    """The layer group that layer-wise rules treat as one."""
    bound: Annotated[float, msgspec.Meta(ge=0, le=10)]
    """The initial weights are uniform in [centre - bound, centre + bound]."""
    centre: Annotated[float, msgspec.Meta(ge=-10, le=10)] = 0.0

    @property
    def size(self) -> int:
        """Number of weights."""
        size = 1
        for dim in self.shape:
            size *= dim
        return size
