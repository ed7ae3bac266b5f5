"""Plans on disk: one is as good as a plan that is made now, and a file that is not whole and sound is planned anew."""

from __future__ import annotations

import os
import random
from collections.abc import Callable
from pathlib import Path

import msgspec
import numpy as np
import pytest
from tests.core import tiny_pack

from auricle.packs.pack import Pack
from auricle_learning.native import plan, plan_shelf, planner
from auricle_learning.native.library import compiler
from auricle_learning.native.plan import Plan, UnsoundPlanError, plan_bytes, plan_of
from auricle_learning.native.plan_shelf import PlanShelf
from auricle_learning.native.planner import plan_graph
from auricle_learning.native.runtime import NativeRuntime
from auricle_learning.runtimes import Job

pytestmark = pytest.mark.skipif(compiler() is None, reason="there is no C compiler here")
SIZE, STEP = 15, 1
BATCH = {
    "x": np.linspace(-1, 1, tiny_pack.BATCH * tiny_pack.FRAMES * tiny_pack.MELS, dtype=np.float32).reshape(
        tiny_pack.BATCH, tiny_pack.FRAMES, tiny_pack.MELS
    ),
    "target": np.eye(3, dtype=np.float32)[np.arange(tiny_pack.BATCH) % 3],
    "weight": np.ones(tiny_pack.BATCH, np.float32),
}
Change = Callable[[list[object]], object]


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Where plans are kept."""
    monkeypatch.setattr(plan_shelf, "native_folder", lambda: tmp_path / "native")
    return tmp_path / "native"


@pytest.fixture
def planned(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Files of the graphs that were planned since the test began."""
    files: list[str] = []

    def noted(pack: Pack, graph: object, batch: int) -> Plan:
        files.append(graph.file)  # type: ignore[attr-defined]
        return plan_graph(pack, graph, batch)  # type: ignore[arg-type]

    monkeypatch.setattr(planner, "plan_graph", noted)
    return files


def _trained(pack: Pack | None = None) -> bytes:
    """The weights after two steps of a runtime that has planned nothing yet."""
    scalars = {"model.rate": 0.5, "model.momentum": 0.25}
    weights = {"model": np.arange(SIZE, dtype=np.float32) / SIZE}
    job = Job(kind="supervised", models={"model": "lite"}, optimizer="sgd", scalars=scalars, weights=weights)
    training = NativeRuntime(pack or tiny_pack.pack()).begin(job)
    for _ in range(2):
        training.step(BATCH)
    return training.weights("model").tobytes()


def _shelf() -> PlanShelf:
    graph = tiny_pack.graphs()[STEP]
    return PlanShelf(tiny_pack.pack(), graph, tiny_pack.BATCH)


def test_a_stored_plan_trains_to_the_same_bits_and_nothing_is_planned(folder: Path, planned: list[str]) -> None:
    first = _trained()
    assert len(planned) == len(list(folder.iterdir())) == 1
    assert _trained() == first
    assert len(planned) == 1
    assert _shelf().path.stat().st_mode & 0o077 == 0


def test_a_plan_is_what_was_stored(folder: Path) -> None:
    made = plan_graph(tiny_pack.pack(), tiny_pack.graphs()[STEP], tiny_pack.BATCH)
    _shelf().write(made)
    read = _shelf().read()
    assert read is not None
    assert (read.inputs, read.outputs) == (made.inputs, made.outputs)
    assert read.program.arena == made.program.arena
    assert np.array_equal(read.program.words, made.program.words)
    assert np.array_equal(read.program.once, made.program.once)
    for (at, numbers), (due, right) in zip(read.constants, made.constants, strict=True):
        assert at == due and np.array_equal(numbers, right.ravel())


def test_another_graph_batch_or_number_of_labels_has_another_plan() -> None:
    pack, graphs = tiny_pack.pack(), tiny_pack.graphs()
    other = pack.with_labels(("a", "b", "c", "d"))
    paths = {PlanShelf(p, g, batch).path for p in (pack, other) for g in graphs for batch in (1, 2)}
    fixed = sum(graph.batch is not None for graph in graphs)
    assert len(paths) == 2 * (2 * len(graphs) - fixed)


@pytest.mark.parametrize("seed", range(60))
def test_a_damaged_file_is_planned_anew(seed: int, planned: list[str]) -> None:
    """Cut off anywhere, longer, empty, or with any bytes changed."""
    right, rng, path = _trained(), random.Random(seed), _shelf().path
    data = bytearray(path.read_bytes())
    if seed % 3 == 0:
        del data[rng.randrange(len(data)) :]
    elif seed % 3 == 1:
        for _ in range(rng.randint(1, 4)):
            data[rng.randrange(len(data))] ^= rng.randint(1, 255)
    else:
        data[rng.randrange(len(data)) :] = rng.randbytes(rng.randint(1, 400))
    path.write_bytes(data)
    assert _shelf().read() is None
    assert _trained() == right
    assert len(planned) == 2
    assert _shelf().read() is not None


def _set(at: int, value: object) -> Change:
    def change(content: list[object]) -> object:
        content[at] = value
        return content

    return change


def _word(at: int, value: int) -> Change:
    def change(content: list[object]) -> object:
        words = np.frombuffer(content[2], "<i4").copy()  # type: ignore[call-overload]
        words[at] = value
        content[2] = words.tobytes()
        return content

    return change


def _slot(which: int, slot: object) -> Change:
    def change(content: list[object]) -> object:
        slots = content[which]
        assert isinstance(slots, dict)
        slots[min(slots)] = slot
        return content

    return change


CHANGES: dict[str, Change] = {
    "no list": lambda _: {"arena": 1},
    "a part more": lambda content: [*content, 1],
    "a part less": lambda content: content[:-1],
    "of another graph": _set(0, "0" * 64),
    "an arena of one number": _set(1, 1),
    "an arena without numbers": _set(1, 0),
    "an arena beyond all memory": _set(1, 1 << 62),
    "half a word": _set(2, b"\0\0\0\0\0\0"),
    "no such operation": _word(0, 99),
    "a length beyond the end": _word(1, 1 << 30),
    "the first word of what is run once": _set(3, b"\7\0\0\0\2\0\0\0"),
    "an input before the arena": _slot(4, [-1, [3]]),
    "an input after the arena": _slot(4, [1 << 29, [3]]),
    "an input of nothing": _slot(4, [0, [0]]),
    "an input of a size that overflows": _slot(4, [0, [1 << 20, 1 << 20, 1 << 20, 1 << 20]]),
    "an input that is not one of the graph's": _set(4, {"speed": [0, [1]]}),
    "an output that reaches over the end": _slot(5, [0, [1 << 29]]),
    "no outputs": _set(5, {}),
    "a constant after the arena": _set(6, [[1 << 29, b"\0\0\0\0"]]),
    "a constant that is cut off": _set(6, [[0, b"\0\0\0"]]),
}
"""What a file with the right checksum may say; `_Content` names the parts in order."""


@pytest.mark.parametrize("name", CHANGES)
def test_an_altered_plan_with_a_right_checksum_is_planned_anew(
    name: str, planned: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    right, path = _trained(), _shelf().path
    content = msgspec.msgpack.decode(plan.opened(path.read_bytes()))
    path.write_bytes(plan.sealed(msgspec.msgpack.encode(CHANGES[name](content))))
    assert _trained() == right
    assert len(planned) == 2
    assert _trained() == right
    assert len(planned) == 2


def test_a_file_that_unpacks_to_too_much_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    made = plan_graph(tiny_pack.pack(), tiny_pack.graphs()[STEP], tiny_pack.BATCH)
    monkeypatch.setattr(plan, "LARGEST_CONTENT", 100)
    with pytest.raises(UnsoundPlanError, match="longer"):
        plan_of(plan_bytes(made, "one"), "one", {}, {})


def test_a_plan_that_others_can_change_is_not_used(folder: Path, planned: list[str]) -> None:
    _trained()
    for place in (folder, _shelf().path):
        mode = place.stat().st_mode
        place.chmod(0o777)
        assert _shelf().read() is None
        place.chmod(mode)
    assert _shelf().read() is not None


def test_a_pipe_at_the_path_of_a_plan_is_not_waited_for(folder: Path, planned: list[str]) -> None:
    first, path = _trained(), _shelf().path
    path.unlink()
    os.mkfifo(path, 0o600)
    assert _trained() == first
    assert len(planned) == 2 and path.is_file()


def test_where_nothing_can_be_kept_a_device_plans_and_trains(folder: Path, planned: list[str]) -> None:
    folder.write_bytes(b"a file where the folder would be")
    assert _trained() == _trained()
    assert len(planned) == 2


def test_only_the_newest_plans_stay(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(plan_shelf, "MOST_STORED", 2)
    made = plan_graph(tiny_pack.pack(), tiny_pack.graphs()[STEP], tiny_pack.BATCH)
    paths = []
    for batch in (1, 2, 4, 8):
        shelf = PlanShelf(tiny_pack.pack(), tiny_pack.graphs()[0], batch)
        shelf.write(made)
        paths.append(shelf.path)
    (folder / "step-of-the-library.so").write_bytes(b"")
    assert sorted(folder.glob("plan-*")) == sorted(paths[2:])
    assert (folder / "step-of-the-library.so").exists()
