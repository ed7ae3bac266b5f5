"""`auricle edge clips`: the labelled clips that this device keeps."""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated

import msgspec
import typer

from auricle.errors import AuricleError, SettingsError
from auricle.packs.pack import load_pack
from auricle.packs.shipped import DEFAULT_PACK
from auricle.packs.signature import read_trusted_key
from auricle.process.table import Column, Grid, console, moment
from auricle.process.times import to_json
from auricle.speech.features import LogMel
from auricle.wire.kinds import plain
from auricle_edge.clips import ClipSettings, ClipStore
from auricle_edge.clips.disk import Disk
from auricle_edge.clips.export import export as export_clips
from auricle_edge.clips.export import play as play_samples
from auricle_edge.clips.opening import wipe_store
from auricle_edge.clips.record import ClipRow, row
from auricle_edge.commands.place import AsJson, Config, State
from auricle_edge.ota.installation import CONFIG
from auricle_edge.settings import read_settings

app = typer.Typer(no_args_is_help=True, help="See, hear, correct and destroy the clips that this device keeps.")
FOLDER = "clips"
"""Where in the state folder they lie."""

PackName = Annotated[str | None, typer.Option("--pack", help="The agent's pack [that of --config, or home].")]
Yes = Annotated[bool, typer.Option("--yes", help="Do not ask.")]
ClipName = Annotated[str, typer.Argument(metavar="ID", help="Id of a clip, or its beginning.")]
Word = Annotated[str | None, typer.Option("--word", help="Only clips with this label.")]
Source = Annotated[
    str | None, typer.Option("--source", help="Only those enrolled, confirmed, denied, missed, ambient, pseudo, ...")
]
COLUMNS = {
    "id": 0,
    "word": 0,
    "source": 1,
    "weight": 4,
    "created": 2,
    "held_out": 3,
    "damaged": 2,
    "score": 3,
    "bytes": 4,
}
"""Columns of the list; those of the highest numbers hide first where a terminal is narrow."""


class ClipList(msgspec.Struct, frozen=True, kw_only=True):
    """The clips, and what they come to."""

    clips: list[ClipRow]
    bytes: int
    labels: dict[str, int]
    """Clips by label."""
    held_out: int
    damaged: int
    unreadable: int
    """Files that are no clips of this store."""


class Done(msgspec.Struct, frozen=True, kw_only=True):
    """What was done."""

    done: str
    count: int = 1


@app.command("list")
def list_(
    config: Config = None,
    state: State = None,
    pack: PackName = None,
    word: Word = None,
    source: Source = None,
    as_json: AsJson = False,
) -> int:
    """List the clips, the oldest first."""
    with _store(config, state, pack) as store:
        clips = store.list(word=word, source=source)
        found = ClipList(
            clips=[row(clip) for clip in clips],
            bytes=sum(clip.bytes for clip in clips),
            labels=dict(sorted(Counter(clip.record.word or "unlabelled" for clip in clips).items())),
            held_out=sum(clip.record.held_out for clip in clips),
            damaged=sum(clip.damaged for clip in clips),
            unreadable=store.unreadable,
        )
    if as_json:
        return _print(found)
    if found.clips:
        _table(found.clips)
    damaged = f", {found.damaged} damaged" if found.damaged else ""
    unreadable = f" {found.unreadable} files beside them cannot be read." if found.unreadable else ""
    typer.echo(
        f"{len(clips)} clips, {found.bytes / 1e6:.1f} MB, {found.held_out} held out{damaged}: "
        f"{', '.join(f'{count} {label}' for label, count in found.labels.items()) or 'none'}.{unreadable}"
    )
    return 0


@app.command()
def show(
    clip: ClipName, config: Config = None, state: State = None, pack: PackName = None, as_json: AsJson = False
) -> int:
    """Show what is known of a clip, and whether it can be read: exit code 1 if not."""
    with _store(config, state, pack) as store:
        try:
            store.content(store.get(clip))
        except AuricleError as error:
            typer.echo(f"auricle: {error}", err=True)
        found = row(store.get(clip))
    if as_json:
        _print(found)
    else:
        for name, value in msgspec.structs.asdict(found).items():
            typer.echo(f"{name.replace('_', ' ')}: {_cell(name, value)}")
    return 1 if found.damaged else 0


@app.command()
def play(
    clip: ClipName, config: Config = None, state: State = None, pack: PackName = None, as_json: AsJson = False
) -> int:
    """Play a clip on this device's loudspeaker."""
    with _store(config, state, pack) as store:
        found = store.get(clip)
        player = play_samples(store.read(found.id))
    return _say(Done(done=f"{found.id} ({found.record.word or 'unlabelled'}) was played with {player}."), as_json)


@app.command()
def relabel(
    clip: ClipName,
    word: Annotated[str, typer.Argument(help="The label that it should have.")],
    config: Config = None,
    state: State = None,
    pack: PackName = None,
    as_json: AsJson = False,
) -> int:
    """Give a clip another label; a held-out clip stays held out."""
    with _store(config, state, pack) as store:
        changed = store.relabel(clip, store.as_label(word), "confirmed")
    return _print(row(changed)) if as_json else _say(Done(done=f'{changed.id} is now "{word}".'), as_json)


@app.command()
def delete(
    clips: Annotated[list[str] | None, typer.Argument(metavar="[ID]...", help="Ids, or their beginnings.")] = None,
    config: Config = None,
    state: State = None,
    pack: PackName = None,
    word: Word = None,
    source: Source = None,
    damaged: Annotated[bool, typer.Option("--damaged", help="Those that cannot be read.")] = False,
    yes: Yes = False,
    as_json: AsJson = False,
) -> int:
    """Destroy clips: those named, or all of a label, a source, or the damaged ones."""
    chosen = word is not None or source is not None or damaged
    if bool(clips) == chosen:
        raise SettingsError("Name clips by their ids, or by --word, --source or --damaged.")
    with _store(config, state, pack) as store:
        if clips:
            wanted = [store.get(each) for each in clips]
        else:
            wanted = [c for c in store.list(word=word, source=source) if c.damaged or not damaged]
        if wanted:
            _confirm(f"Destroy {len(wanted)} clips?", yes=yes, as_json=as_json)
        count = store.delete(clip.id for clip in wanted)
    return _say(Done(done=f"{count} clips were overwritten and removed.", count=count), as_json)


@app.command()
def export(
    folder: Annotated[Path, typer.Argument(help="A new folder.")],
    config: Config = None,
    state: State = None,
    pack: PackName = None,
    word: Word = None,
    source: Source = None,
    as_json: AsJson = False,
) -> int:
    """Write clips to a folder, not encrypted: one sub-folder a label, and a table."""
    with _store(config, state, pack) as store:
        done = export_clips(store, store.list(word=word, source=source), folder)
    if as_json:
        return _print(done)
    damaged = f"; {done.damaged} could not be read" if done.damaged else ""
    return _say(Done(done=f"{done.clips} clips were written to {done.folder}{damaged}."), as_json)


@app.command()
def wipe(config: Config = None, state: State = None, yes: Yes = False, as_json: AsJson = False) -> int:
    """Destroy all clips and their key, whether or not they can be read."""
    folder, settings, _ = _place(config, state, None)
    _exists(folder)
    _confirm(f"Destroy all clips in {folder} and their key?", yes=yes, as_json=as_json)
    done = wipe_store(folder, settings, Disk())
    if as_json:
        return _print(done)
    key = " and the key" if done.key else ""
    return _say(Done(done=f"{done.clips} clips{key} were overwritten and removed. {done.note}"), as_json)


def _place(
    config: Path | None, state: Path | None, pack: str | None
) -> tuple[Path, ClipSettings, tuple[str, str | None]]:
    """Folder and settings of the clips, and the pack with its key: of the agent's file where there is one."""
    file = config or (CONFIG if state is None and CONFIG.is_file() else None)
    if file is not None:
        settings = read_settings(file, {} if state is None else {"state": str(state)})
        return settings.folder / FOLDER, settings.clips, (pack or settings.pack, settings.pack_key)
    if state is None:
        raise SettingsError("Name the agent's settings with --config, or its state folder with --state.")
    return state / FOLDER, ClipSettings(), (pack or DEFAULT_PACK, None)


@contextmanager
def _store(config: Path | None, state: Path | None, pack: str | None) -> Iterator[ClipStore]:
    folder, settings, (name, key) = _place(config, state, pack)
    _exists(folder)
    frontend = LogMel(load_pack(name, read_trusted_key(key)).manifest.task)
    store = ClipStore(folder, settings, frontend)
    try:
        yield store
    finally:
        store.close()


def _exists(folder: Path) -> None:
    if not folder.is_dir():
        raise SettingsError(f"There are no clips: {folder} does not exist. Is --state the agent's folder?")


def _confirm(question: str, *, yes: bool, as_json: bool) -> None:
    if yes:
        return
    if as_json or not sys.stdin.isatty():
        raise SettingsError(f"{question} Nobody can be asked here: add --yes.")
    if not typer.confirm(question, err=True):
        typer.echo("Nothing was done.", err=True)
        raise typer.Exit(1)


def _print(answer: msgspec.Struct) -> int:
    typer.echo(to_json(answer))
    sys.stdout.flush()
    return 0


def _say(answer: Done, as_json: bool) -> int:
    if as_json:
        return _print(answer)
    typer.echo(answer.done)
    return 0


def _table(rows: list[ClipRow]) -> None:
    columns = [Column(name.replace("_", " "), rank) for name, rank in COLUMNS.items()]
    grid = Grid(columns, lambda short: [[_cell(name, getattr(each, name), short) for name in COLUMNS] for each in rows])
    console().print(grid, crop=False)


def _cell(column: str, value: object, short: bool = False) -> str:
    if value is None:
        return "-"
    if isinstance(value, bool):
        return "yes" if value else "no"
    if column == "created" and isinstance(value, float):
        return moment(value, short=short)
    return f"{value:.3g}" if isinstance(value, float) else plain(str(value))
