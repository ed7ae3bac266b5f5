"""What cards tell the systems of boards: quoting, the rules of cloud-init and of firstrun.sh, keys, boot files."""

from __future__ import annotations

import configparser
import re
import shlex
import shutil
import subprocess
import sys
from typing import Any

import msgspec
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from auricle_export.flash.fleet import Fleet, Locale, User, Wifi
from auricle_export.flash.image import card
from auricle_export.flash.image.cloud_init import cloud_init_files, network_config, user_data, yaml
from auricle_export.flash.image.device import CardDevice, wifi_key
from auricle_export.flash.image.firstrun import connection, firstrun, firstrun_files
from auricle_export.flash.image.partitions import ImageError
from auricle_export.flash.image.preseed import preseed

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

pyyaml = pytest.importorskip("yaml", reason="PyYAML is not installed")

KEY = "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIGPKSUTyz1HwHReFVvD5obVsALAgJRNarH4TRpNePnAS me@here"
HASH = "$6$abcdefgh$0123456789012345678901234567890123456789"
FLEET = Fleet(
    name="home",
    broker="mqtts://hub.lan",
    server="https://hub.lan:8443",
    ca_pin="ab" * 32,
    coordinator="0f" * 32,
    user=User(name="pi", ssh_keys=(KEY,)),
    wifi=Wifi(ssid="home & garden", psk="correct horse", country="DE"),
    locale=Locale(timezone="Europe/Berlin", locale="de_DE.UTF-8", keyboard="de"),
)
TEXT = st.text(st.characters(exclude_categories=("Cs",), exclude_characters="\0"), max_size=40)
SHELLS = [shell for shell in ("dash", "bash", "busybox") if shutil.which(shell)]


def device(fleet: Fleet = FLEET, **changes: Any) -> CardDevice:
    made = CardDevice("pi-001", "token_token_token_token", fleet, "/boot/firmware", True, 7)
    return CardDevice(**{**vars(made), **changes})


def changed(**changes: Any) -> Fleet:
    return msgspec.structs.replace(FLEET, **changes)


@settings(max_examples=100)
@example(["yes", "null", "~", "1e3", "0x10", "- a", "# no", "a: b", "!!python/object:x", "&a *a"])
@example(["\u2028\x85\x7f", "😀"])
@given(
    st.recursive(
        TEXT | st.booleans() | st.integers() | st.none(),
        lambda inner: st.lists(inner, max_size=3) | st.dictionaries(TEXT, inner, max_size=3),
        max_leaves=8,
    )
)
def test_every_value_comes_back_from_yaml_as_it_was(value: Any) -> None:
    assert pyyaml.safe_load(yaml(value)) == value


def test_user_data_follows_the_rules_that_the_imager_found_out() -> None:
    data = pyyaml.safe_load(user_data(device()))

    assert user_data(device()).startswith("#cloud-config\n")
    assert "users" not in data
    assert "enable_ssh" not in data
    assert data["user"] == {"name": "pi", "shell": "/bin/bash", "lock_passwd": True, "ssh_authorized_keys": [KEY]}
    assert (data["hostname"], data["manage_etc_hosts"], data["ssh_pwauth"]) == ("pi-001", True, False)
    assert ["systemctl", "enable", "--now", "ssh"] in data["runcmd"]
    assert data["bootcmd"] == [["sh", "/boot/firmware/auricle/first-boot.sh", "arm", "now"]]
    assert (data["timezone"], data["locale"], data["keyboard"]["layout"]) == ("Europe/Berlin", "de_DE.UTF-8", "de")
    assert [file["path"] for file in data["write_files"]] == ["/etc/sudoers.d/010_auricle"]
    # A password is for the console where there are keys, and for SSH where there are none.
    both = pyyaml.safe_load(user_data(device(changed(user=User(name="pi", ssh_keys=(KEY,), password_hash=HASH)))))
    alone = pyyaml.safe_load(user_data(device(changed(user=User(name="pi", password_hash=HASH)))))
    assert (both["user"]["lock_passwd"], both["user"]["passwd"], both["ssh_pwauth"]) == (False, HASH, False)
    assert alone["ssh_pwauth"] is True
    assert "write_files" not in both


def test_what_a_fleet_leaves_out_the_system_keeps() -> None:
    bare = device(changed(user=None, wifi=None, locale=Locale()), bundle=False)
    files, parameters = cloud_init_files(bare)
    assert sorted(files) == ["meta-data", "user-data"]
    told = {"hostname": "pi-001", "manage_etc_hosts": True, "manage_resolv_conf": False}
    assert pyyaml.safe_load(files["user-data"]) == told
    assert len(parameters) == 1


def test_the_instance_stands_in_meta_data_and_on_the_command_line_and_changes_with_what_it_is_told() -> None:
    files, parameters = cloud_init_files(device())
    instance = pyyaml.safe_load(files["meta-data"])["instance-id"]
    others = {cloud_init_files(other)[1][0] for other in (device(seed=8), device(name="pi-002"), device(bundle=False))}
    assert parameters == [f"ds=nocloud;i={instance}"]
    assert re.fullmatch(r"auricle-pi-001-[0-9a-f]{12}", instance)
    assert len(others - {parameters[0]}) == 3
    assert cloud_init_files(device()) == (files, parameters)


def test_the_cable_stays_beside_the_wireless_network_whose_passphrase_is_not_told() -> None:
    text = network_config(device())
    assert text is not None
    network = pyyaml.safe_load(text)["network"]

    assert network["ethernets"] == {"eth0": {"dhcp4": True, "dhcp6": True, "optional": True}}
    assert network["wifis"]["wlan0"]["regulatory-domain"] == "DE"
    assert network["wifis"]["wlan0"]["access-points"] == {
        "home & garden": {"password": wifi_key("correct horse", "home & garden")}
    }
    assert "correct horse" not in text
    text = network_config(device(changed(wifi=Wifi(ssid="open", country="DE", hidden=True))))
    points = pyyaml.safe_load(text or "")["network"]["wifis"]["wlan0"]["access-points"]
    assert points == {"open": {"hidden": True, "auth": {"key-management": "none"}}}


@pytest.mark.parametrize(
    ("passphrase", "ssid", "key"),
    [
        ("password", "IEEE", "f42c6fc52df0ebef9ebb4b90b38a5f902e83fe1b135a70e23aed762e9710a12e"),
        ("ThisIsAPassword", "ThisIsASSID", "0dc0d6eb90555ed6419756b9a15ec3e3209b63df707dd508d14581f8982721af"),
        ("a" * 32, "Z" * 32, "becb93866bb8c3832cb777c2f559807c8c59afcb6eae734885001300a981cc62"),
    ],
    ids=["1", "2", "3"],
)
def test_keys_are_those_of_the_standards_test_vectors(passphrase: str, ssid: str, key: str) -> None:
    assert wifi_key(passphrase, ssid) == key
    assert wifi_key(key.upper(), "any") == key


@settings(max_examples=100)
@given(TEXT, TEXT, st.lists(TEXT, max_size=2), TEXT)
def test_nothing_of_a_fleet_becomes_a_command_of_the_script(
    name: str, ssid: str, keys: list[str], password: str
) -> None:
    def told_to(name: str, ssid: str, keys: tuple[str, ...], password: str) -> list[str]:
        user = User(name=name, ssh_keys=keys, password_hash=password)
        wifi = Wifi(ssid=ssid, psk="0f" * 32, country="DE")
        locale = Locale(timezone=name, locale=password, keyboard=ssid)
        return shlex.split(firstrun(device(changed(user=user, wifi=wifi, locale=locale))))

    words, plain = told_to(name, ssid, tuple(keys), password), told_to("N", "S", tuple("K" for _ in keys), "P")
    expected = {"N": name, "P": password, "S": ssid}
    used = iter(keys)
    told = [next(used) if word == "K" else expected.get(word, word) for word in plain]

    kept, expected_words = ([w for w in some if not w.startswith("[connection]")] for some in (words, told))
    assert kept == expected_words


@pytest.mark.parametrize("shell", SHELLS)
def test_the_script_is_one_for_every_shell(shell: str) -> None:
    nasty = "'; touch /tmp/x; $(id) `id` \"\\\n #"
    fleet = changed(user=User(name=nasty, ssh_keys=(nasty,), password_hash=nasty), locale=Locale(timezone=nasty))
    command = [shell, "sh", "-n"] if shell == "busybox" else [shell, "-n"]
    done = subprocess.run(command, input=firstrun(device(fleet)), text=True, capture_output=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")


def test_the_script_gives_the_ordinary_boot_back_and_nothing_else(tmp_path: Any) -> None:
    files, parameters = firstrun_files(device(boot=str(tmp_path)))
    line = card.cmdline("console=tty1 root=PARTUUID=1-02 rootwait quiet", ["cgroup_enable=memory", *parameters])
    (tmp_path / "cmdline.txt").write_text(line)
    ending = files["firstrun.sh"].partition("arm\n")[2]

    done = subprocess.run(["sh"], input=f": >{tmp_path}/firstrun.sh\n{ending}", text=True, check=False)

    assert done.returncode == 0
    assert (tmp_path / "cmdline.txt").read_text() == (
        "console=tty1 root=PARTUUID=1-02 rootwait quiet cgroup_enable=memory\n"
    )
    assert not (tmp_path / "firstrun.sh").exists()


def test_networkmanager_reads_the_name_of_the_network_from_its_bytes() -> None:
    file = configparser.ConfigParser(strict=True)
    file.read_string(connection(Wifi(ssid="a;ü\\ #[x]", psk="correct horse", country="DE"), "u"))
    assert bytes(map(int, file["wifi"]["ssid"].strip(";").split(";"))).decode() == "a;ü\\ #[x]"
    assert file["wifi-security"]["psk"] == wifi_key("correct horse", "a;ü\\ #[x]")


LINE = st.text(st.characters(exclude_categories=("Cs", "Cc")), max_size=40)


@settings(max_examples=100)
@given(LINE, LINE, LINE)
def test_rpi_preseed_is_told_the_same(name: str, ssid: str, password: str) -> None:
    fleet = changed(
        user=User(name=name, ssh_keys=(KEY,), password_hash=password), wifi=Wifi(ssid=ssid, psk="0f" * 32, country="DE")
    )
    read = tomllib.loads(preseed(device(fleet)))

    assert read["config_version"] == "1.0"
    assert read["user"] == {"name": name, "password": password, "password_encrypted": True}
    assert read["wlan"]["ssid"] == ssid
    assert read["ssh"]["authorized_keys"] == [KEY]
    assert read["locale"]["locales"] == ["de_DE.UTF-8"]
    assert read["runcmd"]["early"] == ["sh /boot/firmware/auricle/first-boot.sh arm now"]


def test_the_command_line_stays_one_line_and_old_parameters_of_a_first_boot_give_way() -> None:
    old = "console=tty1  root=PARTUUID=1-02 ds=nocloud;i=old systemd.run=/x systemd.run_success_action=reboot\n"
    added = ["cgroup_enable=memory", "cfg80211.ieee80211_regdom=DE", "ds=nocloud;i=new"]
    once = card.cmdline(old, added)
    assert once == f"console=tty1 root=PARTUUID=1-02 {' '.join(added)}\n"
    assert card.cmdline(once, added) == once
    with pytest.raises(ImageError, match="root"):
        card.cmdline("console=tty1", added)


@pytest.mark.parametrize(
    ("text", "result"),
    [
        ("", "[all]\ndtparam=i2s=on\n"),
        ("dtparam=i2s=on # mine\n", "dtparam=i2s=on # mine\n"),
        ("[pi4]\ndtparam=i2s=on\n", "[pi4]\ndtparam=i2s=on\n\n[all]\ndtparam=i2s=on\n"),
        ("[pi4]\n[all]\ndtparam=i2s=on\n", "[pi4]\n[all]\ndtparam=i2s=on\n"),
        ("#dtparam=i2s=on\n", "#dtparam=i2s=on\n\n[all]\ndtparam=i2s=on\n"),
    ],
    ids=["empty", "there", "only for another board", "for all", "a comment"],
)
def test_config_gets_each_line_once_where_every_board_heeds_it(text: str, result: str) -> None:
    once = card.config(text, ["dtparam=i2s=on", "dtparam=i2s=on"])
    assert once == result
    assert card.config(once, ["dtparam=i2s=on"]) == once


def test_the_script_tells_the_systems_programs_what_the_fleet_says_and_runs_nothing_else(tmp_path: Any) -> None:
    """It is run, with every path under a folder, and programs that only note what they are told."""
    nasty = f"'; touch {tmp_path}/hurt; $(touch {tmp_path}/hurt) `touch {tmp_path}/hurt` \"\\\n &"
    fleet = changed(
        user=User(name=nasty, ssh_keys=(nasty, KEY), password_hash=nasty),
        wifi=Wifi(ssid="home & garden", psk="correct horse", country=nasty),
        locale=Locale(timezone=nasty, locale=nasty, keyboard=nasty),
    )
    script = firstrun(device(fleet, name=nasty, boot=f"{tmp_path}/boot"))
    noting = f'#!/bin/sh\nfor word in "${{0##*/}}" "$@"; do printf "%s\\0" "$word"; done >>{tmp_path}/told\n'
    tools = [tmp_path / "usr/lib/raspberrypi-sys-mods/imager_custom", tmp_path / "usr/lib/userconf-pi/userconf"]
    tools += [tmp_path / "bin" / name for name in ("raspi-config", "systemctl", "rfkill", "chown", "install", "sync")]
    for tool in tools:
        tool.parent.mkdir(parents=True, exist_ok=True)
        tool.write_text(noting)
        tool.chmod(0o755)
    (tmp_path / "bin/getent").write_text(f"#!/bin/sh\necho pi:x:1000:1000::{tmp_path}/home:/bin/sh\n")
    (tmp_path / "bin/getent").chmod(0o755)
    folders = "var/log etc/NetworkManager/system-connections etc/ssh/sshd_config.d etc/sudoers.d home/.ssh boot"
    for folder in folders.split():
        (tmp_path / folder).mkdir(parents=True)
    (tmp_path / "boot/cmdline.txt").write_text("root=1 systemd.run=/x systemd.unit=kernel-command-line.target\n")
    for top in ("/etc/", "/var/", "/usr/lib/"):
        script = script.replace(top, f"{tmp_path}{top}")

    done = subprocess.run(["sh"], input=script, text=True, env={"PATH": f"{tmp_path}/bin:/usr/bin:/bin"}, check=False)

    told = (tmp_path / "told").read_text().split("\0")
    assert done.returncode == 0
    assert not (tmp_path / "hurt").exists()
    assert told.count(nasty) == 7
    assert told[told.index("userconf") :][:3] == ["userconf", nasty, nasty]
    assert (tmp_path / "home/.ssh/authorized_keys").read_text() == f"{nasty}\n{KEY}\n"
    assert (tmp_path / "etc/NetworkManager/system-connections/auricle.nmconnection").stat().st_mode & 0o777 == 0o600
    assert (tmp_path / "boot/cmdline.txt").read_text() == "root=1\n"
