"""`auricle flash image`: a card image for every device."""

from __future__ import annotations

import json
import secrets
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from enum import Enum
from pathlib import Path
from typing import cast

import typer
from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn

from auricle.errors import SettingsError
from auricle.files import write_durably
from auricle.process.bars import TimeLeft
from auricle.process.checkup import size
from auricle.process.times import how_many
from auricle_export.flash.board import System
from auricle_export.flash.boards import load_board
from auricle_export.flash.fleet_file import load_fleet
from auricle_export.flash.image.card import GENERATORS, FirstBoot, boot_of
from auricle_export.flash.image.cards import Heard, Made, Run, make_images
from auricle_export.flash.image.device import choose_payload, read_tokens
from auricle_export.flash.image.os_list import os_list, release_date
from auricle_export.flash.write.image import open_image

LIST = "os_list.rpi-imager-manifest"


class Place(str, Enum):
    """On which partition of a card the bundle lies."""

    boot = "boot"
    root = "root"


def add_to(app: typer.Typer) -> None:
    """Add the command."""
    app.command()(image)


def image(
    source: Path = typer.Option(..., "--image", help="The system's image, raw or packed by xz."),
    board: str = typer.Option(..., help="Name of a board, or a profile's file."),
    os: str | None = typer.Option(None, help="One of the board's systems [its first]."),
    fleet: Path = typer.Option(..., help="The fleet.toml."),
    tokens: Path = typer.Option(..., help='Folder with a DEVICE.token each, from "auricle cloud enrol token --out".'),
    count: int | None = typer.Option(None, min=1, max=10_000, help="How many, in the order of the names [all]."),
    out: Path = typer.Option(..., help="Folder for the images and for the list that Raspberry Pi Imager reads."),
    more: list[Path] | None = typer.Argument(None, metavar="[BUNDLE]...", help="More bundles, as of a pattern."),
    bundle: list[Path] = typer.Option(
        [], help='From "auricle flash bundle"; of several the newest for the board; without it no agent is installed.'
    ),
    where: Place = typer.Option(Place.boot, help="Partition for the bundle; root needs debugfs."),
    seed: int | None = typer.Option(None, min=0, help="The same seed and input: the same bytes [a new one]."),
    first_boot: str | None = typer.Option(None, help="cloud-init, firstrun or rpi-preseed [the profile's]."),
    url: str | None = typer.Option(None, help="Where the images will be served, for the list [the files themselves]."),
    replace: bool = typer.Option(False, "--replace", help="Replace images that are there already."),
    as_json: bool = typer.Option(False, "--json", help="Print a JSON object, nothing else."),
) -> None:
    """Make a card image for every device: it sets itself up at its first boot. Needs no root and no card."""
    profile = load_board(board)
    boot_of(profile)
    system = profile.system(os)
    told = load_fleet(fleet)
    devices = read_tokens(tokens, count)
    payload = choose_payload([*bundle, *(more or [])], profile, system, told) if bundle else None
    chosen = secrets.randbits(32) if seed is None else seed
    run = Run(
        open_image(source),
        profile,
        told,
        _first_boot(first_boot, system),
        devices,
        payload,
        where.value,
        chosen,
    )
    there = [f"{device}.img" for device in devices if (out / f"{device}.img").exists()]
    if there and not replace:
        raise SettingsError(f"{out} has {there[0]} already: give --replace, or another folder.")
    with _bars(hidden=as_json) as heard:
        made = list(make_images(run, out, heard))
    listed = ((each.device, each.path, each.size, each.sha256) for each in made)
    write_durably(out / LIST, os_list(listed, profile, system, release_date(source), url))
    _tell(run, made, out / LIST, as_json)


def _first_boot(wanted: str | None, system: System) -> FirstBoot:
    """How the system takes its settings. SettingsError: there is no such way, or not by a card."""
    kind = wanted or system.first_boot
    if kind not in GENERATORS:
        if wanted is None:
            raise SettingsError(f'{system.title} is not set up by a card: install it, then "auricle flash push".')
        raise SettingsError(f'There is no first boot by "{wanted}": there is: {", ".join(GENERATORS)}.')
    return cast("FirstBoot", kind)


def _tell(run: Run, made: list[Made], listed: Path, as_json: bool) -> None:
    if as_json:
        images = [
            {"device": each.device, "file": str(each.path), "size": each.size, "sha256": each.sha256} for each in made
        ]
        bundle = None if run.payload is None else run.payload.identity
        facts = {"images": images, "seed": run.seed, "first_boot": run.first_boot, "bundle": bundle}
        typer.echo(json.dumps({**facts, "os_list": str(listed), "verified": True}))
        return
    typer.echo(f"{how_many(len(made), 'image')} of {size(made[0].size)} made and read back, with seed {run.seed}.")
    typer.echo(f"Each has a claim token on it: who has the file can be that device. {listed.name} is for the Imager.")


@contextmanager
def _bars(*, hidden: bool) -> Iterator[Heard]:
    """Two bars on standard error."""
    columns = (
        TextColumn("{task.description}"),
        BarColumn(),
        TextColumn("{task.percentage:>3.0f}%"),
        TimeLeft(),
    )
    console = Console(stderr=True)
    with Progress(*columns, console=console, disable=hidden or not sys.stderr.isatty()) as bar:
        tasks = {step: bar.add_task(step, total=None) for step in ("unpacking", "images")}
        yield lambda step, done, total: bar.update(tasks[step], completed=done, total=total)
