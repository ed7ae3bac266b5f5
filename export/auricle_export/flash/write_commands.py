"""`auricle flash write` and `disks`: an image onto a card, never onto a disk that the system uses."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import msgspec
import typer
from rich.console import Console
from rich.progress import BarColumn, DownloadColumn, Progress, TextColumn, TransferSpeedColumn

from auricle.errors import SettingsError
from auricle.process.bars import TimeLeft
from auricle.process.checkup import size
from auricle.process.table import Column, print_grid
from auricle_export.flash.write.card import Heard, Step, Target, Written, open_target, write_image
from auricle_export.flash.write.disks import Disk, DiskError, Machine, number_of
from auricle_export.flash.write.image import Image, open_image
from auricle_export.flash.write.refusal import homes, refusal


def add_to(app: typer.Typer) -> None:
    """Add the commands."""
    app.command()(write)
    app.command()(disks)


def disks(as_json: bool = typer.Option(False, "--json", help="Print a JSON object, nothing else.")) -> None:
    """List the disks and cards of this machine, and why some are not written to."""
    _require_linux()
    found = [(disk, refusal(disk, homes=homes())) for disk in Machine().disks()]
    found.sort(key=lambda each: each[1] is not None)
    if as_json:
        facts = [{**msgspec.to_builtins(disk), "refused": reason} for disk, reason in found]
        typer.echo(json.dumps({"disks": facts}))
        return
    columns = (
        Column("disk", 0),
        Column("model", 2),
        Column("size", 0),
        Column("bus", 3),
        Column("may be written to", 0, is_sentence=True),
    )
    rows = [(disk.device, disk.model, size(disk.size), disk.bus, reason or "yes") for disk, reason in found]
    print_grid(columns, rows)


def write(
    image: Path = typer.Argument(..., metavar="IMAGE", help="Image of a disk, raw or packed by xz."),
    device: Path = typer.Argument(..., metavar="DEVICE", help="The whole disk, such as /dev/sdb or /dev/mmcblk0."),
    yes: bool = typer.Option(False, "--yes", help="Do not ask."),
    force_fixed: bool = typer.Option(
        False, "--force-fixed", help="Also a disk that is built in; one that the system uses is refused all the same."
    ),
    file: bool = typer.Option(False, "--file", help="DEVICE is a regular file, made if it is not there."),
    as_json: bool = typer.Option(False, "--json", help="Print a JSON object, nothing else; needs --yes."),
) -> None:
    """Write an image to a card or disk and read it back. Everything on it is lost."""
    source = open_image(image)
    if file and not device.is_block_device():
        _require_file(image, device)
        disk = None
    else:
        disk = _choose_disk(device, source, force_fixed)
    named = str(device) if disk is None else f"{disk.device} ({disk.model}, {size(disk.size)}, {disk.bus})"
    if not yes and (disk is not None or device.exists()):
        _confirm(source, named, as_json)
    with open_target(device, None if disk is None else disk.block) as target:
        if disk is not None:
            _require_same(disk, target)
        done = _write(source, target, as_json)
    if as_json:
        typer.echo(json.dumps({"device": str(device), "size": done.size, "sha256": done.sha256, "verified": True}))
    else:
        typer.echo(f"{size(done.size)} written to {named} and read back: they are the same. It may be unplugged.")


def _require_linux() -> None:
    """DiskError where it is not known what a disk is used for."""
    if not sys.platform.startswith("linux"):
        raise DiskError(
            "Only on Linux does auricle know which disk the system uses: write the image with Raspberry Pi Imager, "
            "or name a file and give --file."
        )


def _require_file(image: Path, target: Path) -> None:
    """Refuse what is not a regular file, and the image itself."""
    if target.exists() and (not target.is_file() or target.samefile(image)):
        raise SettingsError(f"{target} is {'the image' if target.is_file() else 'no regular file'}: name another file.")


def _choose_disk(device: Path, image: Image, force_fixed: bool) -> Disk:
    """The disk to write to. DiskError: it is not one that may be written to."""
    _require_linux()
    disk = Machine().at(device)
    reason = refusal(disk, needed=image.size, fixed_allowed=force_fixed, homes=homes())
    if reason is not None:
        raise DiskError(reason)
    return disk


def _require_same(disk: Disk, target: Target) -> None:
    """Refuse what is not the disk that was looked at and confirmed. DiskError: somebody exchanged it."""
    now = Machine().numbered(number_of(os.fstat(target.descriptor)), target.name)
    if (now.device, now.sequence) != (disk.device, disk.sequence):
        raise DiskError(f"{target.name} is another disk than a moment ago: look at auricle flash disks again.")


def _confirm(image: Image, named: str, as_json: bool) -> None:
    if as_json or not sys.stdin.isatty():
        raise SettingsError(f"Everything on {named} will be lost: give --yes where nobody can be asked.")
    typer.confirm(f"Write {image.path.name} ({size(image.size)}) to {named}? Everything on it is lost.", abort=True)


def _write(image: Image, target: Target, as_json: bool) -> Written:
    with _bar(image.size, hidden=as_json) as heard:
        return write_image(image, target, heard)


@contextmanager
def _bar(total: int, *, hidden: bool) -> Iterator[Heard]:
    """A bar on standard error, for writing and then for checking."""
    columns = (
        TextColumn("{task.description}"),
        BarColumn(),
        DownloadColumn(),
        TransferSpeedColumn(),
        TimeLeft(),
    )
    with Progress(*columns, console=Console(stderr=True), disable=hidden) as bar:
        tasks = {
            step: bar.add_task(step, total=total, start=False, visible=step == "writing")
            for step in ("writing", "checking")
        }

        def heard(step: Step, done: int) -> None:
            if not bar.tasks[tasks[step]].started:
                bar.start_task(tasks[step])
            bar.update(tasks[step], completed=done, visible=True)

        yield heard
