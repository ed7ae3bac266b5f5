"""`auricle export pretrain`: train a pack's models centrally, to start from."""

from __future__ import annotations

import json
import os
import shlex
import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import typer
from msgspec import UNSET
from rich.console import Console
from rich.progress import BarColumn, Progress, TaskID, TextColumn, TimeElapsedColumn, TimeRemainingColumn

from auricle.errors import AuricleError, SettingsError, StorageError
from auricle.files import describe, write_durably
from auricle.pack import load_pack, pack_bytes
from auricle_export.late_import import import_for

if TYPE_CHECKING:
    from auricle.manifest import Start
    from auricle_export.pretrain.settings import Epoch, Trained
    from auricle_export.pretrain.speech import PretrainSpeech
    from auricle_export.pretrain.task import Pretrained


def pretrain(
    ctx: typer.Context,
    data: str = typer.Option(
        ..., help="synthetic, a folder <word>/<speaker>_nohash_<n>.(wav|flac), or the folder that a recipe's are in."
    ),
    out: Path = typer.Option(..., help="The pack to write, a .tar.zst."),
    pack: str = typer.Option("gsc12", help="The pack whose models to train: gsc12, gsc35, digits, a folder, .tar.zst."),
    recipe: str | None = typer.Option(
        None, help="Train a pack that listens: gsc12-res, home, or a TOML file (docs/pretrain.md)."
    ),
    words: str | None = typer.Option(None, help="a,b,c, gsc12, gsc35, digits, or common:N [the pack's]."),
    models: str = typer.Option("all", help="Models to train, parted by commas, or all."),
    model: list[str] | None = typer.Option(None, help="FILE.py:NAME of a model that is not built in; once for each."),
    epochs: int = typer.Option(40, help="Most passes over the clips."),
    patience: int = typer.Option(10, help="Stop after so many epochs without a lower loss on the validation speakers."),
    batch: int = typer.Option(64, help="Clips a step."),
    rate: float = typer.Option(3e-3, help="Highest learning rate of AdamW."),
    speakers: int = typer.Option(80, help="Synthetic speech: voices."),
    takes: int = typer.Option(8, help="Synthetic speech: takes of each word by each voice."),
    seed: int = typer.Option(0, help="Decides speech, split, initial weights and every draw."),
    state: Path | None = typer.Option(
        None, help="Folder that keeps an interrupted training; the same one goes on with it [OUT.state]."
    ),
    device: str = typer.Option("auto", help="auto, cpu or cuda."),
    threads: int | None = typer.Option(None, help="PyTorch's threads [1]; more help only where nothing else runs."),
    as_json: bool = typer.Option(False, "--json", help="Print a JSON object an epoch and the result, nothing else."),
) -> int:
    """Train a pack's models centrally, on recordings or synthetic speech, and put their weights into a pack."""
    if recipe is not None:
        given = {"--rate": rate if rate != 3e-3 else None, "--batch": batch if batch != 64 else None}
        options = _LiveOptions(recipe, Path(data), out, state, seed, device, threads, given)
        return _pretrain_live(ctx, options, as_json)
    work = import_for("pretrain", "pretrain.task")
    folder = state if state is not None else out.with_name(f"{out.name}.state")
    names = None if models == "all" else tuple(name.strip() for name in models.split(","))
    settings = work.PretrainSettings(epochs, patience, batch, rate, seed, device, **_given(threads=threads))
    task = work.PretrainTask(data, folder, words, names, speakers, takes, settings)
    base, modules = load_pack(pack), work.author_modules(model or ())
    _refuse_unwritable(out, folder)
    with _View(as_json) as view, _stop_on_signal() as stopped:
        try:
            done = work.pretrain_pack(base, task, modules=modules, watch=view, stopped=stopped)
        except AuricleError:
            if not stopped():
                raise
            return _interrupted(_command(ctx, folder), as_json)  # a voice's process that got the Ctrl-C fails as well
        write_durably(out, pack_bytes(done.pack))
    work.remove_state(folder, list(done.trained))
    _conclude(done, out, as_json)
    return 0


class _LiveOptions(NamedTuple):
    """Options of a training by a recipe."""

    recipe: str
    data: Path
    out: Path
    state: Path | None
    seed: int
    device: str
    threads: int | None
    others: dict[str, float | None]
    """Options that a recipe decides."""


def _pretrain_live(ctx: typer.Context, given: _LiveOptions, as_json: bool) -> int:
    """Train by a recipe."""
    for option, value in given.others.items():
        if value is not None:
            raise SettingsError(f"{option} is decided by the recipe: leave it out, or write a recipe of your own.")
    work = import_for("pretrain", "pretrain.live_task")
    recipe = import_for("pretrain", "pretrain.recipe").load_recipe(given.recipe)
    folder = given.state if given.state is not None else given.out.with_name(f"{given.out.name}.state")
    settings = work.LiveSettings(seed=given.seed, device=given.device, **_given(threads=given.threads))
    _refuse_unwritable(given.out, folder)
    base = load_pack(ctx.params["pack"] if ctx.params["pack"] != "gsc12" else recipe.pack)
    with _View(as_json) as view, _stop_on_signal() as stopped:
        try:
            done = work.pretrain_live(
                base, work.LiveTask(recipe, given.data, folder, settings), watch=view, stopped=stopped
            )
        except AuricleError:
            if not stopped():
                raise
            return _interrupted(_command(ctx, folder), as_json)
        write_durably(given.out, pack_bytes(done.pack))
    import_for("pretrain", "pretrain.task").remove_state(folder, list(done.trained))
    if as_json:
        typer.echo(
            json.dumps({"pack": done.pack.manifest.name, "identity": done.pack.identity, "path": str(given.out)})
        )
    else:
        typer.echo(f"{done.pack.manifest.name} {done.pack.identity[:12]} -> {given.out}")
    return 0


def _given(**options: int | None) -> dict[str, int]:
    return {name: value for name, value in options.items() if value is not None}


def _refuse_unwritable(out: Path, folder: Path) -> None:
    """Refuse at once what would fail after the training."""
    if out.is_dir():
        raise SettingsError(f"{out} is a folder: name the file to write, as in --out {out / 'my.tar.zst'}.")
    for place in (out.parent, folder):
        try:
            place.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise StorageError(describe(error, place)) from error
        if not os.access(place, os.W_OK | os.X_OK):
            raise StorageError(f"{place} cannot be written: check its permissions.")


@contextmanager
def _stop_on_signal() -> Iterator[Callable[[], bool]]:
    """Whether SIGINT or SIGTERM came; a second one ends the process at once."""
    asked = threading.Event()

    def ask(number: int, _: object) -> None:
        if asked.is_set():
            raise KeyboardInterrupt
        asked.set()

    if threading.current_thread() is not threading.main_thread():
        yield asked.is_set
        return
    before = {number: signal.signal(number, ask) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield asked.is_set
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def _command(ctx: typer.Context, folder: Path) -> str:
    """The command that goes on: what was given, and where the state is."""
    words = ["auricle", "export", "pretrain"]
    for option in ctx.command.params:
        given, standard = ctx.params.get(option.name or ""), option.get_default(ctx)
        if option.name == "as_json":
            words += ["--json"] if given else []
        elif option.name != "state" and given is not None and given != standard:
            several = given if isinstance(given, list | tuple) else [given]
            words += [word for value in several for word in (option.opts[0], str(value))]
    return shlex.join([*words, "--state", str(folder)])


def _interrupted(command: str, as_json: bool) -> int:
    if as_json:
        typer.echo(json.dumps({"interrupted": True, "go_on": command}))
    else:
        typer.echo(f"Interrupted; every whole epoch is kept. Go on with: {command}")
    return 130


def facts_of(done: Pretrained) -> dict[str, Any]:
    """The result as plain values: what `--json` prints last."""
    speech = done.speech
    return {
        "pack": done.pack.manifest.name,
        "identity": done.pack.identity,
        "data": speech.what,
        "labels": list(speech.labels),
        "clips": {"train": len(speech.train), "validation": len(speech.validation), "test": len(speech.test)},
        "speakers": {
            "train": speech.train.speakers, "validation": speech.validation.speakers, "test": speech.test.speakers,
        },
        "skipped_files": len(speech.skipped),
        "models": {
            model: {
                "accuracy": round(result.accuracy, 4), "judged_clips": result.judged_clips,
                "validation_accuracy": round(result.validation_accuracy, 4), "epochs": result.epochs,
                "best_epoch": result.best_epoch, "seconds": round(result.seconds, 1),
            }
            for model, result in done.trained.items()
        },
    }  # fmt: skip


def _conclude(done: Pretrained, out: Path, as_json: bool) -> None:
    if as_json:
        typer.echo(json.dumps({**facts_of(done), "path": str(out)}))
        return
    typer.echo(f"{done.pack.manifest.name} {done.pack.identity[:12]} -> {out}")


class _View:
    """Shows a training: bars in a terminal, a line a model elsewhere, JSON on request."""

    def __init__(self, as_json: bool) -> None:
        self._json = as_json
        columns = (TextColumn("{task.description}"), BarColumn(), TimeElapsedColumn(), TextColumn("left"))
        self._bars = Progress(*columns, TimeRemainingColumn(), console=Console(stderr=True), disable=as_json,
                              transient=True)  # fmt: skip
        self._reading: dict[str, TaskID] = {}
        self._training: TaskID | None = None
        self._finished, self._weights = 0, 0

    def __enter__(self) -> _View:
        """Start showing."""
        self._bars.start()
        return self

    def __exit__(self, *_: object) -> None:
        """Stop showing."""
        self._bars.stop()

    def step(self, what: str, done: int, total: int) -> None:
        """Some of the speech is read."""
        if what not in self._reading:
            self._reading[what] = self._bars.add_task(what)
        self._bars.update(self._reading[what], completed=done, total=total, visible=done < total)

    def begin(self, model: str, weights: int, all_weights: int) -> None:
        """The training of a model begins: the bar's unit is a weight's training, since larger models take longer."""
        if self._training is None:
            self._training = self._bars.add_task("", total=all_weights)
        self._weights = weights
        self._bars.update(self._training, description=model)

    def epoch(self, epoch: Epoch) -> None:
        """An epoch is done."""
        if self._json:
            typer.echo(json.dumps({
                "model": epoch.model, "epoch": epoch.number, "epochs": epoch.epochs, "loss": round(epoch.loss, 4),
                "validation_accuracy": round(epoch.validation_accuracy, 4),
                "validation_loss": round(epoch.validation_loss, 4), "best_epoch": epoch.best_epoch,
                "seconds": round(epoch.seconds, 1),
            }))  # fmt: skip
            return
        assert self._training is not None
        self._bars.update(
            self._training, completed=self._finished + self._weights * epoch.number / epoch.epochs,
            description=f"{epoch.model} {epoch.number}/{epoch.epochs}, validation {epoch.validation_accuracy:.1%}",
        )  # fmt: skip

    def trained(self, model: str, result: Trained, speech: PretrainSpeech) -> None:
        """A model is done."""
        self._finished += self._weights
        if self._json:
            return
        assert self._training is not None
        self._bars.update(self._training, completed=self._finished)
        self._bars.console.print(
            f"{model}: {result.accuracy:.1%} of {result.judged_clips:,} clips of {speech.test.speakers} unheard "
            f"speakers; trained {result.epochs} epochs in {result.seconds:.0f} s on {len(speech.train):,} clips of "
            f"{speech.train.speakers} speakers, the best was {result.best_epoch}.",
            highlight=False,
            soft_wrap=True,
        )

    def judged(self, model: str, result: Trained, start: Start) -> None:
        """A model that was trained live is judged on people of the test part."""
        self._finished += self._weights
        hearing = start.hearing
        assert hearing is not UNSET
        curve = {point.false_accepts_per_hour: point.hits for point in hearing.curve}
        if self._json:
            facts = {
                "model": model,
                "epochs": result.epochs,
                "best_epoch": result.best_epoch,
                "validation_hits": round(result.validation_accuracy, 4),
                "clip_accuracy": start.accuracy,
                "clips": start.judged_clips,
                "hours": hearing.hours,
                "hits": {str(rate): hits for rate, hits in curve.items()},
                "seconds": round(result.seconds, 1),
            }
            typer.echo(json.dumps(facts))
            return
        said = ", ".join(f"{kind} {share:.0%}" for kind, share in curve[5.0].items())
        self._bars.console.print(
            f"{model}: {start.accuracy:.1%} of {start.judged_clips:,} clips of people it never heard; hits at 5 false "
            f"accepts an hour ({hearing.hours:.1f} h): {said}; {result.epochs} epochs in {result.seconds:.0f} s, the "
            f"best was {result.best_epoch}.",
            highlight=False,
            soft_wrap=True,
        )
