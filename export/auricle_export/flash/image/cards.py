"""Many card images from one: unpacked once, given what all have in common, copied, and given what is each one's own."""

from __future__ import annotations

import fcntl
import os
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO, Literal, TypeVar

from auricle.errors import StorageError
from auricle.files import describe, sync_folder
from auricle.process.checkup import size
from auricle_export.flash.board import Board
from auricle_export.flash.fleet import Fleet
from auricle_export.flash.image import base
from auricle_export.flash.image.card import FOLDER, FirstBoot, boot_of, common_files, own_files
from auricle_export.flash.image.device import CardDevice, Payload
from auricle_export.flash.image.fat import Fat
from auricle_export.flash.image.fat_writer import FatWriter
from auricle_export.flash.image.partitions import ImageError, boot_partition, root_partition
from auricle_export.flash.image.root_files import put_on_root
from auricle_export.flash.write.image import Image

FatLike = TypeVar("FatLike", bound=Fat)
Where = Literal["boot", "root"]
Step = Literal["unpacking", "images"]
Heard = Callable[[Step, int, int], None]
"""Called with the step, what of it is done, and of how much."""


@dataclass(frozen=True)
class Run:
    """What a run of images is made from.

    Parameters
    ----------
    source
        The system's image.
    board, fleet
        The board, and what all devices have in common.
    first_boot
        How the system takes its settings.
    tokens
        Claim token by device.
    payload
        The bundle that the cards bring along; None: none.
    where
        On which partition it lies.
    seed
        What identities that are not secret derive from: the same seed, the same bytes.
    """

    source: Image
    board: Board
    fleet: Fleet
    first_boot: FirstBoot
    tokens: Mapping[str, str]
    payload: Payload | None
    where: Where
    seed: int


@dataclass(frozen=True)
class Made:
    """An image that was made and read back."""

    device: str
    path: Path
    size: int
    sha256: str


def make_images(run: Run, folder: Path, heard: Heard | None = None) -> Iterator[Made]:
    """Make the images `DEVICE.img`, one after another; each has its name only when it is whole and was read back.

    Parameters
    ----------
    folder
        Where they go; it is made if it is not there. What has the same name is replaced.

    Raises
    ------
    ImageError
        The system's image or the bundle cannot be used, or an image read back is not what was written.
    StorageError
        There is no room, or the folder cannot be written.
    """
    tell: Heard = heard or (lambda step, done, total: None)
    with ExitStack() as undo:
        try:
            folder.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise StorageError(describe(error, folder)) from error
        undo.enter_context(_alone(folder))
        original = undo.enter_context(_passing(folder / ".base.img.tmp"))
        base.require_room(folder, 1, run.source.size)
        base.unpack(run.source, original, lambda done, total: tell("unpacking", done, total))
        common = _prepare(run, original)
        base.require_room(folder, len(run.tokens), base.room_of_copy(original) + (4 << 20))
        for number, (name, token) in enumerate(run.tokens.items()):
            tell("images", number, len(run.tokens))
            device = CardDevice(name, token, run.fleet, boot_of(run.board).partition, run.payload is not None, run.seed)
            with _passing(folder / f".{name}.img.tmp") as place:
                base.copy(original, place)
                with _writing(place) as file, _reading(original) as untouched:
                    fat = _fat(file, run, FatWriter)
                    own = own_files(_fat(untouched, run, Fat), run.board, device, run.first_boot)
                    for path, content in own.items():
                        fat.write(path, content)
                    fat.finish()
                check_image(place, run, {**common, **own})
                made = Made(name, folder / f"{name}.img", place.stat().st_size, base.sha256(place))
                place.replace(made.path)
                sync_folder(folder)
            yield made
        tell("images", len(run.tokens), len(run.tokens))


def check_image(path: Path, run: Run, files: Mapping[str, bytes]) -> None:
    """Read an image again from the disk: its file system must fit together, and hold these files and the bundle.

    Raises
    ------
    ImageError
        It does not.
    """
    with _reading(path) as file:
        fat = _fat(file, run, Fat)
        fat.check()
        for name, content in files.items():
            if fat.read(name) != content:
                raise ImageError(f"{name} was not read back from {path} as it was written: is the disk sound?")
        if run.payload is not None and run.where == "boot":
            entry = fat.find(f"{FOLDER}/{run.payload.path.name}")
            with run.payload.path.open("rb") as original:
                same = entry is not None and all(piece == original.read(len(piece)) for piece in fat.pieces(entry))
                if not same or entry is None or entry.size != run.payload.size:
                    raise ImageError(f"The bundle was not read back from {path} as it was written: is the disk sound?")


def _prepare(run: Run, original: Path) -> dict[str, bytes]:
    """Give the unpacked image what all cards have in common; the small files of it."""
    payload = run.payload
    place = "" if payload is None else payload.path.name
    with _reading(original) as file:
        root = root_partition(file, run.source.path.name) if payload is not None and run.where == "root" else None
    if root is not None and payload is not None:
        place = put_on_root(original, root, payload.path)
    with _writing(original) as file:
        fat = _fat(file, run, FatWriter)
        files = common_files(fat, run.board, run.fleet, payload, place)
        if payload is not None and run.where == "boot":
            _require_room(fat, payload)
            with payload.path.open("rb") as content:
                fat.write(f"{FOLDER}/{payload.path.name}", content)
        for name, text in files.items():
            fat.write(name, text)
        fat.finish()
    return files


def _require_room(fat: FatWriter, payload: Payload) -> None:
    """Make sure that the bundle and some small files fit."""
    if not fat.room_for([payload.size, *[64 << 10] * 10], 1):
        raise ImageError(
            f"The bundle has {size(payload.size)}, and the boot partition of {fat.name} {size(fat.free)} free of "
            f"{size(fat.clusters * fat.cluster_bytes)}: give --where root, or take an image with a larger one."
        )


def _fat(file: BinaryIO, run: Run, kind: type[FatLike]) -> FatLike:
    name = run.source.path.name
    return kind(file, boot_partition(file, name), name)


@contextmanager
def _alone(folder: Path) -> Iterator[None]:
    """A folder that no other run writes to, without what one that was killed left. StorageError: there is one."""
    with ExitStack() as undo:
        try:
            handle = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
            undo.callback(os.close, handle)
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
            for left in folder.glob(".*.img.tmp"):
                left.unlink()
        except BlockingIOError as error:
            raise StorageError(
                f"Images are being made in {folder} already: wait until that has ended, or take another folder."
            ) from error
        except OSError as error:
            raise StorageError(describe(error, folder)) from error
        yield


@contextmanager
def _passing(path: Path) -> Iterator[Path]:
    """A file that is gone afterwards, unless it got another name."""
    try:
        yield path
    finally:
        path.unlink(missing_ok=True)


@contextmanager
def _writing(path: Path) -> Iterator[BinaryIO]:
    try:
        with path.open("r+b") as file:
            yield file
            file.flush()
            os.fsync(file.fileno())
    except OSError as error:
        raise StorageError(describe(error, path)) from error


@contextmanager
def _reading(path: Path) -> Iterator[BinaryIO]:
    try:
        with path.open("rb") as file:
            yield file
    except OSError as error:
        raise StorageError(f"{path} cannot be read ({error.strerror}).") from error
