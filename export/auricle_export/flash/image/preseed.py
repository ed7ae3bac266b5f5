"""First-boot data for a system with rpi-preseed in place of cloud-init: `rpi-preseed.toml`.

No release of Raspberry Pi OS has it yet, so no profile asks for it: `--first-boot rpi-preseed` does.

Sources
-------
- raspberrypi/rpi-preseed, doc/rpi-preseed.5 and schema/rpi-preseed.schema: the keys.
- raspberrypi/rpi-preseed, src/lib/toml.sh: of TOML's escapes it knows those of the quote and of the backslash only.
"""

from __future__ import annotations

import shlex

from auricle_export.flash.image.device import CardDevice, wifi_key

Setting = str | bool | list[str] | None


def preseed_files(device: CardDevice) -> tuple[dict[str, str], list[str]]:
    """The file for the boot partition; the kernel needs no parameter."""
    return {"rpi-preseed.toml": preseed(device)}, []


def preseed(device: CardDevice) -> str:
    """The text of `rpi-preseed.toml`."""
    fleet = device.fleet
    user, wifi, locale = fleet.user, fleet.wifi, fleet.locale
    tables: dict[str, dict[str, Setting]] = {"system": {"hostname": device.name}}
    if user is not None:
        secret = user.password_hash
        tables["user"] = {
            "name": user.name,
            "password": secret,
            "password_encrypted": None if secret is None else True,
            "passwordless_sudo": None if secret is not None else True,
        }
        tables["ssh"] = {
            "enabled": True,
            "password_authentication": not user.ssh_keys,
            "authorized_keys": list(user.ssh_keys),
        }
    if wifi is not None:
        key = None if wifi.psk is None else wifi_key(wifi.psk, wifi.ssid)
        tables["wlan"] = {
            "ssid": wifi.ssid,
            "password": key,
            "password_encrypted": None if key is None else True,
            "hidden": wifi.hidden,
            "country": wifi.country,
        }
    tables["locale"] = {
        "keymap": locale.keyboard,
        "timezone": locale.timezone,
        "lang": locale.locale,
        "locales": [] if locale.locale is None else [locale.locale],
    }
    if device.bundle:
        tables["runcmd"] = {"early": [shlex.join(device.first_boot)]}
    return 'config_version = "1.0"\n' + "".join(_table(name, table) for name, table in tables.items())


def _table(name: str, table: dict[str, Setting]) -> str:
    lines = [f"{key} = {_value(value)}\n" for key, value in table.items() if value is not None and value != []]
    return f"\n[{name}]\n" + "".join(lines) if lines else ""


def _value(value: Setting) -> str:
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, list):
        return f"[{', '.join(map(_value, value))}]"
    return '"' + str(value).replace("\\", "\\\\").replace('"', '\\"') + '"'
