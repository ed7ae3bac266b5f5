"""What is kept with a model for the round after it: the server optimizer's state, the rule's, or both, and its bytes.

An optimizer's alone are its own (`OptimizerState.to_bytes`). A rule's begin with `MAGIC`, and an optimizer's beside it
are a field of them. Only this file tells them apart.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Annotated, Any

import msgspec
import numpy as np
from msgspec import Meta
from numpy.typing import NDArray

from auricle.errors import DataError
from auricle.wire.kinds import UNDECODABLE
from auricle_learning.aggregation.extras import RuleState
from auricle_learning.aggregation.server_optimizer import OptimizerState

MAGIC = b"AURS"
"""What the bytes of a rule's state begin with."""


class _SavedRule(msgspec.Struct, frozen=True):
    rule: str
    step: int
    arrays: dict[str, bytes]
    shapes: dict[str, Annotated[tuple[Annotated[int, Meta(ge=0, le=1 << 26)], ...], Meta(max_length=4)]] = {}
    """Of those that are no vectors."""
    optimizer: bytes = b""
    """The state of the server's optimizer, where one follows the rule."""


@dataclass(frozen=True, eq=False)
class ServerState:
    """What the coordinator's half of a round remembers."""

    optimizer: OptimizerState | None = None
    """None before its first step, or where the rule is the server's step."""
    rule: RuleState | None = None
    """None of a rule that keeps nothing, or before its first round."""

    def of_rule(self, name: str) -> RuleState | None:
        """The state of a rule; None where there is none, or that of another."""
        return self.rule if self.rule is not None and self.rule.rule == name else None

    def to_bytes(self) -> bytes | None:
        """Write it for `from_bytes`; None where there is nothing to keep.

        Little-endian, of a rule 8 bytes a number, 4 in a table of float32, and a few for names.
        """
        optimizer = None if self.optimizer is None else self.optimizer.to_bytes()
        if self.rule is None:
            return optimizer
        own = self.rule.arrays
        arrays = {name: np.asarray(values, _kept_as(values)).tobytes() for name, values in own.items()}
        shapes = {name: values.shape for name, values in own.items() if values.ndim > 1}
        saved = _SavedRule(self.rule.rule, self.rule.step, arrays, shapes, optimizer or b"")
        return MAGIC + msgspec.msgpack.encode(saved)

    @classmethod
    def from_bytes(cls, saved: bytes | None, size: int) -> ServerState:
        """Read what was kept with a model of `size` values; None: nothing was.

        Raises
        ------
        DataError
            It is damaged, or of a model of another size.
        """
        if saved is None:
            return cls()
        if not saved.startswith(MAGIC):
            return cls(OptimizerState.from_bytes(saved, size))
        try:
            kept = msgspec.msgpack.decode(saved.removeprefix(MAGIC), type=_SavedRule)
        except UNDECODABLE as error:
            raise DataError("the rule's state is damaged; restore an older checkpoint.") from error
        return cls(OptimizerState.from_bytes(kept.optimizer, size) if kept.optimizer else None, _rule(kept, size))


def _rule(saved: _SavedRule, size: int) -> RuleState:
    arrays: dict[str, NDArray[Any]] = {}
    for name, raw in saved.arrays.items():
        shape = saved.shapes.get(name, (size,))
        numbers = math.prod(shape)
        kind = "<f4" if name in saved.shapes and len(raw) == 4 * numbers else "<f8"
        if len(raw) != np.dtype(kind).itemsize * numbers:
            raise DataError(
                f"the rule's state is not one of a model of {size} values; it belongs to another pack or was cut "
                "short, restore an older checkpoint."
            )
        arrays[name] = np.frombuffer(raw, kind).astype(kind[1:]).reshape(shape)
    if saved.step < 0 or not all(np.isfinite(values).all() for values in arrays.values()):
        raise DataError("the rule's state is damaged; restore an older checkpoint.")
    return RuleState(saved.rule, arrays, saved.step)


def _kept_as(values: NDArray[Any]) -> str:
    """Tables may be kept as float32; vectors are always float64, so that their length says of which model they are."""
    return "<f4" if values.dtype == np.float32 and values.ndim > 1 else "<f8"
