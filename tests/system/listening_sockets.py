"""Where processes listen, as Linux has it in /proc: what `ss -ltn` shows."""

from __future__ import annotations

import ipaddress
import struct
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path

LISTEN = "0A"


def listening(processes: Iterable[int]) -> set[tuple[str, int]]:
    """Address and port of every TCP socket on which one of these listens."""
    own = {inode for process in processes for inode in _sockets(process)}
    found = set()
    for table in ("/proc/net/tcp", "/proc/net/tcp6"):
        with suppress(FileNotFoundError):  # no IPv6
            for line in Path(table).read_text().splitlines()[1:]:
                fields = line.split()
                if fields[3] == LISTEN and fields[9] in own:
                    found.add(_place(fields[1]))
    return found


def on_network(places: Iterable[tuple[str, int]]) -> set[tuple[str, int]]:
    """Those that others than this machine's programs can reach."""
    return {(address, port) for address, port in places if not ipaddress.ip_address(address).is_loopback}


def family(process: int) -> set[int]:
    """A process with all that it, or one of its own, began."""
    above: dict[int, int] = {}
    for folder in Path("/proc").glob("[0-9]*"):
        with suppress(OSError):
            above[int(folder.name)] = int((folder / "stat").read_text().rpartition(")")[2].split()[1])
    found, edge = {process}, {process}
    while edge := {child for child, parent in above.items() if parent in edge} - found:
        found |= edge
    return found


def _sockets(process: int) -> set[str]:
    found = set()
    with suppress(OSError):
        for descriptor in Path(f"/proc/{process}/fd").iterdir():
            with suppress(OSError):
                name = str(descriptor.readlink())
                if name.startswith("socket:["):
                    found.add(name[8:-1])
    return found


def _place(written: str) -> tuple[str, int]:
    """`0100007F:1F90` is 127.0.0.1, 8080: words of 32 bits in the machine's order."""
    digits, _, port = written.partition(":")
    words = [int(digits[start : start + 8], 16) for start in range(0, len(digits), 8)]
    address = ipaddress.ip_address(b"".join(struct.pack("=I", word) for word in words))
    mapped = getattr(address, "ipv4_mapped", None)
    return str(mapped or address), int(port, 16)
