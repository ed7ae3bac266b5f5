"""One of several coordinators, to be killed: `python -m tests.system.worker_child SETTINGS` with the settings as JSON.

It prints a line of JSON when it leads, and one for every round.
"""

from __future__ import annotations

import asyncio
import json
import logging
import sys
import time
from pathlib import Path

import msgspec

from auricle.errors import AuricleError
from auricle.mqtt_link.settings import BrokerAddress
from auricle.packs.pack import load_pack
from auricle_cloud.service import Started, run_service
from auricle_cloud.settings import RoundDone, RunSettings
from auricle_cloud.storage.blobs import Blobs
from tests.system.killed_coordinator import FLEET, KEPT, preset


class Told(msgspec.Struct, frozen=True):
    broker: str
    worker: str
    folder: str
    database: str
    rounds: int
    devices: int = 3
    quorum: float = 1.0
    deadline: float = 60.0
    least_wait: float = 0.2
    participation: float = 1.0
    keep: bool = True
    """Every body and model is kept, which the checker needs to make all models again."""


def _print(**said: object) -> None:
    print(json.dumps({**said, "at": time.time()}), flush=True)


async def _show(done: RoundDone) -> None:
    _print(round=done.number, state=done.state, invited=done.invited, counted=done.counted + done.left_out)


def _greet(said: Started) -> None:
    _print(key=said.key, epoch=said.epoch)


def main() -> int:
    """Run until all rounds are done, or a signal comes."""
    told = msgspec.json.decode(sys.argv[1], type=Told)
    logging.basicConfig(level=logging.WARNING)
    if told.keep:
        Blobs.remove_all = lambda _self, _names: None  # type: ignore[method-assign]
    settings = RunSettings(
        FLEET,
        BrokerAddress.parse(told.broker),
        Path(told.folder),
        told.rounds,
        worker=BrokerAddress.parse(told.worker),
        database=told.database,
        preset=preset(0.5),
        devices=told.devices,
        quorum=told.quorum,
        deadline=told.deadline,
        least_wait=told.least_wait,
        participation=told.participation,
        patience=0.0,
        gather=60.0,
        keep_models=100_000 if told.keep else KEPT,
    )
    _print(pid=True)
    try:
        asyncio.run(run_service(settings, load_pack("digits"), None, None, _greet, _show))
    except AuricleError as error:
        print(error, file=sys.stderr)
        return 1
    return 0


def as_argument(**told: object) -> str:
    return msgspec.json.encode(msgspec.convert(told, Told)).decode()


if __name__ == "__main__":
    sys.exit(main())
