"""Clips of your own: anything that gives one-second sounds with labels can train a device, here tones in noise.

    python examples/data_source.py

For a whole fleet a folder is enough, DIR/<word>/<speaker>_nohash_<n>.wav: `auricle fleet run --data DIR --words a,b`.
"""

import numpy as np

from auricle import load_pack
from auricle.speech.features import LogMel
from auricle.wire.plan import Plan
from auricle_learning import Trainer
from auricle_learning.runtimes import StepRuntime
from auricle_learning.training.speech_data import DataSource, DeviceData, device_data

WORDS = ("low", "middle", "high")
PITCH = np.array([300.0, 900.0, 2700.0])


class Tones:
    """Clips that grow: read again when `generation` has changed, as a device does with what it hears."""

    def __init__(self, frontend: LogMel) -> None:
        self.frontend, self.count = frontend, 40

    def record(self, more: int) -> None:
        self.count += more

    def read(self) -> DeviceData:
        rng = np.random.default_rng(7)
        targets = rng.integers(0, len(WORDS), self.count)
        seconds = np.arange(self.frontend.task.clip_samples) / self.frontend.task.sample_rate
        pitch = PITCH[targets] * rng.uniform(0.8, 1.25, self.count)
        audio = 0.2 * np.sin(2 * np.pi * pitch[:, None] * seconds) + rng.normal(0, 0.1, (self.count, seconds.size))
        return device_data(self.frontend, audio.astype(np.float32), targets, noise=None)


def main() -> None:
    pack = load_pack("gsc12").with_labels(WORDS)
    tones = Tones(LogMel(pack.manifest.task))
    source = DataSource(read=tones.read, generation=lambda: tones.count)  # Agent(..., source=source) takes it as it is
    trainer = Trainer(StepRuntime(pack), "crnn-lite", source.read(), seed=0)
    plan = Plan(mode="supervised", optimizer="adamw", rate=3e-3, epochs=4, keep_state=True)

    plugin, state = pack.plugin_table.initial(seed=0), trainer.first_state()
    for number in (1, 2, 3):
        done = trainer.run(plan, number, plugin, state)
        plugin, state = done.plugin, done.local
        print(f"round {number}: {done.samples} clips, {done.plugin_accuracy:.0%} of {done.held_out} held-out right")
        tones.record(more=20)
        trainer.renew(source.read())


if __name__ == "__main__":
    main()
