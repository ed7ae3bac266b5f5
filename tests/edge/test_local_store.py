"""The local model on disk: what was kept comes back; what is damaged or of another pack counts as none."""

from __future__ import annotations

import tempfile
from pathlib import Path

import msgspec
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from safetensors.numpy import save

from auricle.tensors import TensorSpec, TensorTable
from auricle_edge.local_store import LocalStore
from auricle_edge.train import LocalState

TABLE = TensorTable((TensorSpec("head.weight", (2, 3), "head", 0.5), TensorSpec("head.bias", (2,), "head", 0.5)))
PACK = "a" * 64
STATE = LocalState(
    np.arange(8, dtype=np.float32), {"local.first": np.ones(8, np.float32), "plugin.first": np.zeros(4, np.float32)}, 7
)


def _store(folder: Path, pack: str = PACK, table: TensorTable = TABLE) -> LocalStore:
    return LocalStore(folder, pack, table)


def test_what_was_saved_is_read_by_the_next_process(tmp_path: Path) -> None:
    _store(tmp_path / "device").save(STATE)

    read = _store(tmp_path / "device").read()

    assert read is not None
    assert read.weights.tolist() == STATE.weights.tolist()
    assert {k: v.tolist() for k, v in read.slots.items()} == {k: v.tolist() for k, v in STATE.slots.items()}
    assert read.steps == 7


def test_a_view_is_saved_as_the_numbers_it_shows(tmp_path: Path) -> None:
    _store(tmp_path).save(LocalState(np.arange(16, dtype=np.float32)[::2]))

    read = _store(tmp_path).read()
    assert read is not None
    assert read.weights.tolist() == [0, 2, 4, 6, 8, 10, 12, 14]


def test_nothing_was_kept_yet(tmp_path: Path) -> None:
    assert _store(tmp_path).read() is None
    (tmp_path / "local.safetensors").mkdir()
    assert _store(tmp_path).read() is None


def test_another_packs_or_another_models_state_is_not_used(tmp_path: Path) -> None:
    _store(tmp_path).save(STATE)
    other = TensorTable((TensorSpec("head.weight", (3, 3), "head", 0.5), TensorSpec("head.bias", (3,), "head", 0.5)))

    assert _store(tmp_path, pack="b" * 64).read() is None
    assert _store(tmp_path, table=other).read() is None


def test_a_file_cut_at_any_byte_is_no_state(tmp_path: Path) -> None:
    store = _store(tmp_path)
    store.save(STATE)
    path = tmp_path / "local.safetensors"
    whole = path.read_bytes()

    for length in range(len(whole)):
        path.write_bytes(whole[:length])
        assert store.read() is None, length


def _note(**changes: object) -> dict[str, str]:
    return {"auricle": msgspec.json.encode({"pack": PACK, "steps": 7, **changes}).decode()}


@pytest.mark.parametrize(
    ("tensors", "metadata"),
    [
        ({"weights": np.full(8, np.nan, np.float32)}, _note()),
        ({"weights": np.full(8, np.inf, np.float32)}, _note()),
        ({"weights": np.zeros(8, np.float64)}, _note()),
        ({"weights": np.zeros((2, 4), np.float32)}, _note()),
        ({"weights": np.zeros(7, np.float32)}, _note()),
        ({"weights": np.zeros(8, np.float32), "slot/local.first": np.full(8, np.nan, np.float32)}, _note()),
        ({"other": np.zeros(8, np.float32)}, _note()),
        ({"weights": np.zeros(8, np.float32)}, None),
        ({"weights": np.zeros(8, np.float32)}, {"other": "x"}),
        ({"weights": np.zeros(8, np.float32)}, {"auricle": "not json"}),
        ({"weights": np.zeros(8, np.float32)}, {"auricle": "[]"}),
        ({"weights": np.zeros(8, np.float32)}, {"auricle": "[" * 100_000}),
        ({"weights": np.zeros(8, np.float32)}, _note(steps=-1)),
        ({"weights": np.zeros(8, np.float32)}, _note(steps="7")),
        ({"weights": np.zeros(8, np.float32)}, _note(steps=None)),
        ({"weights": np.zeros(8, np.float32)}, _note(pack=3)),
    ],
)
def test_a_file_that_is_not_ours_is_no_state(
    tmp_path: Path, tensors: dict[str, np.ndarray], metadata: dict[str, str] | None
) -> None:
    (tmp_path / "local.safetensors").write_bytes(save({"weights": np.zeros(8, np.float32)}, metadata=_note()))
    assert _store(tmp_path).read() is not None
    (tmp_path / "local.safetensors").write_bytes(save(tensors, metadata=metadata))

    assert _store(tmp_path).read() is None


_WHOLE = save({"weights": STATE.weights, "slot/local.first": STATE.slots["local.first"]}, metadata=_note())


def _read(data: bytes) -> LocalState | None:
    with tempfile.TemporaryDirectory() as folder:
        (Path(folder) / "local.safetensors").write_bytes(data)
        return _store(Path(folder)).read()


@given(st.binary(max_size=100))
def test_no_file_crashes_the_reader(data: bytes) -> None:
    assert _read(data) is None
    assert _read(len(data).to_bytes(8, "little") + data) is None


@settings(max_examples=300)
@given(place=st.integers(0, len(_WHOLE) - 1), byte=st.integers(0, 255))
def test_a_changed_byte_gives_a_sound_state_or_none(place: int, byte: int) -> None:
    changed = bytearray(_WHOLE)
    changed[place] = byte

    state = _read(bytes(changed))

    if state is not None:
        assert state.weights.shape == (8,)
        assert np.isfinite(state.weights).all()
        assert state.steps >= 0
