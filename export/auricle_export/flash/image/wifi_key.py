"""The key of a wireless network, so that its passphrase is on no card."""

from __future__ import annotations

import hashlib
import re


def wifi_key(passphrase: str, ssid: str) -> str:
    """The pre-shared key PBKDF2-HMAC-SHA1(passphrase, SSID, 4096 rounds, 256 bits).

    Parameters
    ----------
    passphrase
        8 to 63 signs of ASCII; or 64 hexadecimal digits, which are the key already.
    ssid
        Name of the network, at most 32 bytes in UTF-8.

    Returns
    -------
    str
        64 hexadecimal digits. A network that takes WPA3 only needs the passphrase itself and does not know them.

    Sources
    -------
    IEEE 802.11-2020, annex J.4.1.
    """
    if re.fullmatch(r"[0-9a-fA-F]{64}", passphrase):
        return passphrase.lower()
    return hashlib.pbkdf2_hmac("sha1", passphrase.encode("ascii"), ssid.encode(), 4096, 32).hex()
