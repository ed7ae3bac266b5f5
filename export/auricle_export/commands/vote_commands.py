"""`auricle export vote`: a third vote for a pack that is trained."""

from __future__ import annotations

import json
from dataclasses import asdict, replace
from pathlib import Path
from typing import TYPE_CHECKING

import typer

from auricle.errors import AuricleError, SettingsError
from auricle.files import write_durably
from auricle.packs.pack import load_pack, pack_bytes
from auricle.speech.sound_faults import count_findings, findings_table
from auricle_export.commands.command_line import (
    command,
    given,
    import_for,
    interrupted,
    refuse_unwritable,
    stop_on_signal,
)
from auricle_export.commands.pretrain_view import View

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
    folder = state if state is not None else out.with_name(f"{out.name}.state")
    refuse_unwritable(out, folder)
    base = load_pack(pack)
    work, chosen = import_for("vote", "pretrain.third_vote"), import_for("vote", "pretrain.recipe").load_recipe(recipe)
    if not isinstance(chosen, import_for("vote", "pretrain.recipe").Recipe):
        raise SettingsError(f"The recipe {recipe} is for single clips: name one of packs that listen, such as home.")
    work.own_models(base)
    settings = replace(
        work.usual_settings(), seed=seed, device=compute, **given(epochs=epochs), **given(threads=threads)
    )
    frozen = import_for("vote", "wakeword.embedding").find_network(frontend)
    task: VoteTask = work.VoteTask(chosen, data, folder, frozen, settings)
    with View(as_json) as view, stop_on_signal() as stopped:
        try:
            done: VotedPack = work.train_vote(base, task, watch=view, stopped=stopped)
        except AuricleError:
            if not stopped():
                raise
            return interrupted(command(ctx, folder), as_json)
        write_durably(out, pack_bytes(done.pack))
    import_for("vote", "pretrain.task").remove_state(folder, [work.WIDE_HEAD])
    _conclude(done, out, as_json)
    return 0


def _conclude(done: VotedPack, out: Path, as_json: bool) -> None:
    found = count_findings(done.findings)
    if as_json:
        facts: dict[str, object] = {
            "pack": done.pack.manifest.name,
            "identity": done.pack.identity,
            "path": str(out),
            "share": done.share,
            "hits": {f"{share:g}": round(hits, 4) for share, hits in done.hits.items()},
            "heard": round(done.measured.heard, 4),
            "false_accepts": round(done.measured.false_accepts, 4),
            "findings": [asdict(row) for row in found],
        }
        typer.echo(json.dumps(facts))
        return
    if found:
        typer.echo(findings_table(found), err=True)
    rows = ", ".join(f"{share:g}: {hits:.1%}" for share, hits in done.hits.items())
    typer.echo(f"Hits at 5 false accepts an hour by the vote's share, on validation streams: {rows}.")
    if done.hits[done.share] <= done.hits[0.0]:
        typer.echo("With the vote no more is heard than without it: this pack needs none.")
    typer.echo(f"{done.pack.manifest.name} {done.pack.identity[:12]}, share {done.share:g} -> {out}")
