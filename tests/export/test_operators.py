"""Small modules, each of a few layers with several settings, compiled and compared with PyTorch's float64 autograd."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

# ruff: noqa: E402 - PyTorch may be missing
torch = pytest.importorskip("torch", reason="the reference is PyTorch in float64")
pytest.importorskip("onnxscript", reason="compiling needs onnxscript")

from tests.export.compiled import FRAMES, LABELS, MELS, Compiled
from torch import Tensor, nn
from torch.nn import functional as F

from auricle_export.compiler.intercept import Intercept
from auricle_export.compiler.layers import Bavd
from auricle_export.compiler.spatial import Window
from auricle_export.compiler.trace import find_parts
from auricle_export.packs.author import tensor_specs

TOLERANCE = 1e-5
WIDTH = 6


class Net(nn.Module):
    """Parts, a function that runs them over log-mels (B, 12, 10), and a classifier."""

    def __init__(self, run: Callable[[Any, Tensor], Tensor], width: int, **parts: Any) -> None:
        super().__init__()
        for name, part in parts.items():
            setattr(self, name, part)
        self._run = run
        self.out = nn.Linear(width, LABELS)

    def forward(self, x: Tensor) -> Tensor:
        return self.out(self._run(self, x))  # type: ignore[no-any-return]


def pooled(x: Tensor) -> Tensor:
    """Features (B, C) of whatever shape: uneven over positions, so that every position has its own gradient."""
    flat = x.flatten(2)
    return (flat * torch.linspace(0.5, 1.5, flat.shape[2], dtype=x.dtype)).mean(2)


def branches(*parts: nn.Module, image: bool = False) -> Net:
    """Parts beside each other over one (B, 6, 12) or (B, 6, 12, 10), their features joined."""
    first: nn.Module = nn.Conv2d(1, WIDTH, 1) if image else nn.Conv1d(MELS, WIDTH, 1)

    def run(m: Any, x: Tensor) -> Tensor:
        h = m.first(x.unsqueeze(1) if image else x.transpose(1, 2))
        return torch.cat([pooled(part(h)) for part in m.parts], 1)

    with torch.no_grad():
        probe = torch.rand(2, WIDTH, FRAMES, MELS) if image else torch.rand(2, WIDTH, FRAMES)
        width = sum(part.eval()(probe).shape[1] for part in parts)
    return Net(run, width, first=first, parts=nn.ModuleList(parts))


def trained(norm: Any) -> Any:
    """Normalisation with affine parameters and statistics that are not the initial ones."""
    with torch.no_grad():
        for tensor in [*norm.parameters(), *norm.buffers()]:
            if tensor.is_floating_point():
                tensor.copy_(torch.rand_like(tensor) + 0.5)
    return norm


class Call(nn.Module):
    """A function as a layer."""

    def __init__(self, function: Callable[[Tensor], Tensor]) -> None:
        super().__init__()
        self.function = function

    def forward(self, x: Tensor) -> Tensor:
        return self.function(x)


class Dropped(nn.Module):
    """Dropout called as a function."""

    def forward(self, x: Tensor) -> Tensor:
        return F.dropout(x, 0.2, self.training) * F.dropout(x, training=self.training)


class Own(nn.Module):
    """A function with a parameter."""

    def __init__(self, function: Callable[[Any, Tensor], Tensor], *shape: int) -> None:
        super().__init__()
        self.function, self.own = function, nn.Parameter(torch.rand(shape) + 0.5)

    def forward(self, x: Tensor) -> Tensor:
        return self.function(self.own, x)


def linear_layers() -> Net:
    """On two and three axes, with and without bias, the same layer twice, one frozen."""

    def run(m: Any, x: Tensor) -> Tensor:
        h = torch.tanh(m.three(x))
        h = m.shared(torch.tanh(m.shared(h))) + m.frozen(h)
        return torch.tanh(m.two(pooled(h.transpose(1, 2))))

    inner = {name: nn.Linear(WIDTH, WIDTH) for name in ("shared", "frozen")}
    net = Net(run, 4, three=nn.Linear(MELS, WIDTH), two=nn.Linear(WIDTH, 4, bias=False), **inner)
    net.frozen.requires_grad_(False)
    return net


def convolutions_1d() -> Net:
    conv = nn.Conv1d
    parts = [conv(6, 3, 3), conv(6, 3, 5, stride=2, padding=2), conv(6, 3, 3, dilation=2, padding="same")]
    parts += [conv(6, 3, 4, padding="same", bias=False), conv(6, 4, 3, groups=2, padding=1), conv(6, 3, 1, stride=5)]
    parts += [conv(6, 6, 5, groups=6, padding=2), conv(6, 6, 4, groups=6, stride=3, bias=False), conv(6, 2, 12)]
    parts += [conv(6, 12, 3, groups=6, padding=3), conv(6, 3, 3, padding=5), conv(6, 2, 15, padding=14, dilation=2)]
    parts += [conv(6, 3, 3, padding=1, padding_mode="circular"), conv(6, 3, 3, padding=2, padding_mode="reflect")]
    return branches(*parts)


def convolutions_2d() -> Net:
    conv = nn.Conv2d
    parts = [conv(6, 3, 3), conv(6, 3, (5, 1), stride=(2, 1), padding=(2, 0)), conv(6, 3, 1, stride=(5, 3))]
    parts += [conv(6, 3, 3, dilation=(2, 1), padding="same"), conv(6, 3, (2, 4), padding="same", bias=False)]
    parts += [conv(6, 4, 3, groups=2, padding=1, stride=2), conv(6, 6, 3, groups=6, padding=1), conv(6, 2, (12, 10))]
    parts += [conv(6, 6, (4, 3), groups=6, stride=(3, 2), bias=False), conv(6, 12, 3, groups=6, padding=(0, 2))]
    return branches(*parts, image=True)


def pooling_1d() -> Net:
    parts: list[nn.Module] = [nn.MaxPool1d(2), nn.MaxPool1d(3, stride=1), nn.MaxPool1d(3, stride=2, padding=1)]
    parts += [nn.MaxPool1d(5), nn.MaxPool1d(2, dilation=3, stride=1), nn.MaxPool1d(5, ceil_mode=True)]
    parts += [nn.AvgPool1d(2), nn.AvgPool1d(3, stride=1, padding=1), nn.AvgPool1d(5, 2)]
    parts += [nn.AvgPool1d(4, 3, padding=2, count_include_pad=False), nn.AvgPool1d(5, ceil_mode=True)]
    parts += [*map(nn.AdaptiveAvgPool1d, (1, 4, 5)), *map(nn.AdaptiveMaxPool1d, (1, 3))]
    return branches(*parts)


def pooling_2d() -> Net:
    parts: list[nn.Module] = [nn.MaxPool2d(2), nn.MaxPool2d((2, 1)), nn.MaxPool2d(3, stride=(1, 2), padding=1)]
    parts += [nn.MaxPool2d((5, 4)), nn.AvgPool2d(2), nn.AvgPool2d(3, stride=2, padding=1), nn.AvgPool2d((1, 3))]
    parts += [*map(nn.AdaptiveAvgPool2d, (1, (3, 1), (None, 5), (5, 4))), nn.AdaptiveMaxPool2d((1, 2))]
    return branches(*parts, nn.MaxPool2d(3, ceil_mode=True), image=True)


def activations() -> Net:
    plain = "ReLU GELU SiLU Tanh Sigmoid Hardswish ReLU6 Softplus Mish Hardsigmoid SELU Softsign LogSigmoid PReLU"
    parts = [getattr(nn, name)() for name in (*plain.split(), "Tanhshrink", "Identity")]
    parts += [each(1) for each in (nn.GLU, nn.Softmax, nn.LogSoftmax, nn.Softmin)]
    parts += [nn.GELU(approximate="tanh"), nn.LeakyReLU(0.2), nn.ELU(0.7), nn.Hardtanh(-0.3, 0.4), nn.CELU(0.8)]
    parts += [nn.PReLU(6), nn.Hardshrink(0.3), nn.Softshrink(0.2), nn.Threshold(0.1, 0.2)]
    return branches(*parts, nn.ReLU(inplace=False), nn.Softplus(beta=2, threshold=3))


def activations_in_place() -> Net:
    names = "ReLU SiLU ELU Hardswish ReLU6 Hardtanh Mish Hardsigmoid SELU CELU"
    layers = [getattr(nn, name)(inplace=True) for name in names.split()]
    layers += [nn.LeakyReLU(0.1, inplace=True), nn.Threshold(0.1, 0.2, inplace=True)]
    return branches(*(nn.Sequential(nn.Conv1d(6, 3, 1), layer) for layer in layers))


def activations_as_functions() -> Net:
    calls: list[Callable[[Tensor], Tensor]] = [F.relu, F.gelu, F.silu, F.elu, F.hardswish, F.relu6, F.softplus]
    calls += [torch.sin, torch.cos, torch.atan, lambda x: x.relu(), lambda x: torch.relu(x)]
    calls += [lambda x: F.leaky_relu(x, 0.3), lambda x: F.leaky_relu(x, negative_slope=0.3)]
    calls += [lambda x: F.elu(x, alpha=0.5), lambda x: x.tanh() * x.sigmoid(), lambda x: F.glu(x, dim=1)]
    calls += [lambda x: x.clamp(min=-0.2, max=0.3), lambda x: x.clamp_min(0.1)]
    calls += [lambda x: torch.where(x > 0, x, 0.1 * x), lambda x: F.softmax(x, dim=-1), lambda x: x.exp().log1p()]
    calls += [lambda x: (x * x + 1).sqrt().reciprocal(), lambda x: x.abs() ** 1.5, lambda x: x**2 - x**3]
    return branches(*map(Call, [*calls, lambda x: 1 / (1 + x.square())]))


def normalisation() -> Net:
    learnt = [nn.GroupNorm(1, 6), nn.GroupNorm(3, 6), nn.LayerNorm([12, 10]), nn.RMSNorm(10), nn.BatchNorm2d(6)]
    plain = [nn.LayerNorm(10, elementwise_affine=False), nn.BatchNorm2d(6, affine=False)]
    plain += [Call(lambda x: F.normalize(x, dim=1)), nn.InstanceNorm2d(6, affine=True)]
    return branches(*map(trained, learnt), *plain, image=True)


def normalisation_1d() -> Net:
    def run(m: Any, x: Tensor) -> Tensor:
        h = m.images(m.first(x.transpose(1, 2))) + m.groups(m.first(x.transpose(1, 2)))
        h = m.frozen(m.last(h.transpose(1, 2)).transpose(1, 2))
        return m.flat(pooled(h))  # type: ignore[no-any-return]

    norms = {name: trained(nn.BatchNorm1d(WIDTH)) for name in ("images", "flat", "frozen")}
    norms |= {"groups": trained(nn.GroupNorm(2, WIDTH)), "last": trained(nn.LayerNorm(WIDTH))}
    net = Net(run, WIDTH, first=nn.Conv1d(MELS, WIDTH, 1), **norms)
    net.frozen.weight.requires_grad_(False)
    net.frozen.bias.requires_grad_(False)
    return net


def embeddings() -> Net:
    """Learned positions by index, by buffer, and a class token."""

    def run(m: Any, x: Tensor) -> Tensor:
        h = m.first(x) + m.place(torch.arange(FRAMES)) + m.kind(m.order)
        h = torch.cat([m.token.own.expand(x.shape[0], -1, -1), h], dim=1) + m.whole.own
        return torch.tanh(h)[:, 0] + torch.tanh(h).mean(1)

    parts = {"first": nn.Linear(MELS, WIDTH), "place": nn.Embedding(FRAMES, WIDTH), "kind": nn.Embedding(3, WIDTH)}
    net = Net(run, WIDTH, **parts, token=Own(max, 1, 1, WIDTH), whole=Own(max, 1, FRAMES + 1, WIDTH))
    net.register_buffer("order", torch.arange(FRAMES) % 3)
    return net


def recurrent(kind: Any, how: str, **settings: Any) -> Net:
    """A recurrent layer over (B, 12, 10): all states, the last one or the last step is used."""
    layer = kind(MELS, 4, **settings)
    ways, first = (2 if layer.bidirectional else 1), layer.batch_first

    def run(m: Any, x: Tensor) -> Tensor:
        x = x if first else x.transpose(0, 1)
        start = ()
        if how == "begun":
            h = torch.tanh(m.begin.own).expand(-1, x.shape[0 if first else 1], -1).contiguous()
            start = ((h, h * 0.5),) if isinstance(layer, nn.LSTM) else (h,)  # type: ignore[assignment]
        states, last = m.layer(x, *start)
        states = states if first else states.transpose(0, 1)
        if how == "last state":
            if not isinstance(last, tuple):
                return last[-ways:].transpose(0, 1).flatten(1)  # type: ignore[no-any-return]
            return torch.cat([part[-ways:].transpose(0, 1).flatten(1) for part in last], 1)
        return pooled(states.transpose(1, 2)) if how != "last step" else states[:, -1]  # type: ignore[no-any-return]

    width = 4 * ways * (2 if how == "last state" and isinstance(layer, nn.LSTM) else 1)
    return Net(run, width, layer=layer, begin=Own(max, layer.num_layers * ways, 1, 4))


def attention() -> Net:
    """Self- and cross-attention, masks of both kinds, batch first or not, with dropout."""

    def run(m: Any, x: Tensor) -> Tensor:
        h = m.first(x)
        future = torch.ones(FRAMES, FRAMES, dtype=torch.bool).triu(1)
        slope = -torch.arange(FRAMES, dtype=x.dtype).unsqueeze(0).expand(FRAMES, -1) * 0.1
        a = m.own(h, h, h, need_weights=False)[0]
        b = m.own(h, h, h, attn_mask=future)[0]
        c = m.cross(h.transpose(0, 1), m.other(x).transpose(0, 1), m.other(x).transpose(0, 1), attn_mask=slope)[0]
        d = m.dropped(h, h, h, need_weights=False)[0]
        return pooled((a + torch.tanh(b) + c.transpose(0, 1) + d * d).transpose(1, 2))

    own, dropped = nn.MultiheadAttention(6, 2, batch_first=True), nn.MultiheadAttention(6, 1, 0.3, batch_first=True)
    cross = nn.MultiheadAttention(6, 3, kdim=4, vdim=4, bias=False)
    return Net(run, 6, first=nn.Linear(MELS, 6), other=nn.Linear(MELS, 4), own=own, cross=cross, dropped=dropped)


def products() -> Net:
    """`scaled_dot_product_attention` and the products that people write in its place."""

    def run(m: Any, x: Tensor) -> Tensor:
        q, k, v = m.qkv(x).reshape(x.shape[0], FRAMES, 3, 2, 3).permute(2, 0, 3, 1, 4)
        a = F.scaled_dot_product_attention(q, k, v)
        b = F.scaled_dot_product_attention(q, k, v, is_causal=True, scale=0.7)
        c = F.scaled_dot_product_attention(q, k, v, attn_mask=torch.eye(FRAMES, dtype=torch.bool).logical_not())
        d = F.scaled_dot_product_attention(q, k, v, dropout_p=0.25 if m.training else 0.0)
        scores = torch.einsum("bhqd,bhkd->bhqk", q, k) / 3**0.5
        e = torch.matmul(scores.masked_fill(torch.ones(FRAMES, FRAMES).triu(1) == 1, float("-inf")).softmax(-1), v)
        h = (a + b * c + d + torch.tanh(e)).transpose(1, 2).reshape(x.shape[0], FRAMES, 6)
        return pooled(torch.baddbmm(h, h, m.mix.own.expand(x.shape[0], -1, -1)).transpose(1, 2))

    return Net(run, 6, qkv=nn.Linear(MELS, 18), mix=Own(max, 1, 6, 6))


def encoder(**settings: Any) -> Net:

    def run(m: Any, x: Tensor) -> Tensor:
        h = m.first(x)
        ahead = m.layers.layers[0].self_attn.batch_first
        return pooled((m.layers(h) if ahead else m.layers(h.transpose(0, 1)).transpose(0, 1)).transpose(1, 2))

    layer = nn.TransformerEncoderLayer(6, 2, 8, **settings)
    layers = nn.TransformerEncoder(layer, 2, norm=nn.LayerNorm(6), enable_nested_tensor=False)
    return Net(run, 6, first=nn.Linear(MELS, 6), layers=layers)


def dropouts() -> Net:
    """Dropout of numbers, of channels, in place, as a function, of probability 0."""
    placed = nn.Sequential(nn.Conv1d(6, 3, 1), nn.Dropout(0.5, inplace=True))
    return branches(nn.Dropout(0.3), nn.Dropout1d(0.4), nn.Dropout(0.0), Dropped(), placed)


def arithmetic() -> Net:
    """Residuals, slices, joins and rearrangements, as people write them."""

    def run(m: Any, x: Tensor) -> Tensor:
        h = m.first(x)
        y = h
        y = y + m.second(h)
        y += torch.tanh(h)
        y *= 0.5
        y -= h[:, :1] / 3
        y /= 2
        left, right = y.chunk(2, dim=-1)
        a, b, c = torch.split(y, [1, 2, 3], dim=2)
        parts = torch.cat([left * right, a, b, c[..., ::2], y[:, :, -1:], y[:, :, [0, 2]]], dim=-1)
        times = torch.stack([y[:, 0], y[:, -1], y[:, 3:9:2].mean(1), y.flip(1)[:, 2], y.amax(1), y.std(1)], dim=1)
        rolled = torch.roll(y, 2, 1) * y.narrow(1, 0, 1) + y.select(1, 4).unsqueeze(1)
        rolled = rolled + y.transpose(1, 2).mean((1, 2))[:, None, None]
        even, odd = y[:, 0::2], y[:, 1::2]
        means = (even - odd).var(1, unbiased=False) + F.pad(y, (0, 0, 2, 0))[:, :-2].sum(1)
        pieces = [piece.mean(1) for piece in y.unbind(-1)]
        tail = torch.stack(pieces, -1) + torch.maximum(y[:, 1], y[:, 2])
        tail = tail + y.reshape(-1, 3, 4, 6).permute(0, 3, 1, 2).flatten(2).norm(dim=2)
        x = y[:, None].repeat(1, 2, 1, 1).view(x.size(0), -1, 6)[..., :-1].mean(dim=1)
        return torch.cat([parts.mean(1), times.flatten(1), rolled.mean(1), means, tail, x], 1)

    return Net(run, 6 * 6 + 3 + 1 + 2 + 2 + 1 + 2 + 6 + 6 + 6 + 5, first=nn.Linear(MELS, 6), second=nn.Linear(6, 6))


def structure() -> Net:
    """Lists, dictionaries of modules, a loop over one block, dense connections, gates."""
    block = nn.Sequential(nn.Conv1d(6, 6, 3, padding=1), nn.GroupNorm(2, 6), nn.SiLU())

    def run(m: Any, x: Tensor) -> Tensor:
        h, seen = m.first(x.mT), []
        for part in m.blocks:
            h = h + part(h)
            seen.append(h)
        for _ in range(2):
            h = h + m.again(h)
        gate = torch.sigmoid(m.heads["squeeze"](h.mean(-1)))[:, :, None]
        return pooled(torch.cat([h * gate, *seen], dim=1))

    blocks = nn.ModuleList(nn.Sequential(nn.Conv1d(6, 6, 3, padding=n, dilation=n), nn.ReLU()) for n in (1, 2))
    heads = nn.ModuleDict({"squeeze": nn.Linear(6, 6)})
    return Net(run, 18, first=nn.Conv1d(MELS, 6, 1), again=block, heads=heads, blocks=blocks)


def separable() -> Net:
    """Strided, depthwise and pointwise convolutions, pooled, with a residual in place."""

    def run(m: Any, x: Tensor) -> Tensor:
        h = m.stem(x.unsqueeze(1))
        y = m.block(h)
        y += h
        return pooled(m.pool(y))

    stem = nn.Sequential(nn.Conv2d(1, 6, (3, 4), stride=(2, 1), padding=(1, 2), bias=False), nn.ReLU(inplace=True))
    block = nn.Sequential(
        nn.Conv2d(6, 6, 3, padding="same", groups=6, dilation=(1, 2), bias=False),
        trained(nn.BatchNorm2d(6)),
        nn.SiLU(inplace=True),
        nn.Conv2d(6, 6, 1),
    )
    return Net(run, 6, stem=stem, block=block, pool=nn.Sequential(nn.MaxPool2d(2), nn.AvgPool2d((1, 3), 2)))


def biased_dropout() -> Net:
    first = nn.Conv1d(MELS, WIDTH, 1)
    parts = (first, nn.ReLU(), Bavd(), nn.Conv1d(6, 4, 3), nn.ReLU(), Bavd(per_channel=True, rescale=True))
    return Net(lambda m, x: pooled(m.whole(x.transpose(1, 2))), 4, whole=nn.Sequential(*parts))


MODULES: dict[str, Callable[[], Net]] = {
    "linear layers": linear_layers,
    "separable convolutions": separable,
    "activations": activations,
    "1-D normalisation": normalisation_1d,
    "embeddings": embeddings,
    "products": products,
    "dropouts": dropouts,
    "biased dropout": biased_dropout,
    "encoder": lambda: encoder(dropout=0.1, batch_first=True),
    "GRU": lambda: recurrent(nn.GRU, "states", batch_first=True),
    "LSTM": lambda: recurrent(nn.LSTM, "last step", batch_first=True),
}
MORE: dict[str, Callable[[], Net]] = {
    "arithmetic": arithmetic,
    "1-D convolutions": convolutions_1d,
    "2-D convolutions": convolutions_2d,
    "1-D pooling": pooling_1d,
    "2-D pooling": pooling_2d,
    "activations in place": activations_in_place,
    "activations as functions": activations_as_functions,
    "normalisation": normalisation,
    "attention": attention,
    "structure": structure,
    "GRU, two ways, two layers, dropout": lambda: recurrent(
        nn.GRU, "states", batch_first=True, bidirectional=True, num_layers=2, dropout=0.3
    ),
    "GRU, time first, begun": lambda: recurrent(nn.GRU, "begun"),
    "GRU, last step": lambda: recurrent(nn.GRU, "last step", batch_first=True),
    "GRU, last state": lambda: recurrent(nn.GRU, "last state", bidirectional=True, bias=False),
    "GRU, begun, two layers": lambda: recurrent(nn.GRU, "begun", num_layers=2, bidirectional=True, batch_first=True),
    "LSTM, two ways": lambda: recurrent(nn.LSTM, "states", bidirectional=True),
    "LSTM, begun, two layers, dropout": lambda: recurrent(nn.LSTM, "begun", num_layers=2, dropout=0.4),
    "LSTM, last state and cell": lambda: recurrent(nn.LSTM, "last state", bidirectional=True, bias=False),
    "encoder, norm first": lambda: encoder(dropout=0.0, activation="gelu", norm_first=True, batch_first=True),
    "encoder, time first": lambda: encoder(dropout=0.2, activation=F.silu),
}


@pytest.mark.parametrize(("kernel", "padding", "dilation"), [(3, 1, 1), (15, 14, 2), (29, 14, 1)])
def test_a_window_puts_back_what_its_taps_saw(kernel: int, padding: int, dilation: int) -> None:
    """<taps(x), y> = <x, gather(y)>, exactly in whole numbers, also where a tap sees nothing but padding."""
    window = Window([12], [kernel], [1], [(padding, padding)], [dilation])
    x = torch.arange(24.0).reshape(12, 2)
    taps = window.taps(x)
    given = [torch.randint(-9, 9, tap.shape).float() for tap in taps]
    seen = sum(float((tap * y).sum()) for tap, y in zip(taps, given, strict=True))
    assert seen == float((x * window.gather(given)).sum())


def test_pooling_of_one_sample_pools_the_axes_that_pytorch_pools() -> None:
    h, image = torch.rand(6, 12), torch.rand(6, 12, 10)
    calls: list[tuple[Callable[..., Tensor], Tensor, Any]] = [
        (F.max_pool1d, h, 2),
        (F.avg_pool1d, h, 3),
        (F.adaptive_avg_pool1d, h, 4),
        (F.adaptive_max_pool1d, h, 4),
        (F.max_pool2d, image, 2),
        (F.avg_pool2d, image, (3, 2)),
        (F.adaptive_avg_pool2d, image, (4, 5)),
        (F.adaptive_max_pool2d, image, (4, 5)),
    ]

    for pool, x, size in calls:
        with Intercept(lambda x, p, shape: x):
            found = pool(x, size)
        torch.testing.assert_close(found, pool(x, size))


LONG = ("activations", "encoder", "GRU")
"""Modules that take ten seconds and more."""


@pytest.mark.slow
@pytest.mark.parametrize("name", [pytest.param(n, marks=pytest.mark.slow) if n in LONG else n for n in MODULES])
@pytest.mark.nightly
def test_a_module_compiles_to_the_gradients_and_the_logits_of_pytorch(name: str) -> None:
    _check(MODULES[name])


@pytest.mark.slow
@pytest.mark.parametrize("name", MORE)
@pytest.mark.nightly
def test_more_settings_compile_to_the_gradients_and_the_logits_of_pytorch(name: str) -> None:
    _check(MORE[name])


def _check(make: Callable[[], Net]) -> None:
    torch.manual_seed(1)

    compiled = Compiled(make())

    wrong = {name: error for name, error in compiled.gradient_errors().items() if not error <= TOLERANCE}
    assert not wrong
    assert max(compiled.evaluation_errors((1, 5, 16)).values()) <= TOLERANCE


def test_a_number_of_its_own_and_an_authors_own_start_are_kept() -> None:
    net = Net(lambda m, x: pooled(m.first(x).transpose(1, 2)) * m.size.own, 8, first=nn.Linear(MELS, 8), size=Own(max))
    with torch.no_grad():
        net.first.weight.mul_(0.01)
        net.first.bias.zero_()

    specs = {spec.name: spec for spec in tensor_specs(find_parts(net, LABELS, FRAMES, MELS, 4), LABELS)}

    assert specs["size.own"].shape == (1,)
    assert specs["size.own"].bound == 0
    assert specs["size.own"].centre == pytest.approx(float(net.size.own.detach()))
    assert specs["first.bias"].bound == specs["first.bias"].centre == 0
    assert specs["first.weight"].bound == pytest.approx(0.01 * MELS**-0.5, rel=0.3)
