"""A fleet run: N devices in one command, by whatever engine, watched round by round."""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TypeVar

import msgspec

from auricle.errors import AuricleError, SettingsError, refuse_misfits, refuse_misfits_of
from auricle.process.times import how_many
from auricle.process.until_signal import handlers_kept, until_signal
from auricle.speech.clip_folder import describe_skipped
from auricle.speech.row_store import Spill
from auricle.wire.tensors import Flat
from auricle_cloud.rounds.coordinator import Coordinator
from auricle_cloud.settings import RoundDone
from auricle_fleet.engine import Engine
from auricle_fleet.engines import ENGINES, require_engine
from auricle_fleet.forecast.forecast import require_fit
from auricle_fleet.population.attacks import attackers
from auricle_fleet.population.central import CentralTraining, all_clips, labelled_cut
from auricle_fleet.population.data import load_data
from auricle_fleet.population.judging import FleetJudging
from auricle_fleet.population.last_round import read_last_round
from auricle_fleet.population.run_model import read_plugin, write_plugin
from auricle_fleet.population.speech_cache import LoadData
from auricle_fleet.population.start import first_model
from auricle_fleet.results.card import HIDDEN
from auricle_fleet.results.live import Silent
from auricle_fleet.results.metrics import write_rounds
from auricle_fleet.results.model_pictures import write_pictures
from auricle_fleet.results.record import Record
from auricle_fleet.results.result import DeviceRow, FleetResult, RoundRow, device_rows
from auricle_fleet.results.run_folder import RunFolder, missing_folders, prepare_folder, remove_folders
from auricle_fleet.results.summary import Ran, read_model, write_model, write_results
from auricle_fleet.settings.fleet_settings import FleetSettings
from auricle_fleet.settings.left_open import with_choices
from auricle_fleet.training_runtime import TrainingRuntime, is_at_hand, left_to_onnxruntime, training_runtime

T = TypeVar("T")


@refuse_misfits_of
class FleetRun:
    """A fleet from data to report, as `auricle fleet run` has it.

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
    load
        Reads its speech; a `SpeechCache` keeps it for the next run.

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
        load: LoadData = load_data,
    ) -> None:
        told, self._chosen = with_choices(FleetSettings() if settings is None else settings)
        engine = require_engine(told)
        self.settings, self._kind = msgspec.structs.replace(told, engine=engine), ENGINES[engine]
        self.out = Path("runs") / time.strftime("%Y%m%d-%H%M%S") if out is None else Path(out)
        self.view = Silent() if view is None else view
        self.engine: Engine | None = None
        self._on_round, self._load = on_round, load
        self._resumes = False
        self._stopped = False
        self._ran = False
        self._refused: Exception | None = None  # what `on_round` raised
        self.trained_by: TrainingRuntime | None = None
        self._left: dict[str, str] = {}  # graphs that onnxruntime runs instead of the run's runtime, with the reason
        self._newest: Flat | None = None
        """The plug-in after the newest round."""
        self._work: asyncio.Future[FleetResult] | None = None

    @classmethod
    @refuse_misfits
    def resume(
        cls,
        out: Path | str,
        *,
        rounds: int | None = None,
        on_round: Callable[[RoundRow], None] | None = None,
        view: Silent | None = None,
        load: LoadData = load_data,
    ) -> FleetRun:
        """Go on with the run in a folder, with the settings that it began with.

        Parameters
        ----------
        rounds
            How many it shall have in all, those that are done included: more prolong a run, a finished one too.

        Raises
        ------
        StorageError
            The folder holds no run.
        SettingsError
            More rounds than that are done already.
        """
        settings, record = FleetSettings.load(Path(out)), Record(Path(out))
        done = 0 if record.last is None else record.last.round
        if rounds is not None and rounds < max(done, 1):
            raise SettingsError(
                f"--rounds {rounds} is fewer than the {done} rounds that {out} has done: name {done} or more, in all."
                if done
                else f"--rounds is {rounds}: it has to be at least 1."
            )
        if rounds is not None:
            settings = msgspec.structs.replace(settings, rounds=rounds)
        run = cls(settings, out, on_round=on_round, view=view, load=load)
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
            with handlers_kept():
                return asyncio.run(self._heeding_signals())
        raise SettingsError("An event loop runs here already, as in a notebook: `await fleet_run.run_async()`.")

    async def _heeding_signals(self) -> FleetResult:
        if threading.current_thread() is not threading.main_thread():
            return await self.run_async()  # only the main thread gets signals
        result = await until_signal(self.run_async(), self._say_that_it_ends, self.view.give_back)
        if result is None:
            raise KeyboardInterrupt
        return result

    def _say_that_it_ends(self) -> None:
        if self.engine is not None:
            self.view.say("ends: writes what was done; Ctrl-C again ends at once, without a report")

    def stop(self) -> None:
        """End the run as Ctrl-C does; to be called by `on_round`, or else in the thread of the run.

        Before and after the run it does nothing.
        """
        if self._work is not None:
            self._work.cancel()

    @property
    def coordinator(self) -> Coordinator | None:
        """From the beginning of the first round on."""
        return None if self.engine is None else self.engine.coordinator

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
        await self._kind.require(self.settings)
        made = missing_folders(self.out)
        prepare_folder(self.out, resume=self._resumes)
        if not self._resumes or FleetSettings.load(self.out) != self.settings:
            self.settings.save(self.out)
        self._work = asyncio.ensure_future(self._run_in_view())
        try:
            result = await self._work
        except (AuricleError, asyncio.CancelledError):
            if made and self.engine is None:
                remove_folders(self.out, made)
            raise
        finally:
            self._work = None
        if self._refused is not None:
            raise self._refused
        return result

    async def _run_in_view(self) -> FleetResult:
        with self.view as view:
            self.record = Record(self.out)
            result = await self._whole()
            view.result(result.summary)
        return result

    async def _whole(self) -> FleetResult:
        if is_at_hand(self.settings.runtime):
            await self._choose_runtime()
        for sentence in self._chosen:
            self.view.say(sentence)
        if not self._resumes:
            await self._in_thread(require_fit, self.settings, self.out)
        data = await self._in_thread(self._load, self.settings, self._step, Spill(self.out))
        self.data = data
        if self.trained_by is None:  # it is compiled for a run whose speech is there, not for a slip of the pen
            await self._choose_runtime()
        self.settings.preset_for(trained=False).require_pack(data.pack)
        self._newest = read_model(self.out, data.pack)  # of the rounds before, where there were any
        self.view.say(
            f"{how_many(len(data.devices), 'device')} with {how_many(data.training_clips, 'training clip')} of "
            f"{len(data.pack.labels)} words; "
            f"{len(data.unseen):,} clips of {how_many(data.unseen_speakers, 'unseen speaker')}"
            + (f"; {how_many(data.validation_speakers, 'validation speaker')}" if data.validation else "")
            + "".join(f"; {said}" for said in (data.others, data.cut, data.caution) if said)
            + (f"; {describe_skipped(data.findings)}" if data.skipped else "")
        )
        self.judging = FleetJudging(self.settings, data)
        self._left = await self._in_thread(self._graphs_left_to_onnxruntime)
        if self.settings.judges:
            self.view.say(self.judging.describe(self.settings.judge_share))
        if cut := await self._in_thread(labelled_cut, self.settings, data.pack):
            self.view.say(cut)
        first = (RunFolder(self.out).first, self.view.say, self._step)
        self.start = await self._in_thread(first_model, self.settings, data, self.judging, *first)
        engine = self.engine = self._kind(self.settings, data, self.judging, RunFolder(self.out).state)
        central, interrupted = None, False
        try:
            self.record.begin()
            if self.record.last is None or self.record.last.round < self.settings.rounds:
                await engine.run(self.start, self._watch, self.view.say)
            else:
                self.view.say(f"all {self.settings.rounds} rounds are done: a larger --rounds prolongs the run")
            if self.settings.central:
                central = await self._in_thread(self._train_centrally)
        except asyncio.CancelledError:
            interrupted = True
        return self._finish(engine, central, interrupted)

    async def _choose_runtime(self) -> None:
        by = await self._in_thread(training_runtime, self.settings.runtime, self.view.say, self._resumes)
        self.trained_by = by
        if by.name != self.settings.runtime:  # --resume goes on with it, also where another is faster then
            self.settings = msgspec.structs.replace(self.settings, runtime=by.name)
            self.settings.save(self.out)
        self.view.say(by.sentence)

    def _graphs_left_to_onnxruntime(self) -> dict[str, str]:
        """Graphs of a pack of one's own that its runtime leaves to onnxruntime; it runs all of a shipped one."""
        if self.settings.pack is None:
            return {}
        models = {self.data.pack.manifest.plugin, *self.settings.architectures(self.data.pack)}
        left = left_to_onnxruntime(self.judging.runtime, sorted(models))
        for file, reason in left.items():
            self.view.say(f"onnxruntime runs {file}: {reason}")
        return left

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

    def _train_centrally(self) -> Flat:
        """The plug-in (P,) of all devices' clips, kept in the folder for other runs and for this one that goes on."""
        path, settings, data = RunFolder(self.out).central, self.settings, self.data
        if path.exists():
            return read_plugin(path, data.pack)
        training = CentralTraining(self.judging.runtime, settings.seed, data.devices[0][1].noise, self.judging.learn)
        weights = training.train(
            all_clips(data),
            settings.central_epochs,
            lambda done, total: self._step("training centrally", done, total),
            self.start.weights,
        )
        write_plugin(path, data.pack, weights, {"epochs": str(settings.central_epochs)})
        return weights

    async def _watch(self, done: RoundDone) -> None:
        """After every round: judge the model on unseen speakers, write and show a line."""
        assert self.engine is not None
        self._newest = done.judged
        judged, accepts, turned, validated = await asyncio.gather(  # meanwhile nobody trains
            asyncio.to_thread(self.judging.accuracy, done.judged),
            asyncio.to_thread(self.judging.false_accepts, done.judged),
            asyncio.to_thread(self.judging.turned, done.judged),
            asyncio.to_thread(self.judging.validated, done.judged),
        )
        sent, received = self.engine.bytes_sent, self.engine.bytes_received
        row = self.record.add(done, judged, accepts, sent, received, turned, validated)
        write_model(self.out, self.data.pack, done)
        self.view.round(row)
        if self._on_round is not None:
            try:
                self._on_round(row)
            except Exception as error:  # noqa: BLE001  # the caller's own code: whatever it raises ends the run
                self._refused = error
                self.stop()

    def _draw(self, newest: Flat) -> None:
        """Leave pictures of the newest model, and of what devices sent in the newest round."""
        folder, settings = RunFolder(self.out), self.settings
        options = ", ".join(f"{name}={value}".lower() for name, value in settings.method_options.items())
        said = f"{settings.preset_for(trained=False).method.name}{options and f' ({options})'}, seed {settings.seed}"
        last = read_last_round(folder.state)
        write_pictures(folder.pictures, self.data.pack, last, self.judging.looks(newest), said)

    def _devices(self, engine: Engine, rows: Sequence[RoundRow]) -> tuple[DeviceRow, ...]:
        groups = [None if group is None else group.name for group in engine.groups]
        return device_rows(engine.names, engine.models, self.data.speakers, self.data.counts, rows, groups)

    def _finish(self, engine: Engine, central: Flat | None, interrupted: bool) -> FleetResult:
        data, rows = self.data, self.record.rows
        newest, judging = self._newest, self.judging
        judged, hostile = (len(judging.features), judging.speakers), attackers(engine.names, engine.groups)
        assert self.trained_by is not None
        ran = Ran(
            self.settings,
            self.trained_by,
            self._left,
            self._chosen,
            data,
            self.start,
            judging.seconds,
            judged,
            None if central is None else judging.accuracy(central),
            interrupted,
            central_precision=None if central is None else judging.precision(central),
            confusion=None if newest is None else judging.confusion(newest),
            precision=None if newest is None else judging.precision(newest),
            held_out_precision=None if newest is None else judging.precision_of_held_out(newest),
            attackers=hostile,
        )
        summary = ran.summary(rows)
        devices = self._devices(engine, rows)
        changed = {name: value for name, value in self.settings.changed().items() if name not in HIDDEN}
        if self.settings.pictures and newest is not None:
            self._draw(newest)
        paths = write_results(self.out, data.pack, summary, rows, devices, changed)
        write_rounds(paths.rounds, rows)
        return FleetResult(rows, devices, summary, paths)
