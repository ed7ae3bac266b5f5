"""`auricle export pretrain`: train a pack's models centrally, to start from."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer

from auricle.errors import AuricleError, SettingsError
from auricle.files import write_durably
from auricle.packs.pack import load_pack, pack_bytes
from auricle_export.commands.command_line import command, given, interrupted, refuse_unwritable, stop_on_signal
from auricle_export.commands.late_import import import_for
from auricle_export.commands.pretrain_view import View
from auricle_export.commands.recipe_commands import RecipeOptions, check_by_recipe, train_by_recipe

if TYPE_CHECKING:
    from auricle_export.pretrain.task import Pretrained


def pretrain(
    ctx: typer.Context,
    checked: str | None = typer.Argument(None, metavar="PACK", help="With --check: the pack [the recipe's]."),
    data: list[str] | None = typer.Option(
        None,
        help="synthetic, folders <word>/<speaker>_nohash_<n>.(wav|flac), speech-commands, once for each; or the one "
        "folder that a recipe's are in.",
    ),
    leave_out: list[Path] | None = typer.Option(
        None, help="A folder of words whose speakers are left out of all parts; once for each."
    ),
    out: Path | None = typer.Option(None, help="The pack to write, a .tar.zst."),
    pack: str | None = typer.Option(
        None, help="The pack whose models to train: gsc12, gsc35, digits, a folder, .tar.zst [gsc12, or the recipe's]."
    ),
    recipe: str | None = typer.Option(
        None, help="Train as a recipe says: home, gsc12-res, gsc12, gsc35, digits, or a TOML file (docs/pretrain.md)."
    ),
    check: bool = typer.Option(
        False, "--check", help="Train nothing: compare a pack with what its recipe and recordings give now."
    ),
    words: list[str] | None = typer.Option(
        None,
        help="a,b,c, gsc12, gsc35, digits, or common:N [the pack's]. With --recipe: a folder of more words, or "
        "speech-commands; once for each.",
    ),
    attribution: list[str] | None = typer.Option(
        None, help="With --recipe: whom the licence of added recordings asks to name; once for each."
    ),
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
    if checked is not None and not check:
        raise SettingsError(f'"{checked}" stands alone: a pack is compared by --check, and trained by --pack.')
    if recipe is not None:
        decided = {
            "--rate": rate != 3e-3,
            "--batch": batch != 64,
            "--epochs": epochs != 40,
            "--patience": patience != 10,
            "--models": models != "all",
            "--model": bool(model),
            "--speakers": speakers != 80,
            "--takes": takes != 8,
            "--leave-out": bool(leave_out),
        }
        _refuse_decided(decided)
        if checked is not None and pack is not None:
            raise SettingsError(f'Two packs are named, "{checked}" and "{pack}": compare one at a time.')
        if len(data or ()) > 1:
            raise SettingsError("A recipe names its folders: give --data once, the folder that they are in.")
        added, named, place = tuple(words or ()), tuple(attribution or ()), data[0] if data else None
        wanted = checked or pack
        options = RecipeOptions(recipe, place, wanted, out, state, added, named, seed, device, threads, as_json)
        return check_by_recipe(options) if check else train_by_recipe(ctx, options)
    if check or attribution:
        raise SettingsError(
            f"{'--check' if check else '--attribution'} needs --recipe: say which, as in --recipe home."
        )
    if not data or out is None:
        raise SettingsError("Say what to train on with --data, and which pack to write with --out.")
    if len(words or ()) > 1:
        raise SettingsError("Give --words once, parted by commas; several folders are for --recipe.")
    chosen = words[0] if words else None
    work = import_for("pretrain", "pretrain.task")
    folder = state if state is not None else out.with_name(f"{out.name}.state")
    names = None if models == "all" else tuple(name.strip() for name in models.split(","))
    settings = work.PretrainSettings(epochs, patience, batch, rate, seed, device, **given(threads=threads))
    left = tuple(map(str, leave_out or ()))
    task = work.PretrainTask(tuple(data), folder, chosen, names, speakers, takes, left, settings)
    base, modules = load_pack(pack or "gsc12"), work.author_modules(model or ())
    refuse_unwritable(out, folder)
    with View(as_json) as view, stop_on_signal() as stopped:
        try:
            done = work.pretrain_pack(base, task, modules=modules, watch=view, stopped=stopped)
        except AuricleError:
            if not stopped():
                raise
            return interrupted(command(ctx, folder), as_json)  # a voice's process that got the Ctrl-C fails as well
        write_durably(out, pack_bytes(done.pack))
    work.remove_state(folder, list(done.trained))
    _conclude(done, out, as_json)
    return 0


def _refuse_decided(decided: Mapping[str, bool]) -> None:
    """Refuse options that a recipe decides."""
    for option, changed in decided.items():
        if changed:
            raise SettingsError(f"{option} is decided by the recipe: leave it out, or write a recipe of your own.")


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
            "train": speech.train.speakers,
            "validation": speech.validation.speakers,
            "test": speech.test.speakers,
        },
        "skipped_files": len(speech.skipped),
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


def _conclude(done: Pretrained, out: Path, as_json: bool) -> None:
    if as_json:
        typer.echo(json.dumps({**facts_of(done), "path": str(out)}))
        return
    typer.echo(f"{done.pack.manifest.name} {done.pack.identity[:12]} -> {out}")
