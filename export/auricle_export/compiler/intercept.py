"""Replace what a module calls while it runs, and name what cannot be compiled by the line that calls it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional as F
from torch.overrides import TorchFunctionMode, resolve_name

from auricle.errors import AuricleError
from auricle_export.compiler import activation, convolution, dense, elementwise, recurrent, spatial
from auricle_export.compiler.in_place import SHARING, Changes, StaleTensor, makes_new
from auricle_export.compiler.place import user_line


class CompileError(AuricleError):
    """A module does something that a step graph cannot hold. The sentence says where, and what to use instead."""


_MASK = "nn.Dropout (its mask is an input)"
_LOG_MELS = "the log-mels that the module receives"
_SEQUENCE = "over the whole sequence"
INSTEAD = {
    "topk": "amax, or attention over all positions", "sort": "a reduction that needs no order, such as amax or mean",
    "argsort": "a reduction that needs no order, such as amax or mean", "median": "mean", "kthvalue": "amax",
    "argmax": "softmax (a gradient cannot pass through an index)", "argmin": "softmax", "max": "amax(dim)",
    "min": "amin(dim)", "item": "a tensor operation (a step graph has no values while it is made)",
    "tolist": "a tensor operation", "numpy": "a tensor operation", "__float__": "a tensor operation",
    "__int__": "a tensor operation", "__index__": "a tensor operation", "__format__": "nothing: a step graph prints nothing",
    "__bool__": "torch.where (a step graph cannot branch on values)", "equal": "torch.where on a comparison",
    "allclose": "torch.where on a comparison", "is_nonzero": "torch.where on a comparison",
    "__setitem__": "torch.cat or torch.where, which make new tensors", "gather": "index_select with constant indices",
    "take_along_dim": "index_select with constant indices", "scatter": "torch.cat", "scatter_": "torch.cat",
    "scatter_add": "a product with a constant matrix", "scatter_add_": "a product with a constant matrix",
    "index_add_": "a product with a constant matrix", "index_put_": "torch.cat or torch.where", "index_add": "torch.cat",
    "masked_select": "masked_fill or torch.where", "masked_scatter": "torch.where", "nonzero": "a mask",
    "unique": "a mask", "unfold": "nn.Conv1d or nn.Conv2d", "fold": "nn.Conv1d or nn.Conv2d", "as_strided": "narrow",
    "stft": _LOG_MELS, "istft": _LOG_MELS, "cumsum": "matmul with a constant triangle", "cumprod": "exp of a matmul of logs",
    "interpolate": "repeat_interleave or strided pooling", "upsample": "repeat_interleave",
    "grid_sample": "nn.Conv2d", "lp_pool1d": "nn.AvgPool1d",
    "lp_pool2d": "nn.AvgPool2d", "local_response_norm": "nn.GroupNorm", "conv3d": "nn.Conv2d", "conv_transpose1d": "repeat_interleave and nn.Conv1d",
    "conv_transpose2d": "repeat_interleave and nn.Conv2d", "bilinear": "a product of two nn.Linear",
    "rnn_tanh": "nn.GRU", "rnn_relu": "nn.GRU", "rnn_tanh_cell": "nn.GRU", "rnn_relu_cell": "nn.GRU",
    "gru_cell": f"nn.GRU {_SEQUENCE}", "lstm_cell": f"nn.LSTM {_SEQUENCE}",
    "_pack_padded_sequence": "the clips as they are: all have one length",
    "_pad_packed_sequence": "the clips as they are: all have one length", "embedding_bag": "nn.Embedding and a mean",
    "dropout3d": "nn.Dropout", "alpha_dropout": "nn.Dropout", "feature_alpha_dropout": "nn.Dropout1d",
    "max_pool1d_with_indices": "max_pool1d without return_indices", "rrelu": "nn.LeakyReLU",
    "max_pool2d_with_indices": "max_pool2d without return_indices", "gumbel_softmax": "softmax", "multinomial": _MASK, "ctc_loss": "logits without a loss",
    "cross_entropy": "logits without a loss", "nll_loss": "logits without a loss",
    **dict.fromkeys(("rand", "randn", "rand_like", "randn_like", "randint", "randint_like", "randperm"), _MASK),
    **dict.fromkeys(("bernoulli", "bernoulli_", "normal", "normal_", "uniform_", "random_", "exponential_"), _MASK),
}  # fmt: skip
"""What to use in place of common calls that cannot be compiled."""

PASSED = frozenset(
    """
    __add__ __radd__ __sub__ __rsub__ __mul__ __rmul__ __truediv__ __rtruediv__ __div__ __rdiv__ __neg__ __pow__ __rpow__
    __matmul__ __rmatmul__ __getitem__ __len__ __iter__ __get__ __hash__ __repr__ __invert__ __and__ __or__ __xor__ __eq__
    __ne__ __gt__ __ge__ __lt__ __le__ eq ne gt ge lt le logical_not logical_and logical_or where bitwise_not
    add sub subtract mul multiply div divide true_divide neg negative pow square matmul mm bmm addmm baddbmm addbmm einsum mv
    dot outer exp exp2 log log1p log2 expm1 sqrt rsqrt reciprocal abs absolute sign clamp clip clamp_min clamp_max sigmoid tanh
    sin cos atan softplus softmax log_softmax softmin erf gelu silu leaky_relu elu selu celu relu6 hardtanh hardswish hardsigmoid
    glu mish logsigmoid softsign tanhshrink hardshrink softshrink threshold prelu logsumexp maximum minimum lerp addcmul
    sum mean amax amin var std prod norm vector_norm linalg_vector_norm frobenius_norm layer_norm group_norm rms_norm normalize
    logaddexp cosine_similarity channel_shuffle
    cat concat concatenate stack hstack vstack dstack chunk split tensor_split split_with_sizes unbind narrow select
    index_select flip fliplr flipud roll rot90 diag diagonal atleast_2d atleast_3d unsafe_chunk unsafe_split
    reshape view view_as reshape_as flatten unflatten squeeze unsqueeze permute transpose t swapaxes swapdims movedim moveaxis
    expand expand_as repeat tile broadcast_to contiguous clone detach to float type type_as repeat_interleave pad ravel adjoint
    size dim numel stride is_contiguous is_floating_point ndimension arange zeros ones full zeros_like ones_like bool long int
    full_like tensor linspace eye tril triu masked_fill new_zeros new_ones new_full new_tensor broadcast_tensors get_device
    is_complex is_cuda is_nested requires_grad_ _set_grad_enabled _has_compatible_shallow_copy_type empty is_same_size
    identity _is_view element_size has_torch_function_unary is_inference is_sparse nelement as_tensor is_tensor meshgrid
    storage_offset data_ptr cpu zeros_ ones_ __deepcopy__ dim_order is_conj is_neg is_signed broadcast_shapes result_type
    """.split()
)
"""Calls that PyTorch differentiates into operators that ONNX has."""


class Intercept(TorchFunctionMode):
    """Runs a module with its calls replaced.

    Parameters
    ----------
    drop
        What dropout does: (x, p, shape of the mask) to the dropped x.
    head
        Called with every linear layer's arguments; what it returns, unless None, is that layer's result.
    """

    def __init__(
        self, drop: Callable[[Tensor, float, list[int]], Tensor], head: Callable[..., Tensor | None] = lambda *_: None
    ) -> None:
        super().__init__()
        self._drop, self._head = drop, head
        self._rules = self._table()
        self._changes = Changes()

    def current(self, value: Any) -> Any:
        """What a tensor holds after the module changed it in place."""
        return self._changes.current(value)

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = dict(kwargs or {})
        name = _name(func)
        changed = kwargs.pop("inplace", False) or kwargs.get("out") is not None
        given: Any = func
        if func not in self._rules and name not in PASSED:
            given, changed = makes_new(name), True
            if given is None or _name(given) not in PASSED and given not in self._rules:
                raise unsupported(name)
        if kwargs.pop("out", None) is not None:
            raise _located(f"{name} with out= cannot be compiled", "its result")
        try:
            result = self._rules.get(given, given)(*self.current(args), **self.current(kwargs))
        except NotImplementedError as error:
            what, *instead = error.args or (name,)
            raise _located(f"{what} cannot be compiled", instead[0] if instead else None) from error
        except StaleTensor as stale:
            raise _located(f"{name} reads memory that was changed in place at {stale}", "x = x + y instead of x += y") from stale
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

    def _table(self) -> dict[Any, Callable[..., Any]]:
        drop = self._always
        return {
            F.linear: self._linear, F.dropout: self._dropout, torch.dropout: self._dropout,
            F.dropout1d: self._drop_channels, F.dropout2d: self._drop_channels, torch.feature_dropout: self._drop_channels,
            F.conv1d: convolution.convolve, F.conv2d: convolution.convolve,
            torch.conv1d: convolution.convolve, torch.conv2d: convolution.convolve,
            F.max_pool1d: convolution.max_pool, F.max_pool2d: convolution.max_pool,
            torch.max_pool1d: convolution.max_pool, torch.max_pool2d: convolution.max_pool,
            F.avg_pool1d: convolution.mean_pool, F.avg_pool2d: convolution.mean_pool,
            torch.avg_pool1d: convolution.mean_pool,
            F.adaptive_avg_pool1d: convolution.adaptive_mean_pool,
            F.adaptive_avg_pool2d: convolution.adaptive_mean_pool,
            torch.adaptive_avg_pool1d: convolution.adaptive_mean_pool,
            F.pad: spatial.pad_around, torch.constant_pad_nd: lambda x, widths, value=0.0: spatial.pad_around(x, widths, value=value),
            F.relu: activation.relu, torch.relu: activation.relu, Tensor.relu: activation.relu,
            F.adaptive_max_pool1d: convolution.adaptive_max_pool, F.adaptive_max_pool2d: convolution.adaptive_max_pool,
            F.instance_norm: dense.instance_norm, torch._weight_norm: dense.weight_norm,
            F.embedding: dense.embedding, torch.embedding: lambda weight, index, *rest: dense.embedding(index, weight),
            F.batch_norm: dense.batch_norm,
            F.scaled_dot_product_attention: lambda q, k, v, *rest, **how: dense.attend(q, k, v, drop, *rest, **how),
            F.multi_head_attention_forward: lambda *given, **how: dense.multi_head_attention(*given, **how, drop=drop),
            torch.gru: lambda *given: recurrent.gru(*_recurrent(given), drop),
            torch.lstm: lambda *given: recurrent.lstm(*_recurrent(given), drop),
            torch.index_select: spatial.take, Tensor.index_select: spatial.take, Tensor.__getitem__: spatial.item,
            torch.roll: spatial.rolled, Tensor.roll: spatial.rolled,
            **elementwise.rules(),
        }  # fmt: skip


class OwnRecurrent(TorchFunctionMode):
    """Lets GRU and LSTM layers be exported by this package in eval mode."""

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        own = {torch.gru: recurrent.gru, torch.lstm: recurrent.lstm}.get(func)
        return func(*args, **(kwargs or {})) if own is None else own(*_recurrent(args), lambda x, p: x)


def _recurrent(given: tuple[Any, ...]) -> tuple[Any, ...]:
    """The arguments of `torch.gru` and `torch.lstm` for padded, not packed, sequences."""
    if not isinstance(given[3], bool):
        raise NotImplementedError("a packed sequence", "the clips as they are: all have one length")
    if given[0].dim() != 3:
        raise NotImplementedError("a recurrent layer without a batch axis", "(batch, time, features)")
    return given


def _name(func: Any) -> str:
    """The last part of a function's public name."""
    full = resolve_name(func) or getattr(func, "__name__", str(func))
    if full.endswith((".__get__", ".__set__")):
        return "__get__" if full.endswith("__get__") else "__set__"
    return str(full).rsplit(".", 1)[-1]


def unsupported(name: str) -> CompileError:
    """The error for a call that has no place in a step graph."""
    instead = INSTEAD.get(name) or (_LOG_MELS if "fft" in name else None)
    return _located(f"{name} cannot be compiled", instead or "layers of docs/own-model.md")


def _located(what: str, instead: str | None = None) -> CompileError:
    return CompileError(f"{user_line()}{what}{f'; use {instead}' if instead else ''}.")
