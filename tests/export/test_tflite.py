"""`.tflite` models of whole networks and of an author's modules: LiteRT against onnxruntime."""

from __future__ import annotations

from collections.abc import Callable

import msgspec
import pytest
import torch
from tests.export.tflite_toy import assert_agrees, needs_litert, pack_around
from tests.nightly import nightly_but
from torch import nn

from auricle.checks.tflite_weights import check_buffers, is_quantised, with_weights
from auricle.packs.pack import load_pack
from auricle_export.compiler.evaluation import trace_evaluation
from auricle_export.compiler.trace import find_parts
from auricle_export.packs.author import tensor_specs

needs_litert()

from auricle_export.tflite import tflite_model, with_tflite  # noqa: E402

MODELS = ("crnn-base", "crnn-wide", "crnn-deep", "crnn-stacked", "crnn-lite")


@pytest.mark.parametrize("model", MODELS)
def test_float32_gives_the_evaluation_graphs_logits_for_any_weights_put_in(model: str) -> None:
    pack = with_tflite(load_pack("gsc12"), [model], ["float32"])
    assert_agrees(pack, model, "float32", 2e-6)


@pytest.mark.parametrize("model", MODELS)
def test_int8_is_near_and_saves_three_bytes_a_weight(model: str) -> None:
    pack = with_tflite(load_pack("gsc12"), [model])
    assert_agrees(pack, model, "int8", 0.03)
    sizes = {entry.precision: len(pack.files[entry.file]) for entry in pack.manifest.tflite}
    small = sum(spec.size for spec in pack.table(model).specs if is_quantised(spec))
    assert small > 0.9 * pack.table(model).size
    assert sizes["float32"] - sizes["int8"] > 2.5 * small


def test_the_file_holds_the_weights_that_were_given_and_a_sound_map() -> None:
    base = load_pack("gsc12")
    weights = base.plugin_table.initial(7)
    pack = with_tflite(base, ["crnn-lite"], weights={"crnn-lite": weights})
    for entry in pack.manifest.tflite:
        check_buffers(pack, entry)
        assert pack.files[entry.file] == with_weights(pack, entry, weights)
        assert all(buffer.offset % 16 == 0 for buffer in entry.buffers)


@pytest.mark.parametrize("name", ["digits", "gsc35"])
def test_any_number_of_labels_is_translated_and_the_same_pack_gives_the_same_bytes(name: str) -> None:
    assert tflite_model(load_pack(name), "crnn-lite") == tflite_model(load_pack(name), "crnn-lite")
    assert_agrees(with_tflite(load_pack(name), ["crnn-lite"], ["float32"]), "crnn-lite", "float32", 2e-6)


def test_a_second_translation_replaces_the_first_and_other_labels_leave_it_behind() -> None:
    once = with_tflite(load_pack("digits"), ["crnn-lite"])
    again = with_tflite(once, ["crnn-lite"], ["int8"], {"crnn-lite": once.plugin_table.initial(5)})

    other = once.with_labels(["left", "right"])
    assert other.manifest.tflite == () and not any(path.endswith(".tflite") for path in other.files)
    assert_agrees(with_tflite(other, ["crnn-lite"], ["float32"]), "crnn-lite", "float32", 2e-6)
    assert [entry.precision for entry in again.manifest.tflite] == ["float32", "int8"]
    assert again.identity != once.identity
    assert msgspec.structs.replace(again.manifest, files=()) == msgspec.structs.replace(once.manifest, files=())


class BlockNet(nn.Module):
    """Broadcast blocks over images: dilation, depth, groups, group norm, SiLU, both average pools."""

    def __init__(self, labels: int) -> None:
        super().__init__()
        self.first = nn.Conv2d(1, 16, 5, stride=(2, 1), padding=2)
        self.bands = nn.Conv2d(16, 16, (1, 3), padding=(0, 1), groups=16)
        self.norm = nn.GroupNorm(4, 16)
        self.time = nn.Conv2d(16, 16, (3, 1), padding=(2, 0), dilation=(2, 1), groups=16)
        self.mix = nn.Conv2d(16, 16, 1)
        self.grouped = nn.Conv2d(16, 32, 3, groups=4, stride=2)
        self.head = nn.Linear(32, labels)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        h = torch.relu(self.first(x.unsqueeze(1).transpose(2, 3)))
        y = self.norm(self.bands(h))
        z = self.time(y.mean(2, keepdim=True).transpose(2, 3)).transpose(2, 3)
        h = torch.relu(h + y + self.mix(nn.functional.silu(z)))
        h = nn.functional.avg_pool2d(nn.functional.silu(self.grouped(h)), 2)
        return self.head(nn.functional.adaptive_avg_pool2d(h, 1).flatten(1))  # type: ignore[no-any-return]


class Attentive(nn.Module):
    """A transformer layer with GELU, learnt positions, and attention once more."""

    def __init__(self, labels: int) -> None:
        super().__init__()
        self.enter = nn.Linear(40, 32)
        self.place = nn.Parameter(torch.randn(100, 32) * 0.1)
        self.layer = nn.TransformerEncoderLayer(32, 4, 64, 0.0, "gelu", batch_first=True, norm_first=True)
        self.attend = nn.MultiheadAttention(32, 4, batch_first=True)
        self.norm = nn.LayerNorm(32)
        self.head = nn.Linear(32, labels)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        h = self.layer(self.enter(x) + self.place)
        attended, _ = self.attend(h, h, h, need_weights=False)
        return self.head(self.norm(h + attended).mean(1))  # type: ignore[no-any-return]


class TwoLstms(nn.Module):
    """Stacked LSTMs in both directions, read at the end and on average."""

    def __init__(self, labels: int) -> None:
        super().__init__()
        self.lstm = nn.LSTM(40, 24, 2, batch_first=True, bidirectional=True)
        self.head = nn.Linear(48, labels)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y, _ = self.lstm(x)
        return self.head(y[:, -1] + y.mean(1))  # type: ignore[no-any-return]


class BareGru(nn.Module):
    """A GRU without biases, the largest of each unit over time."""

    def __init__(self, labels: int) -> None:
        super().__init__()
        self.gru = nn.GRU(40, 24, batch_first=True, bias=False)
        self.head = nn.Linear(24, labels)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y, _ = self.gru(x)
        return self.head(torch.tanh(y).amax(1))  # type: ignore[no-any-return]


@pytest.mark.slow
@pytest.mark.parametrize("make", nightly_but([BlockNet, Attentive, TwoLstms, BareGru], [BlockNet]))
def test_a_module_of_an_author_is_translated_as_it_was_compiled(make: Callable[[int], nn.Module]) -> None:
    torch.manual_seed(0)
    net = find_parts(make(5), 5)
    pack = pack_around(trace_evaluation(net).SerializeToString(), tensor_specs(net, 5), 5, 100, 40)
    made = with_tflite(pack, ["net"])
    assert_agrees(made, "net", "float32", 1e-5)
    assert_agrees(made, "net", "int8", 0.05)
