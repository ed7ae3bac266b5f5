"""A broker that somebody else runs, by its URL and what its users hold."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from pathlib import Path

import msgspec

from auricle.errors import BrokerError, SettingsError
from auricle.mqtt_link.settings import BrokerAddress
from auricle.wire.kinds import UNDECODABLE
from tests.brokers.check import COORDINATOR, ROLES, Target
from tests.brokers.session import EndError, RefusalError, Session


def _by_role(given: Sequence[str], option: str) -> dict[str, Path]:
    """`ROLE=FILE` of an option that is given several times."""
    files = {}
    for each in given:
        role, equals, file = each.partition("=")
        if not equals or not Path(file).is_file():
            raise SettingsError(f'"{each}" is not a valid {option}: write ROLE=FILE, for instance dev-a=dev-a.pem.')
        files[role] = Path(file)
    return files


def _passwords(file: Path | None) -> dict[str, str]:
    try:
        return {} if file is None else msgspec.json.decode(file.read_bytes(), type=dict[str, str])
    except (OSError, *UNDECODABLE) as error:
        raise SettingsError(
            f"{file} is not a valid file of passwords ({error}): write a JSON object by user."
        ) from error


def target(
    url: str, fleet: str, *, passwords: Path | None, ca: Path | None, certs: Sequence[str], keys: Sequence[str]
) -> Target:
    """The broker as each role sees it.

    Raises
    ------
    SettingsError
        The URL, a file or a role is not valid, or a role has nothing to show where the others have.
    """
    base = BrokerAddress.parse(url, ca=ca)
    given, chains, secrets = _passwords(passwords), _by_role(certs, "--cert"), _by_role(keys, "--key")
    users = {}
    for name in {*ROLES, *given, *chains}:
        address = dataclasses.replace(base, certificate=chains.get(name), key=secrets.get(name))
        users[name] = address.as_user(name, given[name]) if name in given else address
    named = bool(given or chains)
    bare = [name for name in ROLES if named and name not in given and name not in chains]
    if bare:
        raise SettingsError(
            f"{bare[0]} has neither a password nor a certificate: give one for each of {', '.join(ROLES)}."
        )
    return Target(users, fleet, named=named)


async def with_protocol(given: Target) -> Target:
    """The target in MQTT 5 where the broker speaks it and the URL does not say otherwise, else in 3.1.1.

    Raises
    ------
    BrokerError
        It lets the coordinator in with neither.
    """
    error: Exception | None = None
    for protocol in ("5", "3.1.1") if given.five else ("3.1.1",):
        users = {name: dataclasses.replace(each, protocol=protocol) for name, each in given.users.items()}
        try:
            async with Session(users[COORDINATOR], COORDINATOR) as session:
                await session.ping()
            return dataclasses.replace(given, users=users)
        except (EndError, RefusalError) as reason:
            error = reason
    raise BrokerError(
        f"{given.users[COORDINATOR]} does not let the coordinator in ({error}): check the URL and its users."
    )
