"""A broker's folder: written from the authority and the database, written again when somebody is revoked."""

from __future__ import annotations

import hashlib
import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Literal

import msgspec

from auricle.errors import SettingsError, StorageError, because
from auricle.files import read_kept, write_durably
from auricle.mqtt_link.broker_rights import Roles
from auricle.mqtt_link.mosquitto_program import mosquitto_command
from auricle.wire.kinds import UNDECODABLE, FleetName
from auricle_cloud.identity.authority import key_pem
from auricle_cloud.identity.broker_files import (
    AUTHORITY,
    EMQX_USERS,
    MOSQUITTO_USERS,
    PID_FILE,
    Listener,
    emqx_acl,
    mosquitto_acl,
    write_emqx,
    write_mosquitto,
)
from auricle_cloud.identity.certificates import new_key
from auricle_cloud.identity.enrolment import Enrolment

Kind = Literal["mosquitto", "emqx"]
SETTINGS = "auricle.json"
STARTED = "started.json"


class BrokerFolder(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What a broker's folder was made with; it is kept there."""

    kind: Kind
    fleet: FleetName
    hosts: list[str]
    """Names and addresses in the server's certificate."""
    address: str
    port: int
    passwords: bool = False
    """Whether the broker asks for a password besides the certificate."""

    @classmethod
    def read(cls, folder: Path) -> BrokerFolder:
        """The settings of a folder; StorageError when it is not a broker folder of this project."""
        try:
            return msgspec.json.decode(read_kept(folder / SETTINGS), type=cls)
        except (OSError, *UNDECODABLE) as error:
            raise StorageError(f"{folder} is not a folder of auricle cloud enrol broker: {because(error)}.") from error

    def write(self, folder: Path, enrolment: Enrolment, *, who: str) -> bool:
        """Write everything; certify the server unless it is, for these hosts; whether it was told to reload.

        Raises
        ------
        SettingsError
            A host, the address, the port or the path is not allowed, or a running mosquitto would have to ask for
            passwords from now on, or no more, which it takes up when it starts.
        """
        listener, roles = Listener(self.address, self.port), Roles(self.fleet)
        shut_out = enrolment.records.shut_out()
        if had_passwords(folder) not in (None, self.passwords) and mosquitto_process(folder / PID_FILE) is not None:
            raise SettingsError(
                f"Stop the mosquitto of {folder} first: --passwords and --no-passwords need a new start."
            )
        users = sorted(enrolment.records.users().difference(shut_out)) if self.passwords else None
        files = {
            **self._server(folder, enrolment, who),
            AUTHORITY: enrolment.authority.bundle,
            "revoked.pem": read_kept(enrolment.authority.revoked_file).decode(),
            SETTINGS: msgspec.json.encode(self).decode(),
        }
        if self.kind == "emqx":
            if users is not None:
                files[EMQX_USERS] = enrolment.authority.passwords().emqx(users)
            write_emqx(folder, {**files, "acl.conf": emqx_acl(roles, shut_out)}, listener)
            return False
        if users is not None:
            files[MOSQUITTO_USERS] = enrolment.authority.passwords().mosquitto(users)
        _keep_start(folder, files[AUTHORITY])
        write_mosquitto(folder, {**files, "acl": mosquitto_acl(roles, shut_out)}, listener)
        return reload_mosquitto(folder / PID_FILE)

    def _server(self, folder: Path, enrolment: Enrolment, who: str) -> dict[str, str]:
        known = (folder / SETTINGS).is_file() and BrokerFolder.read(folder).hosts == self.hosts
        if known and enrolment.authority.issued_file(folder / "server.pem"):
            return {}
        key = new_key()
        chain = enrolment.server(self.hosts, key.public_key(), who=who)
        return {"server.key": key_pem(key).decode(), "server.pem": chain}


def had_passwords(folder: Path) -> bool | None:
    """Whether the broker of a folder asks for passwords; None where there is no such folder yet."""
    return BrokerFolder.read(folder).passwords if (folder / SETTINGS).is_file() else None


def reload_mosquitto(pid_file: Path) -> bool:
    """Tell a running mosquitto to read its lists again; False where none runs.

    Raises
    ------
    StorageError
        It may not be told.
    """
    pid = mosquitto_process(pid_file)
    if pid is None:
        return False
    try:
        os.kill(pid, signal.SIGHUP)
    except ProcessLookupError:
        return False
    except PermissionError as error:
        raise StorageError(f"mosquitto ({pid}) has to read its files again: send it SIGHUP as its own user.") from error
    return True


class Start(msgspec.Struct, frozen=True):
    """With what a running mosquitto was started, kept when its folder gets another authority."""

    process: str
    """Its number, and when its pid file was written."""
    authority: str
    """SHA-256 of the file, in hex."""

    @classmethod
    def read(cls, folder: Path) -> Start | None:
        """Of the mosquitto that runs from a folder now; None where nothing was kept of it."""
        try:
            start = msgspec.json.decode(read_kept(folder / STARTED), type=cls)
        except (OSError, *UNDECODABLE):
            return None
        return start if start.process == _process(folder) else None


def _process(folder: Path) -> str | None:
    """What tells one start of a folder's mosquitto from another; None where none runs."""
    pid = mosquitto_process(folder / PID_FILE)
    try:
        return None if pid is None else f"{pid} {(folder / PID_FILE).stat().st_mtime_ns}"
    except OSError:
        return None


def _keep_start(folder: Path, authority: str) -> None:
    """Keep with which authority a mosquitto runs, before its folder gets another one."""
    process = _process(folder)
    if process is None or Start.read(folder) is not None or not (folder / AUTHORITY).is_file():
        return
    had = read_kept(folder / AUTHORITY)
    if had != authority.encode():
        write_durably(folder / STARTED, msgspec.json.encode(Start(process, _digest(had))), mode=0o600)


def _digest(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()


def old_authority(folder: Path) -> str | None:
    """What to do where the mosquitto of a folder still has the authority of before; None where it has this one.

    It reads its own certificate, the revocation list and the access list again at SIGHUP, and its clients' authority
    in most versions only when it starts (https://github.com/eclipse-mosquitto/mosquitto/pull/3568; 2.0.11 reads it
    again): until then it refuses every certificate of the new one. Times of files say nothing of that: a copy of the
    folder, or an earlier version of ours, has written them again.
    """
    start, pid = Start.read(folder), mosquitto_process(folder / PID_FILE)
    try:
        if start is None or start.authority == _digest(read_kept(folder / AUTHORITY)):
            return None
    except OSError:
        return None
    return (
        f"The mosquitto of {folder} (process {pid}) was started with another authority, which most versions keep until "
        f"they start again, and so refuse certificates of the new one: restart its unit (systemctl restart mosquitto), "
        f"or end it and start {mosquitto_command(folder / 'mosquitto.conf')}."
    )


def mosquitto_process(pid_file: Path) -> int | None:
    """The process of a pid file, if it is a mosquitto that runs here."""
    try:
        pid = int(read_kept(pid_file).decode())
        name = _name_of_process(pid)
    except (OSError, ValueError):
        return None
    return pid if pid > 1 and name == "mosquitto" else None


def _name_of_process(pid: int) -> str:
    """Its program's name, of Linux or of ps(1); OSError where there is no such process."""
    if sys.platform.startswith("linux"):
        return Path(f"/proc/{pid}/comm").read_text().strip()
    command = ["ps", "-p", str(pid), "-o", "comm="]
    said = subprocess.run(command, capture_output=True, text=True, timeout=10, check=False).stdout
    return Path(said.strip()).name
