"""Passwords of the broker's users: derived from one key, and the files that `enrol broker --passwords` writes."""

from __future__ import annotations

import stat
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from auricle.errors import StorageError
from auricle.wire.broker_passwords import read_login, verify_password
from auricle_cloud.identity.authority import PASSPHRASE, Authority
from auricle_cloud.identity.broker_files import Passwords

Enrol = Callable[..., Any]


def users(file: Path) -> list[str]:
    """Names in a password file."""
    return [line.split(":")[0] for line in file.read_text().splitlines()]


def test_a_password_is_the_hmac_of_the_name() -> None:
    """RFC 4231, test case 2, whose key and text are these."""
    passwords = Passwords(b"Jefe")
    assert passwords.of("what do ya want for nothing?") == "W9zBRr9gdU5qBCQmCJV1x1oAPwidJzmDnexYuWTsOEM"
    assert len({passwords.of("dev-a"), passwords.of("dev-b"), Passwords(b"other").of("dev-a")}) == 3


def test_the_same_users_give_the_same_file_and_mosquitto_could_verify_it() -> None:
    passwords = Passwords(bytes(32))

    lines = passwords.mosquitto(["dev-a", "dev-b"]).splitlines()

    assert lines == passwords.mosquitto(["dev-a", "dev-b"]).splitlines()
    assert lines[1:] == passwords.mosquitto(["dev-b"]).splitlines()
    for name, line in zip(("dev-a", "dev-b"), lines, strict=True):
        user, known = line.split(":")
        assert user == name
        assert known.startswith("$7$101$")
        assert verify_password(passwords.of(name), known)
    assert not verify_password(passwords.of("dev-a"), lines[1].split(":")[1])


def test_the_key_is_drawn_once_and_readable_by_its_owner_only(tmp_path: Path) -> None:
    authority = Authority.create(tmp_path / "a", "Test")
    barrier = threading.Barrier(8)

    def ask(_: int) -> str:
        barrier.wait()
        return authority.passwords().of("dev-a")

    with ThreadPoolExecutor(8) as pool:
        found = list(pool.map(ask, range(8)))

    assert found == [Authority(tmp_path / "a").passwords().of("dev-a")] * 8
    assert stat.S_IMODE((tmp_path / "a" / "passwords.key").stat().st_mode) == 0o600


def test_the_key_is_encrypted_like_the_others(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(PASSPHRASE, "correct horse")
    authority = Authority.create(tmp_path, "Test")
    first = authority.passwords().of("dev-a")
    assert b"ENCRYPTED" in (tmp_path / "passwords.key").read_bytes()
    assert authority.passwords().of("dev-a") == first
    monkeypatch.setenv(PASSPHRASE, "battery staple")
    with pytest.raises(StorageError, match=r"passwords\.key"):
        authority.passwords()


def test_a_key_of_another_kind_is_refused(tmp_path: Path) -> None:
    authority = Authority.create(tmp_path, "Test")
    (tmp_path / "passwords.key").write_bytes((tmp_path / "issuing.key").read_bytes())
    with pytest.raises(StorageError, match="passwords"):
        authority.passwords()


def test_a_broker_with_passwords_stays_one_and_knows_whoever_has_a_token(tmp_path: Path, enrol: Enrol) -> None:
    out = tmp_path / "broker"
    broker = ("broker", "--fleet", "f", "--host", "broker.lan", "--out", out)
    enrol("init")
    enrol(*broker, "--passwords")
    configuration = (out / "mosquitto.conf").read_text().splitlines()
    first = users(out / "passwords")
    enrol("token", "--device", "kitchen-1", "--device", "hall-1", "--broker", out)
    before = (out / "passwords").read_bytes()
    enrol(*broker)
    same = (out / "passwords").read_bytes() == before
    enrol("revoke", "hall-1", "--yes", "--broker", out)
    left = users(out / "passwords")
    enrol(*broker, "--no-passwords")

    for line in ("allow_anonymous false", "require_certificate true", "use_username_as_clientid true"):
        assert line in configuration
    assert f"password_file {out / 'passwords'}" in configuration
    assert not [line for line in configuration if line.startswith("use_identity")]
    assert (first, same, left) == (["coordinator"], True, ["coordinator", "kitchen-1"])
    assert stat.S_IMODE((out / "acl").stat().st_mode) == 0o600
    assert not (out / "passwords").exists()
    assert "use_identity_as_username true" in (out / "mosquitto.conf").read_text()


def test_whoever_is_no_device_gets_its_password_with_its_certificate(tmp_path: Path, enrol: Enrol) -> None:
    enrol("init")
    enrol("user", "observer", "--out", tmp_path / "observer")
    passwords = Authority(tmp_path / "authority").passwords()
    own = tmp_path / "identity" / "password"
    given = read_login(own)
    own.unlink()  # as in a state folder of an older version
    enrol("broker", "--fleet", "f", "--host", "h", "--kind", "emqx", "--passwords", "--out", tmp_path / "b")

    assert given == read_login(own) == ("coordinator", passwords.of("coordinator"))
    assert read_login(tmp_path / "observer" / "password") == ("observer", passwords.of("observer"))
    listed = (tmp_path / "b" / "users.csv").read_text().splitlines()
    assert [line.split(",")[0] for line in listed] == ["user_id", "coordinator", "observer"]
    assert stat.S_IMODE((tmp_path / "b" / "users.csv").stat().st_mode) == 0o600
    assert "bootstrap_file" in (tmp_path / "b" / "emqx.conf").read_text()
