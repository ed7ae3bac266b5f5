"""What a fleet needs by the constants: a round's cost, the limit that it meets first, and what to buy."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from auricle_cloud.link.assembly import BUDGET_BYTES
from auricle_cloud.rounds.arrived_weights import MOST
from auricle_cloud.settings import RunSettings
from auricle_cloud.storage.remote_blobs import AT_ONCE
from auricle_edge.fleet.agent_context import AgentSettings
from bench.capacity_model import Load, parts_of, value

Lines = Mapping[str, Any]

ROUNDS_A_DAY = 24
REQUEST_SECONDS = 0.02
"""Of a request to an object store in the same region: an assumption."""
LINK_BYTES = 125e6
"""A second, of a network of 1 Gbit/s."""
SERVER_BYTES = 64e9
"""Memory of the largest server that is thought of."""
KEEPALIVE_SECONDS = 60
PING_BYTES = 2 * (2 + 52) + 52
"""Of a keepalive: two packets of 2 bytes in headers of TCP and IP of 52, and an acknowledgement."""
MANIFEST_BYTES = 700
"""Of the message that tells every connected device of a new model."""
CHUNK_HEAD_BYTES = 110
"""Of a part of a model: its topic and MQTT's own."""
QUEUE_BYTES, QUEUE_MESSAGES = 1 << 30, 100_000
"""What mosquitto keeps for the coordinator, by the configuration of `auricle cloud enrol broker`."""
BUSY = 0.5
"""Share of a core that questions may take, so that a round has the rest."""
SPARE = 1.5
"""Times the memory of the model that is bought."""
SYSTEM_BYTES = 1e9
"""Memory that the rest of a server takes."""


@dataclass(frozen=True)
class Cost:
    """Of a round, and of what there is beside it."""

    coordinator_cpu: float
    """CPU seconds, with the rule's."""
    rule_cpu: float
    broker_cpu: float
    asking: float
    """Share of a core that the coordinator is busy with questions of idle devices."""
    broker_idle: float
    """Share of a core that the broker is busy with them, and with keepalives."""
    coordinator_bytes: float
    """Memory at most."""
    broker_bytes: float
    up: float
    """Bytes that devices send in a round."""
    down: float
    """Bytes that they are sent."""
    idle_bytes: float
    """Bytes a second of questions and keepalives."""
    commits: float
    rows: float
    database_bytes: float
    requests: Mapping[str, float]
    """Of an object store, by kind."""
    seconds: float
    """Of a round, without the devices' training; infinite where the coordinator does not keep up."""
    stored_seconds: float
    """Of them, with an object store."""


def cost_of(load: Load, lines: Lines, rule: str = "lpa") -> Cost:
    """What a round of a load costs, all updates at once.

    Parameters
    ----------
    lines
        As `capacity_lines.lines_of` makes them.
    rule
        One of `lines["rules"]`.
    """
    rates = load.devices / AgentSettings.ask_every, load.devices / KEEPALIVE_SECONDS
    asking = rates[0] * lines["coordinator_ask_cpu"]["once"]
    broker_idle = rates[0] * lines["broker_ask_cpu"]["once"] + rates[1] * lines["keepalive_cpu"]["once"]
    rule_cpu = value(lines["rules"][rule]["cpu"], load)
    cpu, broker = value(lines["coordinator_cpu"], load) + rule_cpu, value(lines["broker_cpu"], load)
    down = _down(load, lines)
    up = value(_changing(lines["sent"]), load)
    requests = {kind: value(line, load) for kind, line in lines["requests"].items()}
    seconds = max(_slowed(cpu, asking), _slowed(broker, broker_idle), max(up, down) / LINK_BYTES)
    stored = sum(requests.values()) * REQUEST_SECONDS / AT_ONCE
    return Cost(
        coordinator_cpu=cpu,
        rule_cpu=rule_cpu,
        broker_cpu=broker,
        asking=asking,
        broker_idle=broker_idle,
        coordinator_bytes=_coordinator_bytes(load, lines, rule),
        broker_bytes=1e6 * value(lines["broker_mb"], load),
        up=up,
        down=down,
        idle_bytes=rates[0] * lines["ask_bytes"]["once"] + rates[1] * PING_BYTES,
        commits=value(lines["commits"], load),
        rows=value(_changing(lines["rows"]), load),
        database_bytes=value(_changing(lines["database_bytes"]), load),
        requests=requests,
        seconds=seconds,
        stored_seconds=max(seconds, stored),
    )


def _changing(line: Mapping[str, float]) -> dict[str, float]:
    """What a line has of each round."""
    return {name: each for name, each in line.items() if name not in ("start", "device")}


def _slowed(cpu: float, busy: float) -> float:
    """Seconds for so much work of a core that is busy with other things for a share of the time."""
    return cpu / (1 - busy) if busy < 1 else math.inf


def _down(load: Load, lines: Lines) -> float:
    """Bytes to devices: invitations and acknowledgements, the model to all invited, the news of it to everybody."""
    model = 4 * load.weights
    each = model + parts_of(model) * CHUNK_HEAD_BYTES
    return value(_changing(lines["received"]), load) + load.terms["invited"] * each + load.devices * MANIFEST_BYTES


def _coordinator_bytes(load: Load, lines: Lines, rule: str) -> float:
    """Memory: by the line, and above `MOST` the rows that are kept beside the matrix of the closing round."""
    rows = 4 * load.terms["number"]
    twice = MOST if rows > MOST else 0
    return 1e6 * value(lines["coordinator_mb"], load) + twice + value(lines["rules"][rule]["memory"], load)


def limits_of(load: Load, cost: Cost) -> dict[str, float]:
    """By what could be too small, the share of it that is needed; above 1 it is."""
    deadline = RunSettings.deadline
    return {
        "the coordinator's core, for questions of idle devices": cost.asking,
        "the coordinator's core, for updates until the deadline": cost.coordinator_cpu / deadline,
        "the broker's core": cost.broker_cpu / deadline + cost.broker_idle,
        "the coordinator's memory": cost.coordinator_bytes / SERVER_BYTES,
        "the broker's memory": cost.broker_bytes / SERVER_BYTES,
        "the network until the deadline": max(cost.up, cost.down) / LINK_BYTES / deadline,
    }


def bursts_of(load: Load) -> dict[str, float]:
    """The same of what holds updates that come at once; what does not fit is sent again, and costs time alone."""
    held = load.terms["byte"] if load.parts > 1 else 0.0
    queue = max(load.terms["byte"] / QUEUE_BYTES, load.terms["part"] / QUEUE_MESSAGES)
    return {"unfinished": held / BUDGET_BYTES, "queue": queue}


def most_devices(lines: Lines) -> int:
    """Devices whose questions take `BUSY` of a core: more of them are several fleets."""
    return math.floor(BUSY * AgentSettings.ask_every / lines["coordinator_ask_cpu"]["once"])


@dataclass(frozen=True)
class Purchase:
    """What to buy for a fleet."""

    fleets: int
    """Coordinators, each with its broker and its share of the devices."""
    cores: int
    """Of each server."""
    gigabytes: int
    """Of memory, of each server."""
    disk: float
    """Bytes of the database a year, of each."""


def purchase_for(load: Load, lines: Lines) -> Purchase:
    """What to buy: as many fleets as questions allow, and of each a server with room."""
    fleets = math.ceil(load.devices / most_devices(lines))
    own = Load(math.ceil(load.devices / fleets), math.ceil(load.updates / fleets), load.weights, load.codec)
    cost = cost_of(own, lines)
    busy = cost.asking + cost.broker_idle + (cost.coordinator_cpu + cost.broker_cpu) * ROUNDS_A_DAY / 86_400
    needed = (SPARE * (cost.coordinator_bytes + cost.broker_bytes) + SYSTEM_BYTES) / 1e9
    return Purchase(
        fleets=fleets,
        cores=max(2, 2 ** math.ceil(math.log2(2 * busy)) if busy > 0.5 else 2),
        gigabytes=2 ** max(0, math.ceil(math.log2(needed))),
        disk=365 * ROUNDS_A_DAY * cost.database_bytes,
    )
