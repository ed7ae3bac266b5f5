"""`auricle export pretrain --recipe`: train a pack that listens, or `--check` one against its recipe."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import msgspec
import typer
from rich.console import Console

from auricle.errors import SettingsError
from auricle.packs.pack import load_pack
from auricle.process.table import Column, Grid
from auricle_export.commands.command_line import given_options, import_for
from auricle_export.commands.pack_commands import DIFFERENT_CODE
from auricle_export.commands.training_run import INTERRUPTED_CODE, Stopped, TrainingRun, until_stopped

if TYPE_CHECKING:
    from auricle.packs.pack import Pack
    from auricle_export.commands.pretrain_view import View
    from auricle_export.pretrain.clip_recipe import ClipRecipe
    from auricle_export.pretrain.comparison import Checked
    from auricle_export.pretrain.live_task import LivePack
    from auricle_export.pretrain.recipe import Recipe
    from auricle_export.pretrain.settings import LiveSettings, PretrainSettings
    from auricle_export.pretrain.task import Pretrained

WIDTH_COLUMNS = 80
"""Columns of the table of a comparison."""
_VERDICTS = {True: "same", False: "DIFFERS", None: "not compared"}


class RecipeOptions(NamedTuple):
    """Options of a training by a recipe, or of a check."""

    recipe: str
    data: str | None
    pack: str | None
    """None: the recipe's."""
    out: Path | None
    state: Path | None
    words: tuple[str, ...]
    """Folders that are added to the recipe's."""
    attribution: tuple[str, ...]
    seed: int
    device: str
    threads: int | None
    as_json: bool


def train_by_recipe(ctx: typer.Context, options: RecipeOptions) -> int:
    """Train by a recipe and write the pack."""
    if options.out is None:
        raise SettingsError("Say which pack to write, as in --out my.tar.zst.")
    recipe = _recipe(options)
    run = TrainingRun(ctx, options.out, options.state, options.as_json)
    run.refuse_unwritable()
    base = load_pack(options.pack or recipe.pack)
    reminder = _reminder(options)
    if reminder and not options.as_json:
        typer.echo(reminder, err=True)
    done = run.train(lambda view, stopped: _train(base, recipe, options, run.folder, view, stopped))
    if done is None:
        return INTERRUPTED_CODE
    import_for("pretrain", "pretrain.task").remove_state(run.folder, list(done.trained))
    facts = run.facts_of(done.pack) | ({"reminder": reminder} if reminder else {})
    return run.conclude(facts, done.findings, lambda: run.show(done.pack))


def _train(
    base: Pack,
    recipe: Recipe | ClipRecipe,
    options: RecipeOptions,
    folder: Path,
    view: View,
    stopped: Stopped,
) -> LivePack | Pretrained:
    done: LivePack | Pretrained
    if _for_clips(recipe):
        work = import_for("pretrain", "pretrain.task")
        clips = work.ClipTask(recipe, _folder(options), folder, _clip_settings(options))
        done = work.pretrain_clips(base, clips, watch=view, stopped=stopped)
    else:
        work = import_for("pretrain", "pretrain.live_task")
        task = work.LiveTask(recipe, _folder(options), folder, _settings(options))
        done = work.pretrain_live(base, task, watch=view, stopped=stopped)
    return done


def check_by_recipe(options: RecipeOptions) -> int:
    """Compare a pack with what its recipe gives now; the exit code says whether something differs."""
    for name, value in (("--out", options.out), ("--state", options.state), ("--seed", options.seed or None)):
        if value is not None:
            reason = "the pack says it" if name == "--seed" else "it writes nothing"
            raise SettingsError(f"--check takes no {name}, since {reason}: leave it out.")
    recipe = _recipe(options)
    pack = load_pack(options.pack or recipe.pack)
    checked = until_stopped(options.as_json, lambda view, stopped: _check(pack, recipe, options, view, stopped))
    if checked is None:
        typer.echo(json.dumps({"interrupted": True}) if options.as_json else "Interrupted; nothing was compared.")
        return INTERRUPTED_CODE
    if options.as_json:
        typer.echo(msgspec.json.encode(checked).decode())
    else:
        show(checked, Console(width=WIDTH_COLUMNS))
    return 0 if checked.same else DIFFERENT_CODE


def _check(pack: Pack, recipe: Recipe | ClipRecipe, options: RecipeOptions, view: View, stopped: Stopped) -> Checked:
    checked: Checked
    work = import_for("pretrain", "pretrain.check")
    if _for_clips(recipe):
        clips = work.ClipCheck(recipe, _folder(options), _clip_settings(options))
        checked = work.check_clips(pack, clips, watch=view, stopped=stopped)
    else:
        task = work.CheckTask(recipe, _folder(options), _settings(options))
        checked = work.check_pack(pack, task, watch=view, stopped=stopped)
    return checked


def show(checked: Checked, console: Console) -> None:
    """Print a comparison as a table, with what it allows and what it could not compare."""
    columns = [Column(head, 0, is_sentence=True) for head in ("what", "in the pack", "found")]
    rows = [(row.what, row.pack, row.found, _VERDICTS[row.same]) for row in checked.rows]
    console.print(Grid([*columns, Column("", 0)], lambda _short: rows))
    differing = sum(row.same is False for row in checked.rows)
    compared = sum(row.same is not None for row in checked.rows)
    verdict = f"{differing} of {compared} differ" if differing else f"all {compared} that were compared are the same"
    kinds = (f"Hits by kind of scene: {'/'.join(checked.kinds)}.",) if checked.kinds else ()
    for line in (*kinds, *checked.notes, checked.tolerance, f"{checked.pack} {checked.identity[:12]}: {verdict}."):
        console.print(line, markup=False, highlight=False)


def _recipe(options: RecipeOptions) -> Recipe | ClipRecipe:
    recipe: Recipe | ClipRecipe = import_for("pretrain", "pretrain.recipe").load_recipe(options.recipe)
    return recipe.with_words(options.words, options.attribution)


def _for_clips(recipe: Recipe | ClipRecipe) -> bool:
    return isinstance(recipe, import_for("pretrain", "pretrain.clip_recipe").ClipRecipe)


def _clip_settings(options: RecipeOptions) -> PretrainSettings:
    settings: PretrainSettings = import_for("pretrain", "pretrain.settings").PretrainSettings(
        seed=options.seed, device=options.device, **given_options(threads=options.threads)
    )
    return settings


def _settings(options: RecipeOptions) -> LiveSettings:
    work = import_for("pretrain", "pretrain.settings")
    settings: LiveSettings = work.LiveSettings(
        seed=options.seed, device=options.device, **given_options(threads=options.threads)
    )
    return settings


def _folder(options: RecipeOptions) -> Path | None:
    return None if options.data is None else Path(options.data)


def _reminder(options: RecipeOptions) -> str:
    """What somebody who adds recordings has to think of; nothing where it was thought of."""
    if not options.words or options.attribution:
        return ""
    return (
        f"{', '.join(options.words)} is added to the recipe: where the licence of these recordings asks to name "
        "somebody, the pack has to, so say whom with --attribution TEXT, or write it into a recipe of your own."
    )
