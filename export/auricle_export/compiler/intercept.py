"""Replace what a module calls while it runs, what it changes in place, and name what cannot be compiled by its line."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeVar

import torch
from torch import Tensor
from torch.nn import functional as F
from torch.overrides import TorchFunctionMode, resolve_name
from torch.utils._pytree import tree_map_only

from auricle.errors import AuricleError
from auricle_export.compiler import activation, convolution, dense, elementwise, pooling, recurrent, spatial
from auricle_export.compiler.classifier import is_linear
from auricle_export.compiler.source_line import user_line
from auricle_export.compiler.vocabulary import INSTEAD, LOG_MELS, PASSED

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


class CompileError(AuricleError):
    """A module does something that a step graph cannot hold. The sentence says where, and what to use instead."""


class Intercept(TorchFunctionMode):
    """Runs a module with its calls replaced.

    Parameters
    ----------
    drop
        What dropout does: (x, p, shape of the mask) to the dropped x.
    head
        Called with input, weight and bias of everything that may be a classifier, which is every linear layer and every
        convolution that `classifier.is_linear` accepts; what it returns, unless None, is that layer's result.
    """

    def __init__(
        self, drop: Callable[[Tensor, float, list[int]], Tensor], head: Callable[..., Tensor | None] = lambda *_: None
    ) -> None:
        super().__init__()
        self._drop, self._head = drop, head
        self._rules = self._table()
        self._changes = Changes()

    def current(self, value: T) -> T:
        """What a tensor holds after the module changed it in place."""
        return self._changes.current(value)

    def __torch_function__(
        self,
        func: Callable[..., Any],
        types: Sequence[type],
        args: tuple[Any, ...] = (),
        kwargs: Mapping[str, Any] | None = None,
    ) -> object:
        kwargs = dict(kwargs or {})
        name = _name(func)
        changed = kwargs.pop("inplace", False) or kwargs.get("out") is not None
        given: Any = func
        if func not in self._rules and name not in PASSED:
            given, changed = makes_new(name), True
            if given is None or (_name(given) not in PASSED and given not in self._rules):
                raise unsupported_call(name)
        if kwargs.pop("out", None) is not None:
            raise _error_at(f"{name} with out= cannot be compiled", "its result")
        try:
            result = self._rules.get(given, given)(*self.current(args), **self.current(kwargs))
        except NotImplementedError as error:
            what, *instead = error.args or (name,)
            raise _error_at(f"{what} cannot be compiled", instead[0] if instead else None) from error
        except StaleTensor as stale:
            what = f"{name} reads memory that was changed in place at {stale}, which"
            raise _error_at(f"{what} cannot be compiled", "x = x + y instead of x += y") from stale
        if changed:
            return self._changes.change(args[0], result, user_line().rstrip(": ") or name)
        if name in SHARING:
            self._changes.share(args[0] if args else None, result)
        return result

    def _dropout(self, x: Tensor, p: float = 0.5, training: bool = True, inplace: bool = False) -> Tensor:
        return self._drop(x, p, list(x.shape)) if training and p else x

    def _drop_channels(self, x: Tensor, p: float = 0.5, training: bool = True, inplace: bool = False) -> Tensor:
        return self._drop(x, p, [*x.shape[:2], *[1] * (x.dim() - 2)]) if training and p else x

    def _always(self, x: Tensor, p: float) -> Tensor:
        return self._drop(x, p, list(x.shape))

    def _linear(self, x: Tensor, weight: Tensor, bias: Tensor | None = None) -> Tensor:
        found = self._head(x, weight, bias)
        return dense.linear(x, weight, bias) if found is None else found

    def _convolve(
        self,
        x: Tensor,
        weight: Tensor,
        bias: Tensor | None = None,
        stride: convolution.Sizes = 1,
        padding: convolution.Sizes | str = 0,
        dilation: convolution.Sizes = 1,
        groups: int = 1,
    ) -> Tensor:
        if is_linear(x, weight, stride, padding, groups):
            found = self._head(x, weight, bias)
            if found is not None:
                return found
        return convolution.convolve(x, weight, bias, stride, padding, dilation, groups)

    def _table(self) -> dict[Any, Callable[..., Any]]:
        drop = self._always
        return {
            F.linear: self._linear,
            F.dropout: self._dropout,
            torch.dropout: self._dropout,
            F.dropout1d: self._drop_channels,
            F.dropout2d: self._drop_channels,
            torch.feature_dropout: self._drop_channels,
            F.conv1d: self._convolve,
            F.conv2d: self._convolve,
            torch.conv1d: self._convolve,
            torch.conv2d: self._convolve,
            F.max_pool1d: _pool(pooling.max_pool, 1),
            F.max_pool2d: _pool(pooling.max_pool, 2),
            torch.max_pool1d: _pool(pooling.max_pool, 1),
            torch.max_pool2d: _pool(pooling.max_pool, 2),
            F.avg_pool1d: _pool(pooling.mean_pool, 1),
            F.avg_pool2d: _pool(pooling.mean_pool, 2),
            torch.avg_pool1d: _pool(pooling.mean_pool, 1),
            F.adaptive_avg_pool1d: _pool(pooling.adaptive_mean_pool, 1),
            F.adaptive_avg_pool2d: _pool(pooling.adaptive_mean_pool, 2),
            torch.adaptive_avg_pool1d: _pool(pooling.adaptive_mean_pool, 1),
            F.pad: spatial.pad_around,
            torch.constant_pad_nd: lambda x, widths, value=0.0: spatial.pad_around(x, widths, value=value),
            F.relu: activation.relu,
            torch.relu: activation.relu,
            Tensor.relu: activation.relu,
            F.adaptive_max_pool1d: _pool(pooling.adaptive_max_pool, 1),
            F.adaptive_max_pool2d: _pool(pooling.adaptive_max_pool, 2),
            F.instance_norm: dense.instance_norm,
            torch._weight_norm: dense.weight_norm,
            F.embedding: dense.embedding,
            torch.embedding: lambda weight, index, *rest: dense.embedding(index, weight),
            F.batch_norm: dense.batch_norm,
            F.scaled_dot_product_attention: lambda q, k, v, *rest, **how: dense.attend(q, k, v, drop, *rest, **how),
            F.multi_head_attention_forward: lambda *given, **how: dense.multi_head_attention(*given, **how, drop=drop),
            torch.gru: lambda *given: recurrent.gru(*_recurrent(given, drop)),
            torch.lstm: lambda *given: recurrent.lstm(*_recurrent(given, drop)),
            torch.index_select: spatial.take,
            Tensor.index_select: spatial.take,
            Tensor.__getitem__: spatial.item,
            Tensor.view: _view,
            Tensor.view_as: lambda x, other: x.reshape(other.shape),
            torch.roll: spatial.roll,
            Tensor.roll: spatial.roll,
            **elementwise.rules(),
        }


def _view(x: Tensor, *size: int | Sequence[int] | torch.dtype) -> Tensor:
    """`Tensor.view`: what a layer gives here may lie otherwise in memory than what PyTorch's gives."""
    if isinstance(size[0], torch.dtype):
        raise NotImplementedError("a view of another type", "x.to")
    return x.reshape(*size)  # type: ignore[arg-type]


def _pool(pool: Callable[..., Tensor], axes: int) -> Callable[..., Tensor]:
    """A pooling over so many axes, of (B, C, *S) or of one sample (C, *S)."""

    def run(x: Tensor, *rest: object, **how: object) -> Tensor:
        if x.dim() == axes + 1:
            return pool(x.unsqueeze(0), *rest, **how).squeeze(0)
        return pool(x, *rest, **how)

    return run


def _recurrent(given: tuple[Any, ...], drop: Callable[..., Tensor]) -> tuple[Any, ...]:
    """The arguments of `torch.gru` and `torch.lstm` for padded, not packed, sequences."""
    if not isinstance(given[3], bool):
        raise NotImplementedError("a packed sequence", "the clips as they are: all have one length")
    if given[0].dim() != 3:
        raise NotImplementedError("a recurrent layer without a batch axis", "(batch, time, features)")
    return (*given, drop)


def _name(func: object) -> str:
    """The last part of a function's public name."""
    full = resolve_name(func) or getattr(func, "__name__", str(func))
    if full.endswith((".__get__", ".__set__")):
        return "__get__" if full.endswith("__get__") else "__set__"
    return str(full).rsplit(".", 1)[-1]


def unsupported_call(name: str) -> CompileError:
    """The error for a call that has no place in a step graph."""
    instead = INSTEAD.get(name) or (LOG_MELS if "fft" in name else None)
    return _error_at(f"{name} cannot be compiled", instead or "layers of docs/own-model.md")


def _error_at(what: str, instead: str | None = None) -> CompileError:
    return CompileError(f"{user_line()}{what}{f'; use {instead}' if instead else ''}.")
