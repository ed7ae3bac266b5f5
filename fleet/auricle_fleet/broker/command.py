"""`auricle fleet broker`: a broker on this machine for a coordinator and devices that are tried out on it."""

from __future__ import annotations

import asyncio
import json
import secrets
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated

import msgspec
import typer

from auricle.errors import SettingsError, StorageError
from auricle.files import describe, read_kept, write_durably
from auricle.mqtt_link.broker_rights import check_names
from auricle.process.until_signal import until_signal
from auricle.wire.kinds import UNDECODABLE
from auricle_fleet.broker.broker import Broker, require_startable, start_broker

COORDINATOR = "coordinator"
PASSWORDS = "passwords.json"


def broker(
    fleet: Annotated[str, typer.Option(help="Name of the fleet.")],
    device: Annotated[
        list[str] | None, typer.Option(help="Name of a device; several are allowed [device-1 to device-10].")
    ] = None,
    folder: Annotated[Path, typer.Option(help="Folder for its passwords and files.")] = Path("broker"),
    port: Annotated[int, typer.Option(help="Port on 127.0.0.1; 0 takes a free one.")] = 1883,
    with_parent: Annotated[bool, typer.Option("--with-parent", hidden=True, help="End with standard input.")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print the addresses as JSON.")] = False,
) -> int:
    """Run a broker on 127.0.0.1: mosquitto where it is installed, else the embedded one. Ctrl-C ends it.

    Everybody has a password, which is kept in the folder; what each may read and write is as on a real broker.
    """
    names = device or [f"device-{number}" for number in range(1, 11)]
    check_names([fleet, *names])
    require_startable(None, port)
    users = _passwords(folder, [COORDINATOR, *names])
    asyncio.run(_run(folder, fleet, users, port, with_parent, as_json))
    return 0


def _passwords(folder: Path, names: Sequence[str]) -> dict[str, str]:
    """The password of each user: the one of before, or a new one."""
    file = folder / PASSWORDS
    try:
        folder.mkdir(parents=True, exist_ok=True)
        kept = msgspec.json.decode(read_kept(file), type=dict[str, str]) if file.is_file() else {}
    except OSError as error:
        raise StorageError(describe(error, folder)) from error
    except UNDECODABLE as error:
        raise SettingsError(f"{file} is damaged ({error}): remove it, and new passwords are drawn.") from error
    users = {**kept, **{name: secrets.token_urlsafe(16) for name in names if name not in kept}}
    if users != kept:
        write_durably(file, msgspec.json.encode(users), mode=0o600)
    return users


async def _run(folder: Path, fleet: str, users: dict[str, str], port: int, with_parent: bool, as_json: bool) -> None:
    async with await start_broker(folder, users, fleet=fleet, port=port) as running:
        _say(running, fleet, users, folder / PASSWORDS, as_json)
        ended = asyncio.to_thread(sys.stdin.buffer.read) if with_parent else asyncio.Event().wait()
        await until_signal(ended)


def _say(running: Broker, fleet: str, users: dict[str, str], file: Path, as_json: bool) -> None:
    if as_json:
        addresses = {name: _url(running, name, users[name]) for name in users}
        said = {"broker": running.kind, "port": running.port, "users": addresses, "passwords": str(file)}
        typer.echo(json.dumps(said))
        sys.stdout.flush()
        return
    typer.echo(f"{running.kind} listens on 127.0.0.1:{running.port} for the fleet {fleet}. Addresses:")
    for name in users:
        typer.echo(f"  {_url(running, name, users[name])}")


def _url(running: Broker, name: str, password: str) -> str:
    query = "" if running.kind == "mosquitto" else "?protocol=3.1.1"
    return f"mqtt://{name}:{password}@127.0.0.1:{running.port}{query}"
