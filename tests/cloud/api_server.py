"""A filled store behind the real API, on a free port of this machine, in its own event loop's thread."""

from __future__ import annotations

import asyncio
import http.client
import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import urlsplit

from prometheus_client import CollectorRegistry, Counter
from tests.cloud.filled_store import Filled

from auricle_cloud.api.api_server import listening
from auricle_cloud.api.api_settings import ApiSettings, Rates
from auricle_cloud.api.app import make_app
from auricle_cloud.api.health import Check, database_answers, folder_takes
from auricle_cloud.identity.enrolment import open_enrolment
from auricle_cloud.identity.issuing import FleetTold
from auricle_cloud.observing.announcements import Announcements

GENEROUS = Rates(address=(1e6, 1e6), token=(1e6, 1e6), failures=(1e6, 1e6))


@dataclass
class Server:
    """A running API."""

    filled: Filled
    url: str
    loop: asyncio.AbstractEventLoop
    announcements: Announcements
    woken: list[str]
    tokens: dict[str, str] = field(default_factory=dict)

    def ask(
        self, method: str, path: str, body: Any = None, role: str | None = "admin", **headers: str
    ) -> tuple[int, Any, http.client.HTTPResponse]:
        """Status, decoded body and answer of one request."""
        place = urlsplit(self.url)
        connection = http.client.HTTPConnection(place.hostname or "", place.port or 0, timeout=30)
        given = {name.replace("_", "-"): value for name, value in headers.items()}
        if role is not None:
            given["Authorization"] = f"Bearer {self.tokens.get(role, role)}"
        if body is not None:
            given.setdefault("Content-Type", "application/json")
        data = body if isinstance(body, bytes | None) else json.dumps(body).encode()
        try:
            connection.request(method, path, data, given)
            answer = connection.getresponse()
            content = answer.read()
        finally:
            connection.close()
        kind = answer.getheader("Content-Type", "") or ""
        return answer.status, json.loads(content) if "json" in kind and content else content, answer

    def tell(self, kind: str, **content: Any) -> None:
        """Announce something, as the coordinator does."""
        self.loop.call_soon_threadsafe(lambda: self.announcements.tell(kind, **content))


@contextmanager
def serving(
    filled: Filled,
    settings: ApiSettings | None = None,
    healthy: dict[str, Check] | None = None,
    ready: dict[str, Check] | None = None,
    tells: FleetTold | None = None,
) -> Iterator[Server]:
    """Serve it until the end of the block."""
    started: list[Server] = []
    up, down = threading.Event(), asyncio.Event()
    woken: list[str] = []

    async def run() -> None:
        chosen = settings or ApiSettings(port=0, rates=GENEROUS)
        announcements, registry = Announcements(), CollectorRegistry()
        Counter("auricle_test", "Something counted.", registry=registry).inc()
        checks = healthy or {"database": database_answers(filled.store), "disk": folder_takes(filled.folder)}

        def operations_for(who: str) -> Any:
            operations = filled.operations(who)
            operations._wake = lambda: woken.append(who)
            return operations

        app = make_app(
            operations_for,
            filled.store.tokens,
            announcements,
            registry,
            checks,
            ready or {},
            chosen,
            lambda: open_enrolment(filled.folder, filled.store.database, tells=tells),
            filled.folder / "releases",
        )
        async with listening(app, chosen) as url:
            started.append(Server(filled, url, asyncio.get_running_loop(), announcements, woken))
            up.set()
            await down.wait()

    failed: list[BaseException] = []

    def work() -> None:
        try:
            asyncio.run(run())
        except BaseException as error:  # noqa: BLE001 - handed to the test's thread
            failed.append(error)
        up.set()

    thread = threading.Thread(target=work, daemon=True)
    thread.start()
    up.wait(30)
    if failed:
        thread.join()
        raise failed[0]
    server = started[0]
    try:
        with filled.store.database.writing() as tx:  # of a server before; the last admin's cannot be revoked
            tx.exec_driver_sql("DELETE FROM tokens WHERE name LIKE 'the-%'")
        for role in ("viewer", "operator", "admin"):
            server.tokens[role] = filled.store.tokens.create(f"the-{role}", role)
        yield server
    finally:
        server.loop.call_soon_threadsafe(down.set)
        thread.join(30)
