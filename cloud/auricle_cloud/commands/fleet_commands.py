"""`auricle cloud fleet new`: everything that a fleet of boards needs before the first card is written."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import msgspec
import typer

from auricle.errors import REFUSED_CODE, SettingsError, StorageError
from auricle.files import describe, read_kept, write_durably
from auricle.mqtt_link.mosquitto_program import mosquitto_command
from auricle.mqtt_link.private_link import FOLDER as IDENTITY
from auricle.mqtt_link.private_link import is_loopback
from auricle.wire.identity import Identity
from auricle_cloud.commands.answers import say, show
from auricle_cloud.commands.enrol_commands import COORDINATOR, certify_server, certify_user
from auricle_cloud.commands.operator_command import operator_command
from auricle_cloud.commands.target import Place, require_name, user
from auricle_cloud.identity.authority import Authority
from auricle_cloud.identity.broker_folder import BrokerFolder
from auricle_cloud.identity.certificates import host_of
from auricle_cloud.identity.enrolment import Enrolment
from auricle_cloud.operations.types import Answer
from auricle_cloud.storage.release_folder import FOLDER as RELEASES
from auricle_cloud.storage.release_folder import exists
from auricle_cloud.storage.state_folders import AUTHORITY, KEY
from auricle_cloud.storage.store import FILE, Store

app = typer.Typer(no_args_is_help=True, help="Prepare a fleet of boards.")

API_URL = "api-url"
"""File in the state folder: where devices exchange their tokens."""
FLEET_FILE = """\
# What all devices of the fleet {name} have in common: auricle flash bundle and image read it (docs/bundles.md).
name = "{name}"
broker = "mqtts://{host}:{port}"
server = "https://{host}:{api}"
ca_pin = "{pin}"
coordinator = "{key}"
update_root = "root.json"             # without it no bundle could ever be updated
revision = 0                          # raise it to release a change of these settings alone

# pack = "home"                       # [that of the board's profile]

[device.settings]                     # settings of the agent, over those of the board's profile
# threads = 2

# [user]                              # who may log in to a board that is made from an image
# name = "ana"
# ssh_keys = ["ssh-ed25519 AAAA... ana@desk"]

# [wifi]
# ssid = "hall"
# country = "DE"
# psk_file = "wifi.psk"
"""
COORDINATOR_FILE = """\
# auricle cloud serve --config {folder}/coordinator.toml (all settings: auricle cloud settings)
fleet = "{name}"
broker = "mqtts://coordinator@{host}:{port}"
state = {state}
approval = "claimed"                  # a device with a token of enrol token needs no other approval; or "manual"

[api]
listen = "{listen}:{api}"
certificate = {certificate}
key = {api_key}
"""


class FleetExistsError(SettingsError):
    """The folder holds a fleet already."""

    exit_code = REFUSED_CODE


class FleetMade(Answer, frozen=True, kw_only=True):
    """A fleet that was prepared."""

    folder: str
    state: str
    pin: str
    coordinator: str
    """Public key, in hex."""
    files: list[str]


@operator_command(app, "new")
def new(
    place: Place,
    name: Annotated[str, typer.Argument(metavar="NAME", help="Name of the fleet: a-z, 0-9 and hyphen.")],
    host: Annotated[list[str], typer.Option(help="Name or address under which devices reach the hub; several.")],
    out: Annotated[Path | None, typer.Option(help="Folder for everything [NAME].")] = None,
    keys: Annotated[Path | None, typer.Option(help="Folder for the release keys, best on a stick [OUT/keys].")] = None,
    port: Annotated[int, typer.Option(help="Port of the broker.")] = 8883,
    api_port: Annotated[int, typer.Option(min=1, max=65535, help="Port of API and page.")] = 8443,
    as_json: bool = False,
) -> int:
    """Make what a fleet of boards needs: authority, release keys, broker, certificates and a complete fleet.toml.

    The coordinator's state is OUT/state unless --state names another folder, which is added to.
    """
    require_name(name)
    for each in host:
        host_of(each)  # refused before anything is made
    folder = (out or Path(name)).absolute()
    if (folder / "fleet.toml").exists():
        raise FleetExistsError(f"There is a fleet in {folder}: choose another folder with --out.")
    state = (place.state or folder / "state").absolute()
    keys = (keys or folder / "keys").absolute()
    listen = "127.0.0.1" if all(is_loopback(each) and ":" not in each for each in host) else "0.0.0.0"
    broker = BrokerFolder(kind="mosquitto", fleet=name, hosts=host, address=listen, port=port)
    try:
        state.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise StorageError(describe(error, state)) from error
    made = make_fleet(place, state, folder, keys, name, host, broker, api_port)
    if as_json:
        show(made, as_json=True)
        return 0
    say(f"{folder} is ready: {', '.join(made.files)}.")
    say(f"Keep {keys} apart, with a copy, and root.key of {state / AUTHORITY}: neither is needed to run the fleet.")
    say("Next:")
    for line in (
        mosquitto_command(folder / "broker" / "mosquitto.conf"),
        f"auricle cloud serve --config {folder / 'coordinator.toml'}",
        f"auricle cloud use {name} --state {state}",
        f"auricle cloud enrol token --count 50 --prefix pi --ttl 7d --out {folder / 'tokens'}",
        f"auricle flash bundle --board pi5 --fleet {folder / 'fleet.toml'} --out {folder / 'bundles'}",
    ):
        say(f"  {line}")
    return 0


def make_fleet(
    place: Place,
    state: Path,
    folder: Path,
    keys: Path,
    name: str,
    host: list[str],
    broker: BrokerFolder,
    api: int,
    more: str = "",
) -> FleetMade:
    """Everything, fleet.toml last: without that the command can be typed again, and goes on; see `new`.

    Parameters
    ----------
    more
        Tables at the end of coordinator.toml.
    """
    from auricle_cloud.ota.repository import Repository

    store = Store(place.database or state / FILE)
    try:
        there = (state / AUTHORITY / "issuing.pem").exists()
        authority = Authority(state / AUTHORITY) if there else Authority.create(state / AUTHORITY, "Auricle")
        enrolment = Enrolment(authority, store.database)
        certify_user(enrolment, COORDINATOR, state / IDENTITY)
        broker.write(folder / "broker", enrolment, who=user())
        certify_server(enrolment, host, folder / "api")
        known = exists(state / RELEASES)
        repository = Repository(state / RELEASES) if known else Repository.create(state / RELEASES, keys)
        write_durably(folder / "root.json", read_kept(repository.root_file))
        store.journal.note("fleet made", who=user(), detail=name)
    finally:
        store.close()
    key = Identity.load_or_create(state / KEY).public.hex()
    reached = f"[{host[0]}]" if ":" in host[0] else host[0]
    facts = {"name": name, "host": reached, "port": broker.port, "api": api, "folder": folder}
    paths = {"state": state, "certificate": folder / "api/server.pem", "api_key": folder / "api/server.key"}
    quoted = {what: msgspec.json.encode(str(path)).decode() for what, path in paths.items()}
    write_durably(state / API_URL, f"https://{reached}:{api}\n".encode())
    serves = COORDINATOR_FILE.format(**facts, **quoted, listen=broker.address) + more
    write_durably(folder / "coordinator.toml", serves.encode())
    text = FLEET_FILE.format(**facts, pin=enrolment.authority.pin, key=key)
    write_durably(folder / "fleet.toml", text.encode())
    files = ["fleet.toml", "coordinator.toml", "root.json", "broker", "api", "keys"]
    return FleetMade(folder=str(folder), state=str(state), pin=enrolment.authority.pin, coordinator=key, files=files)
