"""Claim tokens and certificates over the API: seen by everybody, made by admins, counted in the journal."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from tests.cloud.api_server import Server, serving
from tests.cloud.filled_store import Filled

from auricle_cloud.identity.authority import Authority
from auricle_cloud.storage.state_folders import AUTHORITY


@pytest.fixture
def server(filled: Filled) -> Iterator[Server]:
    """A filled store with an authority."""
    Authority.create(filled.folder / AUTHORITY, "Home")
    with serving(filled) as running:
        yield running


def test_tokens_are_made_for_new_names_and_shown_once(server: Server) -> None:
    status, made, _ = server.ask("POST", "/v1/claims", {"prefix": "kitchen", "count": 2, "hours": 1})
    assert status == 201
    assert [row["device"] for row in made["tokens"]] == ["kitchen-001", "kitchen-002"]
    assert len({row["token"] for row in made["tokens"]}) == 2
    assert [row["device"] for row in server.ask("POST", "/v1/claims", {"prefix": "kitchen"})[1]["tokens"]] == [
        "kitchen-003"
    ]

    seen = server.ask("GET", "/v1/enrolled", role="viewer")[1]
    assert [row["device"] for row in seen["claims"]] == ["kitchen-001", "kitchen-002", "kitchen-003"]
    assert seen["pin"] == made["pin"]
    assert not any(row["token"] in str(seen) for row in made["tokens"])
    events = server.ask("GET", "/v1/journal?limit=5")[1]["events"]
    assert {event["who"] for event in events if event["kind"] == "claim token created"} == {"the-admin"}


@pytest.mark.parametrize("role", ["viewer", "operator"])
def test_only_admins_make_them(server: Server, role: str) -> None:
    assert server.ask("POST", "/v1/claims", {"prefix": "kitchen"}, role=role)[0] == 403
    assert server.ask("GET", "/v1/enrolled", role=role)[1]["claims"] == []


@pytest.mark.parametrize(
    ("body", "status"),
    [
        ({"count": 0}, 422),
        ({"prefix": "Kitchen"}, 422),
        ({"hours": 721}, 422),
        ({"device": "kitchen", "replace": True}, 409),
        ({"replace": True}, 409),
        ({"device": "coordinator"}, 409),
    ],
)
def test_what_is_not_possible_is_refused(server: Server, body: dict[str, object], status: int) -> None:
    assert server.ask("POST", "/v1/claims", body)[0] == status


def test_without_an_authority_it_says_how_to_make_one(filled: Filled) -> None:
    with serving(filled) as server:
        for method, path in (("GET", "/v1/enrolled"), ("POST", "/v1/claims")):
            assert server.ask(method, path, None if method == "GET" else {})[0] == 404
