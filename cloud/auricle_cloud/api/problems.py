"""Refusals of the API: an error's sentence and its HTTP status, as a problem body (RFC 9457)."""

from __future__ import annotations

import http
import logging
from collections.abc import Awaitable, Callable

import msgspec
from aiohttp import web

from auricle.errors import AuricleError, StorageError
from auricle_cloud.operations.operating import ConflictError, NotFoundError
from auricle_cloud.operations.types import Problem

log = logging.getLogger("auricle.cloud.api")

Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]


class RefusedError(AuricleError):
    """A request that is refused with an HTTP status.

    Parameters
    ----------
    status
        The HTTP status.
    detail
        The sentence.
    headers
        Further headers of the answer.
    """

    def __init__(self, status: int, detail: str, headers: dict[str, str] | None = None) -> None:
        super().__init__(detail)
        self.status, self.headers = status, headers or {}


def status_of(error: AuricleError) -> int:
    """The HTTP status of an error: 404, 409, 422, and 503 for a database or disk that fails."""
    if isinstance(error, RefusedError):
        return error.status
    if isinstance(error, NotFoundError):
        return 404
    if isinstance(error, ConflictError):
        return 409
    return 503 if isinstance(error, StorageError) else 422


def problem(status: int, detail: str, headers: dict[str, str] | None = None) -> web.Response:
    """An answer that says in one sentence why not."""
    body = Problem(title=http.HTTPStatus(status).phrase, status=status, detail=detail)
    return web.Response(
        status=status, body=msgspec.json.encode(body), content_type="application/problem+json", headers=headers
    )


@web.middleware
async def problems(request: web.Request, handler: Handler) -> web.StreamResponse:
    """Answer whatever goes wrong with a problem body."""
    try:
        return await handler(request)
    except AuricleError as error:
        headers = error.headers if isinstance(error, RefusedError) else None
        status = status_of(error)
        if status == 503:
            log.warning("%s %s: %s", request.method, request.path, error)
        return problem(status, str(error), headers)
    except web.HTTPException as error:
        kept = {name: value for name, value in error.headers.items() if name in ("Allow", "Location")}
        return problem(error.status, _sentence_for(error), kept)
    except Exception:
        log.exception("%s %s", request.method, request.path)
        return problem(500, "The coordinator failed at this request: its log says where.")


def _sentence_for(error: web.HTTPException) -> str:
    if isinstance(error, web.HTTPMethodNotAllowed):
        return f"This address takes {', '.join(sorted(error.allowed_methods))}."
    known = {
        400: "The request cannot be read.",
        404: "There is nothing at this address: /v1/openapi.json lists what there is.",
        413: "The request is too large.",
    }
    return known.get(error.status, f"{error.reason}.")
