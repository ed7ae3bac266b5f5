"""`fleet.toml`: what all devices of a fleet have in common, read with every mistake named by file and line."""

from __future__ import annotations

import base64
import binascii
import re
import zoneinfo
from collections.abc import Callable, Iterable, Iterator
from functools import partial
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import msgspec

from auricle.errors import AuricleError, SettingsError, nearest
from auricle.files import read_text
from auricle.mqtt_link.private_link import require_private
from auricle.mqtt_link.settings import BrokerAddress
from auricle.packs.shipped import SHIPPED
from auricle.packs.signature import public_key
from auricle_export.flash import edge_names
from auricle_export.flash.device_files import toml_value
from auricle_export.flash.document import DocumentError, Problem, first_of, quote, read_content, read_document
from auricle_export.flash.edge_names import TABLES
from auricle_export.flash.fleet import Fleet, Passphrase, Wifi
from auricle_export.flash.toml_lines import Path as KeyPath

Objection = tuple[KeyPath, str]

OWNED = ("device", "state", "fleet", "broker", "coordinator", "pack", "pack_key")
"""Settings of the agent that the bundle gives."""
PLAIN = tuple(name for name in edge_names.PLAIN if name not in OWNED)
"""The others that are not tables."""

LARGEST_FILE = 64 << 10
"""Bytes: no key, passphrase or root metadata is longer."""


class FleetError(DocumentError):
    """A fleet.toml that cannot be used; `problems` has all that is wrong with it."""


def load_fleet(path: Path) -> Fleet:
    """Read a `fleet.toml` and the files that it names, which are looked for beside it.

    Returns
    -------
    Fleet
        `coordinator` and `pack_key` are hexadecimal digits, `pack` is a name or an absolute path, `update_root` an
        absolute path, and `wifi.psk` is what `wifi.psk_file` holds.

    Raises
    ------
    FleetError
        It cannot be read, or has mistakes: the first one with file and line.
    """
    fleet, problems = read_fleet(path)
    if fleet is None:
        raise FleetError(first_of(problems), tuple(problems))
    return fleet


def read_fleet(path: Path) -> tuple[Fleet | None, list[Problem]]:
    """Read and check a `fleet.toml`; None where something is wrong, and all mistakes in the order of their lines."""
    content, folder = read_content(path, "fleet file", FleetError), path.parent.absolute()
    read, problems = read_document(Fleet, content, str(path), "fleet file", partial(_objections, folder=folder))
    return (None if read is None else _resolve_files(read, folder)), problems


def _objections(fleet: Fleet, folder: Path) -> Iterator[Objection]:
    yield from _addresses(fleet)
    readers: dict[str, Callable[[str, Path], object]] = {
        "coordinator": _key,
        "pack_key": _key,
        "pack": _pack,
        "update_root": _file,
    }
    for key, read in readers.items():
        value: str | None = getattr(fleet, key)
        if value is not None:
            yield from _objections_of((key,), partial(read, value, folder))
    yield from _settings(fleet.device.settings)
    yield from _login(fleet)
    if fleet.wifi is not None:
        yield from _wireless(fleet.wifi, folder)
    zone = fleet.locale.timezone
    known = zoneinfo.available_timezones() if zone is not None else set()
    if zone is not None and known and zone not in known:
        yield ("locale", "timezone"), f"there is no time zone {quote(zone)}: {_nearest(zone, known)}"


def _addresses(fleet: Fleet) -> Iterator[Objection]:
    def broker() -> None:
        address = require_private(BrokerAddress.parse(fleet.broker))
        if address.username is not None or address.password is not None:
            raise SettingsError("leave out user and password: the device shows its certificate")

    yield from _objections_of(("broker",), broker)
    try:
        parts = urlsplit(fleet.server)
        right = parts.scheme == "https" and parts.hostname and parts.port != 0
        right = right and "@" not in parts.netloc and parts.path in ("", "/") and not parts.query + parts.fragment
    except ValueError:
        right = False
    if not right:
        yield ("server",), f"server = {quote(fleet.server)}: it takes an address such as https://hub.lan:8443"


def _objections_of(path: KeyPath, check: Callable[[], object]) -> Iterator[Objection]:
    """What a check says against a value."""
    try:
        check()
    except AuricleError as error:
        yield path, f"{path[-1]}: {str(error).removesuffix('.')}"


def _settings(settings: dict[str, Any]) -> Iterator[Objection]:
    """Names that the agent's settings do not have, values that TOML has and they have not, and secrets."""
    for name, value in settings.items():
        path: KeyPath = ("device", "settings", name)
        if name in OWNED:
            yield path, f"{name} is not set here: the bundle says it"
        elif name not in PLAIN and name not in TABLES:
            yield path, f"the agent has no setting {quote(name)}: {_nearest(name, (*PLAIN, *TABLES))}"
        elif (name in TABLES) != isinstance(value, dict):
            yield path, f"{name} takes {'a table' if name in TABLES else 'a value'}, not {quote(value)}"
        elif name in TABLES:
            for key in value:
                if key not in TABLES[name]:
                    hint = _nearest(key, TABLES[name])
                    yield (*path, key), f"the agent has no setting {quote(key)} in [{name}]: {hint}"
                else:
                    yield from _value(value[key], (*path, key))
        else:
            yield from _value(value, path)


def _value(value: object, path: KeyPath) -> Iterator[Objection]:
    try:
        text = toml_value(value)
    except SettingsError as error:
        yield path, str(error).removesuffix(".")
        return
    if re.search(r"://[^/@\"\s]*:[^/@\"\s]*@", text):
        yield path, "this has a password in it, which everybody who has the bundle could read: leave it out"


def _login(fleet: Fleet) -> Iterator[Objection]:
    user = fleet.user
    if user is None:
        return
    if not user.ssh_keys and user.password_hash is None:
        yield ("user",), "nobody could log in: give ssh_keys or password_hash"
    for index, line in enumerate(user.ssh_keys):
        kind, key = line.split(" ")[:2]
        if not _whole(kind, key):
            yield ("user", "ssh_keys", index), f"this is not a whole {kind} key: copy the line of the .pub file again"


def _whole(kind: str, key: str) -> bool:
    """Whether an OpenSSH key is one of its kind, and ends where its last part does (RFC 4253, section 6.6)."""
    try:
        rest = base64.b64decode(key, validate=True)
    except binascii.Error:
        return False
    parts = []
    while rest:
        size = int.from_bytes(rest[:4], "big")
        parts.append(rest[4 : 4 + size])
        if len(parts[-1]) != size or len(rest) < 4:
            return False
        rest = rest[4 + size :]
    return len(parts) > 1 and parts[0] == kind.encode()


def _wireless(wifi: Wifi, folder: Path) -> Iterator[Objection]:
    if len(wifi.ssid.encode()) > 32:
        yield ("wifi", "ssid"), f"ssid = {quote(wifi.ssid)}: it takes at most 32 bytes, and this has more in UTF-8"
    if wifi.psk is not None and wifi.psk_file is not None:
        yield ("wifi", "psk_file"), "give psk or psk_file, not both"
    elif wifi.psk_file is not None:
        yield from _objections_of(("wifi", "psk_file"), partial(_passphrase, wifi.psk_file, folder))


def _nearest(word: str, known: Iterable[str]) -> str:
    return nearest(word, known).removesuffix(".")


def _file(name: str, folder: Path) -> str:
    """The text of a file that is named relative to a folder."""
    text = read_text(folder / name, most=LARGEST_FILE)
    if not text:
        raise SettingsError(f"{folder / name} is empty")
    return text


def _key(text: str, folder: Path) -> str:
    """A public key in hexadecimal digits, from them or from a file."""
    if re.fullmatch(r"[0-9a-fA-F]{64}", text):
        return text.lower()
    content = _file(text, folder)
    if not re.fullmatch(r"\s*[0-9a-fA-F]{64}\s*", content):
        raise SettingsError(
            f"{folder / text} is not a public key: it takes the 64 hexadecimal digits, or a file of nothing but them"
        )
    return public_key(content).hex()


def _pack(text: str, folder: Path) -> str:
    """A shipped pack's name, or the absolute path of another."""
    if text in SHIPPED:
        return text
    path = folder / text
    if not path.exists():
        raise SettingsError(f"there is no shipped pack {quote(text)} and no {path}: {nearest(text, SHIPPED)}")
    return str(path)


def _passphrase(text: str, folder: Path) -> str:
    try:
        passphrase: str = msgspec.convert(_file(text, folder).removesuffix("\n"), Passphrase)
    except msgspec.ValidationError as error:
        raise SettingsError(
            f"{folder / text} holds no passphrase: 8 to 63 letters, digits and signs of ASCII in one line"
        ) from error
    return passphrase


def _resolve_files(fleet: Fleet, folder: Path) -> Fleet:
    """The fleet with what its files hold."""
    wifi = fleet.wifi
    if wifi is not None and wifi.psk_file is not None:
        wifi = msgspec.structs.replace(wifi, psk=_passphrase(wifi.psk_file, folder))
    return msgspec.structs.replace(
        fleet,
        server=fleet.server.removesuffix("/"),
        coordinator=_key(fleet.coordinator, folder),
        pack=None if fleet.pack is None else _pack(fleet.pack, folder),
        pack_key=None if fleet.pack_key is None else _key(fleet.pack_key, folder),
        update_root=None if fleet.update_root is None else str(folder / fleet.update_root),
        wifi=wifi,
    )
