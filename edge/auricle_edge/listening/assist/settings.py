"""What the table `[assist]` of a device's settings may say, and what of it is refused."""

from __future__ import annotations

import base64
import binascii
import sys
from pathlib import Path
from typing import Annotated

import msgspec
from msgspec import Meta

from auricle.errors import SettingsError, extra_command
from auricle.files import read_text
from auricle.mqtt_link.private_link import is_loopback
from auricle_edge.listening.events.hook import require_program
from auricle_edge.listening.events.outputs import tcp_place

KEY_BYTES = 32
LEAST_PYTHON = (3, 11)
"""Of the versions of aioesphomeapi that know what a media player can do."""

Argument = Annotated[str, Meta(pattern=r"^[^\x00]+\Z")]
Command = Annotated[tuple[Argument, ...], Meta(max_length=64)]
Seconds = Annotated[float, Meta(gt=0, le=600)]


class AssistSettings(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """Being a satellite of Home Assistant's assistant, which gets the sound after a wake word."""

    listen: str | None = None
    """`tcp://0.0.0.0:6053`: where Home Assistant's ESPHome integration finds this device. None: no satellite."""
    key_file: str | None = None
    """File with the key that Home Assistant has to know: `openssl rand -base64 32` makes one."""
    plain: bool = False
    """Also listen without a key where other machines reach it: who connects hears what is said after a wake word."""
    discovery: bool = True
    """Say by mDNS that it is here, so that Home Assistant finds it; not on loopback."""
    player: Command = ("aplay", "-q", "-")
    """Command and arguments, run without a shell, that plays WAV from its standard input; empty: no loudspeaker."""
    volume: Annotated[float, Meta(ge=0, le=1)] = 1.0
    """Of the loudspeaker at the start, as a share of full scale."""
    answers_from: Annotated[tuple[Argument, ...], Meta(max_length=16)] = ()
    """Without a key: hosts besides the connected one from which an answer may be fetched."""
    hook: Command = ()
    """AssistRun at each change of state, for lights and sounds; `AURICLE_ASSIST_STATE` has its name."""
    hook_seconds: Seconds = 10.0
    """A hook that runs longer is ended."""
    pre_roll: Annotated[float, Meta(ge=0, le=2)] = 0.4
    """Seconds before the wake word is recognised from which on sound is sent, where somebody speaks straight on."""
    listen_seconds: Seconds = 15.0
    """For so long the device sends sound, where Home Assistant does not say that the command is over."""
    answer_seconds: Seconds = 30.0
    """For so long it waits for an answer after that."""
    play_seconds: Seconds = 300.0
    """An answer or announcement that is longer is cut off there."""


def require_closed(assist: AssistSettings) -> None:
    """Refuse what would send sound to anybody who connects, where nobody asked for it.

    Raises
    ------
    SettingsError
        `listen` is no address, or reaches beyond this machine without a key; the key's file holds none.
    """
    if assist.listen is None:
        return
    host, _ = tcp_place(assist.listen, "assist.listen", 6053)
    if assist.key_file is None and not assist.plain and not is_loopback(host):
        raise SettingsError(
            f"assist.listen on {host} sends sound to anybody who connects: name a key_file "
            "(openssl rand -base64 32 makes one), or write plain = true."
        )
    noise_key(assist)


def noise_key(assist: AssistSettings) -> bytes | None:
    """The 32 bytes that Home Assistant has to know; None without a key; SettingsError where the file holds none."""
    if assist.key_file is None:
        return None
    path = Path(assist.key_file)
    text = read_text(path, "assist.key_file", most=4096).strip()
    try:
        key = base64.b64decode(text, validate=True)
    except (binascii.Error, ValueError):
        key = b""
    if len(key) != KEY_BYTES:
        raise SettingsError(
            f"assist.key_file {path} holds no key of {KEY_BYTES} bytes in base64: make one with "
            "openssl rand -base64 32, and give the same to Home Assistant."
        )
    return key


def require_ready(assist: AssistSettings) -> None:
    """SettingsError where the satellite cannot start: as `require_closed`, or a program or package is missing."""
    if assist.listen is None:
        return
    require_closed(assist)
    for setting, command in (("assist.player", assist.player), ("assist.hook", assist.hook)):
        if command:
            require_program(command[0], setting)
    if sys.version_info < LEAST_PYTHON:
        raise SettingsError("assist.listen needs Python 3.11 or newer, as aioesphomeapi does.")
    try:
        import aioesphomeapi.api_pb2  # noqa: F401
    except ModuleNotFoundError as error:
        raise SettingsError(f"assist.listen needs aioesphomeapi: {extra_command('assist')}.") from error
