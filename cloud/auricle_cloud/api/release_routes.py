"""`/v1/updates/metadata/` and `/v1/updates/targets/`: what devices fetch to update; signed, so it needs no token."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from aiohttp import web
from aiohttp.abc import AbstractStreamWriter

from auricle.mqtt_link.reconnection import within
from auricle_cloud.api.gatekeeper import address_of
from auricle_cloud.api.health import InThread
from auricle_cloud.api.problems import RefusedError
from auricle_cloud.storage.release_folder import metadata_file, target_file

FOR_EVER = "public, max-age=31536000, immutable"
BLOCK_BYTES = 256 << 10
"""Bytes that are sent at once."""


@dataclass
class Transfers:
    """What is being sent: anybody may ask, and who does not read what comes would hold memory for ever."""

    most: int = 128
    of_address: int = 32
    longest: float = 600.0
    """Seconds; a device that needs longer asks for the rest."""
    _running: Counter[str] = field(default_factory=Counter)

    def refuse_too_many(self, address: str) -> None:
        """RefusedError 503 while there are enough."""
        if self._running.total() >= self.most or self._running[address] >= self.of_address:
            raise RefusedError(503, "Too many updates are being fetched: ask again later.", {"Retry-After": "30"})

    @contextmanager
    def one(self, address: str) -> Iterator[None]:
        """One of them."""
        self._running[address] += 1
        try:
            yield
        finally:
            self._running[address] -= 1
            self._running += Counter()  # forgets who has none


class FileSent(web.FileResponse):
    """A file that is one of the transfers while it is sent, and is broken off when that takes too long."""

    def __init__(self, path: Path, transfers: Transfers, address: str, headers: dict[str, str]) -> None:
        super().__init__(path, BLOCK_BYTES, headers=headers)
        self._transfers, self._address = transfers, address

    async def prepare(self, request: web.BaseRequest) -> AbstractStreamWriter | None:
        """Send it."""
        with self._transfers.one(self._address):
            try:
                return await within(super().prepare(request), self._transfers.longest)
            except asyncio.TimeoutError as error:
                if request.transport is not None:
                    request.transport.abort()
                raise ConnectionResetError("The file was not taken in time.") from error


class ReleaseRoutes:
    """Answers devices with files; ranges are answered with parts of them.

    Parameters
    ----------
    folder
        Of the releases; it may come to be while the coordinator runs. None: there never are any.
    in_thread
        Calls what touches the disk.
    transfers
        How much is sent at once.
    """

    def __init__(self, folder: Path | None, in_thread: InThread, transfers: Transfers | None = None) -> None:
        self._folder, self._in_thread, self._transfers = folder, in_thread, transfers or Transfers()

    def add_to(self, app: web.Application) -> None:
        """Register the routes."""
        app.router.add_get("/v1/updates/metadata/{name}", self.metadata)
        app.router.add_get("/v1/updates/targets/{path:.+}", self.target)

    async def metadata(self, request: web.Request) -> web.StreamResponse:
        """A file of metadata; only the timestamp's content changes under its name."""
        return await self._file(request, metadata_file, "name", "application/json", "no-cache")

    async def target(self, request: web.Request) -> web.StreamResponse:
        """A bundle or pack under the name with its hash: it never changes."""
        return await self._file(request, target_file, "path", "application/octet-stream", FOR_EVER)

    async def _file(
        self, request: web.Request, find: Callable[[Path, str], Path | None], name: str, kind: str, caching: str
    ) -> web.StreamResponse:
        found = None if self._folder is None else await self._in_thread(find, self._folder, request.match_info[name])
        if found is None:
            raise RefusedError(404, "There is no such file among the updates.")
        address = address_of(request)
        self._transfers.refuse_too_many(address)
        return FileSent(found, self._transfers, address, {"Content-Type": kind, "Cache-Control": caching})
