"""Who may do what over HTTP, and how often: bearer tokens with roles, and rates for tokens and addresses."""

from __future__ import annotations

import ipaddress
from dataclasses import dataclass, field

from aiohttp import web

from auricle_cloud.api.api_settings import Rates
from auricle_cloud.api.health import InThread
from auricle_cloud.api.problems import Handler, RefusedError
from auricle_cloud.api.routes import allows
from auricle_cloud.link.admission import RateLimit
from auricle_cloud.operations.operations import Me
from auricle_cloud.storage.access_records import Tokens
from auricle_cloud.storage.access_rows import Role

LONGEST_TOKEN = 200


@dataclass
class Gatekeeper:
    """Lets requests in.

    Parameters
    ----------
    tokens
        The coordinator's.
    in_thread
        Calls what touches the database.
    rates
        How often.
    """

    tokens: Tokens
    in_thread: InThread
    rates: Rates = field(default_factory=Rates)

    def __post_init__(self) -> None:
        """Make the buckets."""
        self._of_address = RateLimit(*self.rates.address, names=self.rates.names)
        self._of_token = RateLimit(*self.rates.token, names=self.rates.names)
        self._of_failures = RateLimit(*self.rates.failures, names=self.rates.names)

    @web.middleware
    async def slow_down(self, request: web.Request, handler: Handler) -> web.StreamResponse:
        """Refuse an address that asks too often."""
        if not self._of_address.take(address_of(request)):
            raise _too_often("This address", self.rates.address)
        return await handler(request)

    async def admit(self, request: web.Request, least: Role) -> Me:
        """Whose request this is; RefusedError 401, 403 or 429 when it may not be made."""
        address, given = address_of(request), bearer(request)
        if given is None:
            self.failed(address)
            raise _unknown("A token is needed: send it as `Authorization: Bearer TOKEN`.")
        holder = await self.check(given)
        if holder is None:
            self.failed(address)
            raise _unknown("This token is unknown or has expired: ask an admin for a new one.")
        if not self._of_token.take(holder.name):
            raise _too_often(f"The token {holder.name}", self.rates.token)
        if not allows(holder.role, least):
            raise RefusedError(403, f"This needs the role {least}; the token {holder.name} is that of a {holder.role}.")
        return holder

    async def check(self, token: str) -> Me | None:
        """Who holds this token now."""
        found = await self.in_thread(self.tokens.holder, token)
        return None if found is None else Me(name=found[0], role=found[1])

    def failed(self, name: str, who: str = "This address") -> None:
        """Count a refused token of an address or device; RefusedError 429, about `who`, when there were too many."""
        if not self._of_failures.take(name):
            raise _too_often(who, self.rates.failures)

    def forgive(self, name: str) -> None:
        """Take back what `failed` counted before it was known: the token was good."""
        self._of_failures.take(name, -1.0)


def bearer(request: web.Request) -> str | None:
    """The token that a request carries."""
    scheme, _, token = request.headers.get("Authorization", "").partition(" ")
    token = token.strip()
    good = scheme.lower() == "bearer" and 0 < len(token) <= LONGEST_TOKEN and token.isascii() and token.isprintable()
    return token if good else None


def _unknown(detail: str) -> RefusedError:
    return RefusedError(401, detail, {"WWW-Authenticate": "Bearer"})


def _too_often(who: str, rate: tuple[float, float]) -> RefusedError:
    wait = max(1, round(1 / rate[0]))
    return RefusedError(429, f"{who} asks too often: wait {wait} s.", {"Retry-After": str(wait)})


def address_of(request: web.Request) -> str:
    """The address that a request is counted under."""
    return counted_address(request.remote or "")


def counted_address(peer: str) -> str:
    """The address that is counted: an IPv4 address, or the /64 network of an IPv6 one."""
    try:
        address = ipaddress.ip_address(peer.partition("%")[0])
    except ValueError:
        return "?"
    if address.version == 4:
        return str(address)
    mapped = address.ipv4_mapped
    return str(mapped or ipaddress.ip_network((address, 64), strict=False))
