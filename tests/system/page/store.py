"""A fleet with a history worth looking at, made by the records' own methods: many devices, rounds, an attacker."""

from __future__ import annotations

import math
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import msgspec
import numpy as np

from auricle.packs.pack import load_pack
from auricle.wire.messages import DeviceState
from auricle.wire.tensors import encode
from auricle_cloud.identity.authority import Authority
from auricle_cloud.storage.blobs import Blobs
from auricle_cloud.storage.state_folders import AUTHORITY
from auricle_cloud.storage.store import FILE, Store
from tests.cloud.api_server import Server, serving
from tests.cloud.filled_store import TASK, Filled, register, update
from tests.cloud.hearing_reports import HOUR, enter, report
from tests.cloud.rolling import ROWS, release

ROUNDS = 8
ATTACKED = 6
ATTACKER = "kitchen-005"
PRUNED = "kitchen-000"
LAYERS = ("conv.0", "conv.1", "gru", "head")


@contextmanager
def served(folder: Path, **sizes: int) -> Iterator[Server]:
    """A filled store behind the real API."""
    filled = fill_fleet(folder, **sizes)
    try:
        with serving(filled) as running:
            yield running
    finally:
        filled.store.close()


def fill_fleet(folder: Path, devices: int = 24, cohort: int = 12, rounds: int = ROUNDS) -> Filled:
    """So many finished rounds of a cohort, of which the seventh judged an attack; one that collects, one planned."""
    store, blobs, pack = Store(folder / FILE), Blobs(folder / "blobs"), load_pack("digits")
    weights = pack.plugin_table.initial(0)
    base = blobs.put(encode(weights))
    names = [f"kitchen-{i:03d}" for i in range(devices)]
    store.database.take_over()
    for i, name in enumerate(names):
        store.devices.register(register(name, pack.identity), "pending" if i == devices - 1 else "approved")
        store.devices.presence(_state(name, online=i % 5 != 3))
    store.models.begin(TASK, pack.identity, base)
    store.rounds.plan(TASK, rounds + 2, who="the-operator")
    members = names[:cohort]
    for number in range(1, rounds + 1):
        base = _round(store, blobs, number, members, base, encode(weights + np.float32(number)))
    _open(store, rounds + 1, base, members)
    body = blobs.put(encode(weights))
    arrived = [update(name, base, body, round=rounds + 1, loss=0.4) for name in members[:3]]
    store.updates.count(arrived)
    store.devices.add_refusals({(PRUNED, "norm"): (3, "the update's norm is 91.2, at most 50 is allowed")})
    store.devices.set_label(PRUNED, "Kitchen, by the window", who="the-operator")
    store.schedules.set("nightly", task=TASK, at="02:30", idle=20, rounds=5, who="the-operator")
    _hear(store)
    store.devices.set_standing([ATTACKER], "quarantined", who="policy", reason="harmful in 1 round")
    _roll_out(store, members)
    Authority.create(folder / AUTHORITY, "Kitchens")
    return Filled(folder, store, blobs, pack)


def _roll_out(store: Store, names: list[str]) -> None:
    """A rollout whose first stage is asked."""
    releases = [msgspec.structs.replace(row, fleet="f") for row in ROWS[:2]]
    store.releases.mirror(releases, who="the-operator")
    with store.database.writing() as tx:
        for name in names:
            store.rollouts.enter(tx, release(name, fleet="f"))
    told: dict[str, Any] = {"label": None, "stages": [25.0, 100.0], "errors": 0.1, "minimum": 3, "soak": 60.0}
    rollout = store.rollouts.start(releases[:1], **told, deadline=600.0, replacing=False, who="the-operator")
    while store.rollouts.step(rollout, time.time(), "f"):
        pass


def _hear(store: Store) -> None:
    """Reports of six hours of one device, whose microphone clips."""
    said = {"level": -28, "noise": -52, "full_scale": "much", "offset": "none", "missed": 1}
    for hour in range(6):
        at = time.time() - (6 - hour) * HOUR
        refused = enter(store, at, report(PRUNED, hour + 1, denied=2 if hour == 5 else 0, **said))
        assert refused is None, refused


def _state(name: str, *, online: bool) -> DeviceState:
    return DeviceState(fleet="f", device=name, boot="boot-1", online=online, agent="1", architecture="crnn-lite")


def _open(store: Store, number: int, base: str, members: list[str], **values: Any) -> None:
    told = {"base": base, "base_version": number - 1, "plan": b"", **values}
    with store.rounds.moving(TASK, number, "planned", "inviting", **told) as tx:
        store.rounds.invite(tx, TASK, number, members)
    store.rounds.move(TASK, number, "inviting", "collecting")


def _round(store: Store, blobs: Blobs, number: int, members: list[str], base: str, weights: bytes) -> str:
    """One finished round; the hash of its model."""
    judged = number == ATTACKED + 1
    detection = _detection(members, number, judged)
    _open(store, number, base, members, detection=detection)
    skill = 0.9 - 0.8 * math.exp(-number / 3) - (0.3 if judged else 0)
    *counted, _silent, failed = members
    rows = []
    for i, name in enumerate(counted):
        known = {"plugin_accuracy": skill, "personal_accuracy": min(1.0, skill + 0.05), "seconds": 1.5 + 0.1 * i}
        known |= {"loss": 1.6 * (1 - skill) + 0.02 * i, "samples": 20 + 5 * i}
        rows.append(update(name, base, f"{i:064x}", round=number, **known))
    store.updates.count(rows)
    store.rounds.mark_failed(TASK, number, failed, "failed", "the disk is full")
    store.rounds.move(TASK, number, "collecting", "closing")
    report: dict[str, Any] = {
        "invited": members,
        "failed": {failed: "the disk is full"},
        "refused": {},
        "dropped": [],
        "warnings": [],
    }
    report |= {"rule": "lpa", "rule_options": {"prune_high": 0.1, "prune_low": 0.1}, "flag": None}
    report |= {"detection": detection, "updates": store.updates.counted(TASK, number)}
    report["layers"] = [_layer(k, counted) for k in range(len(LAYERS))]
    blob = blobs.put(weights)
    accuracy = skill - (0.3 if number == ATTACKED else 0)
    with store.rounds.moving(TASK, number, "closing", "aggregated", report=report) as tx:
        made: dict[str, Any] = {"optimizer": None, "origin": "round", "number": number}
        store.models.add(tx, TASK, blob, **made, accuracy=accuracy, loss=1.7 * (1 - accuracy))
    store.rounds.move(TASK, number, "aggregated", "published")
    if judged:
        store.journal.note("alarm", task=TASK, number=number, detail=detection["sentence"])
        about = {"task": TASK, "number": number, "device": ATTACKER}
        store.journal.note("verdict", **about, detail=f"Shapley value -0.3100 in round {ATTACKED}")
    return blob


def _layer(k: int, counted: list[str]) -> dict[str, Any]:
    """The first device is pruned as too far in every layer but the last, another one as too near."""
    far, near = counted[0 if k < 3 else 1], counted[2 + k]
    samples = {name: 20 + 5 * i for i, name in enumerate(counted) if name not in (far, near)}
    total = sum(samples.values())
    deviation = {name: 0.5 + 0.1 * i for i, name in enumerate(counted)}
    return {
        "layer": LAYERS[k],
        "kept": list(samples),
        "pruned_low": [near],
        "pruned_high": [far],
        "share": {name: samples.get(name, 0) / total for name in counted},
        "deviation": {**deviation, far: 10.0 + len(counted), near: 0.05},
    }


def _detection(members: list[str], number: int, judged: bool) -> dict[str, Any]:
    losses = {name: (2.1 if judged and i % 4 else 0.5) + 0.03 * i for i, name in enumerate(members)}
    found: dict[str, Any] = dict.fromkeys(("warning", "false_alarm")) | {"reference": 0.95, "next_reference": 0.95}
    found |= {"losses": losses, "votes": [], "fires": False, "sentence": "No loss is above the reference."}
    if not judged:
        return found
    votes = [name for name, loss in losses.items() if loss > 0.95]
    values = [-0.31 if name == ATTACKER else 0.01 + 0.004 * i for i, name in enumerate(members)]
    sentence = (
        f"{len(votes)} of {len(members)} losses are above the reference. Round {ATTACKED} was poisoned by {ATTACKER}."
    )
    found |= {"fires": True, "votes": votes, "sentence": sentence, "judged_round": ATTACKED, "bad": [ATTACKER]}
    found |= {"shapley": {name: {"value": value, "error": 0.02} for name, value in zip(members, values, strict=True)}}
    made = {"method": "monte-carlo", "repair": "re-aggregated", "accuracy_before": 0.452, "accuracy_after": 0.781}
    return {**found, **made}
