"""A connection of `http.client` to the host of a URL."""

from __future__ import annotations

import http.client
import re
import ssl
from urllib.parse import SplitResult, urlsplit

_NOT_IN_HOSTS = re.compile(r"[\0-\x20\x7f]")
"""What `http.client` raises InvalidURL for."""


def split_http_url(url: str) -> SplitResult | None:
    """The parts of a valid URL of http or https, with its host; None for any other text."""
    try:
        parts = urlsplit(url)
        parts.port  # noqa: B018 - raises where it is no number, or too large a one
    except ValueError:  # also brackets without an IPv6 address between them
        return None
    host = parts.hostname or ""
    return parts if parts.scheme in ("http", "https") and host and not _NOT_IN_HOSTS.search(host) else None


def connection_to(
    host: str, port: int | None, *, silence: float, tls: ssl.SSLContext | None = None
) -> http.client.HTTPConnection:
    """A connection that is not open yet.

    Parameters
    ----------
    host, port
        As `urlsplit` gives them; without a port that of the scheme. It is always named: of a host alone `http.client`
        would take the end of an IPv6 address for one.
    silence
        Seconds without a byte after which it fails.
    tls
        What certificates are checked with; None: in the clear.
    """
    if tls is None:
        return http.client.HTTPConnection(host, port or http.client.HTTP_PORT, timeout=silence)
    return http.client.HTTPSConnection(host, port or http.client.HTTPS_PORT, timeout=silence, context=tls)
