"""Whom a URL of http names, and that the end of an IPv6 address is no port."""

from __future__ import annotations

import ssl

import pytest

from auricle.mqtt_link.http_connection import connection_to, split_http_url


@pytest.mark.parametrize(
    ("url", "port"),
    [
        ("https://[fe80::1]", 443),
        ("http://[::1]", 80),
        ("http://[::1]:8080", 8080),
        ("https://hub.lan", 443),
        ("https://hub.lan:8443/v1", 8443),
    ],
)
def test_a_connection_goes_to_the_port_of_the_url_or_of_its_scheme(url: str, port: int) -> None:
    parts = split_http_url(url)
    assert parts is not None and parts.hostname is not None
    tls = ssl.create_default_context() if parts.scheme == "https" else None
    connection = connection_to(parts.hostname, parts.port, silence=1.0, tls=tls)
    assert (connection.host, connection.port, connection.timeout) == (parts.hostname, port, 1.0)


@pytest.mark.parametrize(
    "url", ["", "hub.lan", "ftp://hub.lan", "http://", "http://[::1", "http://a:99999", "http://a b"]
)
def test_what_names_no_host_of_http_is_none(url: str) -> None:
    assert split_http_url(url) is None
