"""What cannot be compiled is named: the file, the line and its text, and what to use in its place."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

# ruff: noqa: E402 - PyTorch may be missing
torch = pytest.importorskip("torch", reason="modules are PyTorch's")
pytest.importorskip("onnxscript", reason="compiling needs onnxscript")

from torch import nn

from auricle_export.compiler.intercept import CompileError
from auricle_export.compiler.trace import find_parts, trace_training
from auricle_export.packs.author import load_module

LABELS, FRAMES, MELS = 3, 12, 10

HEAD = """
import math
import torch
from torch import nn
from torch.nn import functional as F

class Net(nn.Module):
    def __init__(self, labels):
        super().__init__()
        self.first = nn.Linear(10, 8)
        self.out = nn.Linear(8, labels)
        self.begin(labels)

    def begin(self, labels):
        pass

    def forward(self, x):
        h = self.first(x)
        h = self.middle(h)
        return self.out(h.mean(1))

"""

REFUSED: dict[str, tuple[str, str, str]] = {
    "topk": ("return h.topk(3, 1).values", "topk", "amax"),
    "sort": ("return h.sort(1).values", "sort", "amax"),
    "argmax": ("return h * h.argmax(2, keepdim=True)", "argmax", "softmax"),
    "values and indices of max": ("return h.max(1, keepdim=True)[0]", "max", "amax(dim)"),
    "a branch on values": ("return h if h.sum() > 0 else -h", "__bool__", "torch.where"),
    "a loop on values": ("while h.abs().max() > 1: h = h / 2", "max", "amax"),
    "item": ("return h * h.mean().item()", "item", "tensor operation"),
    "a Python number": ("return h * float(h.mean())", "__float__", "tensor operation"),
    "a list of numbers": ("return h * h.mean((0, 1)).tolist()[0]", "tolist", "tensor operation"),
    "an array": ("return h * torch.from_numpy(h.detach().numpy())", "numpy", "tensor operation"),
    "math on a tensor": ("return h * math.sqrt(h.mean())", "__float__", "tensor operation"),
    "a spectrum": ("return torch.fft.rfft(h, dim=1).abs()[:, :12]", "rfft", "log-mels"),
    "scatter": ("return h.scatter(1, torch.zeros_like(h).long(), h)", "scatter", "torch.cat"),
    "scatter in place": ("return h.clone().scatter_(1, torch.zeros_like(h).long(), h)", "scatter_", "torch.cat"),
    "gather": ("return h.gather(1, torch.zeros(h.shape).long())", "gather", "index_select"),
    "a slice in place": ("h[:, 0] = 0.0; return h", "__setitem__", "torch.cat or torch.where"),
    "a slice grown in place": ("h[:, :3] += 1.0; return h", "__setitem__", "torch.cat or torch.where"),
    "a view grown in place": ("y = h[:, :3]; y += 1.0; return h", "mean", "x = x + y"),
    "a mask of truth values": ("return h[:, torch.arange(12) > 5]", "truth values", "a mask"),
    "nonzero": ("return h * torch.nonzero(h).sum()", "nonzero", "mask"),
    "cumsum": ("return h.cumsum(1)", "cumsum", "triangle"),
    "random numbers": ("return h + torch.randn(8)", "randn", "nn.Dropout"),
    "random numbers like": ("return h + torch.rand_like(h)", "rand_like", "nn.Dropout"),
    "random numbers in place": ("return h + torch.empty(8).normal_()", "normal_", "nn.Dropout"),
    "Bernoulli": ("return h * torch.bernoulli(torch.full((8,), 0.5))", "bernoulli", "nn.Dropout"),
    "alpha dropout": ("return F.alpha_dropout(h, 0.2, self.training)", "alpha_dropout", "nn.Dropout"),
    "interpolation": ("return F.interpolate(h.mT, scale_factor=2).mT", "interpolate", "repeat"),
    "a loss inside": ("return h * F.cross_entropy(h[:, 0], torch.zeros(len(h)).long())", "cross_entropy", "loss"),
    "pooling with indices": ("return F.max_pool1d(h, 2, return_indices=True)[0]", "max_pool1d", "return_indices"),
    "a padding mask": (
        "return F.multi_head_attention_forward(h, h, h, 8, 2, torch.zeros(24, 8), None, None, None, False, 0.0, "
        "torch.zeros(8, 8), None, key_padding_mask=torch.zeros(12, h.shape[0]).bool())[0]",
        "key_padding_mask",
        "one length",
    ),
}
"""A line of a module's forward pass, what of it is named, and what to use instead."""

LAYERS: dict[str, tuple[str, str, str]] = {
    "a transposed convolution": ("nn.ConvTranspose1d(12, 12, 2, stride=2)", "conv_transpose1d", "nn.Conv1d"),
    "a plain recurrent layer": ("Second(nn.RNN(8, 8, batch_first=True))", "rnn_tanh", "nn.GRU"),
    "batch statistics": ("nn.BatchNorm1d(12, track_running_stats=False)", "running statistics", "nn.GroupNorm"),
    "an LSTM with a projection": ("Second(nn.LSTM(8, 10, proj_size=8, batch_first=True))", "proj_size", "nn.Linear"),
    "fractional pooling": ("nn.FractionalMaxPool2d(2, output_size=4)", "fractional", "docs/own-model.md"),
}


def _write(folder: Path, text: str) -> Path:
    file = folder / "their_model.py"
    file.write_text(HEAD + text)
    return file


def _refusal(file: Path) -> str:
    make = load_module(f"{file}:Net")
    with pytest.raises(CompileError) as refused:
        trace_training(find_parts(make(LABELS), LABELS, FRAMES, MELS, 4))
    return str(refused.value)


def _line(file: Path, text: str) -> str:
    """`file, line N (text): ` of the only line that holds a text."""
    numbers = [number for number, line in enumerate(file.read_text().splitlines(), 1) if text in line]
    assert len(numbers) == 1
    return f"{file.name}, line {numbers[0]} ("


@pytest.mark.parametrize("case", REFUSED)
def test_a_call_that_cannot_be_compiled_is_named_with_its_line_and_what_to_use(case: str, tmp_path: Path) -> None:
    line, named, instead = REFUSED[case]
    file = _write(tmp_path, f"    def middle(self, h):\n        {line}\n")
    sentence = _refusal(file)
    place = "h.mean(1)" if case == "a view grown in place" else line
    assert sentence.startswith(_line(file, place)), sentence
    assert all(part in sentence for part in (place, named, instead))


SECOND = """
class Second(nn.Module):
    def __init__(self, part):
        super().__init__()
        self.part = part

    def forward(self, h):
        return self.part(h)[0]

"""


@pytest.mark.parametrize("case", LAYERS)
def test_a_layer_that_cannot_be_compiled_is_named_by_the_line_that_calls_it(case: str, tmp_path: Path) -> None:
    made, named, instead = LAYERS[case]
    begin = f"    def begin(self, labels):\n        self.layer = {made}\n\n"
    text = f"{begin}    def middle(self, h):\n        return self.layer(h)\n"
    file = _write(tmp_path, text + SECOND)

    sentence = _refusal(file)

    called = "return self.part(h)[0]" if "Second" in made else "return self.layer(h)"
    assert sentence.startswith(_line(file, called)), sentence
    assert named in sentence and instead in sentence


NESTED = """
    def begin(self, labels):
        self.layer, self.blocks = nn.GRU(8, 8, batch_first=True), nn.ModuleList([nn.Sequential(Inner(), nn.ReLU())])

    def middle(self, h):
        {line}

class Inner(nn.Module):
    def forward(self, h):
        best = h.topk(
            2, dim=1,
        )
        return best.values
"""


def test_packed_sequences_and_the_line_of_the_innermost_of_nested_modules_are_named(tmp_path: Path) -> None:
    packed = "nn.utils.rnn.pack_padded_sequence(h, [h.shape[1]] * h.shape[0], batch_first=True)"
    file = _write(tmp_path, NESTED.format(line=f"return self.layer({packed})[0].data"))
    sentence = _refusal(file)
    assert sentence.startswith(_line(file, packed))
    assert "one length" in sentence

    (tmp_path / "inner").mkdir()
    file = _write(tmp_path / "inner", NESTED.format(line="return self.blocks[0](h)"))
    assert _refusal(file).startswith(_line(file, "best = h.topk("))


def test_a_module_of_library_layers_only_is_named_by_its_layer() -> None:
    module = nn.Sequential(nn.Flatten(), nn.Sequential(nn.Linear(120, 8), nn.RReLU()), nn.Linear(8, LABELS))
    with pytest.raises(CompileError) as refused:
        find_parts(module, LABELS, FRAMES, MELS, 4)
    assert str(refused.value).startswith("Layer 1.1 (RReLU): ")
    assert "nn.LeakyReLU" in str(refused.value)


@pytest.mark.parametrize(
    ("line", "clips", "told"),
    [
        ("return self.first(h)", 4, "RuntimeError"),
        ("return h.view(4, 12, 8)", 1, "use x.shape[0]"),
        ("return h.reshape(4, -1, 8)", None, "gives (4, 3) where logits (1, 3) are due"),
    ],
)
def test_a_module_that_fails_or_mixes_clips_is_told_so(line: str, clips: int | None, told: str, tmp_path: Path) -> None:
    file = _write(tmp_path, f"    def middle(self, h):\n        {line}\n")
    sentence = _refusal(file)
    assert told in sentence
    if clips is not None:
        assert sentence.startswith(_line(file, line))
        assert f"Net fails on log-mels ({clips}, 12, 10)" in sentence


def _net(**changes: Any) -> nn.Module:
    """A good module whose forward pass is changed."""

    class Net(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.first = nn.Linear(MELS, MELS)
            self.out = nn.Linear(MELS, LABELS)
            for name, part in changes.items():
                if name != "run":
                    setattr(self, name, part)

        def forward(self, x: torch.Tensor) -> Any:
            return changes.get("run", lambda m, h: m.out(h.mean(1)))(self, self.first(x))

    return Net()


def _frozen() -> nn.Module:
    module = _net()
    module.out.requires_grad_(False)  # type: ignore[union-attr]
    return module


def _tied() -> nn.Module:
    module = _net(first=nn.Linear(MELS, LABELS), run=lambda m, h: m.out((h @ m.first.weight).mean(1)))
    module.out.weight = module.first.weight  # type: ignore[union-attr]
    return module


CONTRACT: dict[str, tuple[nn.Module, str]] = {
    "a wrong number of labels": (_net(out=nn.Linear(MELS, LABELS + 1)), "gives (4, 4) where logits (4, 3) are due"),
    "logits for every frame": (_net(run=lambda m, h: m.out(h)), "gives (4, 12, 3) where logits (4, 3) are due"),
    "several results": (_net(run=lambda m, h: (m.out(h.mean(1)), h)), "gives tuple where logits (4, 3) are due"),
    "softmax at the end": (_net(run=lambda m, h: m.out(h.mean(1)).softmax(1)), "leave softmax to the loss"),
    "a mean at the end": (_net(run=lambda m, h: m.out(h).mean(1)), "a mean followed by nn.Linear"),
    "a convolution at the end": (
        _net(out=nn.Conv1d(MELS, LABELS, 11), run=lambda m, h: m.out(h.transpose(1, 2))[:, :, 0]),
        "has to end in an nn.Linear",
    ),
    "something added to the logits": (_net(run=lambda m, h: m.out(h.mean(1)).add_(1)), "nothing else after it"),
    "no linear layer": (_net(run=lambda m, h: h[:, 0, :3]), "has to end in an nn.Linear"),
    "no bias": (_net(out=nn.Linear(MELS, LABELS, bias=False)), "has no bias"),
    "loose weights": (
        _net(run=lambda m, h: nn.functional.linear(h.mean(1), torch.ones(LABELS, MELS), torch.ones(LABELS))),
        "belong to no nn.Linear",
    ),
    "the classifier called twice": (_net(run=lambda m, h: m.out(h.mean(1) + m.out(h.mean(1)).mean())), "twice"),
    "a frozen classifier": (_frozen(), "frozen"),
    "a classifier with another's weights": (_tied(), "shares its weights"),
    "another part called head": (_net(head=nn.Linear(MELS, MELS)), '"head"'),
    "weights of 64 bits": (_net().double(), "fails on log-mels"),
}


@pytest.mark.parametrize("case", CONTRACT)
def test_a_module_that_is_no_classifier_of_log_mels_is_told_why(case: str) -> None:
    module, why = CONTRACT[case]
    with pytest.raises(CompileError) as refused:
        find_parts(module, LABELS, FRAMES, MELS, 4)
    assert why in str(refused.value)


def test_what_fails_while_it_is_made_is_told_with_its_line(tmp_path: Path) -> None:
    file = tmp_path / "mine.py"
    file.write_text(
        "from torch import nn\n\n\nclass Raises(nn.Module):\n    def __init__(self, labels):\n"
        '        raise ValueError("no such size")\n\n\n'
        "class Two(nn.Module):\n    def __init__(self, labels, width):\n        super().__init__()\n"
    )
    crash = tmp_path / "crash.py"
    crash.write_text("x = 1 / 0\n")

    with pytest.raises(CompileError, match=r"^mine\.py, line 6 \(raise ValueError.*Raises cannot be made for 3 labels"):
        load_module(f"{file}:Raises")(LABELS)
    with pytest.raises(CompileError, match="width"):
        load_module(f"{file}:Two")(LABELS)
    with pytest.raises(CompileError, match=r"^crash\.py, line 1 \(x = 1 / 0\): .*crash\.py fails: ZeroDivisionError"):
        load_module(f"{crash}:Net")
