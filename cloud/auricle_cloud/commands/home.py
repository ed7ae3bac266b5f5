"""`auricle cloud serve --home`: all that the hub of a home needs, made at its first start and found again at others.

One folder holds it: the coordinator's state, and beside that what `auricle cloud fleet new` makes (authority, broker,
certificates, release keys, `coordinator.toml`). Addresses are those of the start, and certificates follow them.
"""

from __future__ import annotations

import ipaddress
import os
import socket
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext, suppress
from pathlib import Path

import msgspec

from auricle.errors import SettingsError
from auricle.mqtt_link.private_link import is_loopback
from auricle.wire.join_codes import show_code
from auricle_cloud.api.api_settings import listen_address
from auricle_cloud.commands.announcing import announce
from auricle_cloud.commands.contexts import Context, Contexts, read_contexts, write_contexts
from auricle_cloud.commands.coordinator_settings import CoordinatorSettings, read_coordinator
from auricle_cloud.commands.embedded_broker import EMBEDDED
from auricle_cloud.commands.enrol_commands import certify_server
from auricle_cloud.commands.fleet_commands import make_fleet
from auricle_cloud.commands.home_broker import home_broker
from auricle_cloud.commands.target import Place, user
from auricle_cloud.identity.authority import Authority
from auricle_cloud.identity.broker_folder import BrokerFolder
from auricle_cloud.identity.certificates import host_of
from auricle_cloud.identity.enrolment import Enrolment
from auricle_cloud.identity.joining import CODE_MINUTES
from auricle_cloud.storage.nightly_backup import BACKUPS
from auricle_cloud.storage.state_folders import AUTHORITY
from auricle_cloud.storage.store import FILE, Store

FLEET = "home"
HERE, ANYWHERE = "127.0.0.1", "0.0.0.0"
API_PORT, BROKER_PORT = 8443, 8883
SCHEDULES = (("night", "02:30", 3), ("morning", "05:00", 2))
"""When rounds may begin, and how many devices have to be ready: a home of two, or with one away, learns too."""
ROUNDS_EACH = 3
"""Rounds planned each time."""
NOWHERE = ("192.0.2.1", 9)
"""An address that nobody has (RFC 5737): nothing is sent to find by which of its own this machine would reach it."""
ROUND_SETTINGS = """
[rounds]
quorum = 0.6                          # of three devices two are enough
deadline = 900.0                      # a small board trains for minutes

[storage]
backups = {backups}
"""
"""What a home has that not every fleet needs: boards are few and slow, and nobody makes copies."""


class HomeHub(msgspec.Struct, frozen=True, kw_only=True):
    """What a hub says of itself when it starts."""

    folder: str
    page: str
    code: str
    """By which devices join, as people read it."""
    minutes: float
    """For how long."""
    token: str | None
    """Of the page's admin; None: it was made at the first start."""

    def sentences(self) -> list[str]:
        """For a terminal."""
        token = "the token of the first start" if self.token is None else self.token
        return [
            f"The hub keeps everything in {self.folder}. Its page: {self.page}; sign in with {token}",
            f"For {self.minutes:.0f} minutes devices join with the code {self.code}: auricle edge run --home",
            "Later: a new code on the page, under Enrolment.",
        ]


def home_folder(state: Path | None) -> Path:
    """The hub's folder: the one that is named, or this user's."""
    usual = Path(os.environ.get("XDG_DATA_HOME") or Path.home() / ".local/share") / "auricle" / "hub"
    return (state or usual).absolute()


@contextmanager
def home_hub(
    folder: Path, given: Mapping[str, Mapping[str, object]], hosts: Sequence[str], port: int | None
) -> Iterator[tuple[HomeHub, CoordinatorSettings]]:
    """A hub with its broker and announcement, to the end of the block.

    Parameters
    ----------
    folder
        Its own; nobody else serves it.
    given
        Options of the command line, as `read_coordinator` reads them.
    hosts
        Names and addresses under which it is reached, first the one that devices are to use; empty: those of now.
    port
        Of the broker; None: the usual one.

    Raises
    ------
    AuricleError
        It cannot be made, or its broker does not start.
    """
    reached = list(dict.fromkeys([*(hosts or own_hosts()), HERE]))
    for each in reached:
        host_of(each)
    if given["storage"].get("database") is not None:
        raise SettingsError("A hub has its database in its folder: leave out --database.")
    usual = HERE if all(map(is_loopback, reached)) else ANYWHERE
    named, port, (listen, api) = (
        given[""].get("broker"),
        port or BROKER_PORT,
        _listen(given["api"].get("listen"), usual),
    )
    broker = None if named == EMBEDDED else named
    _make(folder, BrokerFolder(kind="mosquitto", fleet=FLEET, hosts=reached, address=usual, port=port), api)
    ours: dict[str, dict[str, object]] = {
        "": {"state": str(folder), "fleet": FLEET, "broker": broker or f"mqtts://coordinator@{HERE}:{port}"},
        "api": {"listen": f"{_in_url(listen)}:{api}"},
    }
    if broker is None:
        ours["api"]["device_broker"] = f"mqtts://{_in_url(reached[0])}:{port}"
    read = read_coordinator(
        folder / "coordinator.toml", {table: {**values, **ours.get(table, {})} for table, values in given.items()}
    )
    code, token = _open(folder, read.task)
    page = f"https://{_in_url(reached[0])}:{api}"
    hub = HomeHub(folder=str(folder), page=page, code=show_code(code), minutes=CODE_MINUTES, token=token)
    own = home_broker(folder / "broker", port) if broker is None else nullcontext()
    with own, announce(FLEET, _ipv4_of(reached), api):
        yield hub, read


def use_hub(folder: Path) -> None:
    """Let the commands of this user act on the hub, unless they act on another coordinator."""
    contexts = read_contexts()
    if contexts.current is None and FLEET not in contexts.context:
        known = {**contexts.context, FLEET: Context(state=str(folder))}
        write_contexts(Contexts(current=FLEET, context=known))


def own_hosts() -> list[str]:
    """Under what this machine is reached now: its address, its names."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        try:
            probe.connect(NOWHERE)
            found = [probe.getsockname()[0]]
        except OSError:  # no network: devices of this machine alone
            found = [HERE]
    for name in (socket.gethostname(), f"{socket.gethostname().partition('.')[0]}.local", "localhost"):
        with suppress(SettingsError):
            host_of(name)
            found.append(name)
    return found


def _ipv4_of(hosts: Sequence[str]) -> list[str]:
    """The IPv4 addresses among hosts: those that others reach, if any."""
    numbers: list[str] = []
    for host in hosts:
        with suppress(ValueError):
            numbers.append(str(ipaddress.IPv4Address(host)))
    return [number for number in numbers if not is_loopback(number)] or numbers


def _in_url(host: str) -> str:
    return f"[{host}]" if ":" in host else host


def _listen(wanted: object, usual: str) -> tuple[str, int]:
    """Where API and page listen."""
    address = (usual, API_PORT) if wanted is None else listen_address(str(wanted))
    if address is None or address[1] == 0:
        raise SettingsError("A hub has its API and page at a fixed port: --listen HOST:PORT.")
    return address


def _make(folder: Path, broker: BrokerFolder, api: int) -> None:
    """Make the hub; one that is there follows its addresses."""
    if not (folder / "fleet.toml").exists():
        folder.mkdir(parents=True, exist_ok=True)
        more = ROUND_SETTINGS.format(backups=msgspec.json.encode(str(folder / BACKUPS)).decode())
        make_fleet(Place(state=folder), folder, folder, folder / "keys", FLEET, broker.hosts, broker, api, more)
        return
    with _enrolment(folder) as (enrolment, _):
        moved = BrokerFolder.read(folder / "broker").hosts != broker.hosts
        broker.write(folder / "broker", enrolment, who=user())
        if moved or not enrolment.authority.issued_file(folder / "api" / "server.pem"):
            certify_server(enrolment, broker.hosts, folder / "api")


def _open(folder: Path, task: str) -> tuple[str, str | None]:
    """Draw a code by which devices join; where nobody can sign in yet, also plan rounds and make the token."""
    with _enrolment(folder) as (enrolment, store):
        token = None
        if FLEET not in {row.name for row in store.tokens.all()}:
            for name, at, idle in SCHEDULES:
                store.schedules.set(name, task=task, at=at, idle=idle, rounds=ROUNDS_EACH, who=user())
            store.schedules.ran(SCHEDULES[0][0], 0.0)  # the first rounds begin as soon as three are ready
            token = store.tokens.create(FLEET, "admin", who=user())
        return enrolment.draw_code(CODE_MINUTES * 60, who=user())[0], token


@contextmanager
def _enrolment(folder: Path) -> Iterator[tuple[Enrolment, Store]]:
    store = Store(folder / FILE)
    try:
        yield Enrolment(Authority(folder / AUTHORITY), store.database), store
    finally:
        store.close()
