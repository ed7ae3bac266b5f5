"""`.tflite` models of whole networks: LiteRT against onnxruntime on the pack's own evaluation graph."""

from __future__ import annotations

import msgspec
import pytest
from tests.export.tflite_toy import assert_agrees, needs_litert

from auricle.checks.tflite_weights import check_buffers, is_quantised, with_weights
from auricle.packs.pack import load_pack

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


def test_the_same_pack_gives_the_same_bytes() -> None:
    assert tflite_model(load_pack("digits"), "crnn-lite") == tflite_model(load_pack("digits"), "crnn-lite")


@pytest.mark.parametrize("name", ["digits", "gsc35"])
def test_any_number_of_labels_is_translated(name: str) -> None:
    assert_agrees(with_tflite(load_pack(name), ["crnn-lite"], ["float32"]), "crnn-lite", "float32", 2e-6)


def test_other_labels_leave_the_files_behind_and_can_be_translated_again() -> None:
    pack = with_tflite(load_pack("gsc12"), ["crnn-lite"])
    other = pack.with_labels(["left", "right"])

    assert other.manifest.tflite == () and not any(path.endswith(".tflite") for path in other.files)
    assert_agrees(with_tflite(other, ["crnn-lite"], ["float32"]), "crnn-lite", "float32", 2e-6)


def test_a_second_translation_replaces_the_first() -> None:
    once = with_tflite(load_pack("digits"), ["crnn-lite"])
    again = with_tflite(once, ["crnn-lite"], ["int8"], {"crnn-lite": once.plugin_table.initial(5)})

    assert [entry.precision for entry in again.manifest.tflite] == ["float32", "int8"]
    assert again.identity != once.identity
    assert msgspec.structs.replace(again.manifest, files=()) == msgspec.structs.replace(once.manifest, files=())
