"""Who may read and write which topic (PROTOCOL.md, section 4), once, for both brokers."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass

from auricle.errors import SettingsError
from auricle.wire.frames import UP
from auricle.wire.kinds import WORKERS

_NAME = re.compile(r"[a-z0-9-]{1,64}")


@dataclass(frozen=True)
class Rights:
    """Topic filters that one user may read and write."""

    read: tuple[str, ...]
    write: tuple[str, ...]
    passing: tuple[str, ...] = ()
    """Those of `write` that may not be retained, where a broker can tell; mosquitto cannot: see the coordinator's."""


@dataclass(frozen=True)
class Roles:
    """Which users of a fleet are not devices.

    Raises
    ------
    SettingsError
        A name holds something else than small letters, digits and hyphens, which could be read as a topic filter.
    """

    fleet: str
    coordinator: str = "coordinator"
    observer: str = "observer"
    """A user, if there is one, that reads what the coordinator publishes to all."""

    def __post_init__(self) -> None:
        """Refuse names that would change the meaning of a topic."""
        check_names((self.fleet, self.coordinator, self.observer))

    @property
    def others(self) -> tuple[str, ...]:
        """Users that are not devices."""
        return (self.coordinator, self.observer, *WORKERS)

    def of(self, user: str) -> Rights:
        """Return a user's rights; `%u` stands for any device in mosquitto's patterns."""
        top = f"auricle/1/{self.fleet}"
        everyone = (f"{top}/c/#", f"{top}/b/#")
        if user == self.coordinator:
            # It takes back what a device retains: devices believe nothing that is said there.
            emptied = tuple(f"{top}/d/+/up/{kind}" for kind in UP)
            return Rights(
                read=(f"{top}/d/+/up/#", f"{top}/d/+/state", *everyone),
                write=(*everyone, f"{top}/d/+/dn/#", *emptied),
            )
        if user == self.observer:
            return Rights(read=everyone, write=())
        if user in WORKERS:
            return Rights(read=(f"{top}/d/+/up/upd",), write=(f"{top}/d/+/dn/ack", f"{top}/d/+/dn/cmd"))
        own = f"{top}/d/{user}"
        # Each topic by its name: below a wildcard a certificate could retain messages without end.
        said = tuple(f"{own}/up/{kind}" for kind in UP)
        return Rights(read=(f"{own}/dn/#", *everyone), write=(*said, f"{own}/state"), passing=said)


def check_names(names: Iterable[str]) -> None:
    """Refuse names with anything but small letters, digits and hyphens.

    Raises
    ------
    SettingsError
        The first such name.
    """
    for name in names:
        if not _NAME.fullmatch(name):
            raise SettingsError(f'The name "{name}" is not valid: use 1 to 64 small letters, digits and hyphens.')


def covers(allowed: str, wanted: str) -> bool:
    """Whether every topic that `wanted` (a topic or a filter) can name also falls under the filter `allowed`."""
    theirs = wanted.split("/")
    ours = allowed.split("/")
    for i, level in enumerate(ours):
        if level == "#":
            return len(theirs) >= i
        if i >= len(theirs) or theirs[i] == "#" or (level != "+" and level != theirs[i]):
            return False
    return len(ours) == len(theirs)


def acl_file(roles: Roles) -> str:
    """Return mosquitto's access control list for a fleet."""
    lines = ["# generated: what is not granted here is denied"]
    for user in roles.others:
        lines += [f"user {user}", *_lines("topic", roles.of(user))]
        # A pattern applies to every user: without this they could also speak as devices of their own name.
        lines += [f"topic deny auricle/1/{roles.fleet}/d/{user}/#"]
    return "\n".join([*lines, *_lines("pattern", roles.of("%u"))]) + "\n"


def _lines(keyword: str, rights: Rights) -> list[str]:
    return [f"{keyword} read {topic}" for topic in rights.read] + [f"{keyword} write {topic}" for topic in rights.write]
