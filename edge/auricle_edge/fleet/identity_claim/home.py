"""A device's home: its hub is found in this network, joined by the code that it shows, and found again where it moves.

Nothing that an announcement says is believed. Who answers has to know the code (`auricle.wire.joining`), or, once the
device has joined, to have a certificate of the hub's authority for the address at which it answers.
"""

from __future__ import annotations

import secrets
import threading
from collections.abc import Callable, Sequence
from pathlib import Path

from auricle.errors import DataError, SettingsError, extra_command
from auricle.files import write_durably
from auricle.mqtt_link.private_link import FOLDER
from auricle.wire.claims import pin, read_token_file, token_text
from auricle.wire.join_codes import SERVICE
from auricle.wire.joining import SALT_BYTES, Join, code_keys, proof_of, unseal
from auricle_edge.fleet.identity_claim.claim import Outcome, claim, move, read_claim, renew
from auricle_edge.fleet.identity_claim.claim_server import ClaimError, ClaimServer, TryLaterError

LOOK_SECONDS = 3.0
RESOLVE_MILLISECONDS = 2000
MOST_HUBS = 16
"""Announcements that are looked at: whoever is in the network may make any number."""
TOKEN_FILE = "join.token"
"""In the identity's folder, from the answer of the hub until the claim: who is cut off between needs no code again."""
Find = Callable[[], Sequence[str]]


def find_hubs() -> list[str]:
    """Where hubs of this network say that they answer, `https://ADDRESS:PORT`, in the order of their names.

    Raises
    ------
    SettingsError
        zeroconf is not installed.
    TryLaterError
        There is no network.
    """
    try:
        from zeroconf import IPVersion, ServiceBrowser, Zeroconf  # for a device that looks for its hub
    except ImportError as error:
        raise SettingsError(
            f"A hub is found with zeroconf: {extra_command('home')}; or name it with --hub https://ADDRESS:8443."
        ) from error
    names: list[str] = []

    def note(name: str, **_: object) -> None:
        names.append(name)

    try:
        network = Zeroconf(ip_version=IPVersion.V4Only)
    except OSError as error:
        raise TryLaterError(f"No hub can be looked for: {error.strerror or error}.") from error
    try:
        ServiceBrowser(network, SERVICE, handlers=[note])
        threading.Event().wait(LOOK_SECONDS)
        found: list[str] = []
        for name in sorted(set(names))[:MOST_HUBS]:
            info = network.get_service_info(SERVICE, name, timeout=RESOLVE_MILLISECONDS)
            addresses = [] if info is None else info.parsed_addresses(IPVersion.V4Only)
            found += [f"https://{address}:{info.port}" for address in addresses[:MOST_HUBS] if info is not None]
        return found
    finally:
        network.close()


def has_joined(state: Path) -> bool:
    """Whether a device has claimed its certificate, by a code or by a token."""
    return read_claim(state) is not None


def join(state: Path, servers: Sequence[str], code: str, device: str | None, now: float) -> Outcome:
    """Join the first of these hubs that knows the code.

    Parameters
    ----------
    state
        The device's state folder.
    servers
        URLs of hubs, of which all but one may be somebody else's.
    code
        As `read_code` gives it.
    device
        The name that it wants; None: one that the hub gives.
    now
        Seconds since 1970.

    Raises
    ------
    ClaimError
        None of them takes or knows the code.
    TryLaterError
        None answers.
    """
    refusals: list[ClaimError] = []
    for server in servers:
        try:
            _ask(state, server, code, device)
            return finish(state, now)
        except ClaimError as error:
            refusals.append(error)
    firm = [error for error in refusals if not isinstance(error, TryLaterError)]
    raise (firm or refusals)[0]


def _ask(state: Path, server: str, code: str, device: str | None) -> None:
    """Get the token of a hub that knows the code, and keep it."""
    hub = ClaimServer(server, None)
    trusted = pin(hub.unproven_root())
    salt = secrets.token_hex(SALT_BYTES)
    keys = code_keys(code, salt, trusted)
    try:
        grant = unseal(keys, hub.join(Join(salt=salt, proof=proof_of(keys, device), device=device)))
    except DataError as error:
        raise ClaimError(f"What answers at {server} does not know the code: it is not your hub.") from error
    write_durably(state / FOLDER / TOKEN_FILE, token_text(grant.token, server, trusted).encode(), mode=0o600)


def is_half_way(state: Path) -> bool:
    """Whether a hub gave a token that was not used yet."""
    return (state / FOLDER / TOKEN_FILE).is_file()


def finish(state: Path, now: float) -> Outcome:
    """Make the claim of the token that the hub gave; errors as of `claim`."""
    file = state / FOLDER / TOKEN_FILE
    kept = read_token_file(file)
    assert kept.server is not None
    assert kept.ca_pin is not None
    return claim(state, kept.server, kept.ca_pin, file, now, home=True)


def keep(state: Path, now: float, find: Find = find_hubs) -> Outcome:
    """Renew when it is due; a device that joined by a code asks where its hub is, and finds it where it has moved.

    Errors as of `renew`.

    Parameters
    ----------
    state
        The device's state folder.
    now
        Seconds since 1970.
    find
        Where hubs may be.
    """
    record = read_claim(state)
    if record is None or not record.home:
        return renew(state, now)
    try:
        return move(state, record.server)
    except ClaimError as error:
        away = error
    for server in find():
        try:
            return move(state, server)
        except ClaimError:
            continue  # of another home, or nobody's
    raise away
