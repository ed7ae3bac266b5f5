"""The OpenAPI 3.1 document, made of the routes and of the structs that the API speaks."""

from __future__ import annotations

import re
from typing import Any

import msgspec

from auricle import __version__
from auricle.wire.claims import AuthorityShown, Certified, Claim, Renewal
from auricle.wire.joining import Join, SealedGrant
from auricle_cloud.api.routes import ROUTES, Route
from auricle_cloud.operations.operations import Me
from auricle_cloud.operations.types import Problem

PROBLEMS = {
    400: "The request cannot be read.",
    401: "A token is missing, unknown or expired.",
    403: "The token's role may not do this.",
    404: "What it is about does not exist.",
    409: "It does not go with how things are.",
    413: "The request is too large.",
    415: "The body is not JSON.",
    422: "A parameter is missing, unknown or not allowed.",
    429: "Too many requests: wait as long as Retry-After says.",
    503: "The database or the disk cannot be used at the moment.",
}
SCHEMAS = "#/components/schemas/{name}"
ENROLMENT = (AuthorityShown, Certified, Claim, Join, SealedGrant, Renewal)
TEXT = {"schema": {"type": "string"}}
Schema = dict[str, Any]
"""Of JSON Schema or OpenAPI, which say what may be in it."""
BYTES: Schema = {"application/octet-stream": {}}


def document() -> Schema:
    """The document as it is served at `/v1/openapi.json`."""
    results = [route.result for route in ROUTES if not route.is_file]
    parameters = [route.parameters for route in ROUTES]
    schemas, components = msgspec.json.schema_components(
        [*results, Me, Problem, *ENROLMENT, *parameters], ref_template=SCHEMAS
    )
    named = dict(zip([*results, Me, Problem, *ENROLMENT], schemas, strict=False))
    taken = {route.operation: components.pop(route.parameters.__name__) for route in ROUTES}
    paths: dict[str, Schema] = {}
    for route in ROUTES:
        answer = BYTES if route.is_file else _json(named[route.result])
        paths.setdefault(route.path, {})[route.method.lower()] = _operation(route, taken[route.operation], answer)
    for path, operation in _further(named[Me]).items():
        paths[path] = {"get": operation}
    paths |= _enrolment(named) | _updates()
    found: Schema = _in_ecma(
        {
            "openapi": "3.1.0",
            "info": {
                "title": "Auricle coordinator",
                "version": __version__,
                "license": {"name": "Apache-2.0"},
                "description": "What operators can do to a federated run: rounds, devices, models, tokens.",
            },
            "paths": paths,
            "components": {
                "schemas": components,
                "responses": {str(code): _problem(text, code) for code, text in PROBLEMS.items()},
                "securitySchemes": {"bearer": {"type": "http", "scheme": "bearer"}},
            },
        }
    )
    return found


def _operation(route: Route, taken: Schema, answer: Schema) -> Schema:
    properties, required = taken["properties"], taken.get("required", [])
    path = route.in_path
    parameters = [
        {"name": name, "in": "path" if name in path else "query", "required": name in required, "schema": schema}
        for name, schema in properties.items()
        if name in path or route.in_query
    ]
    operation: Schema = {
        "operationId": route.operation,
        "summary": route.summary,
        "description": f"Least role: {route.role}.",
        "tags": [route.path.split("/")[2]],
        "security": [{"bearer": []}],
        "parameters": parameters,
        "responses": {str(route.status): {"description": "Done.", "content": answer}} | _refusals(*PROBLEMS),
    }
    if route.successor:
        operation["deprecated"] = True
        operation["description"] += f" Use {route.method} {route.successor}: this path goes with the next version."
    if not route.in_query:
        operation["requestBody"] = _body(
            {name: schema for name, schema in properties.items() if name not in path},
            [name for name in required if name not in path],
        )
    return operation


def _body(properties: Schema, required: list[str]) -> Schema:
    schema = {"type": "object", "properties": properties, "required": required, "additionalProperties": False}
    return {"required": bool(required), "content": _json(schema)}


def _further(me: Schema) -> dict[str, Schema]:
    """What is not an operation: who am I, the stream, files, metrics and health."""
    free: list[Schema] = []
    bearer: list[Schema] = [{"bearer": []}]
    stream = {"text/event-stream": TEXT}
    sha256 = {
        "name": "sha256",
        "in": "path",
        "required": True,
        "schema": {"type": "string", "pattern": "^[0-9a-f]{64}$"},
    }
    health = _json({"type": "object", "properties": {"status": {"enum": ["ok", "failing"]}}, "required": ["status"]})
    return {
        "/v1/me": _get("me", "Whose token this is.", _json(me), bearer, 401, 429, 503),
        "/v1/events": _get("events", "What happens, live, as server-sent events.", stream, bearer, 401, 429, 503),
        "/v1/openapi.json": _get("openapi", "This document.", _json({"type": "object"}), free, 429),
        "/v1/blobs/{sha256}": {
            **_get("blob", "The bytes of a current model.", BYTES, free, 404, 422, 429, 503),
            "parameters": [sha256],
        },
        "/metrics": _get("metrics", "Figures for Prometheus.", {"text/plain": TEXT}, bearer, 401, 429, 503),
        "/healthz": _health("healthz", "Whether the coordinator can work at all.", health),
        "/readyz": _health("readyz", "Whether it works: connected, and not starting.", health),
    }


def _enrolment(named: dict[Any, Schema]) -> dict[str, Schema]:
    """What a device asks for itself: the token or certificate in the body is its right to it."""

    def post(name: str, summary: str, asked: type, answer: type = Certified) -> Schema:
        operation = _get(name, summary, _json(named[answer]), [], 400, 403, 404, 413, 415, 422, 429, 503)
        return {"post": operation | {"requestBody": {"required": True, "content": _json(named[asked])}}}

    shown = _get("authority", "The certificate of the authority.", _json(named[AuthorityShown]), [], 404, 429, 503)
    return {
        "/v1/authority": {"get": shown},
        "/v1/join": post("join", "Give a device that knows the hub's code a claim token.", Join, SealedGrant),
        "/v1/enrol": post("enrol", "Exchange a claim token for a device's certificate.", Claim),
        "/v1/renew": post("renew", "Give a device its next certificate.", Renewal),
    }


def _updates() -> dict[str, Schema]:
    """What devices fetch: everything in it is signed, and nobody has to be asked who they are."""

    def get(name: str, summary: str, parameter: str, content: Schema) -> Schema:
        described = _get(name, summary, content, [], 404, 429)
        described["parameters"] = [{"name": parameter, "in": "path", "required": True, "schema": {"type": "string"}}]
        described["responses"]["206"] = {"description": "The range that was asked for.", "content": content}
        described["responses"]["416"] = {"description": "There is no such range."}
        return {"get": described}

    return {
        "/v1/updates/metadata/{name}": get(
            "update_metadata", "Signed metadata of updates (TUF).", "name", _json({"type": "object"})
        ),
        "/v1/updates/targets/{path}": get("update_target", "A bundle or pack, by its path.", "path", BYTES),
    }


def _get(name: str, summary: str, content: Schema, security: list[Schema], *codes: int) -> Schema:
    answers = {"200": {"description": "Here it is.", "content": content}} | _refusals(*codes)
    return {
        "operationId": name,
        "summary": summary,
        "tags": ["coordinator"],
        "security": security,
        "responses": answers,
    }


def _health(name: str, summary: str, content: Schema) -> Schema:
    described = _get(name, summary, content, [], 429)
    described["responses"]["503"] = {"description": "A check fails.", "content": content}
    return described


def _json(schema: Schema) -> Schema:
    return {"application/json": {"schema": schema}}


def _problem(text: str, code: int) -> Schema:
    content = {"application/problem+json": {"schema": {"$ref": SCHEMAS.format(name="Problem")}}}
    described: Schema = {"description": text, "content": content}
    if code == 429:
        described["headers"] = {"Retry-After": {"schema": {"type": "integer"}, "description": "Seconds."}}
    return described


def _refusals(*codes: int) -> Schema:
    return {str(code): {"$ref": f"#/components/responses/{code}"} for code in codes}


def _in_ecma(value: Schema) -> Schema:
    r"""Patterns as JSON Schema has them: `$` there means what `\Z` means in Python."""
    return {
        key: re.sub(r"\\Z\Z", "$", item) if key == "pattern" and isinstance(item, str) else _part_in_ecma(item)
        for key, item in value.items()
    }


def _part_in_ecma(part: object) -> object:
    if isinstance(part, dict):
        return _in_ecma(part)
    return [_part_in_ecma(item) for item in part] if isinstance(part, list) else part
