"""The coordinator's HTTP API, made of the table of routes; database and disk are touched in threads only."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from typing import ParamSpec, TypeVar

import msgspec
from aiohttp import web
from prometheus_client import CollectorRegistry, generate_latest

from auricle.settings import is_text
from auricle.wire.kinds import UNDECODABLE
from auricle_cloud.api.api_settings import ApiSettings
from auricle_cloud.api.enrolment_routes import EnrolmentRoutes
from auricle_cloud.api.event_stream import EventStreams
from auricle_cloud.api.gatekeeper import Gatekeeper, bearer
from auricle_cloud.api.health import Check, Health
from auricle_cloud.api.openapi import document
from auricle_cloud.api.page_files import HEADERS, PageFiles
from auricle_cloud.api.problems import RefusedError, problems
from auricle_cloud.api.release_routes import FOR_EVER, ReleaseRoutes
from auricle_cloud.api.routes import ROUTES, Route
from auricle_cloud.identity.enrolment import Enrolment
from auricle_cloud.observing.announcements import Announcements
from auricle_cloud.operations.operations import Operations
from auricle_cloud.operations.types import File
from auricle_cloud.storage.access_records import Tokens

METRICS = "text/plain; version=0.0.4; charset=utf-8"
THREADS = 8

P = ParamSpec("P")
R = TypeVar("R")

OperationsFor = Callable[[str], Operations]
"""Operations in the name of a token."""


def make_app(
    operations_for: OperationsFor,
    tokens: Tokens,
    announcements: Announcements,
    registry: CollectorRegistry,
    healthy: Mapping[str, Check],
    ready: Mapping[str, Check],
    settings: ApiSettings | None = None,
    enrolment: Callable[[], Enrolment | None] = lambda: None,
    releases: Path | None = None,
) -> web.Application:
    """Build the application.

    Parameters
    ----------
    operations_for
        Operations in the name of a token; what they wake has to be safe to call from a thread.
    tokens
        The coordinator's.
    announcements
        Told at `/v1/events`.
    registry
        Metrics, told at `/metrics`.
    healthy, ready
        Checks behind `/healthz` and `/readyz`, by name; the latter's come on top of the former's.
    settings
        See `ApiSettings`.
    enrolment
        Opens what certifies devices; None where there is no authority.
    releases
        Folder whose metadata and files devices fetch.
    """
    settings = settings or ApiSettings()
    # Threads of its own: however much is asked, the coordinator's are free.
    threads = ThreadPoolExecutor(THREADS, "auricle-api")

    async def in_thread(function: Callable[P, R], *given: P.args, **named: P.kwargs) -> R:
        return await asyncio.get_running_loop().run_in_executor(threads, partial(function, *given, **named))

    async def end(_: web.Application) -> None:
        threads.shutdown(wait=False, cancel_futures=True)

    door = Gatekeeper(tokens, in_thread, settings.rates)
    app = web.Application(middlewares=[problems, door.slow_down], client_max_size=settings.largest_request)
    app.on_response_prepare.append(_guard(settings.certificate is not None and settings.strict_transport))
    app.on_cleanup.append(end)
    for route in ROUTES:
        app.router.add_route(route.method, route.path, _handler(route, door, operations_for))
    streams = EventStreams(announcements, heartbeat=settings.heartbeat)
    app.on_shutdown.append(lambda _: streams.close())
    _add_further(app, door, streams, operations_for)
    EnrolmentRoutes(enrolment, in_thread, _body, door).add_to(app)
    ReleaseRoutes(releases, in_thread).add_to(app)
    _add_figures(app, door, registry, Health(healthy, in_thread), Health({**healthy, **ready}, in_thread), settings)
    page = PageFiles()
    app.router.add_get("/", page.serve)
    app.router.add_get("/{path:(?!v1/)[A-Za-z0-9_./-]{1,200}}", page.serve)
    return app


def _guard(strict: bool) -> Callable[[web.Request, web.StreamResponse], Awaitable[None]]:
    """Give every answer the headers that keep a browser from anything but this page, and with TLS from plain HTTP."""
    headers = {**HEADERS, "Strict-Transport-Security": "max-age=31536000"} if strict else HEADERS

    async def guard(_: web.Request, response: web.StreamResponse) -> None:
        response.headers.update(headers)
        response.headers.setdefault("Cache-Control", "no-store")

    return guard


# -- operations


def _handler(
    route: Route, door: Gatekeeper, operations_for: OperationsFor
) -> Callable[[web.Request], Awaitable[web.StreamResponse]]:
    async def handle(request: web.Request) -> web.StreamResponse:
        holder = await door.admit(request, route.role)
        parameters = await _parameters(request, route)
        operation = getattr(operations_for(holder.name), route.operation)
        answer = await door.in_thread(operation, **parameters)
        if isinstance(answer, File):
            headers = {"Content-Disposition": f'attachment; filename="{answer.name}"'}
            return web.Response(body=answer.content, content_type=answer.content_type, headers=headers)
        return _json(answer, route.status)

    return handle


async def _parameters(request: web.Request, route: Route) -> dict[str, object]:
    """Checked parameters from path and query, or path and body."""
    path = dict(request.match_info)
    query = request.query
    if any(not is_text(value) for pair in (*path.items(), *query.items()) for value in pair):
        raise RefusedError(400, "The address is not UTF-8.")
    twice = [name for name in query if len(query.getall(name)) > 1 or name in path]
    if twice:
        raise RefusedError(422, f'The parameter "{twice[0]}" is given twice.')
    if route.in_query:
        return route.checked({**query, **path}, texts=True)
    if query:
        raise RefusedError(422, f'"{next(iter(query))}" does not belong in the address: {route.method} takes a body.')
    body = await _body(request)
    if body.keys() & path.keys():
        raise RefusedError(422, f"{min(body.keys() & path.keys())} stands in the path, not in the body.")
    texts = {name: route.converted(name, value) for name, value in path.items()}
    return route.checked({**body, **texts})


async def _body(request: web.Request) -> dict[str, object]:
    data = await request.read()
    if not data:
        return {}
    if request.content_type != "application/json":
        raise RefusedError(415, "The body has to be JSON: say Content-Type: application/json.")
    try:
        body = msgspec.json.decode(data)
    except UNDECODABLE as error:
        raise RefusedError(400, f"The body is not JSON: {error}.") from error
    if not isinstance(body, dict):
        raise RefusedError(422, "The body has to be a JSON object.")
    return {name: _whole(value) for name, value in body.items()}


def _whole(value: object) -> object:
    """JSON has one kind of numbers: 3.0 is an integer."""
    return int(value) if isinstance(value, float) and value.is_integer() and abs(value) < 1 << 53 else value


def _json(answer: object, status: int = 200) -> web.Response:
    return web.Response(status=status, body=msgspec.json.encode(answer), content_type="application/json")


# -- what is not an operation


def _add_further(app: web.Application, door: Gatekeeper, streams: EventStreams, operations_for: OperationsFor) -> None:
    described = msgspec.json.encode(document())

    async def me(request: web.Request) -> web.StreamResponse:
        return _json(await door.admit(request, "viewer"))

    async def events(request: web.Request) -> web.StreamResponse:
        holder, token = await door.admit(request, "viewer"), bearer(request) or ""

        async def allowed() -> bool:
            return await door.check(token) is not None

        return await streams.stream(request, holder.name, allowed)

    async def openapi(_: web.Request) -> web.StreamResponse:
        return web.Response(body=described, content_type="application/json")

    async def blob(request: web.Request) -> web.StreamResponse:
        sha256 = request.match_info["sha256"]
        if len(sha256) != 64 or set(sha256) - set("0123456789abcdef"):
            raise RefusedError(422, "A blob is named by its SHA-256: 64 hexadecimal digits.")
        file = await door.in_thread(operations_for("").public_blob, sha256)
        headers = {"ETag": f'"{sha256}"', "Cache-Control": FOR_EVER}
        return web.Response(body=file.content, content_type=file.content_type, headers=headers)

    app.router.add_get("/v1/me", me)
    app.router.add_get("/v1/events", events, allow_head=False)
    app.router.add_get("/v1/openapi.json", openapi)
    app.router.add_get("/v1/blobs/{sha256}", blob)


def _add_figures(
    app: web.Application,
    door: Gatekeeper,
    registry: CollectorRegistry,
    healthy: Health,
    ready: Health,
    settings: ApiSettings,
) -> None:
    async def metrics(request: web.Request) -> web.StreamResponse:
        if not settings.metrics_open:
            await door.admit(request, "viewer")
        text = await door.in_thread(generate_latest, registry)
        return web.Response(body=text, headers={"Content-Type": METRICS})

    def told(health: Health) -> Callable[[web.Request], Awaitable[web.StreamResponse]]:
        async def tell(_: web.Request) -> web.StreamResponse:
            found = await health.failing()
            good = not any(found.values())
            checks = {name: "ok" if sentence is None else "failing" for name, sentence in found.items()}
            return _json({"status": "ok" if good else "failing", "checks": checks}, 200 if good else 503)

        return tell

    app.router.add_get("/metrics", metrics)
    app.router.add_get("/healthz", told(healthy))
    app.router.add_get("/readyz", told(ready))
