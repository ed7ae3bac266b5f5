"""The offline check that ends every system test (PROTOCOL section 7), from the logs of all sides and the database."""

from __future__ import annotations

import json
import logging
from collections.abc import Sequence
from contextlib import closing
from dataclasses import dataclass, field
from pathlib import Path

from auricle.mqtt_link.broker_rights import Roles, covers
from auricle.packs.pack import Pack
from auricle.wire.tensors import Flat, decode, digest, encode
from auricle_cloud.rounds.read_cohort import cohort_of
from auricle_cloud.storage.blobs import BlobStore
from auricle_cloud.storage.rows import RoundRow, UpdateRow
from auricle_cloud.storage.store import Store
from auricle_learning.aggregation.next_model import next_model
from auricle_learning.aggregation.server_optimizer import OptimizerState
from auricle_learning.presets import Preset
from tests.system.killed_coordinator import FLEET

COUNTED = ("accepted", "duplicate", "stale")
"""Verdicts that say that an update counts."""


@dataclass
class DeviceLog(logging.Handler):
    """What agents say that they intended and saw acknowledged, and what canaries were delivered."""

    intended: set[tuple[str, int, str]] = field(default_factory=set)  # (device, round, body)
    acknowledged: list[tuple[str, int, str, int, str]] = field(default_factory=list)
    """(device, round, body, epoch, verdict) in order."""
    strange: list[str] = field(default_factory=list)
    """Sentences of agents about messages that the coordinator has not signed."""
    delivered: dict[str, list[str]] = field(default_factory=dict)  # topics of what each canary was delivered

    def __post_init__(self) -> None:
        logging.Handler.__init__(self)

    def __hash__(self) -> int:
        return id(self)

    def emit(self, record: logging.LogRecord) -> None:
        """Take in what an agent of this process logged."""
        self.take(record.msg, record.args if isinstance(record.args, tuple) else ())

    def read(self, path: Path) -> None:
        """Take in what agents of other processes wrote down, see `killed_agent`."""
        for line in path.read_text().splitlines():
            message, *said = json.loads(line)
            self.take(message, said)

    def take(self, message: str, said: Sequence[object]) -> None:
        """Take in a message and its arguments."""
        if "intends body" in message:
            self.intended.add((str(said[0]), int(str(said[1])), str(said[2])))
        elif "attempt" in message and "epoch" in message:
            device, number, _, body, epoch, verdict = said
            self.acknowledged.append((str(device), int(str(number)), str(body), int(str(epoch)), str(verdict)))
        elif "ignored a message on" in message or "ignored the coordinator" in message:
            self.strange.append(message % tuple(said))


def counted_rows(store: Store, task: str) -> list[UpdateRow]:
    """What counts, in all rounds."""
    finished = store.rounds.newest(task)
    assert finished is not None
    return [row for number in range(1, finished.round + 1) for row in store.updates.counted(task, number)]


def tally(log: DeviceLog, rows: Sequence[UpdateRow]) -> dict[str, int]:
    """Figures of a run: who counted and how often, what was acknowledged, and of it what is lost or counts twice."""
    counted = {(row.device, row.round): row.body for row in rows}
    answered = {(device, number, body) for device, number, body, _, verdict in log.acknowledged if verdict in COUNTED}
    return {
        "devices": len({row.device for row in rows}),
        "rounds": len({row.round for row in rows}),
        "counted": len(rows),
        "acknowledged": len(answered),
        "lost": sum(counted.get((device, number)) != body for device, number, body in answered),
        "doubled": len(rows) - len(counted),
    }


def check(store: Store, task: str, log: DeviceLog) -> list[UpdateRow]:
    """Compare what devices saw with what was counted; the counted rows."""
    _check_rights(store, log)
    rows = counted_rows(store, task)
    keys = [(row.device, row.round) for row in rows]
    assert len(keys) == len(set(keys)), "a key was counted twice"
    counted = {(row.device, row.round): row.body for row in rows}
    for device, number, body, _, verdict in log.acknowledged:
        if verdict in COUNTED:
            assert counted.get((device, number)) == body, f"{device}, round {number}: {verdict}, not counted"
    for (device, number), body in counted.items():
        assert (device, number, body) in log.intended, f"{device} never meant {body[:8]} for round {number}"
    obeyed: dict[str, int] = {}
    for device, _, _, epoch, _ in log.acknowledged:
        assert epoch >= obeyed.get(device, epoch), f"{device} obeyed a lower epoch"
        obeyed[device] = epoch
    return rows


def _check_rights(store: Store, log: DeviceLog) -> None:
    for user, topics in log.delivered.items():
        assert topics, f"{user} was delivered nothing at all: it did not test anything"
        readable = Roles(FLEET).of(user).read
        outside = {topic for topic in topics if not any(covers(wanted, topic) for wanted in readable)}
        assert not outside, f"{user} was delivered {sorted(outside)}"
    forged = [row for row in store.devices.refusals() if row.code == "frame"]
    assert not forged, f"the coordinator was delivered what no device wrote: {forged}"
    assert not log.strange, log.strange


def check_models(
    store: Store, blobs: BlobStore, pack: Pack, task: str, preset: Preset, horizon: int, *, kept: bool = True
) -> str:
    """(c) Every model's bytes equal a recomputation from its round's counted set; the current model's hash."""
    rule = preset.method.get_rule()
    size = pack.plugin_table.size
    for model in store.models.all(task, 10_000):
        if model.origin != "round":
            continue
        row = store.rounds.get(task, model.round)
        if not kept and model.version != store.models.current(task).version and not _is_there(store, blobs, task, row):
            continue
        before = store.models.get(task, row.base_version)
        saved = before.optimizer
        state = None if saved is None else OptimizerState.from_bytes(blobs.get(saved), size)
        counted = store.updates.counted(task, model.round)

        def base_of(number: int) -> Flat:
            return decode(blobs.get(store.rounds.get(task, number).base), size)

        older = base_of if row.mode == "async" else None
        cohort = cohort_of(pack.plugin_table, decode(blobs.get(row.base), size), counted, blobs, older)
        made = next_model(cohort, rule, preset.server_for(model.round, horizon), state)
        assert digest(encode(made.weights)) == model.blob, f"round {model.round} made other bytes"
    return str(store.models.current(task).blob)


def _is_there(store: Store, blobs: BlobStore, task: str, row: RoundRow) -> bool:
    """Whether everything that a round's model was made of is still there."""
    bodies = {update.body for update in store.updates.counted(task, row.round)}
    versions = {model.version for model in store.models.all(task, 10_000)}
    return bodies | {row.begun.base} <= set(blobs.names()) and row.begun.version in versions


def open_store(place: str | Path) -> closing[Store]:
    """The coordinator's database as it was left, to be used in a `with`."""
    return closing(Store(place))
