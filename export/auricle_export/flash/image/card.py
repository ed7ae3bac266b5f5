"""What lies on the boot partition of a card: what all cards have in common, and what is one device's own."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Literal

from auricle.errors import SettingsError
from auricle_export.flash.board import Board, Boot
from auricle_export.flash.fleet import Fleet
from auricle_export.flash.image.cloud_init import cloud_init_files
from auricle_export.flash.image.device import CardDevice, Payload
from auricle_export.flash.image.fat import Fat
from auricle_export.flash.image.firstrun import firstrun_files
from auricle_export.flash.image.partitions import ImageError
from auricle_export.flash.image.preseed import preseed_files

REPLACED = (
    re.compile(r"ds=nocloud(?:-net)?(?:;.*)?"),
    re.compile(r"cfg80211\.ieee80211_regdom=.*"),
    re.compile(r"systemd\.run(?:_success_action|_failure_action)?=.*"),
    re.compile(r"systemd\.unit=kernel-command-line\.target"),
)
"""Parameters of which there may be one: the image's own gives way."""


def cmdline(text: str, added: Iterable[str]) -> str:
    """The kernel's command line with more parameters, each once, in one line as the firmware wants it.

    Raises
    ------
    ImageError
        The line names no root: it is not that of a system that boots.

    Sources
    -------
    Raspberry Pi documentation, "Kernel command line (cmdline.txt)": one line, no line breaks.
    """
    words = [word for word in text.split() if not any(kind.fullmatch(word) for kind in REPLACED)]
    if not any(word.startswith("root=") for word in words):
        raise ImageError("The cmdline.txt of the image names no root: take the image of a Raspberry Pi OS.")
    return " ".join(dict.fromkeys((*words, *added))) + "\n"


def config(text: str, added: Iterable[str]) -> str:
    """`config.txt` with more lines, each once, where every board heeds them.

    Lines before the first filter and those under `[all]` count for every board; a new one goes under an `[all]` at the
    end.

    Sources
    -------
    Raspberry Pi documentation, "Conditional filters" of config.txt.
    """
    present, everywhere = set(), True
    for line in text.splitlines():
        bare = line.split("#", 1)[0].strip()
        if bare.startswith("[") and bare.endswith("]"):
            everywhere = bare == "[all]"
        elif everywhere:
            present.add(bare)
    missing = [line for line in dict.fromkeys(added) if line not in present]
    if not missing:
        return text
    return "\n".join([text.rstrip("\n"), "", "[all]", *missing]).lstrip("\n") + "\n"


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
    files = {"config.txt": config(_text(fat, "config.txt"), lines).encode(errors="surrogateescape")}
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
    line = cmdline(_text(fat, "cmdline.txt"), (*boot.cmdline, *country, *parameters))
    texts = {"cmdline.txt": line, TOKEN: f"{device.token}\n", **files}
    return {name: text.encode(errors="surrogateescape") for name, text in texts.items()}


def _text(fat: Fat, name: str) -> str:
    content = fat.read(name)
    if content is None:
        raise ImageError(f"The boot partition of {fat.name} has no {name}: take the image of a Raspberry Pi OS.")
    return content.decode(errors="surrogateescape")
