"""Readiness looks at where models and updates are kept: a folder, a real S3 server, and one that never answers."""

from __future__ import annotations

import socket
from pathlib import Path

import pytest
from tests.cloud.api_server import serving
from tests.cloud.filled_store import Filled
from tests.cloud.object_store import BUCKET, ObjectStore
from tests.cloud.object_store import object_store as object_store

from auricle_cloud.api.health import BlobsTake
from auricle_cloud.storage.blobs import Blobs, open_blobs


class Counting(Blobs):
    """Counts what is written."""

    written = 0

    def put(self, data: bytes) -> str:
        self.written += 1
        return super().put(data)


def test_who_asks_often_gets_the_same_answer_without_a_write_and_nothing_is_left(tmp_path: Path) -> None:
    blobs = Counting(tmp_path / "blobs")
    check = BlobsTake(blobs, every=3600.0, patience=30.0)
    assert [check() for _ in range(5)] == [None] * 5
    assert (blobs.written, list(blobs.names())) == (1, [])


def test_a_folder_that_takes_nothing_is_said_so_until_it_does(tmp_path: Path) -> None:
    (tmp_path / "blobs").write_bytes(b"a file where the folder has to be")
    check = BlobsTake(Blobs(tmp_path / "blobs"), every=0.0, patience=30.0)
    assert "cannot be written" in (check() or "")
    (tmp_path / "blobs").unlink()
    assert check() is None


def test_a_killed_server_is_said_so_until_it_comes_back(
    object_store: ObjectStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("AWS_MAX_ATTEMPTS", "1")
    check = BlobsTake(open_blobs(f"s3://{BUCKET}/health"), every=0.0, patience=30.0)
    assert check() is None
    object_store.kill()
    assert "fleet/health" in (check() or "")
    object_store.start()
    assert check() is None
    assert object_store.keys("health") == []


@pytest.mark.slow
def test_a_server_that_never_answers_makes_nobody_wait(filled: Filled, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("s3fs")
    with socket.create_server(("127.0.0.1", 0)) as silent:
        keys = {"ACCESS_KEY_ID": "k", "SECRET_ACCESS_KEY": "s", "DEFAULT_REGION": "us-east-1", "MAX_ATTEMPTS": "1"}
        for name, value in {**keys, "ENDPOINT_URL": f"http://127.0.0.1:{silent.getsockname()[1]}"}.items():
            monkeypatch.setenv(f"AWS_{name}", value)
        check = BlobsTake(open_blobs("s3://bucket/prefix"), patience=0.05)
        with serving(filled, ready={"blobs": check}) as server:
            status, told, _ = server.ask("GET", "/readyz", role=None)
            assert (status, told["checks"]) == (503, {"database": "ok", "disk": "ok", "blobs": "failing"})
            assert server.ask("GET", "/healthz", role=None)[0] == 200
        assert "does not answer" in (check() or "")
