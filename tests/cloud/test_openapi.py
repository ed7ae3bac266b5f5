"""The OpenAPI document: made of the routes, whole, and true under thousands of requests."""

from __future__ import annotations

import importlib.util
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.cloud.api_server import serving
from tests.cloud.filled_store import fill

from auricle_cloud.api.openapi import document
from auricle_cloud.api.routes import ROUTES
from auricle_cloud.identity.authority import Authority


def nested(value: Any) -> Iterator[dict[str, Any]]:
    if isinstance(value, dict):
        yield value
    for item in value.values() if isinstance(value, dict) else value if isinstance(value, list) else ():
        yield from nested(item)


def test_every_route_is_described_with_its_parameters_and_refusals() -> None:
    paths = document()["paths"]

    for route in ROUTES:
        operation = paths[route.path][route.method.lower()]
        body = operation.get("requestBody", {}).get("content", {}).get("application/json", {}).get("schema", {})
        named = {parameter["name"] for parameter in operation["parameters"]} | set(body.get("properties", {}))
        assert operation["operationId"] == route.operation
        assert named == set(route.names)
        assert {str(route.status), "401", "403", "422", "429"} <= set(operation["responses"])
        assert operation["security"] == [{"bearer": []}]


def test_what_goes_with_the_next_version_is_marked_and_names_what_takes_its_place() -> None:
    paths = document()["paths"]
    marked = {
        (path, method): operation["description"]
        for path, operations in paths.items()
        for method, operation in operations.items()
        if operation.get("deprecated")
    }

    assert list(marked) == [("/v1/releases", "post")]
    assert "Use POST /v1/devices/{device}/release" in marked["/v1/releases", "post"]
    assert "post" in paths["/v1/devices/{device}/release"]


def test_every_reference_leads_somewhere_and_every_pattern_is_ecma() -> None:
    described = document()

    for part in nested(described):
        if "$ref" in part:
            place: Any = described
            for step in part["$ref"].removeprefix("#/").split("/"):
                place = place[step]
        if isinstance(part.get("pattern"), str):
            assert not re.search(r"\\[ZAz]", part["pattern"])


def test_the_document_is_served_to_anybody(tmp_path: Path) -> None:
    filled = fill(tmp_path)
    with serving(filled) as server:
        status, served, _ = server.ask("GET", "/v1/openapi.json", role=None)

    assert (status, served["openapi"]) == (200, "3.1.0")
    assert served == document()


@pytest.mark.slow
@pytest.mark.timeout(1600)
@pytest.mark.skipif(importlib.util.find_spec("schemathesis") is None, reason="schemathesis is not installed")
@pytest.mark.parametrize(
    "chosen",
    [
        # Its tokens would open /v1/enrol, whose certificate requests no schema can describe.
        ("--exclude-path", "/v1/events", "--exclude-path", "/v1/claims"),
        ("--include-path", "/v1/claims"),
    ],
    ids=["all but claims", "claims"],
)
@pytest.mark.nightly
def test_whatever_is_sent_the_answer_is_as_described_and_never_5xx(tmp_path: Path, chosen: tuple[str, ...]) -> None:
    filled = fill(tmp_path / "state")
    Authority.create(filled.folder / "authority", "Test")
    with serving(filled) as server:
        program, told = Path(sys.executable).with_name("schemathesis"), f"Bearer {server.tokens['admin']}"
        command = [str(program), "run", f"{server.url}/v1/openapi.json", "--header", f"Authorization: {told}", *chosen]
        command += ["--checks", "all", "--max-examples", "100", "--generation-deterministic", "--no-color"]
        done = subprocess.run(command, capture_output=True, text=True, timeout=1500, check=False, cwd=tmp_path)

    assert done.returncode == 0, done.stdout[-8000:]
