"""`/v1/updates/metadata/` and `/v1/updates/targets/`: what devices fetch to update; signed, so it needs no token."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from aiohttp import web

from auricle_cloud.api.health import InThread
from auricle_cloud.api.problems import RefusedError
from auricle_cloud.releases.folder import metadata_file, target_file

FOR_EVER = "public, max-age=31536000, immutable"
BLOCK = 256 << 10
"""Bytes that are sent at once."""


class ReleaseRoutes:
    """Answers devices with files; ranges are answered with parts of them.

    Parameters
    ----------
    folder
        Of the releases; it may come to be while the coordinator runs. None: there never are any.
    in_thread
        Calls what touches the disk.
    """

    def __init__(self, folder: Path | None, in_thread: InThread) -> None:
        self._folder, self._in_thread = folder, in_thread

    def add_to(self, app: web.Application) -> None:
        """Register the routes."""
        app.router.add_get("/v1/updates/metadata/{name}", self.metadata)
        app.router.add_get("/v1/updates/targets/{path:.+}", self.target)

    async def metadata(self, request: web.Request) -> web.StreamResponse:
        """A file of metadata; only the timestamp's content changes under its name."""
        return await self._file(metadata_file, request.match_info["name"], "application/json", "no-cache")

    async def target(self, request: web.Request) -> web.StreamResponse:
        """A bundle or pack under the name with its hash: it never changes."""
        return await self._file(target_file, request.match_info["path"], "application/octet-stream", FOR_EVER)

    async def _file(
        self, find: Callable[[Path, str], Path | None], name: str, kind: str, caching: str
    ) -> web.StreamResponse:
        found = None if self._folder is None else await self._in_thread(find, self._folder, name)
        if found is None:
            raise RefusedError(404, "There is no such file among the updates.")
        return web.FileResponse(found, BLOCK, headers={"Content-Type": kind, "Cache-Control": caching})
