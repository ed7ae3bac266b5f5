"""Where training starts: rows of known words are moved, others drawn, bodies taken as they are."""

from __future__ import annotations

from typing import Any

import msgspec
import numpy as np
import pytest
from tests.core import tiny_pack

from auricle.errors import PackError, SettingsError
from auricle.packs.first_weights import check_start, choose_weights, first_weights
from auricle.packs.manifest import FileEntry
from auricle.packs.pack import Pack
from auricle.packs.start import start_file
from auricle.wire.tensor_specs import TensorSpec


def bare_pack(width: int = 2) -> Pack:
    """Two untrained models of one shape."""
    specs = (TensorSpec("body.weight", (2, width), "body", 0.5), *tiny_pack.TABLE[1:])
    bare: dict[str, Any] = {"graphs": (), "files": (), "start": {}}
    return Pack(tiny_pack.manifest({}, **bare, name="toy", architectures={"lite": specs, "base": specs}), {})


@pytest.fixture
def trained() -> Pack:
    """Body 1 2 3 4; the rows of yes, no, up are (10, 11), (20, 21), (30, 31), their biases 1, 2, 3."""
    pack = bare_pack()
    flat = np.array([1, 2, 3, 4, 10, 11, 20, 21, 30, 31, 1, 2, 3], np.float32)
    data = start_file(pack.table("lite"), flat)
    start = tiny_pack.pack().manifest.start
    files = (FileEntry.of(tiny_pack.WEIGHTS, data),)
    return Pack(msgspec.structs.replace(pack.manifest, start=start, files=files), {tiny_pack.WEIGHTS: data})


def test_the_same_words_take_the_weights_as_they_are(trained: Pack) -> None:
    assert first_weights(trained, "lite", 5).tolist() == [1, 2, 3, 4, 10, 11, 20, 21, 30, 31, 1, 2, 3]


def test_rows_of_known_words_move_and_those_of_others_are_drawn(trained: Pack) -> None:
    pack = trained.with_labels(("up", "left", "yes", "right"))
    flat = first_weights(pack, "lite", 5, trained)
    table = pack.table("lite")
    drawn = table.initial(5)
    assert flat[:4].tolist() == [1, 2, 3, 4]
    assert table.tensor(flat, "head.weight")[[0, 2]].tolist() == [[30, 31], [10, 11]]
    assert table.tensor(flat, "head.bias")[[0, 2]].tolist() == [3, 1]
    for name in ("head.weight", "head.bias"):
        assert np.array_equal(table.tensor(flat, name)[[1, 3]], table.tensor(drawn, name)[[1, 3]])


def test_without_a_known_word_the_whole_classifier_is_drawn(trained: Pack) -> None:
    pack = trained.with_labels(("left", "right"))
    flat = first_weights(pack, "lite", 5, trained)
    assert flat[:4].tolist() == [1, 2, 3, 4]
    assert np.array_equal(flat[4:], pack.table("lite").initial(5)[4:])


def test_a_pack_without_trained_weights_is_refused_with_what_to_do(trained: Pack) -> None:
    with pytest.raises(PackError, match="no trained weights of base"):
        first_weights(trained, "base", 0)
    with pytest.raises(PackError, match=r"--start scratch.*auricle export pretrain"):
        first_weights(trained.with_labels(("a", "b")), "lite", 0)
    with pytest.raises(PackError, match='no model "light"'):
        first_weights(trained, "light", 0)


def test_another_model_of_the_same_name_is_refused(trained: Pack) -> None:
    with pytest.raises(PackError, match="another model in the pack toy"):
        first_weights(bare_pack(width=3), "lite", 0, trained)


def test_what_start_says_is_done(trained: Pack) -> None:
    taken = first_weights(trained, "lite", 0).tolist()

    assert choose_weights("scratch", trained, "lite", 0) is None
    for start in ("pack", None):
        weights = choose_weights(start, trained, "lite", 0)
        assert weights is not None
        assert weights.tolist() == taken
    assert choose_weights(None, trained, "base", 0) is None
    with pytest.raises(PackError):
        choose_weights("pack", trained, "base", 0)
    with pytest.raises(SettingsError, match='did you mean "scratch"'):
        check_start("scrach")
