"""A fleet run: broker, coordinator and N real agents in one command, watched round by round."""

from __future__ import annotations

import asyncio
import contextlib
import os
import secrets
import shutil
import time
from collections.abc import Awaitable, Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any, TypeVar

import msgspec
import numpy as np
from safetensors.numpy import save

from auricle import __version__
from auricle.errors import AuricleError, StorageError
from auricle.files import describe, write_durably
from auricle.mqtt_link.link import BrokerAddress
from auricle.packs.pack import pack_bytes
from auricle.speech.features import LogMel
from auricle.wire.tensors import Flat
from auricle_cloud.aggregation.presets import Preset, get_preset
from auricle_cloud.rounds.coordinator import NAME, Coordinator
from auricle_cloud.settings import RoundDone, RunSettings
from auricle_edge.fleet.agent import Agent
from auricle_edge.fleet.agent_context import AgentSettings
from auricle_edge.runtimes import StepRuntime, accuracy
from auricle_edge.training.train import Trainer
from auricle_fleet.broker.broker import Kind, connect_broker, start_broker
from auricle_fleet.central import train_centrally
from auricle_fleet.data import FleetData, load_data, started
from auricle_fleet.judging import FleetJudging, refusals
from auricle_fleet.live import View, percent
from auricle_fleet.metrics import Metrics, write_summary
from auricle_fleet.report import write_report
from auricle_fleet.settings import BROKERS, FleetSettings

T = TypeVar("T")

FLEET = "emulated"
NEEDED_BYTES = 64 << 20
"""Free space a run asks for besides what its devices keep."""


@dataclass
class Progress:
    """What the watcher adds up over the rounds."""

    began: float
    earlier_seconds: float
    earlier_up: int
    earlier_down: int
    personal: dict[str, float]
    """Newest personal accuracy of each device."""


def preset_of(settings: FleetSettings, *, trained: bool = False) -> Preset:
    """The preset with what the command line changes in it, as it fits the first model."""
    preset = get_preset(settings.preset).fitted(trained=trained, server_rate=settings.server_rate)
    mode = settings.mode or preset.plan.mode
    plan = msgspec.structs.replace(preset.plan, mode=mode, codec=settings.codec)
    rule = settings.rule or preset.rule
    options = preset.rule_options if rule == preset.rule else {}
    return replace(preset, plan=plan, rule=rule, rule_options=options)


def prepare_folder(settings: FleetSettings, out: Path, *, resume: bool) -> None:
    """Make a run's folder, or accept the one to go on with.

    Raises
    ------
    StorageError
        It holds another run, cannot be written, or its disk is nearly full.
    """
    if not resume and (out / "settings.json").exists():
        raise StorageError(f"{out} already holds a run: add --resume to go on with it, or choose another --out.")
    try:
        out.mkdir(parents=True, exist_ok=True)
        free = shutil.disk_usage(out).free
    except OSError as error:
        raise StorageError(describe(error, out)) from error
    if free < NEEDED_BYTES:
        raise StorageError(
            f"The disk that holds {out} has {free >> 20} MiB free and a run needs {NEEDED_BYTES >> 20}: "
            "free some space or choose another --out."
        )
    if not resume:
        settings.save(out)


class FleetRun:
    """One run, from data to report.

    Parameters
    ----------
    settings
        What to run.
    out
        Where results and state go.
    view
        Where to show it.
    """

    def __init__(self, settings: FleetSettings, out: Path, view: View) -> None:
        self.settings, self.out, self.view = settings, out, view
        self.metrics = Metrics(out)
        self.agents: list[Agent] = []
        self.central: float | None = None
        self.first: Flat | None = None
        self.preset = preset_of(settings)
        self.first_accuracy: float | None = None
        self.first_accepts: float | None = None
        self._stopped = False

    async def run(self) -> dict[str, Any]:
        """Do everything; returns the summary. Cancelling keeps what was done."""
        data = await self._in_thread(load_data, self.settings, self._step)
        self.data, self.runtime = data, StepRuntime(data.pack)
        self.features = LogMel(data.pack.manifest.task).finish(data.unseen.energies)
        self.view.say(
            f"{len(data.devices)} devices with {data.training_clips} training clips of {len(data.pack.labels)} words; "
            f"{len(data.unseen)} clips of {data.unseen_speakers} unseen speakers"
            + (f"; {data.others}" if data.others else "")
            + (f"; {len(data.skipped)} unreadable files skipped" if data.skipped else "")
        )
        self.judging = FleetJudging(self.settings, data)
        if self.settings.judges:
            self.view.say(
                f"each device judges {self.settings.judge_share:.0%} of its rounds on {self.judging.seconds:.0f} s of "
                "sound without keywords, as well as on its own"
            )
        self._start(data)
        interrupted = False
        try:
            await self._federate(data)
            if self.settings.central:
                self.central = await self._train_centrally(data)
        except asyncio.CancelledError:
            interrupted = True
        return self._finish(data, interrupted)

    def _start(self, data: FleetData) -> None:
        """Take the first model from the pack where the run starts from it, and judge it."""
        self.first = started(data, self.settings, data.pack.manifest.plugin, self.settings.seed)
        if self.first is not None:
            self.first_accuracy = self._judge(self.first)
            self.first_accepts = self.judging.false_accepts_per_hour(self.runtime, self.first)
            heard = (data.origin or data.pack).manifest.start[data.pack.manifest.plugin].data
            self.view.say(
                f"models start from weights trained on {heard}"
                + (
                    ": these voices were heard before, read the figures so"
                    if Path(self.settings.data).resolve().name in heard
                    else ""
                )
            )
            self.view.say(
                f"before the first round the pack's plug-in recognises {percent(self.first_accuracy)} of them"
            )
        known = (data.origin or data.pack).labels
        trained = self.first is not None and all(word in known for word in data.pack.labels)
        self.preset = preset_of(self.settings, trained=trained)
        self.view.say(str(self.preset.rates()))

    def _step(self, what: str, done: int, total: int) -> None:
        """Show progress from a working thread, and end its work once the run was interrupted."""
        if self._stopped:
            raise AuricleError("The run was interrupted.")
        self.view.step(what, done, total)

    async def _in_thread(self, work: Callable[..., T], *arguments: object) -> T:
        """Run work that shows its progress in a thread; an interruption ends it at its next step."""
        try:
            return await asyncio.to_thread(work, *arguments)
        except asyncio.CancelledError:
            self._stopped = True
            raise

    async def _train_centrally(self, data: FleetData) -> float | None:
        epochs, seed = self.settings.central_epochs, self.settings.seed
        return await self._in_thread(
            train_centrally,
            data,
            self.runtime,
            epochs,
            seed,
            lambda done, total: self._step("training centrally", done, total),
            self.first,
            self.judging.learn,
        )

    async def _federate(self, data: FleetData) -> None:
        names = [f"dev-{i:03d}" for i in range(len(data.devices))]
        done = self.metrics.last or {}
        self.progress = Progress(
            time.monotonic(), done.get("seconds_total", 0.0), done.get("bytes_up", 0), done.get("bytes_down", 0), {}
        )
        async with contextlib.AsyncExitStack() as stack:
            address = await self._broker(stack, names)
            workers = stack.enter_context(ThreadPoolExecutor(os.cpu_count() or 1, "train"))
            run = RunSettings(
                fleet=FLEET,
                broker=address(NAME),
                folder=self.out / "state" / "coordinator",
                rounds=self.settings.rounds,
                preset=self.preset,
                participation=self.settings.participation,
                quorum=self.settings.quorum,
                deadline=self.settings.deadline,
                devices=len(names),
                seed=self.settings.seed,
                start=self.first,
            )
            coordinator = Coordinator(run, data.pack, self._watch)
            self._make_agents(names, address, coordinator.identity.public, workers)
            tasks = [asyncio.create_task(agent.run()) for agent in self.agents]
            stack.push_async_callback(_cancel_all, tasks)
            await _first_failure(coordinator.run(), tasks)

    async def _broker(self, stack: contextlib.AsyncExitStack, names: list[str]) -> Callable[[str], BrokerAddress]:
        wanted = self.settings.broker
        if wanted is not None and wanted not in BROKERS:
            shared = await connect_broker(wanted)
            return lambda _name: shared
        users = {name: secrets.token_urlsafe(16) for name in (NAME, *names)}
        folder = self.out / "state"
        kind: Kind | None = "mosquitto" if wanted == "mosquitto" else "amqtt" if wanted == "amqtt" else None
        self.broker = await stack.enter_async_context(
            await start_broker(folder, users, fleet=FLEET, port=self.settings.port, kind=kind)
        )
        self.view.say(f"broker: {self.broker.kind} on 127.0.0.1:{self.broker.port}")
        return self.broker.address

    def _make_agents(
        self,
        names: list[str],
        address: Callable[[str], BrokerAddress],
        coordinator: bytes,
        workers: ThreadPoolExecutor,
    ) -> None:
        kinds = self.settings.architectures(self.data.pack)
        for i, (name, (_, clips)) in enumerate(zip(names, self.data.devices, strict=True)):
            folder = self.out / "state" / "devices" / name
            settings = AgentSettings(name, FLEET, address(name), folder, coordinator)
            kind, seed = kinds[i % len(kinds)], self.settings.seed * 100_003 + i + 1
            start = started(self.data, self.settings, kind, seed)
            trainer = Trainer(self.runtime, kind, clips, seed, start, self.judging.learn)
            self.agents.append(Agent(settings, trainer, workers, judging=self.judging.judging))

    async def _watch(self, done: RoundDone) -> None:
        """After every round: judge the model on unseen speakers, write and show a line."""
        judged = await asyncio.to_thread(self._judge, done.model)
        accepts = await asyncio.to_thread(self.judging.false_accepts_per_hour, self.runtime, done.model)
        p = self.progress
        for row in done.report.get("updates", []):
            if row["personal_accuracy"] is not None:
                p.personal[row["device"]] = row["personal_accuracy"]
        elapsed = time.monotonic() - p.began
        per_round = (p.earlier_seconds + elapsed) / done.number
        self.metrics.add(
            {
                "round": done.number,
                "rounds": done.rounds,
                "state": done.state,
                "plugin_accuracy_unseen": judged,
                "personal_accuracy": _mean(list(p.personal.values())),
                "invited": done.invited,
                "counted": done.counted,
                "seconds": round(done.seconds, 3),
                "seconds_total": round(p.earlier_seconds + elapsed, 3),
                "seconds_left": round(per_round * (done.rounds - done.number), 1),
                "bytes_up": p.earlier_up + sum(a.link.counters.bytes_sent for a in self.agents),
                "bytes_down": p.earlier_down + sum(a.link.counters.bytes_received for a in self.agents),
                "inference_loss": _mean([r["loss"] for r in done.report.get("updates", []) if r["loss"] is not None]),
                "false_accepts_per_hour": accepts,
                "refused": refusals(done.report.get("failed", {})),
                "kept": _kept(done.report.get("layers", [])),
            }
        )
        last = self.metrics.last
        assert last is not None
        self.view.round(last)
        write_durably(self.out / "model.safetensors", self._safetensors(done))

    def _judge(self, model: Flat) -> float | None:
        return accuracy(
            self.runtime.logits(self.data.pack.manifest.plugin, model, self.features), self.data.unseen.targets
        )

    def _safetensors(self, done: RoundDone) -> bytes:
        table = self.data.pack.plugin_table
        tensors = {s.name: np.ascontiguousarray(table.tensor(done.model, s.name)) for s in table.specs}
        notes = {"pack": self.data.pack.identity, "labels": ",".join(self.data.pack.labels), "round": str(done.number)}
        return save(tensors, metadata=notes)

    def _finish(self, data: FleetData, interrupted: bool) -> dict[str, Any]:
        last = self.metrics.last or {}
        write_durably(self.out / "pack.tar.zst", pack_bytes(data.pack))
        summary = {
            "plugin_accuracy_unseen": last.get("plugin_accuracy_unseen"),
            "personal_accuracy": last.get("personal_accuracy"),
            "central_accuracy_unseen": self.central,
            "start": self.settings.start,
            "start_accuracy_unseen": self.first_accuracy,
            "start_false_accepts_per_hour": self.first_accepts,
            "false_accepts_per_hour": last.get("false_accepts_per_hour"),
            "judge": self.settings.judges,
            "judged_seconds": round(self.judging.seconds, 1),
            "refused_rounds": sum(len(line.get("refused", [])) for line in self.metrics.rounds),
            "refusing_devices": len({name for line in self.metrics.rounds for name in line.get("refused", [])}),
            "devices": len(data.devices),
            "rounds": last.get("round", 0),
            "rounds_planned": self.settings.rounds,
            "interrupted": interrupted,
            "seconds": last.get("seconds_total", 0.0),
            "bytes_up": last.get("bytes_up", 0),
            "bytes_down": last.get("bytes_down", 0),
            "words": list(data.pack.labels),
            "training_clips": data.training_clips,
            "unseen_clips": len(data.unseen),
            "unseen_speakers": data.unseen_speakers,
            "skipped_files": len(data.skipped),
            "rule": self.settings.rule or get_preset(self.settings.preset).rule,
            "preset": self.settings.preset,
            "rates": asdict(self.preset.rates()),
            "seed": self.settings.seed,
            "pack": data.pack.identity,
            "version": __version__,
        }
        write_summary(self.out, summary)
        write_report(self.out, summary, self.metrics.rounds)
        return summary


def _mean(values: list[float]) -> float | None:
    return sum(values) / len(values) if values else None


def _kept(layers: list[dict[str, Any]]) -> dict[str, list[str]]:
    """Who was left out of which layer."""
    return {layer["layer"]: sorted([*layer["pruned_low"], *layer["pruned_high"]]) for layer in layers}


async def _cancel_all(tasks: list[asyncio.Task[None]]) -> None:
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)


async def _first_failure(main: Awaitable[None], others: list[asyncio.Task[None]]) -> None:
    """Wait for `main`; when one of the others fails before, raise its error."""
    work = asyncio.ensure_future(main)
    try:
        while not work.done():
            finished, _ = await asyncio.wait({work, *others}, return_when=asyncio.FIRST_COMPLETED)
            for task in finished - {work}:
                error = task.exception()
                if error is not None:
                    raise AuricleError(f"An agent stopped: {error}") from error
                others = [other for other in others if other is not task]
        work.result()
    finally:
        if not work.done():
            work.cancel()
            await asyncio.gather(work, return_exceptions=True)
