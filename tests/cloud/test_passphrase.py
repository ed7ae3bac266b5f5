"""The passphrase of keys from a file: as it was typed, whatever saved it."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from auricle.errors import SettingsError
from auricle_cloud.identity.authority import PASSPHRASE, passphrase


@pytest.mark.parametrize("encoding", ["utf-8", "utf-8-sig", "utf-16"])
@pytest.mark.parametrize("end", ["", "\n", "\r\n"])
def test_a_file_gives_its_line(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, encoding: str, end: str) -> None:
    file = tmp_path / "secret"
    file.write_bytes(f"für mich{end}".encode(encoding))
    monkeypatch.setenv(f"{PASSPHRASE}_FILE", str(file))
    assert passphrase() == "für mich".encode()


def test_a_pipe_is_not_waited_for(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    os.mkfifo(tmp_path / "secret")
    monkeypatch.setenv(f"{PASSPHRASE}_FILE", str(tmp_path / "secret"))
    with pytest.raises(SettingsError, match="is a pipe"):
        passphrase()
