"""Linear layers, attention, embeddings and activations whose gradients are plain products and sums."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Protocol

import torch
from torch import Tensor

from auricle_export.compiler.activation import Saved, apply, sum_rows

Drop = Callable[[Tensor, float], Tensor]


class _Kept(Saved, Protocol):
    rows: int


class Linear(torch.autograd.Function):
    """x (N, I), weight (O, I), bias (O,): (N, O)."""

    @staticmethod
    def forward(x: Tensor, weight: Tensor, bias: Tensor) -> tuple[Tensor]:
        return (torch.addmm(bias, x, weight.t()),)

    @staticmethod
    def setup_context(ctx: _Kept, inputs: tuple[Any, ...], output: tuple[Any, ...]) -> None:
        ctx.save_for_backward(*inputs[:2])

    @staticmethod
    def backward(ctx: _Kept, *grads: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        x, weight = ctx.saved_tensors
        return torch.mm(grads[0], weight), torch.mm(grads[0].t(), x), sum_rows(grads[0])


def linear(x: Tensor, weight: Tensor, bias: Tensor | None = None) -> Tensor:
    """`torch.nn.functional.linear` over the last axis."""
    bias = torch.zeros(weight.shape[0]) if bias is None else bias
    y = apply(Linear, x.reshape(-1, x.shape[-1]), weight, bias)[0]
    return y.reshape(*x.shape[:-1], weight.shape[0])


class Embedding(torch.autograd.Function):
    """Rows of weight (V, D) by index; the gradient is a product with the one-hot indices, not a scatter."""

    @staticmethod
    def forward(weight: Tensor, index: Tensor) -> tuple[Tensor]:
        return (torch.index_select(weight, 0, index.reshape(-1)),)

    @staticmethod
    def setup_context(ctx: _Kept, inputs: tuple[Any, ...], output: tuple[Any, ...]) -> None:
        ctx.rows = inputs[0].shape[0]
        ctx.save_for_backward(inputs[1])

    @staticmethod
    def backward(ctx: _Kept, *grads: Tensor) -> tuple[Tensor, None]:
        (index,) = ctx.saved_tensors
        hot = (index.reshape(-1, 1) == torch.arange(ctx.rows)).to(grads[0].dtype)
        return torch.mm(hot.t(), grads[0]), None


def embedding(
    index: Tensor,
    weight: Tensor,
    padding_idx: int | None = None,
    max_norm: float | None = None,
    norm_type: float = 2.0,
    scale_grad_by_freq: bool = False,
    sparse: bool = False,
) -> Tensor:
    """`torch.nn.functional.embedding` without renormalisation."""
    if max_norm is not None or scale_grad_by_freq or (padding_idx is not None and padding_idx >= 0):
        raise NotImplementedError("an embedding with max_norm, scale_grad_by_freq or padding_idx", "plain nn.Embedding")
    return apply(Embedding, weight, index)[0].reshape(*index.shape, weight.shape[1])


def attend(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    drop: Drop,
    attn_mask: Tensor | None = None,
    dropout_p: float = 0.0,
    is_causal: bool = False,
    scale: float | None = None,
    enable_gqa: bool = False,
) -> Tensor:
    """`scaled_dot_product_attention`: softmax(q k^T / sqrt(d)) v over (..., T, d)."""
    if enable_gqa:
        raise NotImplementedError("grouped-query attention (enable_gqa)", "as many key heads as query heads")
    weights = query @ key.transpose(-2, -1) * (query.shape[-1] ** -0.5 if scale is None else scale)
    if is_causal:
        attn_mask = torch.ones(query.shape[-2], key.shape[-2], dtype=torch.bool).tril()
    if attn_mask is not None:
        weights = weights + _additive(attn_mask)
    shares = torch.softmax(weights, -1)
    return (drop(shares, dropout_p) if dropout_p else shares) @ value


def _additive(mask: Tensor, keep: bool = True) -> Tensor:
    """A boolean mask as numbers to add before the softmax; `keep`: True means look here."""
    if mask.dtype != torch.bool:
        return mask
    hidden = ~mask if keep else mask
    return torch.zeros(mask.shape).masked_fill(hidden, -1e30)


def multi_head_attention(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    embed_dim_to_check: int,
    num_heads: int,
    in_proj_weight: Tensor | None,
    in_proj_bias: Tensor | None,
    bias_k: Tensor | None,
    bias_v: Tensor | None,
    add_zero_attn: bool,
    dropout_p: float,
    out_proj_weight: Tensor,
    out_proj_bias: Tensor | None,
    training: bool = True,
    key_padding_mask: Tensor | None = None,
    need_weights: bool = True,
    attn_mask: Tensor | None = None,
    use_separate_proj_weight: bool = False,
    q_proj_weight: Tensor | None = None,
    k_proj_weight: Tensor | None = None,
    v_proj_weight: Tensor | None = None,
    static_k: Tensor | None = None,
    static_v: Tensor | None = None,
    average_attn_weights: bool = True,
    is_causal: bool = False,
    *,
    drop: Drop,
) -> tuple[Tensor, None]:
    """`torch.nn.functional.multi_head_attention_forward` over (T, B, E); attention weights are not returned."""
    if bias_k is not None or bias_v is not None or add_zero_attn or static_k is not None or static_v is not None:
        raise NotImplementedError("attention with bias_k, bias_v, add_zero_attn or static keys", "attention without")
    if key_padding_mask is not None:
        raise NotImplementedError("attention with a key_padding_mask", "the clips as they are: all have one length")
    if query.dim() == 2:
        raise NotImplementedError("attention without a batch axis", "(batch, time, features)")
    if use_separate_proj_weight:
        weights = [w for w in (q_proj_weight, k_proj_weight, v_proj_weight) if w is not None]
    else:
        assert in_proj_weight is not None
        weights = list(in_proj_weight.chunk(3))
    biases = [None] * 3 if in_proj_bias is None else list(in_proj_bias.chunk(3))
    q, k, v = (_heads(linear(x, w, b), num_heads) for x, w, b in zip((query, key, value), weights, biases, strict=True))
    if attn_mask is not None:
        attn_mask = _additive(attn_mask, keep=False)
        attn_mask = attn_mask.reshape(-1, num_heads, *attn_mask.shape[1:]) if attn_mask.dim() == 3 else attn_mask
    mixed = attend(q, k, v, drop, attn_mask, dropout_p if training else 0.0, is_causal and attn_mask is None)
    joined = mixed.permute(2, 0, 1, 3).reshape(query.shape[0], query.shape[1], -1)
    return linear(joined, out_proj_weight, out_proj_bias), None


def _heads(x: Tensor, heads: int) -> Tensor:
    """(T, B, E) to (B, heads, T, E / heads)."""
    return x.reshape(x.shape[0], x.shape[1], heads, -1).permute(1, 2, 0, 3)


def batch_norm(
    x: Tensor,
    running_mean: Tensor | None,
    running_var: Tensor | None,
    weight: Tensor | None = None,
    bias: Tensor | None = None,
    training: bool = False,
    momentum: float = 0.1,
    eps: float = 1e-5,
) -> Tensor:
    """`torch.nn.functional.batch_norm` with its running statistics, whatever the mode: frozen."""
    if running_mean is None or running_var is None:
        raise NotImplementedError("batch normalisation without running statistics", "nn.GroupNorm")
    size = torch.rsqrt(running_var + eps)
    scale = size if weight is None else size * weight
    shift = -running_mean * scale if bias is None else bias - running_mean * scale
    return apply(ScaleShift, x, scale, shift)[0]


class ScaleShift(torch.autograd.Function):
    """x (B, C, *S) times scale (C,) plus shift (C,); its sums are taken axis by axis, which keeps digits."""

    @staticmethod
    def forward(x: Tensor, scale: Tensor, shift: Tensor) -> tuple[Tensor]:
        shape = [1, -1] + [1] * (x.dim() - 2)
        return (x * scale.reshape(shape) + shift.reshape(shape),)

    @staticmethod
    def setup_context(ctx: _Kept, inputs: tuple[Any, ...], output: tuple[Any, ...]) -> None:
        ctx.save_for_backward(*inputs[:2])

    @staticmethod
    def backward(ctx: _Kept, *grads: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        x, scale = ctx.saved_tensors
        (dy,) = grads
        dx = dy * scale.reshape([1, -1] + [1] * (x.dim() - 2))
        return dx, _by_channel(dy * x), _by_channel(dy)


def _by_channel(x: Tensor) -> Tensor:
    """(B, C, *S) summed to (C,)."""
    while x.dim() > 2:
        x = x.sum(-1)
    return x.sum(0)


def instance_norm(
    x: Tensor,
    running_mean: Tensor | None = None,
    running_var: Tensor | None = None,
    weight: Tensor | None = None,
    bias: Tensor | None = None,
    use_input_stats: bool = True,
    momentum: float = 0.1,
    eps: float = 1e-5,
) -> Tensor:
    """`torch.nn.functional.instance_norm`: a group for every channel, or the running statistics."""
    if running_mean is not None:
        return batch_norm(x, running_mean, running_var, weight, bias, eps=eps)
    return torch.nn.functional.group_norm(x, x.shape[1], weight, bias, eps)


def weight_norm(v: Tensor, g: Tensor, dim: int = 0) -> Tensor:
    """`torch._weight_norm`: v g / ||v||, the norm over all axes but one (or all, -1)."""
    axes = [axis for axis in range(v.dim()) if axis != dim]
    return v * (g / (v * v).sum(axes, keepdim=True).sqrt())
