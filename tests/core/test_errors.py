"""Why the system, the network or TLS refused something, in words; and addresses that people write."""

from __future__ import annotations

import errno
import os
import socket
import ssl

import pytest

from auricle.errors import SettingsError, because
from auricle.mqtt_link.settings import BrokerAddress


def _tls(reason: str) -> ssl.SSLError:
    error = ssl.SSLError(1, f"[SSL: {reason}] raw (_ssl.c:1006)")
    error.reason = reason
    return error


@pytest.mark.parametrize(
    ("error", "says"),
    [
        (ConnectionRefusedError(errno.ECONNREFUSED, "Connect call failed ('127.0.0.1', 9)"), "nothing listens there"),
        (PermissionError(errno.EACCES, "x"), os.strerror(errno.EACCES).lower()),
        (OSError(errno.ENOSPC, "x"), "the disk is full"),
        (socket.gaierror(-2, "Name or service not known"), "no address is known for this name"),
        (TimeoutError(), "no answer came in time"),
        (_tls("WRONG_VERSION_NUMBER"), "what listens there does not speak TLS"),
        (_tls("SOMETHING_NEW"), "TLS failed, something new"),
        (ssl.SSLError(9, "[SSL] PEM lib (_ssl.c:3905)"), "it does not hold what it should in PEM"),
        (ValueError("Not a number."), "not a number"),
        (ValueError(), "ValueError"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_a_reason_has_no_number_and_no_name_of_a_library(error: BaseException, says: str) -> None:
    assert because(error) == says


@pytest.mark.parametrize(
    ("url", "says"),
    [
        ("mqtt://127.0.0.1:99999", "1 to 65535"),
        ("mqtt://127.0.0.1:port", 'port "port"'),
        ("mqtt://me:secret@::1:1883", "more than one port"),
        ("mqtt://[::1", "IPv6"),
    ],
)
def test_an_address_that_is_none_says_what_is_wrong_and_keeps_its_password(url: str, says: str) -> None:
    with pytest.raises(SettingsError, match=says) as caught:
        BrokerAddress.parse(url)
    assert "secret" not in str(caught.value)
