"""A coordinator that kills itself: `python -m tests.system.killed_coordinator SETTINGS` with the settings as JSON.

`kill` is the label of a point, e.g. `before closing -> aggregated` or `before ack`; the process gets SIGKILL there.
`request` is a point after which an operator asks to abort the round, `start` before it is begun. It prints a line of
JSON with its key, one for every round, with `tell` one for every point, and at the end one with the largest sizes it
had.
"""

from __future__ import annotations

import asyncio
import dataclasses
import gc
import json
import logging
import os
import resource
import signal
import socket
import sqlite3
import sys
import threading
import time
import tracemalloc
from collections.abc import Callable, Iterable, Sequence
from contextlib import closing
from pathlib import Path
from typing import Any

import msgspec
import numpy as np

from auricle.errors import AuricleError
from auricle.mqtt_link.link import BrokerAddress, Delivery
from auricle.packs.pack import Pack, load_pack
from auricle.process.cycles import look_seldom
from auricle.process.heaps import share_heaps
from auricle.process.until_signal import until_signal
from auricle.wire.frames import device_of
from auricle.wire.messages import Asked, Update
from auricle.wire.plan import Plan
from auricle_cloud.evaluation.evaluator import choose_evaluator
from auricle_cloud.evaluation.validation_set import ValidationSet
from auricle_cloud.rounds import coordinator as coordinator_module
from auricle_cloud.rounds.coordinator import Coordinator
from auricle_cloud.settings import Buffer, Detection, RoundDone, RunSettings, SecureSum
from auricle_cloud.states.verdict import Verdict
from auricle_cloud.storage.store import FILE
from auricle_learning.aggregation.server_optimizer import OptimizerSettings
from auricle_learning.methods import MethodSettings
from auricle_learning.presets import Preset
from tests.system.full_disk import SmallDisk
from tests.system.shifted_clock import ShiftedClock

FLEET, TASK = "f", "keywords"
KEPT = 20  # models, where not all are kept


class Told(msgspec.Struct, frozen=True):
    broker: str
    folder: str
    rounds: int
    kill: str = ""
    request: str = ""
    database: str | None = None
    detect: bool = False
    one_phase: bool = False  # with `detect`: losses come with the updates
    losses: bool = True  # with `detect`: False judges each round's updates by Shapley values
    keep: bool = True
    """Every body and model is kept, which the checker needs to make all models again; False: as a coordinator does."""
    server_rate: float = 0.5
    devices: int = 3
    deadline: float = 60.0
    quorum: float = 1.0
    least_wait: float = 0.2  # seconds that a round lasts at least, unless everybody who is online has answered
    secure: bool = False  # rounds whose updates become known as a sum alone, averaged by fedavg
    sum_wait: float = 60.0  # seconds to wait in each state of such a round
    buffer: int = 0  # above 0: asynchronous rounds of so many updates
    slow: float = 0.0  # seconds more that every update takes to be counted
    at_once: int = 0  # above 0: messages in hand at a time
    keepalive: int = 0  # above 0: seconds of the link's keepalive
    sockets: int = 0  # open sockets beside those that are needed
    tell: bool = False
    trace: bool = False
    """Each round's line has the bytes that Python and NumPy hold at its end, without what C libraries keep."""
    pause: str = ""  # the point at which, the first time, the process gets SIGSTOP
    fill: str = ""  # the point at which, the first time, the disk that holds the folder's parent is filled
    jumps: tuple[float, ...] = ()  # seconds by which the process's clock is off after each round, in turn


def preset(server_rate: float, *, secure: bool = False) -> Preset:
    """Mutual learning with LPA and server momentum: state of every kind; with FedAvg where updates are hidden."""
    return Preset(
        Plan(rate=0.1, local_rate=0.1),
        MethodSettings("fedavg") if secure else MethodSettings("lpa", {"prune_low": 0.0, "prune_high": 0.34}),
        OptimizerSettings(kind="momentum", lr=server_rate, beta1=0.5),
    )


def _noise(pack: Pack) -> ValidationSet:
    """Features without speech, by which any model can be judged."""
    shape = 20, *pack.manifest.task.input_shape
    targets = np.arange(20, dtype=np.int64) % len(pack.labels)
    return ValidationSet(np.random.default_rng(5).standard_normal(shape).astype(np.float32), targets)


def _print(**said: Any) -> None:
    print(json.dumps(said), flush=True)


class Killed(Coordinator):
    """A coordinator with points at which it ends."""

    def __init__(self, told: Told) -> None:
        self.orders, self._passed, self.clock = told, False, ShiftedClock()
        if told.jumps:
            self.clock.install()
        self.peaks = {"waiting": 0.0, "in_hand": 0.0, "connections": 0.0, "grown_mb": 0.0}
        self.first_mb = 0.0
        same = {name: getattr(told, name) for name in ("devices", "quorum", "deadline", "least_wait", "database")}
        rounds: dict[str, Any] = {"mode": "async" if told.buffer else "sync", "buffer": Buffer(told.buffer or 1)}
        rounds["secure_sum"] = SecureSum(on=told.secure, wait=told.sum_wait)
        detection = Detection(wait=60.0, one_phase=told.one_phase, losses=told.losses)
        rounds["detection"] = detection if told.detect else None
        about = {"preset": preset(told.server_rate, secure=told.secure), "gather": 60.0, "patience": 0.0}
        kept = 100_000 if told.keep else KEPT
        place = (BrokerAddress.parse(told.broker), Path(told.folder), told.rounds)
        settings = RunSettings(FLEET, *place, **about, **same, **rounds, keep_models=kept)
        pack = load_pack("digits")
        judge = None if told.losses else choose_evaluator(pack, _noise(pack))[0]
        super().__init__(settings, pack, self._show, judge, probe=self._point)
        if told.keep:
            self.blobs.remove_all = lambda _names: None  # type: ignore[method-assign,assignment]
        tell = self.site.messenger.tell

        async def telling(messages: Callable[[str], Sequence[Asked]], devices: Iterable[str]) -> None:
            self._point("invite")
            await tell(messages, devices)

        self.site.messenger.tell = telling  # type: ignore[method-assign]
        answer = self.dispatcher.on_update

        async def answering(update: Update, verdict: Verdict) -> None:
            """Points around the acknowledgement, which comes after the commit."""
            self._point("before ack")
            await answer(update, verdict)
            self._point("after ack")

        self.dispatcher.on_update = answering  # type: ignore[method-assign]
        if told.slow:
            self._slow_down(told.slow)
        if told.keepalive:
            self.link.settings = dataclasses.replace(self.link.settings, keepalive=told.keepalive)
        self._open = [socket.socket() for _ in range(told.sockets)]

    async def _show(self, done: RoundDone) -> None:
        counted = (
            done.counted + done.left_out
        )  # LPA may leave a device out of every layer: its update counts all the same
        _print(round=done.number, state=done.state, invited=done.invited, counted=counted, **self._held())
        if self.orders.jumps:
            self.clock.seconds = self.orders.jumps[done.number % len(self.orders.jumps)]
            _print(clock=self.clock.seconds)

    def _held(self) -> dict[str, int]:
        if not self.orders.trace:
            return {}
        gc.collect()
        return {"held": tracemalloc.get_traced_memory()[0]}

    def _slow_down(self, seconds: float) -> None:
        commit = self.inbox._updates._ledger._commit

        def slowly(arrived: Sequence[Any]) -> list[Verdict]:
            time.sleep(seconds * len(arrived))
            return commit(arrived)

        self.inbox._updates._ledger._commit = slowly  # type: ignore[method-assign]

    def _point(self, name: str) -> None:
        if self.orders.tell:
            _print(point=name)
        if name == self.orders.request:
            row = self.store.rounds.due(TASK)
            assert row is not None
            self.store.rounds.request(TASK, row.round, "abort", who="test")
        if name == self.orders.pause and not self._passed:
            self._passed = True
            self._pause()
        if name == self.orders.fill and not self._passed:
            self._passed = True
            SmallDisk(Path(self.orders.folder).parent).fill()
        if name == self.orders.kill:
            os.kill(os.getpid(), signal.SIGKILL)

    def _pause(self) -> None:
        """Stop while no thread writes: with SQLite nobody could take over from a process that holds its lock."""
        with closing(sqlite3.connect(self.settings.folder / FILE, timeout=10)) as database:
            database.execute("BEGIN IMMEDIATE")
            database.rollback()
        # To this thread: sent to the process, it would let the thread run on for a while, into a transaction.
        signal.pthread_kill(threading.get_ident(), signal.SIGSTOP)

    async def _rounds(self) -> None:
        """Say when rounds are not gone on with, and only what is in hand is still done."""
        try:
            await super()._rounds()
        finally:
            self._point("no more rounds")

    async def _take(self, arrived: Delivery) -> None:
        waiting = super()._take(arrived)
        if waiting is not None:
            await waiting
        if arrived.topic.endswith("/up/upd"):
            self._point(f"in hand: {device_of(arrived.topic)}")
        in_hand = coordinator_module.MOST_AT_ONCE - self._lanes._free
        resident = int(Path("/proc/self/statm").read_text().split()[1]) * resource.getpagesize() / 1e6
        self.first_mb = self.first_mb or resident
        now = {"waiting": self.link.waiting, "in_hand": in_hand, "connections": self.link.counters.connections}
        now["grown_mb"] = resident - self.first_mb
        self.peaks = {name: max(value, now[name]) for name, value in self.peaks.items()}


def main() -> int:
    """Run until all rounds are done, the point is reached or a signal comes."""
    told = msgspec.json.decode(sys.argv[1], type=Told)
    logging.basicConfig(level=logging.WARNING)
    coordinator_module.MOST_AT_ONCE = told.at_once or coordinator_module.MOST_AT_ONCE
    share_heaps()  # as `serve` does, and looks seldom
    if told.trace:
        tracemalloc.start()
    try:
        return asyncio.run(_run(Killed(told)))
    except AuricleError as error:
        print(error, file=sys.stderr)
        return 1


async def _run(coordinator: Killed) -> int:
    if coordinator.orders.request == "start":
        coordinator._begin()
        coordinator._point("start")
    _print(key=coordinator.identity.public.hex(), epoch=coordinator.epoch, pid=os.getpid())
    look_seldom()
    await until_signal(coordinator.run())
    _print(peaks=coordinator.peaks)
    return 0


def as_argument(**told: Any) -> str:
    return msgspec.json.encode(Told(**told)).decode()


if __name__ == "__main__":
    sys.exit(main())
