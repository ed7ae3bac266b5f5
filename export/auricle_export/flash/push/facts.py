"""What a board says of itself before anything is copied to it, and why a bundle is not for it."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Literal

import msgspec

from auricle.process.checkup import size
from auricle.wire.bundle import Manifest
from auricle.wire.kinds import UNDECODABLE
from auricle_export.flash.board import Board

SIGN = "auricle:"
"""What lines of ours begin with: a login may print others."""
PROBE = r"""
export LC_ALL=C
root=$1 python=$2 folder=$HOME/.cache/auricle-push/$3
case $root in '' | /*) ;; *) root=$HOME/$root ;; esac
say() { printf 'auricle:%s=%s\n' "$1" "$(printf %s "$2" | tr '\n\0' '  ')"; }
say kernel "$(uname -s)"
say machine "$(uname -m)"
say user "$(id -u)"
say home "$HOME"
say root "$root"
sudo=none
if command -v sudo >/dev/null; then
  sudo=asks
  sudo -n true 2>/dev/null && sudo=free
fi
say sudo "$sudo"
say systemd "$([ -d /run/systemd/system ] && echo yes)"
release=$root/etc/os-release
[ -r "$release" ] || release=$root/usr/lib/os-release
say base "$(sed -n 's/^VERSION_CODENAME=//p' "$release" 2>/dev/null | tr -d '"')"
say compatible "$(tr '\0' ' ' 2>/dev/null </proc/device-tree/compatible)"
say free "$(df -Pk "$HOME" | awk 'NR == 2 { print $4 }')"
for name in "/usr/bin/python$python" "python$python" python3; do
  path=$(command -v "$name") || continue
  ask='import struct, sys; print("%d.%d %d" % (*sys.version_info[:2], 8 * struct.calcsize("P")))'
  has=$("$path" -I -c "$ask") || continue
  say has "$has"
  [ "${has% *}" = "$python" ] || continue
  say python "$path"
  own=$root/opt/auricle/slots.py
  [ -r "$own" ] && say status "$("$path" -I "$own" status --json --root "$root/")"
  break
done
[ -r "$folder/bundle.tar" ] && say kept "$(sha256sum <"$folder/bundle.tar" | cut -c1-64)"
true
"""
"""Prints what `read_facts` reads. $1: root, without a slash at its end; $2: the Python; $3: the bundle's identity."""
SOC = re.compile(r"bcm\d{4}|tegra\d{3}")
ALIASES = {"bcm2710": "bcm2837"}
"""The device tree of a Zero 2 W names the chip of a Pi 3."""


class Installed(msgspec.Struct, frozen=True):
    """What is active on a board, of its `slots.json`."""

    slot: Literal["a", "b"]
    identity: str
    confirmed: bool


class Facts(msgspec.Struct, frozen=True, kw_only=True):
    """What a board said of itself."""

    kernel: str = ""
    machine: str = ""
    user: str = ""
    """Number of who logged in."""
    home: str = ""
    root: str = ""
    """Where to install; nothing for the board's own root."""
    sudo: str = "none"
    """`free`, `asks` for a password, or `none`."""
    systemd: str = ""
    base: str = ""
    """Code name of the release."""
    compatible: str = ""
    """Of its device tree; nothing on a PC."""
    free: str = ""
    """KiB for the user's files."""
    has: str = ""
    """Version and bits of the Python that was found."""
    python: str = ""
    """Path of the one that fits."""
    status: str = ""
    kept: str = ""
    """SHA-256 of a bundle that was copied before."""

    @property
    def installed(self) -> Installed | None:
        """What is active; None for nothing."""
        return active(self.status)


def read_facts(said: str) -> Facts:
    """Read what the probe printed; what nobody asked for is left out."""
    lines = (line.removeprefix(SIGN).partition("=") for line in said.splitlines() if line.startswith(SIGN))
    known = set(Facts.__struct_fields__)
    return Facts(**{name: value.strip() for name, _, value in lines if name in known})


class _Journal(msgspec.Struct):
    active: str
    confirmed: bool


class _Status(msgspec.Struct):
    """What `slots.py status --json` prints, as far as it matters here."""

    journal: _Journal
    slots: dict[str, dict[str, object] | None]


def active(status: str) -> Installed | None:
    """What is active, from what `slots.py ... --json` printed; None where it is nothing or not to be understood."""
    try:
        said = msgspec.json.decode(status.encode(), type=_Status)
        slot = said.journal.active
        content = said.slots[slot] or {}
        return msgspec.convert({**content, "slot": slot, "confirmed": said.journal.confirmed}, Installed)
    except (*UNDECODABLE, KeyError):
        return None


def refusals(facts: Facts, bundle: Manifest, board: Board, length: int, *, sudo: bool) -> Iterator[str]:
    """Why a bundle is not installed on a board: halves of sentences that begin with its name.

    Parameters
    ----------
    length
        Bytes of the bundle.
    sudo
        Whether sudo may be used.
    """
    bits = facts.has.partition(" ")[2]
    if (facts.kernel, facts.machine) != ("Linux", bundle.architecture):
        yield f"is {facts.kernel or 'a system'} on {facts.machine or '?'}, and the bundle is for {bundle.architecture}"
    elif bits == "32":
        yield "runs a 32-bit system, for which there is no onnxruntime: install its 64-bit one"
    if facts.base != bundle.base:
        yield f"runs {facts.base or 'a system without a name'}, and the bundle is for {bundle.base} ({bundle.os})"
    elif not facts.python:
        there = f"Python {facts.has.partition(' ')[0]}" if facts.has else "no Python"
        yield f"has {there}, and the bundle needs {bundle.python}: apt install python3"
    chip = soc(board.soc)
    if chip is not None and chip not in {soc(word) for word in facts.compatible.split()}:
        yield f"is not a {board.title}: its device tree says {facts.compatible[:120] or 'nothing'}"
    if facts.free.isdigit() and not facts.kept and int(facts.free) << 10 < length:
        yield f"has {size(int(facts.free) << 10)} free in the user's home, and the bundle needs {size(length)}"
    if not facts.root and facts.user != "0":
        if not sudo:
            yield "let in a user that is not root: log in as root, or give --sudo"
        elif facts.sudo == "none":
            yield "has no sudo: log in as root"


def soc(text: str) -> str | None:
    """The chip that a profile or a word of a device tree names; None: any."""
    found = SOC.search(text.lower())
    return None if found is None else ALIASES.get(found[0], found[0])
