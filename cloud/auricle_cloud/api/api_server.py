"""Serves the API for as long as it is wanted."""

from __future__ import annotations

import asyncio
import errno
import logging
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from aiohttp import web
from aiohttp.http_exceptions import HttpProcessingError

from auricle_cloud.api.api_settings import ApiSettings, address_taken
from auricle_cloud.api.connections import Connections

RETRY_SECONDS = 0.2


@asynccontextmanager
async def listening(app: web.Application, settings: ApiSettings, patience: float = 0.0) -> AsyncIterator[str]:
    """Serve an application; gives its URL.

    An address that is taken is tried again for `patience` seconds.

    Raises
    ------
    SettingsError
        The certificate cannot be used, or the address is taken.
    """
    tls = settings.tls()
    connections = Connections(settings.connections, tls)
    app.middlewares.append(connections.mark)  # after what says why a request is refused
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
        until = time.monotonic() + patience
        while True:
            try:
                host, port = connections.listen(settings.host, settings.port)
                break
            except OSError as error:
                if error.errno != errno.EADDRINUSE or time.monotonic() > until:
                    raise address_taken(settings, error) from error
            await asyncio.sleep(RETRY_SECONDS)
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
