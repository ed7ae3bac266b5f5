"""Keys, signatures, and the files that a key or a login lives in."""

from __future__ import annotations

import dataclasses
import stat
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from auricle.errors import SettingsError, StorageError
from auricle.mqtt_link.link import BrokerAddress
from auricle.wire.broker_passwords import read_login, write_login
from auricle.wire.identity import Identity, verify

SEED = bytes.fromhex("9d61b19deffd5a60ba844af492ec2cc44449c5697b326919703bac031cae7f60")
"""RFC 8032, section 7.1, test 1."""
PUBLIC = bytes.fromhex("d75a980182b10ab7d54bfed3c964073a0ee172f3daa62325af021a68f707511a")
SIGNATURE = bytes.fromhex(
    "e5564300c360ac729086e2cc806e828a84877f1eb8e5d974d873e065224901555fb8821590a33bacc61e39701cf9b46bd25bf5f0595bbe24655141438e7a100b"
)


def test_the_signature_is_that_of_the_rfc() -> None:
    identity = Identity(SEED)
    assert identity.public == PUBLIC
    assert identity.sign(b"") == SIGNATURE
    assert verify(PUBLIC, SIGNATURE, b"")


@given(data=st.binary(max_size=40), bit=st.integers(0, 8 * 64 - 1))
def test_one_flipped_bit_of_the_signature_or_another_text_does_not_verify(data: bytes, bit: int) -> None:
    identity = Identity(SEED)
    signature = bytearray(identity.sign(data))
    assert verify(identity.public, bytes(signature), data)
    assert not verify(identity.public, bytes(signature), data + b"x")
    signature[bit // 8] ^= 1 << bit % 8
    assert not verify(identity.public, bytes(signature), data)


@given(public=st.binary(max_size=40), signature=st.binary(max_size=70))
def test_malformed_keys_and_signatures_are_nobodys(public: bytes, signature: bytes) -> None:
    assert not verify(public, signature, b"data")


def test_a_key_is_drawn_once_and_only_its_owner_can_read_it(tmp_path: Path) -> None:
    path = tmp_path / "new" / "device.key"
    first = Identity.load_or_create(path)
    assert Identity.load_or_create(path).public == first.public
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert len(path.read_bytes()) == 32
    assert first.public not in path.read_bytes()
    assert Identity.create().public != first.public


@pytest.mark.parametrize("content", [b"", b"x" * 31, b"x" * 33])
def test_a_file_that_is_no_key_is_not_replaced(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "device.key"
    path.write_bytes(content)
    with pytest.raises(StorageError, match="one that is not there for a new key"):
        Identity.load_or_create(path)
    assert path.read_bytes() == content


def test_a_folder_in_the_keys_place_is_a_storage_error(tmp_path: Path) -> None:
    with pytest.raises(StorageError, match=r"cannot be read \(it is a folder, not a file\)"):
        Identity.load_or_create(tmp_path)


PASSWORD = "Ab-_" * 10 + "xyz"


def test_a_login_comes_back_and_only_its_owner_can_read_it(tmp_path: Path) -> None:
    write_login(tmp_path / "password", "dev-a", PASSWORD)
    assert read_login(tmp_path / "password") == ("dev-a", PASSWORD)
    assert stat.S_IMODE((tmp_path / "password").stat().st_mode) == 0o600
    assert read_login(tmp_path / "nowhere") is None


@pytest.mark.parametrize(
    "content",
    [
        *(b"", b"dev-a", PASSWORD.encode(), b"dev-a:short", b"Dev:" + PASSWORD.encode(), b"\x00" * 300),
        *(b"dev-a:" + wrong for wrong in (PASSWORD.encode() + b"x", PASSWORD.encode() + b"\n\n", b"\xff" * 43)),
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


def test_of_several_that_begin_together_the_first_ones_key_is_everybodys(tmp_path: Path) -> None:
    with ThreadPoolExecutor(8) as pool:
        keys = set(pool.map(lambda _: Identity.load_or_create(tmp_path / "key").public, range(64)))
    assert keys == {Identity.load_or_create(tmp_path / "key").public}
    assert [path.name for path in tmp_path.iterdir()] == ["key"]
