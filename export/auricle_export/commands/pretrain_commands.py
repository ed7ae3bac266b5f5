"""`auricle export pretrain`: train a pack's models centrally, to start from."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import msgspec
import typer

from auricle.errors import SettingsError
from auricle.packs.pack import load_pack
from auricle.process.options import Given, with_options
from auricle.speech.sound_faults import sentences_of
from auricle_export.commands.command_line import given_options, import_for
from auricle_export.commands.pretrain_options import DECIDED, PretrainOptions, pretrain_options
from auricle_export.commands.recipe_commands import RecipeOptions, check_by_recipe, train_by_recipe
from auricle_export.commands.training_run import INTERRUPTED_CODE, TrainingRun
from auricle_export.pretrain.settings import PretrainSettings

if TYPE_CHECKING:
    from types import ModuleType

    from auricle_export.pretrain.task import Pretrained, PretrainTask


@with_options(given=pretrain_options())
def pretrain(
    *,
    ctx: typer.Context,
    checked: str | None = typer.Argument(None, metavar="PACK", help="With --check: the pack [the recipe's]."),
    given: Given,
) -> int:
    """Train a pack's models centrally, on recordings or synthetic speech, and put their weights into a pack."""
    options = msgspec.convert(given, PretrainOptions)
    if checked is not None and not options.check:
        raise SettingsError(f'"{checked}" stands alone: a pack is compared by --check, and trained by --pack.')
    return _by_options(ctx, options) if options.recipe is None else _by_recipe(ctx, options, checked)


def _by_recipe(ctx: typer.Context, options: PretrainOptions, checked: str | None) -> int:
    for option in options.changed(DECIDED):
        raise SettingsError(f"{option} is decided by the recipe: leave it out, or write a recipe of your own.")
    if checked is not None and options.pack is not None:
        raise SettingsError(f'Two packs are named, "{checked}" and "{options.pack}": compare one at a time.')
    assert options.recipe is not None
    named = RecipeOptions(
        recipe=options.recipe,
        data=options.one_folder,
        pack=checked or options.pack,
        out=options.out,
        state=options.state,
        words=tuple(options.words or ()),
        attribution=tuple(options.attribution or ()),
        seed=options.seed,
        device=options.compute,
        threads=options.threads,
        as_json=options.as_json,
    )
    return check_by_recipe(named) if options.check else train_by_recipe(ctx, named)


def _by_options(ctx: typer.Context, options: PretrainOptions) -> int:
    if options.check or options.attribution:
        option = "--check" if options.check else "--attribution"
        raise SettingsError(f"{option} needs --recipe: say which, as in --recipe home.")
    if not options.data or options.out is None:
        raise SettingsError("Say what to train on with --data, and which pack to write with --out.")
    if len(options.words or ()) > 1:
        raise SettingsError("Give --words once, separated by commas; several folders are for --recipe.")
    run = TrainingRun(ctx, options.out, options.state, options.as_json)
    work = import_for("pretrain", "pretrain.task")
    task = _task(work, options, run.folder)
    base, modules = load_pack(options.pack or "gsc12"), work.author_modules(options.model or ())
    run.refuse_unwritable()
    done: Pretrained | None = run.train(
        lambda view, stopped: work.pretrain_pack(base, task, modules=modules, watch=view, stopped=stopped)
    )
    if done is None:
        return INTERRUPTED_CODE
    work.remove_state(run.folder, list(done.trained))
    facts = {**facts_of(done), "path": str(run.out)}
    return run.conclude(facts, done.speech.findings, lambda: run.show(done.pack))


def _task(work: ModuleType, options: PretrainOptions, folder: Path) -> PretrainTask:
    settings = PretrainSettings(
        options.epochs,
        options.patience,
        options.batch,
        options.rate,
        options.seed,
        options.compute,
        **given_options(threads=options.threads),
    )
    task: PretrainTask = work.PretrainTask(
        data=tuple(options.data or ()),
        folder=folder,
        words=options.words[0] if options.words else None,
        models=None if options.models == "all" else tuple(name.strip() for name in options.models.split(",")),
        speakers=options.speakers,
        takes=options.takes,
        leave_out=tuple(map(str, options.leave_out or ())),
        settings=settings,
    )
    return task


def facts_of(done: Pretrained) -> dict[str, object]:
    """The result as plain values: what `--json` prints last, beside what was found in the sound."""
    speech = done.speech
    return {
        "pack": done.pack.manifest.name,
        "identity": done.pack.identity,
        "data": speech.what,
        "labels": list(speech.labels),
        "clips": {"train": len(speech.train), "validation": len(speech.validation), "test": len(speech.test)},
        "speakers": {
            "train": speech.train.speakers,
            "validation": speech.validation.speakers,
            "test": speech.test.speakers,
        },
        "skipped_files": len(sentences_of(speech.findings)),
        "models": {
            model: {
                "accuracy": round(result.accuracy, 4),
                "judged_clips": result.judged_clips,
                "validation_accuracy": round(result.validation_accuracy, 4),
                "epochs": result.epochs,
                "best_epoch": result.best_epoch,
                "seconds": round(result.seconds, 1),
                "mean_of_words": round(result.word_mean, 4),
                "words": {word: [score.right, score.of] for word, score in result.scores.items()},
            }
            for model, result in done.trained.items()
        },
    }
