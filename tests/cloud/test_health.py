"""Readiness looks at where models and updates are kept: a folder, a real S3 server, and one that never answers."""

from __future__ import annotations

import socket
from pathlib import Path

import pytest
from tests.cloud.api_server import serving
from tests.cloud.filled_store import fill
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


def test_a_killed_server_is_said_so_and_one_that_comes_back_is_found(
    object_store: ObjectStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("AWS_MAX_ATTEMPTS", "1")
    check = BlobsTake(open_blobs(f"s3://{BUCKET}/health"), every=0.0, patience=30.0)

    assert check() is None
    object_store.kill()
    assert "The object store at fleet/health failed" in (check() or "")
    object_store.start()
    assert check() is None
    assert object_store.keys("health") == []


@pytest.mark.slow
def test_a_server_that_never_answers_makes_nobody_wait_and_leaves_liveness_alone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip("s3fs")
    filled = fill(tmp_path)
    with socket.create_server(("127.0.0.1", 0)) as silent:
        for name, value in (
            ("AWS_ENDPOINT_URL", f"http://127.0.0.1:{silent.getsockname()[1]}"),
            ("AWS_MAX_ATTEMPTS", "1"),
            ("AWS_ACCESS_KEY_ID", "k"),
            ("AWS_SECRET_ACCESS_KEY", "s"),
            ("AWS_DEFAULT_REGION", "us-east-1"),
        ):
            monkeypatch.setenv(name, value)
        check = BlobsTake(open_blobs("s3://bucket/prefix"), patience=0.05)
        with serving(filled, ready={"blobs": check}) as server:
            status, told, _ = server.ask("GET", "/readyz", role=None)
            assert (status, told["checks"]) == (503, {"database": "ok", "disk": "ok", "blobs": "failing"})
            assert server.ask("GET", "/healthz", role=None)[0] == 200
        assert check() == "Models and updates cannot be kept: the object store does not answer."
    filled.store.close()
