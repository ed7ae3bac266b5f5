"""`auricle export vote`: a third vote for a pack that is trained."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import typer

from auricle.errors import SettingsError
from auricle.packs.pack import load_pack
from auricle_export.commands.command_line import given_options, import_for
from auricle_export.commands.training_run import INTERRUPTED_CODE, TrainingRun

if TYPE_CHECKING:
    from auricle_export.pretrain.third_vote import VotedPack, VoteTask


def vote(
    ctx: typer.Context,
    pack: str = typer.Argument(..., metavar="PACK", help="A trained pack: home, home-more, a folder, .tar.zst."),
    recipe: str = typer.Option(..., help="Whose recordings to train on: home, home-more, or a TOML file."),
    out: Path = typer.Option(..., help="The pack to write, a .tar.zst."),
    data: Path | None = typer.Option(None, help="The folder that the recipe's folders are in."),
    frontend: str = typer.Option(
        "embedding", metavar="NAME", help="The frozen network whose vectors vote: embedding, or an ONNX file."
    ),
    epochs: int | None = typer.Option(None, help="Passes of 250 batches of 512.  [16]"),
    state: Path | None = typer.Option(None, help="Folder that keeps an interrupted training.  [OUT.state]"),
    seed: int = typer.Option(0, help="Random seed of voices, initial weights and every draw."),
    compute: str = typer.Option("auto", help="auto, cpu or cuda."),
    threads: int | None = typer.Option(None, help="PyTorch's threads [1]; one more puts the sound together."),
    as_json: bool = typer.Option(False, "--json", help="Print a JSON object an epoch and the result, nothing else."),
) -> int:
    """Train a head over a frozen speech embedding, and write the pack with it as its third vote.

    Share and thresholds are chosen on people who are not trained on. Run the same command again after an interruption.
    """
    run = TrainingRun(ctx, out, state, as_json)
    run.refuse_unwritable()
    base = load_pack(pack)
    work, chosen = import_for("vote", "pretrain.third_vote"), import_for("vote", "pretrain.recipe").load_recipe(recipe)
    if not isinstance(chosen, import_for("vote", "pretrain.recipe").Recipe):
        raise SettingsError(f"The recipe {recipe} is for single clips: name one of packs that listen, such as home.")
    work.own_models(base)
    import_for("vote", "pretrain.live_task").refuse_labels(base, work.as_spelt(chosen, base))
    settings = replace(
        work.usual_settings(),
        seed=seed,
        device=compute,
        **given_options(epochs=epochs),
        **given_options(threads=threads),
    )
    frozen = import_for("vote", "wakeword.embedding").find_network(frontend)
    task: VoteTask = work.VoteTask(chosen, data, run.folder, frozen, settings)
    done: VotedPack | None = run.train(lambda view, stopped: work.train_vote(base, task, watch=view, stopped=stopped))
    if done is None:
        return INTERRUPTED_CODE
    import_for("vote", "pretrain.task").remove_state(run.folder, [work.WIDE_HEAD])
    facts: dict[str, object] = {
        **run.facts_of(done.pack),
        "share": done.share,
        "hits": {f"{share:g}": round(hits, 4) for share, hits in done.hits.items()},
        "heard": round(done.measured.heard, 4),
        "false_accepts": round(done.measured.false_accepts, 4),
    }
    return run.conclude(facts, done.findings, lambda: _show(done, out))


def _show(done: VotedPack, out: Path) -> None:
    rows = ", ".join(f"{share:g}: {hits:.1%}" for share, hits in done.hits.items())
    typer.echo(f"Hits at 5 false accepts an hour by the vote's share, on validation streams: {rows}.")
    if done.hits[done.share] <= done.hits[0.0]:
        typer.echo("With the vote no more is heard than without it: this pack needs none.")
    typer.echo(f"{done.pack.manifest.name} {done.pack.identity[:12]}, share {done.share:g} -> {out}")
