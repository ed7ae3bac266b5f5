"""The rules of the access list, and the password file's format."""

from __future__ import annotations

import stat
from pathlib import Path

import pytest

from auricle.errors import SettingsError
from auricle.mqtt_link.broker_rights import Roles, acl_file, covers
from auricle.wire.broker_passwords import verified
from auricle_fleet.broker.mosquitto import read_passwords, write_passwords


@pytest.mark.parametrize(
    ("allowed", "wanted", "answer"),
    [
        ("a/b", "a/b", True),
        ("a/b", "a/b/c", False),
        ("a/b/c", "a/b", False),
        ("a/+/c", "a/x/c", True),
        ("a/+/c", "a/+/c", True),
        ("a/+/c", "a/#", False),
        ("a/b/c", "a/+/c", False),
        ("a/#", "a/b/+/#", True),
        ("a/#", "a", True),
        ("a/b/#", "a/#", False),
        ("a/b/#", "#", False),
        ("a/#", "$share/co/a/b", False),
    ],
)
def test_covers(allowed: str, wanted: str, answer: bool) -> None:
    assert covers(allowed, wanted) is answer


def test_acl_of_a_fleet() -> None:
    lines = acl_file(Roles("home")).splitlines()
    said = [line for line in lines if line.startswith("pattern write")]
    topics = ("up/reg", "up/get", "up/loss", "up/upd", "up/st", "up/rel", "up/hear", "up/sum", "state")
    assert said == [f"pattern write auricle/1/home/d/%u/{topic}" for topic in topics]
    assert "pattern read auricle/1/home/d/%u/dn/#" in lines
    assert not any(line.startswith("pattern write") and "/d/%u/" not in line for line in lines)
    observer = lines[lines.index("user observer") :]
    assert observer[1:4] == [
        "topic read auricle/1/home/c/#",
        "topic read auricle/1/home/b/#",
        "topic deny auricle/1/home/d/observer/#",
    ]


@pytest.mark.parametrize("name", ["#", "a/b", "+", "", "Ünit", "a b", "%u"])
def test_names_that_change_a_topic_are_refused(name: str) -> None:
    with pytest.raises(SettingsError):
        Roles(name)


def test_hash_of_a_known_password() -> None:
    """What mosquitto_passwd 2.0.11 wrote for `secret`."""
    known = (
        "$7$101$sDPdyDT8us0HBOCd$"
        "hiy3R4P6Z7RCCtvyX/gN41on4KG/DQawHbeyquI0ZNhNq0ktpAlXPudGNzCXWnqeR7C1bjaIjK7qg+/PwsC56g=="
    )
    assert verified("secret", known)
    assert not verified("Secret", known)


def test_password_file_is_private_and_comes_back(tmp_path: Path) -> None:
    path = tmp_path / "passwords"
    path.write_text("old")
    path.chmod(0o644)
    write_passwords(path, {"dev-1": "one", "dev-2": "two"})
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    hashes = read_passwords(path)
    assert hashes.keys() == {"dev-1", "dev-2"}
    assert verified("one", hashes["dev-1"])
    assert not verified("one", hashes["dev-2"])
