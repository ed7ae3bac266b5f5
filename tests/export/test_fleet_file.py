"""`fleet.toml`: what it gives, and how each mistake is named with its line."""

from __future__ import annotations

from pathlib import Path

import msgspec
import pytest
from tools import edge_names

from auricle_edge.settings import TABLES as EDGE_TABLES
from auricle_edge.settings import EdgeSettings
from auricle_export.flash.fleet_file import OWNED, PLAIN, FleetError, load_fleet, read_fleet

KEY = "0f" * 32
SSH = "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIGPKSUTyz1HwHReFVvD5obVsALAgJRNarH4TRpNePnAS me@here"
FLEET = f"""\
name = "home"
broker = "mqtts://hub.lan:8883"
server = "https://hub.lan:8443/"
ca_pin = "{"ab" * 32}"
coordinator = "coordinator.pub"
pack = "gsc12"
pack_key = "{KEY}"
update_root = "root.json"

[device]
microphone = "usb"
wired = true
settings = {{ threads = 2, detect = {{ threshold = 0.9, thresholds = {{ yes = 0.8 }} }} }}

[user]
name = "pi"
ssh_keys = ["{SSH}"]
password_hash = "$6$abcdefgh$0123456789012345678901234567890123456789"

[wifi]
ssid = "home & garden"
psk_file = "wifi.txt"
country = "DE"

[locale]
timezone = "Europe/Berlin"
locale = "de_DE.UTF-8"
keyboard = "de"
"""
LEAST = FLEET[: FLEET.index("pack =")]


@pytest.fixture
def fleet(tmp_path: Path) -> Path:
    (tmp_path / "coordinator.pub").write_text(f"{KEY.upper()}\n")
    (tmp_path / "root.json").write_text("{}")
    (tmp_path / "wifi.txt").write_text("correct horse\n")
    (tmp_path / "fleet.toml").write_text(FLEET)
    return tmp_path / "fleet.toml"


def test_the_files_that_it_names_are_read_and_the_rest_may_be_left_out(fleet: Path) -> None:
    read = load_fleet(fleet)
    assert (read.name, read.server, read.coordinator, read.pack) == ("home", "https://hub.lan:8443", KEY, "gsc12")
    assert read.update_root == str(fleet.parent / "root.json")
    assert read.wifi is not None and read.wifi.psk == "correct horse"
    assert read.device.settings["detect"]["thresholds"] == {"yes": 0.8}

    (fleet.parent / "mine.tar.zst").write_bytes(b"x")
    fleet.write_text(FLEET.replace('"gsc12"', '"mine.tar.zst"'))
    assert load_fleet(fleet).pack == str(fleet.parent / "mine.tar.zst")

    fleet.write_text(LEAST)
    read = load_fleet(fleet)
    assert (read.pack, read.pack_key, read.update_root, read.user, read.wifi) == (None,) * 5
    assert (read.device.microphone, read.device.wired, read.device.settings) == (None, False, {})


WRONG = [
    ('name = "home"', 'name = "Home"', '"Home"'),
    ('name = "home"', 'nam = "home"', '"name"'),
    ("mqtts://hub.lan:8883", "mqtt://hub.lan", "mqtts://"),
    ("mqtts://hub", "mqtts://me:secret@hub", "password"),
    ("mqtts://hub", "http://hub", '"http"'),
    ("https://hub.lan:8443/", "http://hub.lan", "https://hub.lan:8443"),
    ("https://hub.lan:8443/", "https://me@hub.lan", "https://hub.lan:8443"),
    ("https://hub.lan:8443/", "https://hub.lan:99999", "https://hub.lan:8443"),
    ("ab" * 32, "ab" * 31, "64 hexadecimal"),
    ('"coordinator.pub"', '"coordinater.pub"', "coordinater.pub"),
    ('"coordinator.pub"', '"root.json"', "public key"),
    ('"gsc12"', '"gsc11"', '"gsc11"'),
    ('"root.json"', '"roots.json"', "roots.json"),
    ("wired = true", "wierd = true", '"wired"'),
    ("threads = 2", "thread = 2", '"threads"'),
    ("threads = 2", 'device = "x"', "bundle"),
    ("threads = 2", "threads = { n = 2 }", "value"),
    ("threshold = 0.9", "treshold = 0.9", '"threshold"'),
    ("threshold = 0.9", "threshold = 2026-01-01", "number"),
    ("threads = 2", 'events = { mqtt = "mqtt://me:secret@home" }', "password"),
    ('"pi"', '"root"', "account"),
    ("RpNePnAS", "RpNe", "ssh-ed25519"),
    ("ssh-ed25519 ", "ssh-ed25518 ", "OpenSSH"),
    ("ssh-ed25519 ", "ssh-rsa ", "ssh-rsa"),
    ("home & garden", "ä" * 17, "32 bytes"),
    ('psk_file = "wifi.txt"', 'psk = "short"', "psk = ...: "),
    ('psk_file = "wifi.txt"', 'psk = "long enough"\npsk_file = "wifi.txt"', "both"),
    ('"wifi.txt"', '"coordinator.key"', "coordinator.key"),
    ("Europe/Berlin", "Europe/Berlni", '"Europe/Berlin"'),
    ("de_DE.UTF-8", "de_DE", '"de_DE.UTF-8"'),
]


@pytest.mark.parametrize(("old", "new", "sentence"), WRONG, ids=range(len(WRONG)))
def test_a_mistake_is_named_with_its_line(old: str, new: str, sentence: str, fleet: Path) -> None:
    assert old in FLEET
    text = FLEET.replace(old, new, 1)
    fleet.write_text(text)

    read, problems = read_fleet(fleet)

    told = [problem for problem in problems if sentence in problem.sentence]
    assert read is None
    assert told, [str(problem) for problem in problems]
    assert new.splitlines()[-1] in text.splitlines()[told[0].line - 1]


def test_a_refusal_names_the_first_mistake_and_repeats_no_secret(fleet: Path) -> None:
    fleet.write_text(FLEET.replace('psk_file = "wifi.txt"', 'psk = "pass\\tword"').replace('"pi"', '"Pi"'))
    with pytest.raises(FleetError) as refused:
        load_fleet(fleet)
    assert str(refused.value).startswith(f"{fleet}, line 16: user.name")
    assert str(refused.value).endswith(" 1 more in this file.")
    assert "word" not in str(refused.value.problems)


def test_a_misspelt_key_is_not_also_missing_and_a_file_that_is_no_toml_is_said(fleet: Path) -> None:
    fleet.write_text(FLEET.replace("broker =", "brokr ="))
    with pytest.raises(FleetError, match=r'line 2: .*"broker"\?\Z'):
        load_fleet(fleet)
    with pytest.raises(FleetError, match="read"):
        load_fleet(fleet.parent / "none.toml")
    fleet.write_text("name = \n")
    with pytest.raises(FleetError, match="line 1"):
        load_fleet(fleet)


def test_the_names_are_those_of_the_agents_settings(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    assert edge_names.main(["--check"]) == 0
    assert {*OWNED, *PLAIN} == {field.name for field in msgspec.structs.fields(EdgeSettings)} - EDGE_TABLES.keys()

    other = tmp_path / "edge_names.py"
    other.write_text(edge_names.text().replace('"threads"', '"strands"'))
    monkeypatch.setattr(edge_names, "WRITTEN", other)
    assert edge_names.main(["--check"]) == 1
    assert edge_names.main([]) == 0
    assert other.read_text() == edge_names.text()
