"""The place where regions meet, over HTTPS: one address that each region posts to, with a token of its own."""

from __future__ import annotations

import asyncio
import hashlib
import hmac
import secrets
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path

import msgspec
from aiohttp import web

from auricle.errors import SettingsError
from auricle.files import make_private, read_text, write_durably
from auricle.process.until_signal import until_signal
from auricle_cloud.api.api_server import listening
from auricle_cloud.api.api_settings import ApiSettings, ConnectionLimits, Rates
from auricle_cloud.api.gatekeeper import address_of, bearer
from auricle_cloud.api.problems import RefusedError, problems
from auricle_cloud.link.admission import RateLimit
from auricle_cloud.regions.joint import Meeting
from auricle_cloud.regions.messages import CONTENT_TYPE, MOST_DEVICES, PATH, FromRegion, read_message

ROW_BYTES = 200
"""Bytes of an update's row at most, by which a body is bounded."""
BODY_SECONDS = 60.0
FAILURES = Rates().failures


def tokens_in(folder: Path, regions: tuple[str, ...]) -> dict[str, str]:
    """The token of each region, from `FOLDER/REGION.token`; made where there is none yet.

    Raises
    ------
    SettingsError
        A file has none.
    """
    make_private(folder)
    tokens = {}
    for name in regions:
        path = folder / f"{name}.token"
        if not path.exists():
            write_durably(path, f"auricle_{secrets.token_urlsafe(32)}\n".encode(), mode=0o600)
        tokens[name] = read_text(path).strip()
        if len(tokens[name]) < 20:
            raise SettingsError(f"{path} has no token: remove the file, and a new one is made.")
    return tokens


def make_app(meeting: Meeting, tokens: Mapping[str, str], size: int) -> web.Application:
    """Build the application.

    Parameters
    ----------
    meeting
        What answers.
    tokens
        By region.
    size
        P: numbers of a message at most, beside what is said of updates.
    """
    hashes = {name: hashlib.sha256(token.encode()).digest() for name, token in tokens.items()}
    failures = RateLimit(*FAILURES, names=Rates().names)
    threads = ThreadPoolExecutor(2 * len(tokens) + 2, "auricle-regions")

    def region_of(request: web.Request) -> str:
        given = hashlib.sha256((bearer(request) or "").encode()).digest()
        names = [name for name, known in hashes.items() if hmac.compare_digest(known, given)]
        if not names:
            if not failures.take(address_of(request)):
                raise RefusedError(429, "This address asks too often with a wrong token.", {"Retry-After": "2"})
            raise RefusedError(401, "This token is of no region: see NAME.token in the folder where the regions meet.")
        return names[0]

    async def take(request: web.Request) -> web.StreamResponse:
        name = region_of(request)
        # The union is one of tagged structs: the tag says which.
        message: FromRegion = read_message(await request.read(), FromRegion)  # type: ignore[arg-type]
        answer = await asyncio.get_running_loop().run_in_executor(threads, meeting.take, name, message)
        return web.Response(body=msgspec.msgpack.encode(answer), content_type=CONTENT_TYPE)

    async def health(_: web.Request) -> web.StreamResponse:
        return web.json_response({"status": "ok", "joint_rounds": meeting.number})

    async def end(_: web.Application) -> None:
        threads.shutdown(wait=False, cancel_futures=True)

    app = web.Application(middlewares=[problems], client_max_size=8 * size + ROW_BYTES * MOST_DEVICES)
    app.router.add_post(PATH, take)
    app.router.add_get("/healthz", health)
    app.on_cleanup.append(end)
    return app


async def meet(meeting: Meeting, app: web.Application, api: ApiSettings, started: Callable[[str], None]) -> None:
    """Serve the regions until SIGINT or SIGTERM.

    Parameters
    ----------
    meeting, app
        What answers, and over what.
    api
        Where it listens.
    started
        Called once with its URL.

    Raises
    ------
    StorageError
        A joint model could not be written.
    """
    limits = ConnectionLimits(body_seconds=BODY_SECONDS, most_bodies=16, most_bodies_each=8)

    async def serve() -> None:
        async with listening(app, replace(api, connections=limits)) as url:
            started(url)
            await asyncio.to_thread(meeting.run)

    await until_signal(serve(), on_signal=meeting.stop)
