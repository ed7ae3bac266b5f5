"""What lies on the boot partition of a card: what all cards have in common, and what is one device's own."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Literal

from auricle.errors import SettingsError
from auricle_export.flash.board import Board, Boot
from auricle_export.flash.fleet import Fleet
from auricle_export.flash.image import boot_files
from auricle_export.flash.image.cloud_init import cloud_init_files
from auricle_export.flash.image.device import CardDevice
from auricle_export.flash.image.fat import Fat
from auricle_export.flash.image.firstrun import firstrun_files
from auricle_export.flash.image.partitions import ImageError
from auricle_export.flash.image.payload import Payload
from auricle_export.flash.image.preseed import preseed_files

FirstBoot = Literal["cloud-init", "firstrun", "rpi-preseed"]
GENERATORS: dict[str, Callable[[CardDevice], tuple[dict[str, str], list[str]]]] = {
    "cloud-init": cloud_init_files,
    "firstrun": firstrun_files,
    "rpi-preseed": preseed_files,
}
FOLDER = "auricle"
TOKEN = "auricle.token"
SCRIPT = Path(__file__).with_name("first-boot.sh")


def boot_of(board: Board) -> Boot:
    """The boot partition of a board. SettingsError: it has none that could be written."""
    if board.boot is None:
        raise SettingsError(
            f'{board.title} has no boot partition for this: install its own system, then "auricle flash push".'
        )
    return board.boot


def common_files(fat: Fat, board: Board, fleet: Fleet, payload: Payload | None, place: str) -> dict[str, bytes]:
    """The files of every card, by their paths on the boot partition.

    Parameters
    ----------
    fat
        The boot partition as it is.
    place
        Where on the card the bundle lies: a name beside the script, or an absolute path on the root partition.

    Raises
    ------
    SettingsError
        The profile has no such microphone.
    ImageError
        The partition is not that of a Raspberry Pi OS.
    """
    lines = list(boot_of(board).config)
    if fleet.device.microphone is not None:
        overlay = board.microphone_of(fleet.device.microphone).overlay
        lines += [] if overlay is None else [overlay]
    files = {"config.txt": boot_files.config(_text(fat, "config.txt"), lines).encode(errors="surrogateescape")}
    if payload is not None:
        files[f"{FOLDER}/{SCRIPT.name}"] = SCRIPT.read_bytes()
        files[f"{FOLDER}/bundle.sha256"] = f"{payload.sha256}  {place}\n".encode()
        files[f"{FOLDER}/packages"] = "".join(f"{package}\n" for package in board.sound.packages).encode()
    return files


def own_files(fat: Fat, board: Board, device: CardDevice, first_boot: FirstBoot) -> dict[str, bytes]:
    """The files of one device's card, by their paths on the boot partition. ImageError: as `common_files`."""
    files, parameters = GENERATORS[first_boot](device)
    boot, wifi = boot_of(board), device.fleet.wifi
    country = [] if wifi is None else [f"cfg80211.ieee80211_regdom={wifi.country}"]
    line = boot_files.cmdline(_text(fat, "cmdline.txt"), (*boot.cmdline, *country, *parameters))
    texts = {"cmdline.txt": line, TOKEN: f"{device.token}\n", **files}
    return {name: text.encode(errors="surrogateescape") for name, text in texts.items()}


def _text(fat: Fat, name: str) -> str:
    content = fat.read(name)
    if content is None:
        raise ImageError(f"The boot partition of {fat.name} has no {name}: take the image of a Raspberry Pi OS.")
    return content.decode(errors="surrogateescape")
