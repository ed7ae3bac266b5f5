"""The file with a user's name and password, and when it is used."""

from __future__ import annotations

import dataclasses
import stat
from pathlib import Path

import pytest

from auricle.errors import SettingsError
from auricle.mqtt_link.link import BrokerAddress
from auricle.wire.broker_passwords import read_login, write_login

PASSWORD = "Ab-_" * 10 + "xyz"


def test_a_login_comes_back_and_only_its_owner_can_read_it(tmp_path: Path) -> None:
    write_login(tmp_path / "password", "dev-a", PASSWORD)

    assert read_login(tmp_path / "password") == ("dev-a", PASSWORD)
    assert stat.S_IMODE((tmp_path / "password").stat().st_mode) == 0o600
    assert read_login(tmp_path / "nowhere") is None


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"dev-a",
        PASSWORD.encode(),
        b"dev-a:short",
        b"Dev:" + PASSWORD.encode(),
        b"dev-a:" + PASSWORD.encode() + b"x",
        b"dev-a:" + PASSWORD.encode() + b"\n\n",
        b"dev-a:" + b"\xff" * 43,
        b"\x00" * 300,
    ],
    ids=range(9),
)
def test_what_is_no_login_is_refused_and_not_repeated(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "password").write_bytes(content)

    with pytest.raises(SettingsError, match="auricle edge renew") as error:
        read_login(tmp_path / "password")

    assert PASSWORD not in str(error.value)


def test_a_login_that_is_a_folder_is_refused(tmp_path: Path) -> None:
    with pytest.raises(SettingsError, match="cannot be read"):
        read_login(tmp_path)


def test_the_file_is_used_over_tls_where_the_url_has_no_password(tmp_path: Path) -> None:
    login = tmp_path / "password"
    bare = dataclasses.replace(BrokerAddress.parse("mqtts://h"), login=login)
    assert bare.credentials() == (None, None)

    write_login(login, "dev-a", PASSWORD)

    assert bare.credentials() == ("dev-a", PASSWORD)
    assert dataclasses.replace(bare, username="dev-a").credentials() == ("dev-a", PASSWORD)
    assert dataclasses.replace(bare, username="somebody").credentials() == ("somebody", None)
    assert bare.as_user("dev-a", "other").credentials() == ("dev-a", "other")
    assert dataclasses.replace(bare, tls=False).credentials() == (None, None)
