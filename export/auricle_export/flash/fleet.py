"""A fleet: what `fleet.toml` may say of what all its devices have in common."""

from __future__ import annotations

from typing import Annotated, Any

import msgspec
from msgspec import Meta

from auricle.wire.kinds import FleetName
from auricle_export.flash.board import Id, Table, Text

Name = Annotated[FleetName, Meta(description="1 to 64 lower-case letters, digits and dashes")]
Pin = Annotated[
    str,
    Meta(pattern=r"^[0-9a-f]{64}\Z", description='the 64 hexadecimal digits that "auricle cloud enrol init" prints'),
]
Account = Annotated[
    str,
    Meta(
        pattern=r"^(?!root\Z)[a-z_][a-z0-9_-]{0,31}\Z",
        description="the name of an account: lower-case letters, digits, dashes; not root",
    ),
]
SshKey = Annotated[
    str,
    Meta(
        pattern=r"^(?:ssh-ed25519|ssh-rsa|ecdsa-sha2-nistp(?:256|384|521)|sk-ssh-ed25519@openssh\.com"
        r"|sk-ecdsa-sha2-nistp256@openssh\.com) [A-Za-z0-9+/]{40,}={0,2}(?: [^\x00-\x1f\x7f]{1,200})?\Z",
        description="the one line of an OpenSSH public key (id_ed25519.pub)",
    ),
]
PasswordHash = Annotated[
    str, Meta(pattern=r"^\$(?:5|6|y)\$[A-Za-z0-9./=,$]{20,300}\Z", description='what "openssl passwd -6" prints')
]
Passphrase = Annotated[
    str,
    Meta(
        pattern=r"^(?:[ -~]{8,63}|[0-9a-fA-F]{64})\Z",
        description="8 to 63 letters, digits and signs of ASCII, or 64 hexadecimal digits",
    ),
]
Ssid = Annotated[str, Meta(pattern=r"^[^\x00-\x1f\x7f]{1,32}\Z", description="1 to 32 characters")]
Country = Annotated[str, Meta(pattern=r"^[A-Z]{2}\Z", description='a country such as "DE"')]
Timezone = Annotated[
    str,
    Meta(
        pattern=r"^[A-Za-z0-9_+-]{1,30}(?:/[A-Za-z0-9_+-]{1,30}){0,2}\Z",
        description='a time zone such as "Europe/Berlin"',
    ),
]
LocaleName = Annotated[
    str, Meta(pattern=r"^(?:C|[a-z]{2,3}_[A-Z]{2})\.UTF-8\Z", description='a locale such as "de_DE.UTF-8"')
]
Keyboard = Annotated[str, Meta(pattern=r"^[a-z]{2,10}\Z", description='a layout such as "de"')]


class Device(Table, frozen=True):
    """What every device is told: `[device]`."""

    microphone: Id | None = None
    """Id of a microphone of the board's profile; None: the profile's own source."""
    wired: bool = False
    """Whether the buttons and the switch of the profile are wired."""
    settings: dict[str, Any] = msgspec.field(default_factory=dict)
    """Settings of the agent, over those of the profile."""


class User(Table, frozen=True):
    """Who may log in: `[user]`, in images only."""

    name: Account
    ssh_keys: Annotated[tuple[SshKey, ...], Meta(max_length=32)] = ()
    password_hash: PasswordHash | None = None


class Wifi(Table, frozen=True):
    """The wireless network: `[wifi]`, in images only; without a passphrase it is an open one."""

    ssid: Ssid
    country: Country
    """Whose rules the radio keeps to."""
    psk: Passphrase | None = None
    psk_file: Text | None = None
    hidden: bool = False


class Locale(Table, frozen=True):
    """Where the devices stand: `[locale]`, in images only."""

    timezone: Timezone | None = None
    locale: LocaleName | None = None
    keyboard: Keyboard | None = None


class Fleet(Table, frozen=True):
    """A `fleet.toml`. As `load_fleet` gives it, the files that it names are read."""

    name: Name
    broker: Text
    server: Text
    """The coordinator's API: where tokens are exchanged and updates fetched."""
    ca_pin: Pin
    coordinator: Text
    """The coordinator's public key, 64 hexadecimal digits; in the file also the path of a file with them."""
    pack: Text | None = None
    """Name of a shipped pack, or an absolute path; None: that of the board's profile."""
    pack_key: Text | None = None
    """Public key that must have signed the pack, in hexadecimal digits; in the file a path or the digits."""
    update_root: Text | None = None
    """The first root metadata, an absolute path; None: the devices take no updates."""
    revision: Annotated[int, Meta(ge=0, le=99_999, description="a whole number from 0")] = 0
    """Raised for a bundle of which only settings changed: its version is that of the package and `.postN`."""
    device: Device = Device()
    user: User | None = None
    wifi: Wifi | None = None
    locale: Locale = Locale()
