"""Bodies on their way: a request is answered once its body has arrived, and few wait for theirs at once."""

from __future__ import annotations

import asyncio
from collections import Counter
from dataclasses import dataclass, field

from aiohttp import web

from auricle.mqtt_link.reconnection import within
from auricle_cloud.api.api_settings import ConnectionLimits
from auricle_cloud.api.problems import RefusedError


@dataclass(eq=False)
class Bodies:
    """The requests of one server that wait for their bodies.

    Parameters
    ----------
    limits
        How many may wait, and for how long.
    """

    limits: ConnectionLimits
    _waiting: dict[asyncio.Task[bytes], str] = field(default_factory=dict)
    """Address by reader, the longest waiting first."""

    async def arrive(self, request: web.Request, address: str, *, shared: bool) -> None:
        """Wait until the body is there; `request.read` then gives it at once.

        Where too many wait, the one that waits longest is refused: of this address, unless it is `shared` by a proxy's
        users, or else of the address with most of them.

        Raises
        ------
        RefusedError
            408: it did not arrive in time, or made room for others. 400: it cannot be read.
        """
        try:
            if request.content.is_eof():
                await request.read()
            else:
                await self._wait(request, address, shared=shared)
        except asyncio.TimeoutError as error:
            raise RefusedError(408, "The body did not arrive in time.") from error
        except (ValueError, web.RequestPayloadError, ConnectionError) as error:
            raise RefusedError(400, "The body cannot be read.") from error

    async def _wait(self, request: web.Request, address: str, *, shared: bool) -> None:
        self._make_room(address, shared=shared)
        reader = asyncio.ensure_future(request.read())
        self._waiting[reader] = address
        try:
            await within(reader, self.limits.body_seconds)
        except asyncio.CancelledError as error:
            if reader in self._waiting:  # the server ends
                raise
            raise RefusedError(408, "Too many requests wait for their bodies: send this one again.") from error
        finally:
            self._waiting.pop(reader, None)

    def _make_room(self, address: str, *, shared: bool) -> None:
        by_address = Counter(self._waiting.values())
        if by_address[address] >= self.limits.most_bodies_each and not shared:
            self._refuse_longest(address)
        elif len(self._waiting) >= self.limits.most_bodies:
            self._refuse_longest(by_address.most_common(1)[0][0])

    def _refuse_longest(self, address: str) -> None:
        reader = next(reader for reader, waiting in self._waiting.items() if waiting == address)
        del self._waiting[reader]
        reader.cancel()
