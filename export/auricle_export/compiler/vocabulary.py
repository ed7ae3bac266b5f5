"""Which calls of PyTorch a step graph can hold as they are, and what to use in place of those that it cannot."""

from __future__ import annotations

_MASK = "nn.Dropout (its mask is an input)"
LOG_MELS = "the log-mels that the module receives"
_SEQUENCE = "over the whole sequence"
INSTEAD = {
    "topk": "amax, or attention over all positions",
    "sort": "a reduction that needs no order, such as amax or mean",
    "argsort": "a reduction that needs no order, such as amax or mean",
    "median": "mean",
    "kthvalue": "amax",
    "argmax": "softmax (a gradient cannot pass through an index)",
    "argmin": "softmax",
    "max": "amax(dim)",
    "min": "amin(dim)",
    "item": "a tensor operation (a step graph has no values while it is made)",
    "tolist": "a tensor operation",
    "numpy": "a tensor operation",
    "__float__": "a tensor operation",
    "__int__": "a tensor operation",
    "__index__": "a tensor operation",
    "__format__": "nothing: a step graph prints nothing",
    "__bool__": "torch.where (a step graph cannot branch on values)",
    "equal": "torch.where on a comparison",
    "allclose": "torch.where on a comparison",
    "is_nonzero": "torch.where on a comparison",
    "__setitem__": "torch.cat or torch.where, which make new tensors",
    "gather": "index_select with constant indices",
    "take_along_dim": "index_select with constant indices",
    "scatter": "torch.cat",
    "scatter_": "torch.cat",
    "scatter_add": "a product with a constant matrix",
    "scatter_add_": "a product with a constant matrix",
    "index_add_": "a product with a constant matrix",
    "index_put_": "torch.cat or torch.where",
    "index_add": "torch.cat",
    "masked_select": "masked_fill or torch.where",
    "masked_scatter": "torch.where",
    "nonzero": "a mask",
    "unique": "a mask",
    "unfold": "nn.Conv1d or nn.Conv2d",
    "fold": "nn.Conv1d or nn.Conv2d",
    "as_strided": "narrow",
    "stft": LOG_MELS,
    "istft": LOG_MELS,
    "cumsum": "matmul with a constant triangle",
    "cumprod": "exp of a matmul of logs",
    "interpolate": "repeat_interleave or strided pooling",
    "upsample": "repeat_interleave",
    "grid_sample": "nn.Conv2d",
    "lp_pool1d": "nn.AvgPool1d",
    "lp_pool2d": "nn.AvgPool2d",
    "local_response_norm": "nn.GroupNorm",
    "conv3d": "nn.Conv2d",
    "conv_transpose1d": "repeat_interleave and nn.Conv1d",
    "conv_transpose2d": "repeat_interleave and nn.Conv2d",
    "bilinear": "a product of two nn.Linear",
    "rnn_tanh": "nn.GRU",
    "rnn_relu": "nn.GRU",
    "rnn_tanh_cell": "nn.GRU",
    "rnn_relu_cell": "nn.GRU",
    "gru_cell": f"nn.GRU {_SEQUENCE}",
    "lstm_cell": f"nn.LSTM {_SEQUENCE}",
    "_pack_padded_sequence": "the clips as they are: all have one length",
    "_pad_packed_sequence": "the clips as they are: all have one length",
    "embedding_bag": "nn.Embedding and a mean",
    "dropout3d": "nn.Dropout",
    "alpha_dropout": "nn.Dropout",
    "feature_alpha_dropout": "nn.Dropout1d",
    "max_pool1d_with_indices": "max_pool1d without return_indices",
    "rrelu": "nn.LeakyReLU",
    "max_pool2d_with_indices": "max_pool2d without return_indices",
    "gumbel_softmax": "softmax",
    "multinomial": _MASK,
    "ctc_loss": "logits without a loss",
    "cross_entropy": "logits without a loss",
    "nll_loss": "logits without a loss",
    **dict.fromkeys(("rand", "randn", "rand_like", "randn_like", "randint", "randint_like", "randperm"), _MASK),
    **dict.fromkeys(("bernoulli", "bernoulli_", "normal", "normal_", "uniform_", "random_", "exponential_"), _MASK),
}
"""What to use in place of common calls that cannot be compiled."""

PASSED = frozenset(
    """
    __add__ __radd__ __sub__ __rsub__ __mul__ __rmul__ __truediv__ __rtruediv__ __div__ __rdiv__ __neg__ __pow__
    __rpow__ __matmul__ __rmatmul__ __getitem__ __len__ __iter__ __get__ __hash__ __repr__ __invert__ __and__ __or__
    __xor__ __eq__ __ne__ __gt__ __ge__ __lt__ __le__ eq ne gt ge lt le logical_not logical_and logical_or where
    bitwise_not add sub subtract mul multiply div divide true_divide neg negative pow square matmul mm bmm addmm
    baddbmm addbmm einsum mv dot outer exp exp2 log log1p log2 expm1 sqrt rsqrt reciprocal abs absolute sign clamp
    clip clamp_min clamp_max sigmoid tanh sin cos atan softplus softmax log_softmax softmin erf gelu silu leaky_relu
    elu selu celu relu6 hardtanh hardswish hardsigmoid glu mish logsigmoid softsign tanhshrink hardshrink softshrink
    threshold prelu logsumexp maximum minimum lerp addcmul sum mean amax amin var std prod norm vector_norm
    linalg_vector_norm frobenius_norm layer_norm group_norm rms_norm normalize logaddexp cosine_similarity
    channel_shuffle cat concat concatenate stack hstack vstack dstack chunk split tensor_split split_with_sizes
    unbind narrow select index_select flip fliplr flipud roll rot90 diag diagonal atleast_2d atleast_3d unsafe_chunk
    unsafe_split reshape view view_as reshape_as flatten unflatten squeeze unsqueeze permute transpose t swapaxes
    swapdims movedim moveaxis expand expand_as repeat tile broadcast_to contiguous clone detach to float type
    type_as repeat_interleave pad ravel adjoint size dim numel stride is_contiguous is_floating_point ndimension
    arange zeros ones full zeros_like ones_like bool long int full_like tensor linspace eye tril triu masked_fill
    new_zeros new_ones new_full new_tensor broadcast_tensors get_device is_complex is_cuda is_nested requires_grad_
    _set_grad_enabled _has_compatible_shallow_copy_type empty is_same_size identity _is_view element_size
    has_torch_function_unary is_inference is_sparse nelement as_tensor is_tensor meshgrid storage_offset data_ptr
    cpu zeros_ ones_ __deepcopy__ dim_order is_conj is_neg is_signed broadcast_shapes result_type
    """.split()  # noqa: SIM905 - as a list it fills pages
)
"""Calls that PyTorch differentiates into operators that ONNX has."""
