"""First-boot data for Raspberry Pi OS 12: `firstrun.sh`, which systemd runs in place of the ordinary boot.

Sources
-------
- raspberrypi/rpi-imager, doc/os_customisation_formats.md and src/customization_generator.cpp: the format `systemd`.
- RPi-Distro/raspberrypi-sys-mods, imager_custom; RPi-Distro/userconf-pi, userconf: what the script calls.
- systemd-run-generator(8): `systemd.run`; a script that fails powers the board off.
"""

from __future__ import annotations

from collections.abc import Iterator
from shlex import quote

from auricle_export.flash.fleet import Locale, User, Wifi
from auricle_export.flash.image.device import CardDevice, wifi_key

CUSTOM = "/usr/lib/raspberrypi-sys-mods/imager_custom"
CONNECTION = "/etc/NetworkManager/system-connections/auricle.nmconnection"


def firstrun_files(device: CardDevice) -> tuple[dict[str, str], list[str]]:
    """The file for the boot partition, and the parameters for the kernel."""
    parameters = [
        f"systemd.run={device.boot}/firstrun.sh",
        "systemd.run_success_action=reboot",
        "systemd.unit=kernel-command-line.target",
    ]
    return {"firstrun.sh": firstrun(device)}, parameters


def firstrun(device: CardDevice) -> str:
    """The script: every step may be done twice, and only when all are done does the ordinary boot come back."""
    fleet = device.fleet
    lines = ["#!/bin/sh", "set +e", "umask 077", "exec >>/var/log/auricle-firstrun.log 2>&1"]
    lines.append(f"{CUSTOM} set_hostname {quote(device.name)}")
    if fleet.user is not None:
        lines += _account(fleet.user)
    if fleet.wifi is not None:
        lines += _wireless(fleet.wifi, device.unique("connection"))
    lines += _places(fleet.locale)
    if device.bundle:
        lines.append(" ".join(map(quote, device.first_boot[:-1])))
    lines += _ending(device.boot)
    return "\n".join(lines) + "\n"


def _account(user: User) -> Iterator[str]:
    yield f"/usr/lib/userconf-pi/userconf {quote(user.name)} {quote(user.password_hash or '')}"
    if user.password_hash is None:
        yield f"printf '%s\\n' {quote(f'{user.name} ALL=(ALL) NOPASSWD:ALL')} >/etc/sudoers.d/010_auricle"
        yield "chmod 440 /etc/sudoers.d/010_auricle"
    if user.ssh_keys:
        yield "home=$(getent passwd 1000 | cut -d: -f6)"
        yield 'install -d -o 1000 -g 1000 -m 700 "$home/.ssh"'
        yield f"printf '%s\\n' {' '.join(map(quote, user.ssh_keys))} >\"$home/.ssh/authorized_keys\""
        yield 'chown 1000:1000 "$home/.ssh/authorized_keys"'
        yield "printf 'PasswordAuthentication no\\n' >/etc/ssh/sshd_config.d/10-auricle.conf"
        yield "chmod 644 /etc/ssh/sshd_config.d/10-auricle.conf"
    yield "systemctl enable ssh"


def _wireless(wifi: Wifi, identifier: str) -> Iterator[str]:
    yield f"{CUSTOM} set_wlan_country {quote(wifi.country)}"
    yield f"printf '%s' {quote(connection(wifi, identifier))} >{CONNECTION}"
    yield f"chmod 600 {CONNECTION}"
    yield "rfkill unblock wifi"
    yield 'for file in /var/lib/systemd/rfkill/*:wlan; do [ ! -e "$file" ] || echo 0 >"$file"; done'


def connection(wifi: Wifi, identifier: str) -> str:
    """NetworkManager's file for a network.

    The name stands there as the numbers of its bytes: as text some signs would have a meaning. The one that
    `imager_custom` writes has it as text.

    Sources
    -------
    nm-settings-keyfile(5), "ssid": a string, or a list of bytes.
    """
    name = "".join(f"{byte};" for byte in wifi.ssid.encode())
    lines = ["[connection]", "id=auricle", f"uuid={identifier}", "type=wifi", "[wifi]", "mode=infrastructure"]
    lines += [f"ssid={name}", f"hidden={str(wifi.hidden).lower()}"]
    if wifi.psk is not None:
        lines += ["[wifi-security]", "key-mgmt=wpa-psk", f"psk={wifi_key(wifi.psk, wifi.ssid)}"]
    lines += ["[ipv4]", "method=auto", "[ipv6]", "addr-gen-mode=default", "method=auto"]
    return "\n".join(lines) + "\n"


def _places(locale: Locale) -> Iterator[str]:
    if locale.locale is not None:
        yield f"raspi-config nonint do_change_locale {quote(locale.locale)}"
    if locale.keyboard is not None:
        yield f"{CUSTOM} set_keymap {quote(locale.keyboard)}"
    if locale.timezone is not None:
        yield f"{CUSTOM} set_timezone {quote(locale.timezone)}"


def _ending(boot: str) -> Iterator[str]:
    """Give the ordinary boot back; where that cannot be written, power off rather than boot in a circle."""
    yield "sync"
    yield f"cd {quote(boot)} || exit 1"
    yield "sed 's| systemd\\.run[^ ]*||g; s| systemd\\.unit=kernel-command-line\\.target||' cmdline.txt >cmdline.new"
    yield "grep -q root= cmdline.new && sync && mv cmdline.new cmdline.txt && sync"
    yield "if grep -q systemd.run= cmdline.txt; then exit 1; fi"
    yield "rm -f firstrun.sh"
    yield "sync"
    yield "exit 0"
