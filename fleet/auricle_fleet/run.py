"""A fleet run: broker, coordinator and N real agents in one command, watched round by round."""

from __future__ import annotations

import asyncio
import contextlib
import os
import secrets
import signal
import threading
import time
from collections.abc import Awaitable, Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, replace
from pathlib import Path
from typing import TypeVar, cast

import msgspec
import numpy as np
from safetensors.numpy import save

from auricle import __version__
from auricle.errors import AuricleError, SettingsError
from auricle.files import write_durably
from auricle.mqtt_link.link import BrokerAddress
from auricle.packs.pack import pack_bytes
from auricle.process.until_signal import until_signal
from auricle.speech.features import LogMel
from auricle.wire.tensors import Flat
from auricle_cloud.aggregation.presets import Preset, get_preset
from auricle_cloud.rounds.coordinator import NAME, Coordinator
from auricle_cloud.settings import RoundDone, RunSettings
from auricle_edge.fleet.agent import Agent
from auricle_edge.fleet.agent_context import AgentSettings
from auricle_edge.runtimes import StepRuntime, accuracy
from auricle_edge.training.train import Trainer
from auricle_fleet.broker.broker import Kind, connect_broker, require_startable, start_broker
from auricle_fleet.central import train_centrally
from auricle_fleet.data import FleetData, load_data, started
from auricle_fleet.judging import FleetJudging
from auricle_fleet.live import Silent, percent
from auricle_fleet.results.metrics import write_summary
from auricle_fleet.results.record import Record
from auricle_fleet.results.report import write_report
from auricle_fleet.results.result import FleetResult, RoundRow, Summary, device_rows
from auricle_fleet.results.run_folder import RunFolder, prepare_folder, remove_folder
from auricle_fleet.settings import BROKERS, FleetSettings

T = TypeVar("T")

FLEET = "emulated"


@contextlib.contextmanager
def _handlers_kept() -> Iterator[None]:
    """Whoever heeded SIGINT and SIGTERM does so again afterwards."""
    if threading.current_thread() is not threading.main_thread():
        yield  # only the main thread has handlers
        return
    before = {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield
    finally:
        for number, handler in before.items():
            if handler is not None:  # None: not set by Python, which cannot set it again
                signal.signal(number, handler)


def preset_of(settings: FleetSettings, *, trained: bool = False) -> Preset:
    """The preset with what the command line changes in it, as it fits the first model."""
    preset = get_preset(settings.preset).fitted(trained=trained, server_rate=settings.server_rate)
    mode = settings.mode or preset.plan.mode
    plan = msgspec.structs.replace(preset.plan, mode=mode, codec=settings.codec)
    rule = settings.rule or preset.rule
    options = preset.rule_options if rule == preset.rule else {}
    return replace(preset, plan=plan, rule=rule, rule_options=options)


class FleetRun:
    """A fleet from data to report: a broker, a coordinator and many agents, as `auricle fleet run` has them.

    An instance runs once. `run` blocks; `run_async` is for a program that has an event loop, as a notebook does.

    Parameters
    ----------
    settings
        What to run, the options of `auricle fleet run`; without, its defaults.
    out
        Folder for results and state; without, `runs/<date and time>`.
    on_round
        Called after every round, in the thread of the run: meanwhile the fleet waits. What it raises ends the run.
    view
        Where to show the run: `View()` shows what the command shows. Without, nothing is shown.

    Raises
    ------
    SettingsError
        The settings do not fit together.
    """

    def __init__(
        self,
        settings: FleetSettings | None = None,
        out: Path | str | None = None,
        *,
        on_round: Callable[[RoundRow], None] | None = None,
        view: Silent | None = None,
    ) -> None:
        self.settings = FleetSettings() if settings is None else settings
        self.out = Path("runs") / time.strftime("%Y%m%d-%H%M%S") if out is None else Path(out)
        self.view = Silent() if view is None else view
        self.agents: list[Agent] = []
        self.coordinator: Coordinator | None = None
        """From the beginning of the first round on."""
        self.central: float | None = None
        self.first: Flat | None = None
        self.preset = preset_of(self.settings)
        self.first_accuracy: float | None = None
        self.first_accepts: float | None = None
        self._on_round = on_round
        self._resumes = False
        self._stopped = False
        self._ran = False
        self._refused: Exception | None = None
        """What `on_round` raised."""
        self._work: asyncio.Future[FleetResult] | None = None

    @classmethod
    def resume(
        cls,
        out: Path | str,
        *,
        on_round: Callable[[RoundRow], None] | None = None,
        view: Silent | None = None,
    ) -> FleetRun:
        """Go on with the run in a folder, with the settings that it began with; StorageError where it holds no run."""
        run = cls(FleetSettings.load(Path(out)), out, on_round=on_round, view=view)
        run._resumes = True
        return run

    def run(self) -> FleetResult:
        """Run to the end, or to Ctrl-C or SIGTERM, which end it cleanly; a second one ends the process at once.

        Returns
        -------
        FleetResult
            With `interrupted` where it was; everything that was done is in the folder, and `FleetRun.resume` goes on.

        Raises
        ------
        AuricleError
            What `auricle fleet run` says in a sentence: data, settings, broker, disk.
        KeyboardInterrupt
            It was interrupted before the first round could begin: there is nothing to go on with.
        """
        try:
            asyncio.get_running_loop()
        except RuntimeError:
            with _handlers_kept():
                return asyncio.run(self._heeding_signals())
        raise SettingsError("An event loop runs here already, as in a notebook: `await fleet_run.run_async()`.")

    async def _heeding_signals(self) -> FleetResult:
        if threading.current_thread() is not threading.main_thread():
            return await self.run_async()  # only the main thread gets signals
        result = await until_signal(self.run_async())
        if result is None:
            raise KeyboardInterrupt
        return result

    def stop(self) -> None:
        """End the run as Ctrl-C does; to be called by `on_round`, or else in the thread of the run.

        Before and after the run it does nothing.
        """
        if self._work is not None:
            self._work.cancel()

    async def run_async(self) -> FleetResult:
        """Do what `run` does, in an event loop that runs already; cancelling it ends the run cleanly.

        Raises
        ------
        AuricleError
            As of `run`, and where this instance has run before.
        asyncio.CancelledError
            It was cancelled or stopped before the first round could begin.
        """
        if self._ran:
            raise SettingsError("A FleetRun runs once: make another, or go on with this one's folder by resume.")
        self._ran = True
        await self._require_broker()
        was_there = self.out.exists()
        prepare_folder(self.out, resume=self._resumes)
        if not self._resumes:
            self.settings.save(self.out)
        self._work = asyncio.ensure_future(self._shown())
        try:
            result = await self._work
        except (AuricleError, asyncio.CancelledError):
            if not was_there and self.coordinator is None:
                remove_folder(self.out)
            raise
        finally:
            self._work = None
        if self._refused is not None:
            raise self._refused
        return result

    async def _shown(self) -> FleetResult:
        with self.view as view:
            self.record = Record(self.out)
            result = await self._whole()
            view.result(msgspec.to_builtins(result.summary))
        return result

    async def _whole(self) -> FleetResult:
        data = await self._in_thread(load_data, self.settings, self._step)
        self.data, self.runtime = data, StepRuntime(data.pack)
        self.features = LogMel(data.pack.manifest.task).finish(data.unseen.energies)
        self.view.say(
            f"{len(data.devices)} devices with {data.training_clips} training clips of {len(data.pack.labels)} words; "
            f"{len(data.unseen)} clips of {data.unseen_speakers} unseen "
            f"speaker{'' if data.unseen_speakers == 1 else 's'}"
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
        names = self._names(data)
        self.record.begin()
        async with contextlib.AsyncExitStack() as stack:
            address = await self._broker(stack, names)
            workers = stack.enter_context(ThreadPoolExecutor(os.cpu_count() or 1, "train"))
            run = RunSettings(
                fleet=FLEET,
                broker=address(NAME),
                folder=RunFolder(self.out).state / "coordinator",
                rounds=self.settings.rounds,
                preset=self.preset,
                participation=self.settings.participation,
                quorum=self.settings.quorum,
                deadline=self.settings.deadline,
                devices=len(names),
                seed=self.settings.seed,
                start=self.first,
            )
            coordinator = self.coordinator = Coordinator(run, data.pack, self._watch)
            self._make_agents(names, address, coordinator.identity.public, workers)
            tasks = [asyncio.create_task(agent.run()) for agent in self.agents]
            stack.push_async_callback(_cancel_all, tasks)
            await _first_failure(coordinator.run(), tasks)

    async def _require_broker(self) -> None:
        """What may be wrong with the broker is said before any speech is made."""
        wanted = self.settings.broker
        if wanted is not None and wanted not in BROKERS:
            await connect_broker(wanted)
        else:
            require_startable(None if wanted is None else cast(Kind, wanted), self.settings.port)

    async def _broker(self, stack: contextlib.AsyncExitStack, names: list[str]) -> Callable[[str], BrokerAddress]:
        wanted = self.settings.broker
        if wanted is not None and wanted not in BROKERS:
            shared = await connect_broker(wanted)
            return lambda _name: shared
        users = {name: secrets.token_urlsafe(16) for name in (NAME, *names)}
        folder = RunFolder(self.out).state
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
        models = self._models(self.data)
        for i, (name, kind, (_, clips)) in enumerate(zip(names, models, self.data.devices, strict=True)):
            folder = RunFolder(self.out).state / "devices" / name
            settings = AgentSettings(name, FLEET, address(name), folder, coordinator)
            seed = self.settings.seed * 100_003 + i + 1
            start = started(self.data, self.settings, kind, seed)
            trainer = Trainer(self.runtime, kind, clips, seed, start, self.judging.learn)
            self.agents.append(Agent(settings, trainer, workers, judging=self.judging.judging))

    async def _watch(self, done: RoundDone) -> None:
        """After every round: judge the model on unseen speakers, write and show a line."""
        judged = await asyncio.to_thread(self._judge, done.model)
        accepts = await asyncio.to_thread(self.judging.false_accepts_per_hour, self.runtime, done.model)
        up = sum(agent.link.counters.bytes_sent for agent in self.agents)
        down = sum(agent.link.counters.bytes_received for agent in self.agents)
        row = self.record.add(done, judged, accepts, up, down)
        write_durably(RunFolder(self.out).model, self._safetensors(done))
        self.view.round(msgspec.to_builtins(row))
        if self._on_round is not None:
            try:
                self._on_round(row)
            except Exception as error:  # noqa: BLE001  # the caller's own code: whatever it raises ends the run
                self._refused = error
                self.stop()

    def _judge(self, model: Flat) -> float | None:
        return accuracy(
            self.runtime.logits(self.data.pack.manifest.plugin, model, self.features), self.data.unseen.targets
        )

    def _safetensors(self, done: RoundDone) -> bytes:
        table = self.data.pack.plugin_table
        tensors = {s.name: np.ascontiguousarray(table.tensor(done.model, s.name)) for s in table.specs}
        notes = {"pack": self.data.pack.identity, "labels": ",".join(self.data.pack.labels), "round": str(done.number)}
        return save(tensors, metadata=notes)

    def _finish(self, data: FleetData, interrupted: bool) -> FleetResult:
        paths, rows, last = RunFolder(self.out), self.record.rows, self.record.last
        write_durably(paths.pack, pack_bytes(data.pack))
        summary = Summary(
            plugin_accuracy_unseen=None if last is None else last.plugin_accuracy_unseen,
            personal_accuracy=None if last is None else last.personal_accuracy,
            central_accuracy_unseen=self.central,
            start=self.settings.start,
            start_accuracy_unseen=self.first_accuracy,
            start_false_accepts_per_hour=self.first_accepts,
            false_accepts_per_hour=None if last is None else last.false_accepts_per_hour,
            judge=self.settings.judges,
            judged_seconds=round(self.judging.seconds, 1),
            refused_rounds=sum(len(row.refused) for row in rows),
            refusing_devices=len({name for row in rows for name in row.refused}),
            devices=len(data.devices),
            rounds=0 if last is None else last.round,
            rounds_planned=self.settings.rounds,
            interrupted=interrupted,
            seconds=0.0 if last is None else last.seconds_total,
            bytes_up=0 if last is None else last.bytes_up,
            bytes_down=0 if last is None else last.bytes_down,
            words=data.pack.labels,
            training_clips=data.training_clips,
            unseen_clips=len(data.unseen),
            unseen_speakers=data.unseen_speakers,
            skipped_files=len(data.skipped),
            rule=self.preset.rule,
            preset=self.settings.preset,
            rates=asdict(self.preset.rates()),
            seed=self.settings.seed,
            pack=data.pack.identity,
            version=__version__,
        )
        write_summary(self.out, msgspec.to_builtins(summary))
        write_report(self.out, msgspec.to_builtins(summary), self.record.lines)
        devices = device_rows(self._names(data), self._models(data), data.devices, rows)
        return FleetResult(rows, devices, summary, paths)

    def _names(self, data: FleetData) -> list[str]:
        return [f"dev-{i:03d}" for i in range(len(data.devices))]

    def _models(self, data: FleetData) -> list[str]:
        """Architecture of each device's own model."""
        kinds = self.settings.architectures(data.pack)
        return [kinds[i % len(kinds)] for i in range(len(data.devices))]


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
