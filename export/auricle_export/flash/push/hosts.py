"""Where to push: `USER@HOST`, or a file with one a line."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from auricle.errors import AuricleError, SettingsError
from auricle.files import read_text
from auricle.wire.claims import read_token

USER = r"[A-Za-z_][A-Za-z0-9_.-]{0,31}"
NAME = r"[A-Za-z0-9_](?:[A-Za-z0-9_.-]{0,252}[A-Za-z0-9_])?"
ADDRESS = r"[0-9A-Fa-f:.]{2,45}(?:%[A-Za-z0-9_.-]{1,15})?"
PLACE = rf"(?:(?P<name>{NAME})|\[(?P<address>{ADDRESS})\])"
TARGET = re.compile(rf"(?:(?P<user>{USER})@)?{PLACE}(?::(?P<port>[0-9]{{1,5}}))?\Z")
"""None of its parts can begin with a dash: ssh takes none of them for an option."""


@dataclass(frozen=True)
class Host:
    """A board to install on."""

    name: str
    """A name, an address, or an alias of the user's SSH configuration."""
    user: str | None = None
    """None: what the SSH configuration says."""
    port: int | None = None
    token: bytes = b""
    """The claim token that it gets; empty for none."""

    def __str__(self) -> str:
        name = f"[{self.name}]" if ":" in self.name else self.name
        return (f"{self.user}@" if self.user else "") + name + (f":{self.port}" if self.port else "")


def read_host(text: str, *, port: int | None = None, token: Path | None = None) -> Host:
    """Read `[USER@]HOST[:PORT]`; an IPv6 address stands in brackets.

    Parameters
    ----------
    port
        Where the text names none.
    token
        File with the claim token.

    Raises
    ------
    SettingsError
        It is no such text.
    DataError
        The token cannot be read, or is none.
    """
    found = TARGET.match(text)
    number = port if found is None or found["port"] is None else int(found["port"])
    if found is None or (number is not None and not 0 < number < 65536):
        raise SettingsError(f"{text!r} is not a host: write USER@HOST or USER@HOST:PORT.")
    return Host(found["name"] or found["address"], found["user"], number, _token(token))


def read_hosts(path: Path, *, port: int | None = None) -> list[Host]:
    """Read a file of hosts: `[USER@]HOST[:PORT] [TOKEN]` a line, the token's file relative to this one, # for comments.

    Raises
    ------
    SettingsError
        It cannot be read, or a line of it; with the line's number.
    """
    hosts = []
    for number, line in enumerate(read_text(path, "The list of boards").split("\n"), 1):
        words = line.partition("#")[0].split()
        if not words:
            continue
        try:
            if len(words) > 2:
                raise SettingsError("a line has a host, and the file of a token or nothing.")
            hosts.append(read_host(words[0], port=port, token=path.parent / words[1] if words[1:] else None))
        except AuricleError as error:
            raise SettingsError(f"{path}, line {number}: {error}") from error
    return hosts


def require_each_once(hosts: Iterable[Host]) -> None:
    """Refuse a board that is named twice, and a token that two would get.

    Raises
    ------
    SettingsError
        With both names.
    """
    places: dict[tuple[str, int | None], Host] = {}
    tokens: dict[bytes, Host] = {}
    for host in hosts:
        if places.setdefault((host.name, host.port), host) is not host:
            raise SettingsError(f"{host} is named twice.")
        if host.token and tokens.setdefault(host.token, host) is not host:
            raise SettingsError(f"{tokens[host.token]} and {host} have the same token: each device needs its own.")


def _token(path: Path | None) -> bytes:
    return b"" if path is None else read_token(path).encode() + b"\n"
