"""The bundle that a card brings along."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

from auricle_export.flash.board import Board, System
from auricle_export.flash.bundle.verify import verify_bundle
from auricle_export.flash.fleet import Fleet
from auricle_export.flash.image.base import sha256
from auricle_export.flash.image.partitions import ImageError

NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._+-]{0,180}\.tar")


@dataclass(frozen=True)
class Payload:
    """A bundle that belongs on the cards."""

    path: Path
    size: int
    sha256: str
    """Of the tar."""
    identity: str
    """SHA-256 of its `bundle.json`."""


def read_payload(path: Path, board: Board, system: System, fleet: Fleet) -> Payload:
    """Look at a bundle.

    Raises
    ------
    BundleError
        It is not a bundle, or not whole.
    ImageError
        It is for another board, system or fleet, or is no tar.
    """
    found = verify_bundle(path)
    if not path.is_file() or not NAME.fullmatch(path.name):
        raise ImageError(f'{path} is not the tar of a bundle: its name has letters, digits, dots, dashes and ".tar".')
    wanted = {"board": board.name, "os": system.id, "fleet": fleet.name}
    for what, value in wanted.items():
        said = getattr(found.manifest, what)
        if said != value:
            raise ImageError(f'The {what} of {path.name} is "{said}", and these images are for "{value}".')
    return Payload(path, path.stat().st_size, sha256(path), found.identity)
