"""Serves the API for as long as it is wanted."""

from __future__ import annotations

import logging
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from aiohttp import web
from aiohttp.http_exceptions import HttpProcessingError

from auricle_cloud.api.api_settings import ApiSettings, address_taken
from auricle_cloud.api.connections import Connections


@asynccontextmanager
async def listening(app: web.Application, settings: ApiSettings) -> AsyncIterator[str]:
    """Serve an application; gives its URL.

    Raises
    ------
    SettingsError
        The certificate cannot be used, or the address is taken.
    """
    tls = settings.tls()
    connections = Connections(settings.connections, tls)
    app.middlewares.insert(0, connections.mark)
    runner = web.AppRunner(
        app,
        access_log=None,
        handle_signals=False,
        shutdown_timeout=2.0,
        logger=_log(),
        # A little before it is cut: who keeps a connection then sees a proper end.
        keepalive_timeout=settings.connections.head_seconds * 0.8,
    )
    await runner.setup()
    try:
        try:
            host, port = connections.listen(settings.host, settings.port)
        except OSError as error:
            raise address_taken(settings, error) from error
        assert runner.server is not None
        connections.serve(runner.server)
        yield f"{'http' if tls is None else 'https'}://{f'[{host}]' if ':' in host else host}:{port}"
    finally:
        await connections.close()
        await runner.cleanup()


def _log() -> logging.Logger:
    """Where aiohttp writes; bytes that are no HTTP are everybody's to send and worth no traceback."""
    log = logging.getLogger("auricle.cloud.api.http")
    log.addFilter(_is_ours)
    return log


def _is_ours(record: logging.LogRecord) -> bool:
    return not (record.exc_info and isinstance(record.exc_info[1], HttpProcessingError))
