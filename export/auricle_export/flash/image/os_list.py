"""The list by which Raspberry Pi Imager offers the images.

Source: raspberrypi/rpi-imager, doc/json-schema/os-list-schema.json and doc/os_customisation_formats.md.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from datetime import date, datetime, timezone
from pathlib import Path

from auricle_export.flash.board import Board, System

TAGS = {
    "pi5": ["pi5-64bit"],
    "pi4": ["pi4-64bit"],
    "pi3": ["pi3-64bit"],
    "pi-zero-2w": ["pi3-64bit"],
}
"""What the Imager calls boards; it counts the Zero 2 W with the Pi 3."""
ICON = "icons/cat_raspberry_pi_os.png"
"""One that the Imager has itself."""


def os_list(
    images: Iterable[tuple[str, Path, int, str]], board: Board, system: System, released: date, url: str | None = None
) -> bytes:
    """The list, as JSON.

    The images are ready to boot, so `init_format` is none: the Imager then offers no settings of its own, which would
    take the place of those on the card.

    Parameters
    ----------
    images
        Device, file, bytes and SHA-256 of each.
    released
        Date that is shown.
    url
        Where the files are served; None: they are read from where they are.
    """
    entries = [
        {
            "name": device,
            "description": f"{system.title} with Auricle for {device}, on a {board.title}",
            "icon": ICON,
            "url": path.absolute().as_uri() if url is None else f"{url.rstrip('/')}/{path.name}",
            "extract_size": size,
            "extract_sha256": sha256,
            "image_download_size": size,
            "image_download_sha256": sha256,
            "release_date": released.isoformat(),
            "init_format": "none",
            **({"devices": TAGS[board.name]} if board.name in TAGS else {}),
        }
        for device, path, size, sha256 in images
    ]
    return json.dumps({"os_list": entries}, indent=2).encode() + b"\n"


def release_date(image: Path) -> date:
    """When a system's image was made: the date that its name begins with, else that of the file."""
    try:
        return date.fromisoformat(image.name[:10])
    except ValueError:
        return datetime.fromtimestamp(image.stat().st_mtime, timezone.utc).date()
