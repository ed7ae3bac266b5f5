"""Regions and the place where they meet, over HTTPS: one address that each posts to, with a token of its own."""

from __future__ import annotations

import asyncio
import hashlib
import hmac
import os
import secrets
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from typing import Protocol

import msgspec
from aiohttp import web

from auricle.errors import SettingsError
from auricle.files import make_private, read_text, write_durably
from auricle.process.until_signal import until_signal
from auricle_cloud.api.api_server import listening
from auricle_cloud.api.api_settings import ApiSettings, ConnectionLimits, Rates
from auricle_cloud.api.gatekeeper import address_of, bearer
from auricle_cloud.api.problems import Handler, RefusedError, problems
from auricle_cloud.api.remote import DeniedError, Remote
from auricle_cloud.link.admission import RateLimit
from auricle_cloud.link.region_messages import CONTENT_TYPE, MOST_DEVICES, PATH, FromMeeting, FromRegion, read_message

TOKEN = "AURICLE_REGION_TOKEN"
"""Environment variable with a region's token, so that it stands on no command line."""
TOKEN_FILE = "region.token"
ANSWER_SECONDS = 20.0
"""Without a byte, after which the others cannot be reached."""
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


def posting(url: str, folder: Path) -> Callable[[bytes], bytes]:
    """What sends a region's message to where regions meet, and returns the answer.

    Parameters
    ----------
    url
        Of the place.
    folder
        Of the region's state, where its token may lie.

    Raises
    ------
    SettingsError
        The address is not valid.
    DeniedError
        There is no token.
    """
    path = folder / TOKEN_FILE
    token = os.environ.get(TOKEN) or (read_text(path) if path.is_file() else "")
    if not token.strip():
        raise DeniedError(
            f"A region needs its token: set {TOKEN}, or put it into {path}. auricle cloud regions made it, in a file "
            "REGION.token of its folder."
        )
    remote = Remote(url, token)
    return lambda body: remote.post(PATH, body, CONTENT_TYPE, ANSWER_SECONDS)


class MeetingPlace(Protocol):
    """What answers regions, see `auricle_cloud.rounds.regions.joint.Meeting`."""

    @property
    def number(self) -> int:
        """Joint rounds so far."""

    def take(self, name: str, message: FromRegion) -> FromMeeting:
        """Answer a region."""

    def run(self) -> None:
        """Make models until `stop`."""

    def stop(self) -> None:
        """Let all return."""


class RegionTokens:
    """Lets regions in.

    Parameters
    ----------
    tokens
        By region.
    """

    def __init__(self, tokens: Mapping[str, str]) -> None:
        self._hashes = {name: hashlib.sha256(token.encode()).digest() for name, token in tokens.items()}
        self._failures = RateLimit(*FAILURES, names=Rates().names)

    def name_of(self, request: web.Request) -> str:
        """The region whose token a request carries; RefusedError 401 or 429."""
        given = hashlib.sha256((bearer(request) or "").encode()).digest()
        names = [name for name, known in self._hashes.items() if hmac.compare_digest(known, given)]
        if names:
            return names[0]
        if not self._failures.take(address_of(request)):
            raise RefusedError(429, "This address asks too often with a wrong token.", {"Retry-After": "2"})
        raise RefusedError(401, "This token is of no region: see NAME.token in the folder where the regions meet.")

    @web.middleware
    async def check(self, request: web.Request, handler: Handler) -> web.StreamResponse:
        """Refuse who is no region before the body is read."""
        if request.path == PATH:
            self.name_of(request)
        return await handler(request)


def make_regions_app(meeting: MeetingPlace, tokens: Mapping[str, str], size: int, layers: int) -> web.Application:
    """Build the application.

    Parameters
    ----------
    meeting
        What answers.
    tokens
        By region.
    size, layers
        P and L of the model, by which a message is bounded.
    """
    door = RegionTokens(tokens)
    threads = ThreadPoolExecutor(2 * len(tokens) + 2, "auricle-regions")

    async def take(request: web.Request) -> web.StreamResponse:
        # The union is one of tagged structs: the tag says which.
        message: FromRegion = read_message(await request.read(), FromRegion)  # type: ignore[arg-type]
        answer = await asyncio.get_running_loop().run_in_executor(threads, meeting.take, door.name_of(request), message)
        return web.Response(body=msgspec.msgpack.encode(answer), content_type=CONTENT_TYPE)

    async def health(_: web.Request) -> web.StreamResponse:
        return web.json_response({"status": "ok", "joint_rounds": meeting.number})

    async def end(_: web.Application) -> None:
        threads.shutdown(wait=False, cancel_futures=True)

    largest = max(8 * size, 8 * layers * MOST_DEVICES) + ROW_BYTES * MOST_DEVICES
    app = web.Application(middlewares=[problems, door.check], client_max_size=largest)
    app.router.add_post(PATH, take)
    app.router.add_get("/healthz", health)
    app.on_cleanup.append(end)
    return app


async def meet(meeting: MeetingPlace, app: web.Application, api: ApiSettings, started: Callable[[str], None]) -> None:
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
