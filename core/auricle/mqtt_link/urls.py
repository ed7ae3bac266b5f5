"""Addresses that people write: taken apart, with a sentence for what is wrong with them."""

from __future__ import annotations

import re
from urllib.parse import SplitResult, urlsplit

from auricle.errors import SettingsError


def split_url(url: str) -> SplitResult:
    """A URL in its parts.

    Raises
    ------
    SettingsError
        It cannot be one: an IPv6 address without brackets, or brackets that do not close.
    """
    try:
        parts = urlsplit(url)
    except ValueError as error:
        raise SettingsError(f'"{_shown(url)}" is not an address: write an IPv6 address as [::1]:PORT.') from error
    if parts.netloc.rpartition("@")[2].count(":") > 1 and not parts.netloc.rpartition("@")[2].startswith("["):
        raise SettingsError(
            f'"{_shown(url)}" has more than one port: write host:PORT, and an IPv6 address as [::1]:PORT.'
        )
    return parts


def require_port(parts: SplitResult, what: str) -> int | None:
    """Its port; None where it names none, SettingsError where it is not from 1 to 65535."""
    try:
        port = parts.port
    except ValueError:
        port = 0
    if port == 0:
        named = parts.netloc.rpartition("@")[2].rpartition(":")[2]
        raise SettingsError(f'{what} has the port "{named}": a port is a number from 1 to 65535.')
    return port


def _shown(url: str) -> str:
    """Without a password."""
    return re.sub(r"(://[^:/@]*):[^@]*@", r"\1:...@", url)
