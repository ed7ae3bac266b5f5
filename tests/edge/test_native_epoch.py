"""Several steps in one call of the C library: the bits of one after the other, and a flag that ends them."""

from __future__ import annotations

import threading
from collections.abc import Iterator

import numpy as np
import pytest
from tests.learning.toy import PACK, device
from tests.learning.toy_training import PLUGIN

from auricle.errors import AuricleError
from auricle.wire.plan import Plan
from auricle_edge.board.gate import Decision
from auricle_edge.fleet.agent_context import Declined
from auricle_edge.fleet.gate_watch import OPEN, RoundControl
from auricle_learning.native.library import compiler, library
from auricle_learning.native.loaded_program import LoadedProgram
from auricle_learning.native.runtime import NativeRuntime
from auricle_learning.native.writer import Writer
from auricle_learning.runtimes import Job
from auricle_learning.training import epochs
from auricle_learning.training.train import Trainer, TrainingStopped

pytestmark = pytest.mark.skipif(compiler() is None, reason="there is no C compiler here")
TASK = PACK.manifest.task


def _batches(count: int) -> list[dict[str, np.ndarray]]:
    rng = np.random.default_rng(0)
    x = rng.standard_normal((count, 16, TASK.frames, TASK.frontend.mels)).astype(np.float32)
    target = np.eye(len(PACK.labels), dtype=np.float32)[rng.integers(0, len(PACK.labels), (count, 16))]
    return [{"x": x[i], "target": target[i], "weight": np.ones(16, np.float32)} for i in range(count)]


def _job(optimizer: str) -> Job:
    scalars = {"model.rate": 0.05, "model.momentum": 0.5} if optimizer == "sgd" else {"model.rate": 1e-3}
    weights = {"model": PACK.table("crnn-lite").initial(0)}
    return Job(kind="supervised", models={"model": "crnn-lite"}, optimizer=optimizer, weights=weights, scalars=scalars)


@pytest.mark.parametrize("optimizer", ["sgd", "adamw"])
def test_steps_in_one_call_are_those_one_after_the_other(optimizer: str) -> None:
    """AdamW's counter goes on, also from a step alone to several and back."""
    runtime, batches = NativeRuntime(PACK), _batches(6)
    one, many = runtime.begin(_job(optimizer)), runtime.begin(_job(optimizer))
    alone = [one.step(batch) for batch in batches]
    together = [many.step(batches[0]), *many.step_through(batches[1:4]), *many.step_through([]), many.step(batches[4])]  # type: ignore[attr-defined]
    together += many.step_through(batches[5:])  # type: ignore[attr-defined]
    assert together == alone and many.steps == one.steps == 6
    assert many.weights("model").tobytes() == one.weights("model").tobytes()
    for name, value in one.slots().items():
        assert many.slots()[name].tobytes() == value.tobytes()


def test_a_set_flag_lets_the_first_step_be_made_and_no_other() -> None:
    runtime, batches = NativeRuntime(PACK), _batches(3)
    one, many = runtime.begin(_job("adamw")), runtime.begin(_job("adamw"))
    assert many.step_through(batches, np.ones(1, np.int32)) == [one.step(batches[0])]  # type: ignore[attr-defined]
    assert many.step_through(batches[1:], np.zeros(1, np.int32)) == [one.step(b) for b in batches[1:]]  # type: ignore[attr-defined]
    assert many.weights("model").tobytes() == one.weights("model").tobytes()


def test_another_thread_ends_a_call_that_is_under_way() -> None:
    """The flag is looked at while the library runs: of a million batches only some are made."""
    writer = Writer()
    x = writer.keep((4096,))
    made = writer.elementwise("tanh", [x])
    loaded = LoadedProgram(library(), writer.program([x, made]))
    stop, arena = np.zeros(1, np.int32), loaded.arena()
    arena[:] = 1

    def end() -> None:
        while arena[made.store.offset] == 1:
            pass  # until the first batch is done
        stop[0] = 1

    ender = threading.Thread(target=end)
    ender.start()
    nothing, places = np.zeros(0, np.int64), np.zeros((0, 2), np.int64)
    found = loaded.run_batches(arena, np.zeros((1_000_000, 0), np.float32), places, nothing, stop)
    ender.join()
    assert 1 <= len(found) < 1_000_000


@pytest.mark.parametrize(
    ("place", "result"), [((-1, 4), 0), ((0, -1), 0), ((1 << 40, 4), 0), ((1 << 62, 1 << 62), 0), ((0, 4), -1)]
)
def test_values_outside_of_the_arena_are_refused(place: tuple[int, int], result: int) -> None:
    writer = Writer()
    x = writer.keep((4,))
    loaded = LoadedProgram(library(), writer.program([x, writer.elementwise("neg", [x])]))
    numbers = np.zeros((1, 4), np.float32)
    for each, at in ((place, result), ((0, 4), 1 << 40)):
        with pytest.raises(AuricleError):
            loaded.run_batches(loaded.arena(), numbers, np.array([each], np.int64), np.array([at], np.int64))


PLAN = Plan(rate=0.1, local_rate=0.1, plugin_ce=1.0, epochs=2)


def _trainer(runtime: NativeRuntime) -> Trainer:
    return Trainer(runtime, "crnn-lite", device(40), 0)


def test_a_devices_round_is_the_same_with_the_gates_flag() -> None:
    trainer = _trainer(NativeRuntime(PACK))
    alone = trainer.run(PLAN, 1, PLUGIN, trainer.first_state())
    together = trainer.run(PLAN, 1, PLUGIN, trainer.first_state(), RoundControl(OPEN, 100))
    assert together.plugin.tobytes() == alone.plugin.tobytes()
    assert together.local.weights.tobytes() == alone.local.weights.tobytes()


class _Busy(RoundControl):
    """A gate that waits, stops or declines when it was asked so often."""

    def __init__(self, then: str, after: int) -> None:
        super().__init__(OPEN, 100)
        self.then, self.left = then, after

    def __call__(self) -> bool:
        self.left -= 1
        if self.left == 0:
            self.stop() if self.then == "stop" else self.heed(Decision(self.then, "It is hot."))  # type: ignore[arg-type]
        return super().__call__()


@pytest.mark.parametrize(("then", "raised"), [("stop", TrainingStopped), ("decline", Declined)])
def test_a_gate_that_closes_ends_a_round(then: str, raised: type[Exception]) -> None:
    trainer = _trainer(NativeRuntime(PACK))
    with pytest.raises(raised):
        trainer.run(PLAN, 1, PLUGIN, trainer.first_state(), _Busy(then, 2))


class _Recorded:
    """A job that notes what it is told, and is interrupted in its second call."""

    batch, steps = 16, 0

    def __init__(self) -> None:
        self.calls: list[int] = []

    def step(self, batch: object) -> dict[str, float]:
        raise AssertionError("batches are given together")

    def step_through(self, batches: list[object], stop: np.ndarray | None = None) -> list[dict[str, float]]:
        self.calls.append(len(batches))
        made = len(batches) if len(self.calls) != 2 else 1
        return [{"loss": 1.0}] * made


def test_batches_wait_in_pieces_and_are_begun_again_where_a_call_ended(monkeypatch: pytest.MonkeyPatch) -> None:
    """Seven batches of which three may wait: three, three of which one is made, the other two, one; each asked for."""
    batches, asked = [{"x": np.full(1, i, np.float32)} for i in range(7)], []

    class Control(RoundControl):
        def __call__(self) -> bool:
            asked.append(len(training.calls))
            return super().__call__()

    def given() -> Iterator[dict[str, np.ndarray]]:
        yield from batches

    monkeypatch.setattr(epochs, "MOST_WAITING", 12)
    training = _Recorded()
    done = list(epochs.steps(training, given(), Control(OPEN, 100)))  # type: ignore[arg-type]
    assert [float(batch["x"][0]) for batch, _ in done] == [0, 1, 2, 3, 4, 5, 6]
    assert training.calls == [3, 3, 2, 1]
    assert asked == [0, 1, 2, 3]


def test_a_flag_says_what_a_call_would_do() -> None:
    control = RoundControl(OPEN, 100)
    seen = [int(control.flag[0])]
    for decision in (Decision("wait", "Somebody speaks."), OPEN, Decision("decline", "It is hot."), OPEN):
        control.heed(decision)
        seen.append(int(control.flag[0]))
    control.stop()
    assert [*seen, int(control.flag[0])] == [0, 1, 0, 1, 0, 1]
