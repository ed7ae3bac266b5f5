"""Coordinator or agents of whatever version is on the path: `python tests/system/version_part.py SETTINGS` as JSON.

It imports nothing of the tests, and knows where older versions have their modules, so that a test can run either side
of a fleet from an older checkout. Each line that it prints is a JSON object.
"""

from __future__ import annotations

import asyncio
import importlib
import json
import logging
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np

from auricle.mqtt_link.link import BrokerAddress
from auricle.packs.pack import load_pack


def of(name: str, *modules: str) -> Any:
    """What a module has of this name, of the first of these modules that there is: older names come first."""
    for module in modules:
        try:
            return getattr(importlib.import_module(module), name)
        except (ImportError, AttributeError):
            continue
    raise SystemExit(f"no {name} in {', '.join(modules)}")


def address(url: str) -> BrokerAddress:
    """A broker's address from `host:port:user:password`."""
    host, port, user, password = url.split(":")
    return BrokerAddress(host, int(port), user, password)


def method_of(name: str) -> Any:
    """A method with the options that it has by itself, as a preset of this version or of one before takes it."""
    try:
        from auricle_learning.methods import MethodSettings
    except ImportError:
        return name
    return MethodSettings(name)


def tell(**what: object) -> None:
    """Print one line."""
    print(json.dumps(what), flush=True)


async def coordinate(told: dict[str, Any]) -> None:
    """Run rounds of a rule, and tell each."""
    coordinator_of = of("Coordinator", "auricle_cloud.rounds.coordinator")
    run_settings = of("RunSettings", "auricle_cloud.settings")
    preset_of = of("Preset", "auricle_cloud.aggregation.presets", "auricle_learning.presets")
    plan = of("Plan", "auricle.wire.plan")(mode=told["mode"], rate=0.1, local_rate=0.1)

    async def watch(done: Any) -> None:
        tell(round=done.number, state=done.state, counted=done.counted, failed=done.report.get("failed", {}))

    preset = preset_of(plan, method_of("fedavg"))
    preset = preset if told["rule"] == "fedavg" else preset.with_method(method_of(told["rule"]))
    settings = run_settings(
        told["fleet"],
        address(told["broker"]),
        Path(told["folder"]),
        told["rounds"],
        preset=preset,
        devices=told["devices"],
        quorum=1.0,
        least_wait=50.0,
        patience=0.0,
        deadline=60.0,
        gather=told["gather"],
    )
    coordinator = coordinator_of(settings, load_pack(told["pack"]), watch)
    tell(key=coordinator.identity.public.hex())
    await coordinator.run()


async def take_part(told: dict[str, Any]) -> None:
    """Run agents with random clips until this process is ended."""
    agent_of = of("Agent", "auricle_edge.fleet.agent")
    settings_of = of("AgentSettings", "auricle_edge.fleet.agent_context")
    runtime = of("StepRuntime", "auricle_edge.runtimes.step", "auricle_learning.runtimes.step")(load_pack(told["pack"]))
    data = ("auricle_edge.training.speech_data", "auricle_learning.training.speech_data")
    trainer_of = of("Trainer", "auricle_edge.training.train", "auricle_learning.training.train")
    task, tasks = runtime.pack.manifest.task, []
    with ThreadPoolExecutor(2) as workers:
        for seed, (name, url) in enumerate(told["brokers"].items()):
            rng = np.random.default_rng(seed)
            energies = rng.random((3, task.frames, task.frontend.mels), dtype=np.float32)
            train = of("Clips", *data)(energies, rng.integers(0, len(runtime.pack.labels), 3))
            clips = of("DeviceData", *data)(train, train.chosen(np.arange(1)), None)
            settings = settings_of(
                name, told["fleet"], address(url), Path(told["folder"]) / name, bytes.fromhex(told["key"]), 2.0, 1.0
            )
            trainer = trainer_of(runtime, "crnn-lite", clips, seed)
            tasks.append(asyncio.create_task(agent_of(settings, trainer, workers).run()))
        tell(agents=len(tasks))
        await asyncio.gather(*tasks)


if __name__ == "__main__":
    logging.basicConfig(level=logging.INFO, stream=sys.stderr)
    given = json.loads(sys.argv[1])
    asyncio.run(coordinate(given) if "rounds" in given else take_part(given))
