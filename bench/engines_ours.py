"""The virtual engine, as `auricle fleet run --engine virtual` has it, with the clips that the other engines have.

Run by `bench/engines.py` in this project's environment. `runtime` names what trains: `step`, which is onnxruntime,
`native`, or `torch`, the loop of pfl's PyTorch trainer (`bench/engines_trainer.py`). With `alone` each round is
followed by the same training without the engine.
"""

from __future__ import annotations

import asyncio
import sys
import time
from functools import partial
from importlib.metadata import version
from pathlib import Path

import numpy as np

from auricle.packs.pack import load_pack
from auricle.wire.plan import Plan
from auricle_cloud.settings import RoundDone
from auricle_edge.runtimes.choice import GROUP
from auricle_fleet.population.behaviour import FleetDevices
from auricle_fleet.population.data import FleetData
from auricle_fleet.population.fleet_clips import FleetClips
from auricle_fleet.population.judging import FleetJudging
from auricle_fleet.population.start import Start
from auricle_fleet.settings.fleet_settings import FleetSettings
from auricle_fleet.virtual.fleet import VirtualFleet
from auricle_learning.methods import MethodSettings
from auricle_learning.presets import Preset
from auricle_learning.training.speech_data import Clips
from bench.engines_worker import Diary, Facts, serve

TORCH = "torch"


def settings_of(spec: Facts) -> FleetSettings:
    """A fleet of these clients, of whom all take part in every round; nothing is judged, nothing augmented."""
    return FleetSettings(
        engine="virtual",
        words="gsc12",
        devices=spec["clients"],
        rounds=spec["rounds"],
        local=spec["local"],
        runtime=spec["runtime"],
        processes=len(spec["cores"]),
        judge="off",
    )


def preset_of(spec: Facts) -> Preset:
    """One local epoch of plain SGD, clipped, and the average by samples."""
    return Preset(
        Plan(mode=spec["mode"], epochs=1, rate=spec["rate"], local_rate=spec["rate"], clip=spec["clip"]),
        MethodSettings("fedavg"),
    )


def data_of(spec: Facts) -> FleetData:
    """The clients' clips; none is held out, and those of nobody are the first client's."""
    energies, targets = np.load(spec["energies"], mmap_mode="r"), np.load(spec["targets"])
    clients, clips = targets.shape
    rows, ends = energies.reshape(-1, *energies.shape[2:]), clips * np.arange(1, clients + 1)
    bounds = np.stack([ends - clips, ends, ends], axis=1)
    devices = FleetClips(rows, targets.ravel(), tuple(f"client-{i}" for i in range(clients)), bounds)
    nobody = Clips(energies[0], targets[0])
    return FleetData(load_pack(spec["pack"]), devices, nobody, 2, np.arange(clips) % 2, ())


def add_torch(folder: Path) -> None:
    """Let `runtime` be `torch`, as of a package that is installed in a folder."""
    info = folder / "bench_trainer-1.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: bench-trainer\nVersion: 1\n")
    (info / "entry_points.txt").write_text(f"[{GROUP}]\n{TORCH} = bench.engines_trainer:kind\n")
    sys.path.append(str(folder))


class Alone:
    """The same devices' training without the engine: `Trainer.run` in a loop, after each of its rounds.

    Parameters
    ----------
    spec
        What the process was told.
    settings, data, judging
        Of the run.
    """

    def __init__(self, spec: Facts, settings: FleetSettings, data: FleetData, judging: FleetJudging) -> None:
        devices = FleetDevices(settings, data, judging)
        self._trainers = [devices.trainer(place, waits=False) for place in range(len(devices.names))]
        self._states = [trainer.first_state() for trainer in self._trainers]
        self._preset, self._rounds = preset_of(spec), spec["rounds"]

    def measure(self, done: RoundDone) -> dict[str, float]:
        """Train every device from a round's model; seconds by the clock and of the CPU."""
        number, model = done.number, done.model
        plan, began, cpu = self._preset.plan_for(number, self._rounds, 0), time.perf_counter(), time.process_time()
        for trainer, state in zip(self._trainers, self._states, strict=True):
            trainer.run(plan, number, model, state)
        return {"alone": time.perf_counter() - began, "alone_cpu": time.process_time() - cpu}


def play(spec: Facts, diary: Diary) -> None:
    """Make the rounds."""
    made_by = f"onnxruntime {version('onnxruntime')}"
    if spec["runtime"] == TORCH:
        add_torch(Path(spec["folder"]))
        made_by = f"torch {version('torch')}"
    settings, data = settings_of(spec), data_of(spec)
    judging, first = FleetJudging(settings, data), np.load(spec["weights"])
    engine = VirtualFleet(settings, data, judging, Path(spec["folder"]) / "state")
    alone = Alone(spec, settings, data, judging) if spec["alone"] else None

    async def watch(done: RoundDone) -> None:
        diary.close(done.number, done.model, dict if alone is None else partial(alone.measure, done))

    diary.begin(**{"with": f"auricle's virtual engine, {made_by}"})
    asyncio.run(engine.run(Start(preset_of(spec), first), watch, lambda _: None))


if __name__ == "__main__":
    serve(play)
