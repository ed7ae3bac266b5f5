"""`auricle cloud enrol`: who may connect to the broker, and as whom."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated, Literal

import msgspec
import typer

from auricle.errors import SettingsError
from auricle.files import read_kept, write_durably
from auricle.mqtt_link.mosquitto_program import mosquitto_command
from auricle.mqtt_link.private_link import FOLDER as IDENTITY
from auricle.mqtt_link.private_link import IdentityFiles
from auricle.process.table import console
from auricle.process.times import for_how_long, how_many, read_duration
from auricle.wire.broker_passwords import write_login
from auricle.wire.claims import USERS, token_text
from auricle_cloud.commands.answer_tables import table
from auricle_cloud.commands.answers import say, show
from auricle_cloud.commands.operator_command import Reason, Yes, confirm, operator_command
from auricle_cloud.commands.target import Place, user
from auricle_cloud.identity.authority import Authority, key_pem
from auricle_cloud.identity.broker_folder import BrokerFolder, had_passwords, old_authority
from auricle_cloud.identity.certificates import new_key
from auricle_cloud.identity.enrolment import Enrolment
from auricle_cloud.operations.enrolment_operations import claim_tokens, enrolled
from auricle_cloud.operations.operations import Operations
from auricle_cloud.operations.types import Answer, Done
from auricle_cloud.storage.state_folders import AUTHORITY
from auricle_cloud.storage.store import FILE, Store

app = typer.Typer(no_args_is_help=True, help="Certify devices, users and brokers, and revoke them.")

COORDINATOR = USERS[0]
REPLACING = (
    "When such a token is claimed, the certificates that the name has are revoked and its old key is not trusted any "
    "more; name, standing and history stay."
)
BrokerOption = Annotated[list[Path] | None, typer.Option("--broker", help="Folder of a broker to tell it to.")]


class Made(Answer, frozen=True, kw_only=True):
    """A new authority."""

    pin: str
    """SHA-256 of the root's certificate, which every device is given."""
    folder: str


class Written(Answer, frozen=True, kw_only=True):
    """Files of a server or broker."""

    folder: str
    reloaded: bool = False
    restart: str | None = None
    """Why the broker has to be started again, and how; null: it has not."""


@operator_command(app, "init")
def init(
    place: Place,
    name: Annotated[str, typer.Option(help="Its name, for people.")] = "Auricle",
    as_json: bool = False,
) -> int:
    """Make the certificate authority in the state folder, and the coordinator's own certificate."""
    state = _state(place)
    store = Store(place.database or state / FILE)
    try:
        enrolment = Enrolment(Authority.create(state / AUTHORITY, name), store.database)
        certify_user(enrolment, COORDINATOR, state / IDENTITY)
        store.journal.note("authority made", who=user(), detail=enrolment.authority.pin)
    finally:
        store.close()
    made = Made(pin=enrolment.pin, folder=str(state / AUTHORITY))
    if as_json:
        show(made, as_json=True)
        return 0
    say(f"The authority is in {made.folder}; its pin, which every device is given: {made.pin}")
    say("Copy root.key to a safe place and delete it here: it is needed for a new issuing authority only.")
    return 0


@operator_command(app, "token")
def token(
    place: Place,
    device: Annotated[list[str] | None, typer.Option(help="A device's name; may be given more than once.")] = None,
    count: Annotated[int, typer.Option(min=0, max=10_000, help="So many new names instead.")] = 0,
    prefix: Annotated[str, typer.Option(help="With --count: names are PREFIX-001 and so on.")] = "device",
    ttl: Annotated[str, typer.Option(help="How long they may be used: 30m, 24h, 7d.")] = "24h",
    out: Annotated[Path | None, typer.Option(help="Folder for a file DEVICE.token each.")] = None,
    claim_at: Annotated[
        str | None, typer.Option(help="With --out: https://HOST:PORT where they are exchanged [as fleet new has it].")
    ] = None,
    broker: BrokerOption = None,
    replace: Annotated[
        bool, typer.Option("--replace", help="For boards that have claimed: a new card, or board.")
    ] = False,
    yes: Yes = False,
    as_json: bool = False,
) -> int:
    """Make one-time tokens that devices exchange for their certificates; they are never shown again."""
    if bool(device) == bool(count):
        raise SettingsError("Name devices with --device, or say with --count how many.")
    if replace and count:
        raise SettingsError("Name with --device the devices that --replace is for.")
    with _enrolment(place) as enrolment:
        names = list(dict.fromkeys(device or enrolment.free_names(prefix, count)))
        folders = _folders(broker)
        enrolment.require_names(names, replace=replace)
        if replace:
            confirm(f"{REPLACING} Make tokens that replace {', '.join(names)}?", yes=yes)
        answer = claim_tokens(enrolment, names, read_duration(ttl), who=user(), replace=replace)
        _write(folders, enrolment)
    server = claim_at or _api_url(_state(place))
    for row in answer.tokens if out is not None else ():
        assert out is not None
        text = token_text(row.token, server, answer.pin)
        write_durably(out / f"{row.device}.token", text.encode(), mode=0o600)
    if out is None or as_json:
        _tell(answer, answer.tokens, ("device", "token", "expires"), as_json)
    else:
        some = ", ".join(names[:5]) + (", ..." if len(names) > 5 else "")
        alone = f"The token is in {out / f'{names[0]}.token'}." if len(names) == 1 else ""
        say(alone or f"{len(names)} tokens are in {out}, a file DEVICE.token each: {some}")
    if not as_json and (out is None or server is None):
        say(f"The pin of the authority, for --ca-pin: {answer.pin}")
    left_out = int(names[-1].rpartition("-")[2]) - count if count else 0
    if left_out and not as_json:
        say(f"Left out because they are taken: {left_out} names of {prefix}. A token for one of them: --device NAME.")
    if replace and not as_json:
        say("When it was claimed, write the broker's lists again: auricle cloud enrol broker.")
    return 0


@operator_command(app, "code")
def code(
    do: Operations,
    minutes: Annotated[float, typer.Option(min=1, max=1440, help="How long it may be used.")] = 30.0,
    as_json: bool = False,
) -> int:
    """Draw the short code that devices of this network join by: auricle edge run --home asks for it."""
    made = do.draw_join_code(minutes)
    if as_json:
        show(made, as_json=True)
    else:
        say(f"For {for_how_long(minutes * 60)} devices join with the code {made.code}: auricle edge run --home")
    return 0


@operator_command(app, "list")
def list_(place: Place, as_json: bool = False) -> int:
    """List certificates, and tokens that may still be used."""
    with _enrolment(place) as enrolment:
        answer = enrolled(enrolment)
    _tell(answer, answer.certificates, ("name", "kind", "serial", "expires", "revoked", "reason"), as_json)
    if answer.claims and not as_json:
        say("Tokens that may still be used:")
        console().print(table(answer.claims, ("device", "created", "expires", "replaces")), crop=False)
    return 0


@operator_command(app, "revoke")
def revoke(
    place: Place,
    device: Annotated[str, typer.Argument(metavar="NAME", help="A device, user or server.")],
    broker: BrokerOption = None,
    reason: Reason = "",
    yes: Yes = False,
) -> Done:
    """Revoke everything that a name was given, for good, and tell brokers."""
    with _enrolment(place) as enrolment:
        enrolment.require(device)
        confirm(f"Revoke {device} for good?", yes=yes)
        folders = _folders(broker)
        count = enrolment.revoke(device, who=user(), reason=reason)
        told = _write(folders, enrolment)
    written = f"{how_many(len(folders), 'broker folder')} written, {how_many(told, 'broker')} notified"
    brokers = written if folders else "no broker notified"
    old = "".join(f" {each}" for each in map(old_authority, folders) if each is not None)
    return Done(done=f"{device}: {how_many(count, 'certificate')} revoked; {brokers}.{old}")


@operator_command(app, "broker")
def broker(
    place: Place,
    out: Annotated[Path, typer.Option(help="The broker's folder.")],
    fleet: Annotated[str, typer.Option(help="Name of the fleet.")],
    host: Annotated[list[str], typer.Option(help="Name or address under which it is reached; several are allowed.")],
    kind: Annotated[Literal["mosquitto", "emqx"], typer.Option(help="Which broker.")] = "mosquitto",
    listen: Annotated[str, typer.Option(help="Address it listens on.")] = "0.0.0.0",
    port: Annotated[int, typer.Option(help="Port it listens on.")] = 8883,
    passwords: Annotated[
        bool | None,
        typer.Option(
            "--passwords/--no-passwords",
            help="Also ask for each user's password; without either the choice of before, at first no.",
        ),
    ] = None,
    as_json: bool = False,
) -> int:
    """Write a broker's configuration, access list and certificates; again, and it is told to read them again."""
    folder = out.absolute()
    asks = bool(had_passwords(folder) if passwords is None else passwords)
    try:
        settings = msgspec.convert(
            {"kind": kind, "fleet": fleet, "hosts": host, "address": listen, "port": port, "passwords": asks},
            BrokerFolder,
        )
    except msgspec.ValidationError as error:
        raise SettingsError(f"command line: {error}.") from error
    own = IdentityFiles(_state(place) / IDENTITY)
    with _enrolment(place) as enrolment:
        if asks and own.certificate.is_file():
            write_login(own.login, COORDINATOR, enrolment.authority.passwords().of(COORDINATOR))
        told = settings.write(folder, enrolment, who=user())
    start = mosquitto_command(folder / "mosquitto.conf") if kind == "mosquitto" else f"include {folder / 'emqx.conf'}"
    old = old_authority(folder)
    if as_json:
        show(Written(folder=str(folder), reloaded=told, restart=old), as_json=True)
    else:
        say(f"{folder} is written. " + ("The broker reads it again." if told else f"Start the broker: {start}"))
        if old is not None:
            say(old)
    return 0


@operator_command(app, "server")
def server(
    place: Place,
    host: Annotated[list[str], typer.Option(help="Name or address under which it is reached; several are allowed.")],
    out: Annotated[Path, typer.Option(help="Folder for server.pem and server.key.")],
) -> Done:
    """Certify a server, for example the coordinator's API: serve --certificate server.pem --key server.key."""
    with _enrolment(place) as enrolment:
        certify_server(enrolment, host, out)
    return Done(done=f"{out / 'server.pem'} and server.key are for {', '.join(host)}.")


@operator_command(app, "user")
def user_(
    place: Place,
    name: Annotated[
        str, typer.Argument(help="Who needs the certificate: coordinator, observer, or worker-0 to worker-7.")
    ],
    out: Annotated[Path, typer.Option(help="Folder for certificate, key and the root's certificate.")],
) -> Done:
    """Certify the coordinator on another machine, an observer, or one of several coordinators."""
    with _enrolment(place) as enrolment:
        certify_user(enrolment, name, out)
    return Done(done=f"The certificate of {name} is in {out}.")


def certify_server(enrolment: Enrolment, hosts: list[str], folder: Path) -> None:
    """Certify a server for these names and addresses: server.pem and server.key go to a folder."""
    key = new_key()
    chain = enrolment.server(hosts, key.public_key(), who=user())
    write_durably(folder / "server.key", key_pem(key), mode=0o600)
    write_durably(folder / "server.pem", chain.encode())


def certify_user(enrolment: Enrolment, name: str, folder: Path) -> None:
    """Certify somebody who is not a device: key, certificate, root and password go to a folder."""
    key, files = new_key(), IdentityFiles(folder)
    chain = enrolment.user(name, key.public_key(), who=user())
    write_durably(files.authority, enrolment.authority.root_pem.encode())
    write_durably(files.key, key_pem(key), mode=0o600)
    write_login(files.login, name, enrolment.authority.passwords().of(name))
    write_durably(files.certificate, chain.encode())


def _folders(brokers: Sequence[Path] | None) -> dict[Path, BrokerFolder]:
    return {folder.absolute(): BrokerFolder.read(folder) for folder in brokers or ()}


def _write(folders: dict[Path, BrokerFolder], enrolment: Enrolment) -> int:
    """Write brokers' folders again; how many brokers were told."""
    return sum(known.write(folder, enrolment, who=user()) for folder, known in folders.items())


@contextmanager
def _enrolment(place: Place) -> Iterator[Enrolment]:
    authority = Authority(_state(place) / AUTHORITY)
    with place.local_store() as store:
        yield Enrolment(authority, store.database)


def _state(place: Place) -> Path:
    if place.state is None:
        raise SettingsError("Name the coordinator's folder: --state AUTHORITY (or AURICLE_STATE).")
    return place.state


def _api_url(state: Path) -> str | None:
    """Where devices exchange tokens, as `auricle cloud fleet new` wrote it down."""
    file = state / "api-url"
    return read_kept(file).decode("ascii").strip() if file.is_file() else None


def _tell(answer: Answer, rows: Sequence[Answer], columns: Sequence[str], as_json: bool) -> None:
    if as_json:
        show(answer, as_json=True)
    else:
        console().print(table(rows, columns), crop=False)
