"""First-boot data for cloud-init: Raspberry Pi OS 13 reads `user-data`, `meta-data` and `network-config` from the boot
partition. YAML is written in the form that is JSON: every text quoted, so that nothing in a value is read as YAML.

Sources
-------
- RPi-Distro/pi-gen, stage2/04-cloud-init: data source NoCloud, seeded from /boot/firmware.
- cloud-init, DataSourceNoCloud: the instance is compared with the command line's `ds=nocloud;i=ID` first.
- raspberrypi/rpi-imager, src/customization_generator.cpp: the rules stated at each function.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Union

from auricle_export.flash.image.device import CardDevice, wifi_key

Value = Union[bool, int, str, None, Mapping[str, "Value"], Sequence["Value"]]  # noqa: UP007


def yaml(value: Value, indent: int = 0) -> str:
    """Write a value so that every reader of YAML 1.1 or 1.2 gives the same one back.

    Parameters
    ----------
    value
        Numbers, text, and lists and mappings of them.
    indent
        Spaces before its closing bracket.
    """
    inner = " " * (indent + 2)
    if isinstance(value, str):
        return quote(value)
    if value is None or isinstance(value, int):
        return json.dumps(value)
    if isinstance(value, Mapping):
        parts = [f"{inner}{quote(name)}: {yaml(part, indent + 2)}" for name, part in value.items()]
        return _bracket("{", parts, "}", indent)
    return _bracket("[", [f"{inner}{yaml(part, indent + 2)}" for part in value], "]", indent)


def quote(text: str) -> str:
    """A text in double quotes; all but the plain letters and signs of ASCII are written by their numbers.

    JSON's own escapes would not do: YAML takes two halves of a surrogate pair for two characters.
    """
    return '"' + "".join(map(_escape, text)) + '"'


def _escape(sign: str) -> str:
    if sign in '"\\':
        return f"\\{sign}"
    if " " <= sign <= "~":
        return sign
    return f"\\u{ord(sign):04x}" if ord(sign) < 0x10000 else f"\\U{ord(sign):08x}"


def _bracket(opening: str, parts: list[str], closing: str, indent: int) -> str:
    return f"{opening}\n" + ",\n".join(parts) + f"\n{' ' * indent}{closing}" if parts else opening + closing


def cloud_init_files(device: CardDevice) -> tuple[dict[str, str], list[str]]:
    """The files for the boot partition, and the parameters for the kernel.

    The instance's id stands in `meta-data` and on the kernel's command line. Without the latter cloud-init looks for
    its data source again at each boot; with an old one it would take the card for set up (rpi-imager, pull request
    1529).
    """
    data, network = user_data(device), network_config(device)
    instance = device.instance(data, network or "")
    files = {"user-data": data, "meta-data": yaml({"instance-id": instance, "dsmode": "local"}) + "\n"}
    if network is not None:
        files["network-config"] = network
    return files, [f"ds=nocloud;i={instance}"]


def user_data(device: CardDevice) -> str:
    """The text of `user-data`.

    - The account is a singular `user`: cloud-init then renames the system's own and keeps its groups. `users` would
      make another one without them (rpi-imager, issue 1601).
    - SSH is enabled by `runcmd`: Raspberry Pi OS ships it disabled, `cc_ssh` writes only keys, and `enable_ssh` is no
      key of cloud-init.
    - The bundle's installation is armed by `bootcmd`, which runs at every boot: `runcmd` counts as done as soon as it
      is begun, so a power cut would lose it.
    """
    fleet, user = device.fleet, device.fleet.user
    data: dict[str, Value] = {"hostname": device.name, "manage_etc_hosts": True, "manage_resolv_conf": False}
    places: dict[str, str | None] = {"timezone": fleet.locale.timezone, "locale": fleet.locale.locale}
    data |= {name: value for name, value in places.items() if value is not None}
    if fleet.locale.keyboard is not None:
        data["keyboard"] = {"model": "pc105", "layout": fleet.locale.keyboard}
    commands: list[list[str]] = []
    if user is not None:
        account: dict[str, Value] = {"name": user.name, "shell": "/bin/bash", "lock_passwd": user.password_hash is None}
        if user.password_hash is not None:
            account["passwd"] = user.password_hash
        if user.ssh_keys:
            account["ssh_authorized_keys"] = list(user.ssh_keys)
        data |= {"user": account, "ssh_pwauth": not user.ssh_keys}
        commands.append(["systemctl", "enable", "--now", "ssh"])
    if user is not None and user.password_hash is None:
        content = f"{user.name} ALL=(ALL) NOPASSWD:ALL\n"
        data["write_files"] = [{"path": "/etc/sudoers.d/010_auricle", "permissions": "0440", "content": content}]
    if fleet.wifi is not None:
        commands.append(["rfkill", "unblock", "wifi"])
    if device.bundle:
        data["bootcmd"] = [list(device.first_boot)]
    if commands:
        data["runcmd"] = commands
    return f"#cloud-config\n{yaml(data)}\n"


def network_config(device: CardDevice) -> str | None:
    """The text of `network-config`; None where the system's own will do.

    The file takes the place of the system's own network: `eth0` stays in it, or the cable would be dead (rpi-imager,
    issue 512). An open network says so, since netplan takes no empty password (issue 1396).
    """
    wifi = device.fleet.wifi
    if wifi is None:
        return None
    access: dict[str, Value] = {"hidden": True} if wifi.hidden else {}
    if wifi.psk is None:
        access["auth"] = {"key-management": "none"}
    else:
        access["password"] = wifi_key(wifi.psk, wifi.ssid)
    wireless: Value = {
        "dhcp4": True,
        "optional": True,
        "regulatory-domain": wifi.country,
        "access-points": {wifi.ssid: access},
    }
    wired: Value = {"dhcp4": True, "dhcp6": True, "optional": True}
    network: Value = {"version": 2, "ethernets": {"eth0": wired}, "wifis": {"wlan0": wireless}}
    return yaml({"network": network}) + "\n"
