"""A coordinator started as the README says leaves nothing in its state folder that others may read."""

from __future__ import annotations

import os
import socket
import stat
import subprocess
import sys
from pathlib import Path

import pytest


@pytest.mark.slow
@pytest.mark.parametrize("older", [False, True])
def test_everything_in_the_state_folder_is_its_users_alone(older: bool, tmp_path: Path) -> None:
    state, config = tmp_path / "state", tmp_path / "coordinator.toml"
    config.write_text("connect_timeout = 0.5\n")
    if older:
        (state / "blobs" / "ab").mkdir(parents=True)
        (state / "blobs" / "ab" / "model").write_bytes(b"x")
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))  # bound, not listening: no broker answers
        broker = f"mqtt://coordinator@127.0.0.1:{taken.getsockname()[1]}"
        command = [sys.executable, "-m", "auricle", "cloud", "serve", "--broker", broker, "--fleet", "home"]
        done = subprocess.run(
            [*command, "--state", str(state), "--listen", "none", "--config", str(config)],
            capture_output=True,
            text=True,
            timeout=60,
            umask=0o022,
            env={**os.environ, "PYTHONDONTWRITEBYTECODE": "1"},
        )

    assert done.returncode != 0 and "Traceback" not in done.stderr
    names = {path.name for path in state.iterdir()}
    assert {"coordinator.db", "coordinator.key", "blobs"} <= names, done.stderr
    for folder in [state / "blobs"] if older else [state, state / "blobs"]:
        assert stat.S_IMODE(folder.stat().st_mode) == 0o700
    inside = (path for path in state.rglob("*") if state / "blobs" not in path.parents or not older)
    assert [path for path in inside if path.stat().st_mode & 0o077] == []
