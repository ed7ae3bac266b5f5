"""What a coordinator in this process asks of its database and of its object store, counted as it happens."""

from __future__ import annotations

import sqlite3
from collections import Counter
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any

import sqlalchemy as sa

from auricle.errors import SettingsError
from auricle_cloud.rounds.coordinator import Coordinator
from auricle_cloud.storage.blobs import BlobStore
from auricle_cloud.storage.remote_blobs import RemoteBlobs
from auricle_cloud.storage.store import FILE

Counts = dict[str, int]


def count_requests(blobs: BlobStore) -> Callable[[], Counts]:
    """Count what a store of blobs sends to its S3 server from now on; what is returned gives requests by their kind.

    Kinds are S3's own operations, `GetObject`, `PutObject`, ...; what the driver tries again counts again.

    Raises
    ------
    SettingsError
        It is not an S3 server's.
    """
    files = getattr(blobs, "_files", None)
    if not isinstance(blobs, RemoteBlobs) or not hasattr(files, "set_session"):
        raise SettingsError("Requests are counted of an S3 server alone: give --blobs s3://BUCKET/PREFIX.")
    from fsspec.asyn import sync

    counts: Counter[str] = Counter()

    def count(event_name: str, **_: Any) -> None:
        counts[event_name.rpartition(".")[2]] += 1

    sync(files.loop, files.set_session)
    files.s3.meta.events.register("before-send.s3", count)
    return lambda: dict(sorted(counts.items()))


def count_statements() -> Callable[[], Counts]:
    """Count transactions that databases of this process commit from now on, and statements that they run."""
    counts = {"commits": 0, "statements": 0}

    def commit(_: sa.Connection) -> None:
        counts["commits"] += 1

    def execute(*_: object) -> None:
        counts["statements"] += 1

    sa.event.listen(sa.Engine, "commit", commit)
    sa.event.listen(sa.Engine, "before_cursor_execute", execute)
    return lambda: dict(counts)


def counters_of(coordinator: Coordinator) -> dict[str, Callable[[], Counts]]:
    """By what they count: `database`, and `requests` where the blobs lie on a server."""
    counters = {"database": count_statements()}
    if isinstance(coordinator.blobs, RemoteBlobs):
        counters["requests"] = count_requests(coordinator.blobs)
    return counters


def database_size(state: Path) -> dict[str, int]:
    """Bytes of a state folder's SQLite database, and the rows of all its tables."""
    path = state / FILE
    with closing(sqlite3.connect(path)) as database:
        tables = [name for (name,) in database.execute("SELECT name FROM sqlite_master WHERE type = 'table'")]
        rows = sum(database.execute(f'SELECT count(*) FROM "{name}"').fetchone()[0] for name in tables)
    return {"database_bytes": path.stat().st_size, "rows": rows}
