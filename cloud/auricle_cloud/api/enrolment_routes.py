"""`/v1/join`, `/v1/enrol`, `/v1/renew`, `/v1/authority`: what a device asks before it has, or with, a certificate."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import TypeVar

import msgspec
from aiohttp import web

from auricle.wire.claims import AuthorityShown, Claim, Renewal
from auricle.wire.joining import Join
from auricle_cloud.api.gatekeeper import Gatekeeper, address_of
from auricle_cloud.api.health import InThread
from auricle_cloud.api.problems import RefusedError
from auricle_cloud.identity.enrolment import Enrolment
from auricle_cloud.identity.requests import ClaimError
from auricle_cloud.operations.enrolment_operations import MISSING

Asked = TypeVar("Asked", Join, Claim, Renewal)
Body = Callable[[web.Request], Awaitable[dict[str, object]]]


class EnrolmentRoutes:
    """Answers devices.

    Parameters
    ----------
    open_enrolment
        Opens the authority, in a thread; None without one. It is asked until there is one.
    in_thread
        Calls what touches the database.
    body
        Reads a request's JSON object; RefusedError when it is not one.
    door
        Counts refused claims by token, certificate or else address, and says no to more.
    """

    def __init__(
        self, open_enrolment: Callable[[], Enrolment | None], in_thread: InThread, body: Body, door: Gatekeeper
    ) -> None:
        self._open, self._in_thread, self._body, self._door = open_enrolment, in_thread, body, door
        self._enrolment: Enrolment | None = None

    def add_to(self, app: web.Application) -> None:
        """Register the routes."""
        app.router.add_get("/v1/authority", self.authority)
        app.router.add_post("/v1/join", self.join)
        app.router.add_post("/v1/enrol", self.enrol)
        app.router.add_post("/v1/renew", self.renew)

    async def authority(self, _: web.Request) -> web.Response:
        """Show the root's certificate: a device compares it with its pin."""
        enrolment = await self._ready()
        return _json(AuthorityShown(certificate=enrolment.authority.root_pem))

    async def join(self, request: web.Request) -> web.Response:
        """Give a device that knows the hub's code a claim token that only it can read."""
        asked = await self._read_request(request, Join)
        return await self._answer(request, (await self._ready()).join, asked)

    async def enrol(self, request: web.Request) -> web.Response:
        """Exchange a claim token for a certificate."""
        asked = await self._read_request(request, Claim)
        return await self._answer(request, (await self._ready()).claims.claim, asked)

    async def renew(self, request: web.Request) -> web.Response:
        """Give a device its next certificate."""
        asked = await self._read_request(request, Renewal)
        return await self._answer(request, (await self._ready()).claims.renew, asked)

    async def _ready(self) -> Enrolment:
        if self._enrolment is None:
            self._enrolment = await self._in_thread(self._open)
        if self._enrolment is None:
            raise RefusedError(404, MISSING)
        return self._enrolment

    async def _read_request(self, request: web.Request, kind: type[Asked]) -> Asked:
        if request.query:
            raise RefusedError(422, f'"{next(iter(request.query))}" does not belong in the address: POST takes a body.')
        try:
            return msgspec.convert(await self._body(request), kind)
        except msgspec.ValidationError as error:
            raise RefusedError(422, f"The request is not allowed: {error}.") from error

    async def _answer(
        self, request: web.Request, act: Callable[..., msgspec.Struct], asked: Join | Claim | Renewal
    ) -> web.Response:
        address, enrolment = address_of(request), await self._ready()
        # Counted before it is tried: who guesses does not even get an entry in the journal for each guess. What shows a
        # token or key of ours counts by that: however many guess behind the same address, it is heard.
        proof = None if isinstance(asked, Join) else await self._in_thread(enrolment.claims.proof, asked)
        counted = address if proof is None else proof
        self._door.failed(counted, "This address" if proof is None else "This device")
        try:
            answer = _json(await self._in_thread(act, asked, who=address))
        except ClaimError as error:
            raise RefusedError(403, str(error)) from error
        self._door.forgive(counted)
        return answer


def _json(answer: msgspec.Struct) -> web.Response:
    return web.Response(body=msgspec.json.encode(answer), content_type="application/json")
