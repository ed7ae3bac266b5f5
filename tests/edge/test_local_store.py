"""The local model on disk: what was kept comes back; what is damaged or of another pack counts as none."""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from safetensors.numpy import save

from auricle.wire.tensor_specs import TensorSpec
from auricle.wire.tensors import TensorTable
from auricle_edge.training.local_store import LocalStore
from auricle_learning.training.train import LocalState

TABLE = TensorTable((TensorSpec("head.weight", (2, 3), "head", 0.5), TensorSpec("head.bias", (2,), "head", 0.5)))
PACK = "a" * 64
SLOTS = {"local.first": np.ones(8, np.float32), "plugin.first": np.zeros(4, np.float32)}
STATE = LocalState(np.arange(8, dtype=np.float32), SLOTS, 7, {"feddyn": np.arange(3, dtype=np.float32)})
ZEROS = {"weights": np.zeros(8, np.float32)}


def _store(folder: Path, pack: str = PACK, table: TensorTable = TABLE) -> LocalStore:
    return LocalStore(folder, pack, table)


def test_what_was_saved_is_read_by_the_next_process(tmp_path: Path) -> None:
    _store(tmp_path / "device").save(STATE)
    read = _store(tmp_path / "device").read()
    assert read is not None
    assert (read.weights.tolist(), read.steps) == (STATE.weights.tolist(), 7)
    assert {k: v.tolist() for k, v in read.slots.items()} == {k: v.tolist() for k, v in STATE.slots.items()}
    assert {k: v.tolist() for k, v in read.variates.items()} == {"feddyn": [0, 1, 2]}


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
        ({**ZEROS, "slot/local.first": np.full(8, np.nan, np.float32)}, _note()),
        ({"other": np.zeros(8, np.float32)}, _note()),
        *((ZEROS, other) for other in (None, {"other": "x"})),
        *((ZEROS, {"auricle": text}) for text in ("not json", "[]", "[" * 100_000)),
        *((ZEROS, _note(**wrong)) for wrong in ({"steps": -1}, {"steps": "7"}, {"steps": None}, {"pack": 3})),
    ],
)
def test_a_file_that_is_not_ours_is_no_state(
    tmp_path: Path, tensors: dict[str, np.ndarray], metadata: dict[str, str] | None
) -> None:
    (tmp_path / "local.safetensors").write_bytes(save(ZEROS, metadata=_note()))
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


# -- going back


def _state(number: int) -> LocalState:
    return LocalState(np.full(8, number, np.float32), {}, number)


def _steps(state: LocalState | None) -> int | None:
    return None if state is None else state.steps


def _saved(folder: Path, *numbers: int) -> LocalStore:
    store = _store(folder)
    for number in numbers:
        store.save(_state(number))
    return store


def _kept(folder: Path) -> list[int | None]:
    """Steps of the newest state and of those before it, each read as if it were the newest."""
    found = []
    for path in (folder / "local.safetensors", *sorted(folder.glob("local.?.safetensors"))):
        with tempfile.TemporaryDirectory() as alone:
            shutil.copy(path, Path(alone) / "local.safetensors")
            found.append(_steps(_store(Path(alone)).read()))
    return found


def test_the_two_states_before_the_newest_are_kept(tmp_path: Path) -> None:
    store = _saved(tmp_path, 1, 2, 3, 4)
    assert (_steps(store.read()), _steps(store.previous())) == (4, 3)
    assert _kept(tmp_path) == [4, 3, 2]


def test_a_state_that_did_not_change_pushes_none_out(tmp_path: Path) -> None:
    store = _saved(tmp_path, 1, 2, 2, 2)
    assert (_steps(store.read()), _steps(store.previous())) == (2, 1)


def test_a_damaged_or_foreign_state_is_none_to_go_back_to(tmp_path: Path) -> None:
    store = _saved(tmp_path, 1, 2, 3)
    (tmp_path / "local.1.safetensors").write_bytes(b"damaged")
    assert _steps(store.previous()) == 1
    assert _store(tmp_path, pack="b" * 64).previous() is None


def test_a_packs_model_is_there_again_when_its_update_is_taken_back(tmp_path: Path) -> None:
    old, new = _saved(tmp_path, 1, 2), _store(tmp_path, pack="b" * 64)
    assert new.read() is None
    new.save(_state(7))
    assert (_steps(new.read()), new.previous()) == (7, None)
    assert _steps(old.read()) == 2
    old.save(_state(3))
    assert _steps(_store(tmp_path).read()) == 3
    assert _steps(_store(tmp_path, pack="b" * 64).read()) == 7


def test_where_there_are_no_links_the_state_before_is_a_copy(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object, **__: object) -> None:
        raise PermissionError("no links here")

    monkeypatch.setattr(os, "link", refuse)
    _saved(tmp_path, 1, 2, 3)
    assert _kept(tmp_path) == [3, 2, 1]


class _PowerCut(BaseException):
    """The power is gone."""


class _Power:
    """Goes out before or after the so many-th change on the disk."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, at: int, after: bool) -> None:
        self.left, self.after = at, after
        for name in ("replace", "rename", "link", "unlink", "fsync", "write", "open"):
            monkeypatch.setattr(os, name, self._cut(getattr(os, name)))

    def _cut(self, change: Callable[..., Any]) -> Callable[..., Any]:
        def changed(*args: Any, **kwargs: Any) -> Any:
            self.left -= 1
            if self.left < 0 and not (self.after and self.left == -1):
                raise _PowerCut
            result = change(*args, **kwargs)
            if self.left < 0:
                raise _PowerCut
            return result

        return changed


@pytest.mark.parametrize("after", [False, True], ids=["before", "after"])
@pytest.mark.parametrize("at", range(12))
def test_a_power_cut_at_any_change_leaves_whole_states(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, at: int, after: bool
) -> None:
    store = _saved(tmp_path, 1, 2, 3)
    with monkeypatch.context() as patch:
        _Power(patch, at, after)
        try:
            store.save(_state(4))
            done = True
        except _PowerCut:
            done = False
    again = _store(tmp_path)
    now = _steps(again.read())
    assert now == 4 if done else now in (3, 4)
    earlier = _steps(again.previous())
    assert earlier in ({4: (3,), 3: (2, 1)}[now or 0])
    again.save(_state(9))
    assert _kept(tmp_path) == [9, now, earlier]
