"""A device of ours whose training is that of the comparison: `python bench/reliability_device.py SETTINGS` (JSON).

The agent, its link, its outbox and its signatures are those of `auricle edge run`, with their defaults; only the
training is replaced, by the same few lines that the other sides run.
"""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import msgspec
import numpy as np

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from auricle.mqtt_link.link import BrokerAddress
from auricle.packs.pack import load_pack
from auricle.process.until_signal import until_signal
from auricle.wire.plan import Plan
from auricle.wire.tensors import Flat
from auricle_edge.fleet.agent import Agent
from auricle_edge.fleet.agent_context import AgentSettings
from auricle_learning.runtimes import StepRuntime
from auricle_learning.training.mechanism import NOTHING_LENT, LentData
from auricle_learning.training.speech_data import Clips, DeviceData
from auricle_learning.training.train import LocalState, RoundResult, Trainer, TrainingStopped
from bench.reliability_task import attack_of, trained, wait_while_held

PACK = "digits"


class Told(msgspec.Struct, frozen=True):
    """What the process is told."""

    number: int
    device: str
    fleet: str
    broker: str
    """URL with a password."""
    key: str
    """The coordinator's public key in hexadecimal digits."""
    state: str
    bench: str
    """Folder in which the bench holds clients."""


class OneQuarter(Trainer):
    """Adds to its own quarter of the weights."""

    bench: Path
    number: int

    def run(
        self,
        plan: Plan,
        round_number: int,
        plugin: Flat,
        state: LocalState,
        checkpoint: Callable[[], bool] = lambda: False,
        lent: LentData = NOTHING_LENT,
    ) -> RoundResult:
        """Wait while the bench holds this device, then add; TrainingStopped where the round is over meanwhile."""
        wait_while_held(self.bench, self.number, checkpoint)
        if checkpoint():
            raise TrainingStopped("The round was stopped.")
        made = trained(plugin, self.number, attack_of(self.bench))
        return RoundResult(made, state, 1.0, 1, 0.0, 1, None, None, 0)


async def live(told: Told) -> None:
    """Be a device until stopped."""
    runtime = StepRuntime(load_pack(PACK))
    task = runtime.pack.manifest.task
    clips = Clips(np.ones((1, task.frames, task.frontend.mels), np.float32), np.zeros(1, np.int64))
    trainer = OneQuarter(runtime, "crnn-lite", DeviceData(clips, clips, None), told.number)
    trainer.bench, trainer.number = Path(told.bench), told.number
    address, folder = BrokerAddress.parse(told.broker), Path(told.state)
    with ThreadPoolExecutor(1) as worker:
        await Agent(
            AgentSettings(told.device, told.fleet, address, folder, bytes.fromhex(told.key)), trainer, worker
        ).run()


if __name__ == "__main__":
    asyncio.run(until_signal(live(msgspec.json.decode(sys.argv[1], type=Told))))
