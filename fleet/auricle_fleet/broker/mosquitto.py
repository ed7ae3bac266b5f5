"""mosquitto as a child process: where it is, and the configuration and passwords that we write for it."""

from __future__ import annotations

import logging
import os
import pwd
from collections.abc import Mapping
from pathlib import Path

from auricle.files import read_kept
from auricle.mqtt_link.broker_rights import Roles, acl_file
from auricle.wire.broker_passwords import hash_password
from auricle_fleet.broker.process import BrokerProcess

log = logging.getLogger("auricle.broker")


def mosquitto(
    program: Path, folder: Path, users: Mapping[str, str], roles: Roles, *, port: int, persistence: bool
) -> BrokerProcess:
    """Write configuration, passwords and access list into the folder and return the process to start."""
    folder.mkdir(parents=True, exist_ok=True)
    folder.chmod(0o700)
    passwords, acl, config = folder / "passwords", folder / "acl", folder / "mosquitto.conf"
    write_passwords(passwords, users)
    write_private(acl, acl_file(roles))
    user = _user_for(folder, (passwords, acl))
    write_private(config, configuration(folder, port=port, user=user, persistence=persistence))
    return BrokerProcess([str(program), "-c", str(config)], folder / "broker.log", sign=" running\n")


def configuration(folder: Path, *, port: int, user: str | None, persistence: bool) -> str:
    """Return mosquitto's configuration (mosquitto.conf(5), 2.0 and later)."""
    kept = ["persistence true", f"persistence_location {folder}/", "autosave_interval 60"]
    return "\n".join(
        [
            *([] if user is None else [f"user {user}"]),
            "log_dest stderr",
            "log_type error",
            "log_type warning",
            "log_type notice",
            "log_type information",
            *(kept if persistence else ["persistence false"]),
            # Beyond these a message is dropped without a word: room for the updates while the coordinator is away.
            "max_queued_messages 100000",
            "max_queued_bytes 1073741824",
            # More than one is no limit at all in 2.0.11: each PUBACK lets as many again out of the queue, and the
            # answers that a slow client waits for lie behind thousands of messages.
            "max_inflight_messages 1",
            "max_packet_size 1048576",
            "set_tcp_nodelay true",
            f"listener {port} 127.0.0.1",
            "allow_anonymous false",
            # Or any user could take over the session of another by naming its client id.
            "use_username_as_clientid true",
            f"password_file {folder / 'passwords'}",
            f"acl_file {folder / 'acl'}",
            "",
        ]
    )


def _user_for(folder: Path, files: tuple[Path, ...]) -> str | None:
    """Return the user that mosquitto drops root to, and hand it what it reads after that; None if not root."""
    if os.geteuid() != 0:
        return None
    try:
        account = pwd.getpwnam("mosquitto")
    except KeyError:
        return "root"
    if not all(parent.stat().st_mode & 0o001 for parent in folder.resolve().parents):
        log.warning("user mosquitto cannot enter %s: the broker keeps running as root", folder)
        return "root"
    for path in (folder, *files):
        os.chown(path, account.pw_uid, account.pw_gid)
    return "mosquitto"


def write_passwords(path: Path, users: Mapping[str, str]) -> None:
    """Write the file, readable by its owner only."""
    write_private(path, "".join(f"{user}:{hash_password(password)}\n" for user, password in users.items()))


def write_private(path: Path, text: str) -> None:
    """Write a file that only its owner can read, from its first byte on."""
    path.unlink(missing_ok=True)
    path.touch(mode=0o600, exist_ok=False)
    path.write_text(text)


def read_passwords(path: Path) -> dict[str, str]:
    """Return the hash of each user."""
    lines = read_kept(path).decode().splitlines()
    return dict(line.split(":", 1) for line in lines if line)
