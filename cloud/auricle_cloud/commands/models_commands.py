"""`auricle cloud models`: versions of the model, which one is current, and how good they are."""

from __future__ import annotations

import hashlib
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from auricle.errors import SettingsError
from auricle.files import write_durably
from auricle.packs.shipped import SHIPPED
from auricle_cloud.commands.operator_command import (
    HearingHours,
    Hold,
    Reason,
    Version,
    Yes,
    complete_version,
    confirm,
    operator_command,
)
from auricle_cloud.commands.target import Place
from auricle_cloud.operations.model_operations import Judged, ModelPage, ModelRow
from auricle_cloud.operations.operations import Operations
from auricle_cloud.operations.types import Done, Form

if TYPE_CHECKING:
    from auricle.packs.pack import Pack

app = typer.Typer(no_args_is_help=True, help="See, choose, fetch and judge models.")

Before = Annotated[int | None, typer.Option(help="Continue before this one.")]
PackOption = Annotated[str | None, typer.Option("--pack", help="The task's pack [the shipped one it is].")]


@operator_command(app, "list")
def list_(
    do: Operations, limit: Annotated[int, typer.Option(help="Most rows to show.")] = 20, before: Before = None
) -> ModelPage:
    """List versions, the newest first."""
    return do.list_models(limit, before)


@operator_command(app, "show")
def show(do: Operations, version: Version) -> ModelRow:
    """Show a version."""
    return do.show_model(version)


@operator_command(app, "promote")
def promote(
    do: Operations,
    version: Version,
    reason: Reason = "",
    hold_on_hearing: Hold = False,
    hearing_hours: HearingHours = 24.0,
    yes: Yes = False,
) -> ModelRow:
    """Make a version current: it is sent out, and the next round begins with it."""
    do.show_model(version)  # nobody is asked about one that is not there
    confirm(f"Make version {version} current in place of the one that is?", yes=yes)
    return do.promote_model(version, reason, hearing_hours if hold_on_hearing else None)


@operator_command(app, "rollback")
def rollback(
    do: Operations,
    version: Annotated[
        int | None,
        typer.Argument(metavar="[VERSION]", help="[the current one's parent]", autocompletion=complete_version),
    ] = None,
    reason: Reason = "",
    yes: Yes = False,
) -> ModelRow:
    """Go back to an earlier version."""
    if version is not None:
        do.show_model(version)
    confirm(f"Roll back to {'the version before' if version is None else f'version {version}'}?", yes=yes)
    return do.rollback_model(version, reason)


@operator_command(app, "download")
def download(
    place: Place,
    version: Version,
    form: Annotated[Form, typer.Option(help="safetensors: named tensors; raw: the float32 numbers.")] = "safetensors",
    out: Annotated[Path | None, typer.Option(help="The file [named by task and version].")] = None,
    pack: PackOption = None,
) -> Done:
    """Fetch a version's weights."""
    with place.operations(pack) as do:
        file = do.download_model(version, form)
    target = out or Path(Path(file.name).name)
    write_durably(target, file.content)
    sha256 = hashlib.sha256(file.content).hexdigest()
    return Done(done=f"{target}: {len(file.content)} bytes, SHA-256 {sha256}.")


@operator_command(app, "evaluate")
def evaluate(
    place: Place,
    version: Version,
    validation: Annotated[Path, typer.Option(help="Folder of labelled clips, one sub-folder a word.")],
    pack: PackOption = None,
    pack_key: Annotated[str | None, typer.Option(help="Public key in hex: refuse a pack it has not signed.")] = None,
    compute: Annotated[str, typer.Option(help="auto, cpu or cuda.")] = "auto",
    keep: Annotated[bool, typer.Option("--keep", help="Write the result to the model's row, on this machine.")] = False,
) -> Judged:
    """Judge a version on labelled clips of this machine."""
    import numpy as np

    from auricle.wire.tensors import decode
    from auricle_cloud.evaluation.evaluator import choose_evaluator
    from auricle_cloud.evaluation.validation_set import load_validation

    if keep and place.server is not None:
        raise SettingsError("--keep writes to a database of this machine: name --state or --database.")
    with place.operations(pack) as do:
        identity, block = do.overview().pack or "", do.download_model(version, "raw").content
        loaded = _pack(pack, identity, pack_key)
        clips = load_validation(validation, loaded)
        judge, _ = choose_evaluator(loaded, clips, compute)
        scores = judge.scores(decode(block, loaded.plugin_table.size)[np.newaxis])
        accuracy, loss = float(scores.accuracy[0]), float(scores.loss[0])
        task = do.show_model(version).task
    if keep:
        with place.local_store() as store:
            store.models.judged(task, version, accuracy, loss)
    return Judged(version=version, accuracy=accuracy, loss=loss, clips=len(clips), kept=keep)


def _pack(source: str | None, identity: str, key: str | None) -> Pack:
    from auricle.packs.pack import load_pack
    from auricle.packs.signature import read_trusted_key

    for name in SHIPPED if source is None else (source,):
        pack = load_pack(name, read_trusted_key(key))
        if pack.identity == identity:
            return pack
    raise SettingsError(f"The task's pack is {identity[:12]}: name that one with --pack.")
