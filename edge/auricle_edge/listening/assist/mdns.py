"""The announcement by which Home Assistant finds the satellite: mDNS, service `_esphomelib._tcp`."""

from __future__ import annotations

import asyncio
import logging
import socket
from typing import TYPE_CHECKING

from auricle import __version__
from auricle.mqtt_link.private_link import is_loopback
from auricle.mqtt_link.tasks import start_task
from auricle_edge.listening.assist.badge import Badge

if TYPE_CHECKING:
    from zeroconf.asyncio import AsyncZeroconf

log = logging.getLogger("auricle.events")

SERVICE = "_esphomelib._tcp.local."
LOOK_SECONDS = 60.0
"""Between two looks at the addresses of this machine."""
GROUP = ("224.0.0.251", 5353)
"""Where mDNS is spoken."""
WILDCARDS = ("0.0.0.0", "::")
ENCRYPTION = "Noise_NNpsk0_25519_ChaChaPoly_SHA256"


class MdnsService:
    """Says that the device is here, from `open` to `close`, and again where its addresses have become others.

    Where that fails, Home Assistant can still be given the address by hand.

    Parameters
    ----------
    badge
        What the device says of itself.
    host, port
        Where it listens; a wildcard address stands for all of this machine's but loopback.
    model
        Name of its pack.
    encrypted
        Whether it asks for a key.
    """

    def __init__(self, badge: Badge, host: str, port: int, model: str, *, encrypted: bool) -> None:
        self._host, self._port, self._badge, self._model = host, port, badge, model
        self._encrypted = encrypted
        self._zeroconf: AsyncZeroconf | None = None
        self._task: asyncio.Task[None] | None = None

    def open(self) -> None:
        """Begin."""
        self._task = start_task(self._follow(), log, "The announcement of the satellite")

    async def close(self) -> None:
        """Say that it goes."""
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)
        await self._withdraw()

    async def _follow(self) -> None:
        """Announce it once there is a network, and whenever that is another one."""
        from zeroconf import Error

        known: list[bytes] = []
        while True:
            try:
                addresses = await asyncio.to_thread(_addresses, self._host)
                if addresses != known:
                    await self._withdraw()
                    if addresses:
                        await self._announce(addresses)
                    known = addresses
            except (OSError, Error) as error:
                log.warning(
                    "The satellite cannot be announced by mDNS (%s): add it in Home Assistant by address and port %d.",
                    error or type(error).__name__,
                    self._port,
                )
                return
            await asyncio.sleep(LOOK_SECONDS)

    async def _announce(self, addresses: list[bytes]) -> None:
        from zeroconf import IPVersion
        from zeroconf.asyncio import AsyncServiceInfo, AsyncZeroconf

        badge = self._badge
        properties = {
            "friendly_name": badge.device,
            "mac": badge.mac.replace(":", "").lower(),
            "version": __version__,
            "project_name": f"Auricle.{self._model}",
            "project_version": __version__,
            "network": "wifi",
            "platform": "linux",
            "board": "auricle",
            **({"api_encryption": ENCRYPTION} if self._encrypted else {}),
        }
        self._zeroconf = AsyncZeroconf([socket.inet_ntoa(each) for each in addresses], ip_version=IPVersion.V4Only)
        service = AsyncServiceInfo(
            SERVICE,
            f"{badge.name}.{SERVICE}",
            addresses=addresses,
            port=self._port,
            properties=properties,
            server=f"{badge.name}.local.",
        )
        await self._zeroconf.async_register_service(service, allow_name_change=True)

    async def _withdraw(self) -> None:
        if self._zeroconf is not None:
            before, self._zeroconf = self._zeroconf, None
            await before.async_unregister_all_services()
            await before.async_close()


def _addresses(host: str) -> list[bytes]:
    """The IPv4 addresses at which others reach it; none while there is no network."""
    if host not in WILDCARDS:
        return [socket.inet_aton(socket.gethostbyname(host))]
    import ifaddr

    try:
        found = {str(ip.ip) for adapter in ifaddr.get_adapters() for ip in adapter.ips if ip.is_IPv4}
    except OSError:  # the systemd unit allows no netlink: then that of the interface to which multicast goes
        found = _multicast_address()
    return sorted(socket.inet_aton(ip) for ip in found if not is_loopback(ip))


def _multicast_address() -> set[str]:
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        try:
            probe.connect(GROUP)
        except OSError:
            return set()
        return {str(probe.getsockname()[0])}
