"""A hub announces itself in its network by mDNS (RFC 6762), so that nobody has to type its address."""

from __future__ import annotations

import logging
import secrets
import socket
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from auricle.errors import extra_command
from auricle.wire.join_codes import SERVICE

log = logging.getLogger("auricle.cloud")


@contextmanager
def announce(fleet: str, addresses: Sequence[str], port: int) -> Iterator[None]:
    """Announce the API of a hub to the end of the block; where that cannot be, the log says how devices reach it.

    Parameters
    ----------
    fleet
        Its name.
    addresses
        IPv4 addresses at which it is reached, e.g. `192.168.1.5`.
    port
        Of the API.
    """
    where = addresses[0] if addresses else "ADDRESS"
    how = f"devices need its address: auricle edge run --home --hub https://{where}:{port}"
    try:
        from zeroconf import Error, IPVersion, ServiceInfo, Zeroconf
    except ImportError:
        log.warning("The hub is not announce (%s); %s", extra_command("home"), how)
        yield
        return
    machine = "".join(part if part.isalnum() else "-" for part in socket.gethostname().partition(".")[0]) or "hub"
    info = ServiceInfo(
        SERVICE,
        f"{fleet}-{machine}.{SERVICE}",
        port=port,
        parsed_addresses=list(addresses),
        server=f"auricle-{secrets.token_hex(4)}.local.",  # of boards of one name each keeps its own addresses
        properties={"fleet": fleet},
    )
    try:
        network = Zeroconf(ip_version=IPVersion.V4Only)
    except OSError as error:
        log.warning("The hub is not announce (%s); %s", error.strerror or error, how)
        yield
        return
    try:
        network.register_service(info, allow_name_change=True)
    except (Error, OSError) as error:
        log.warning("The hub is not announce (%s); %s", error, how)
    try:
        yield
    finally:
        network.close()
