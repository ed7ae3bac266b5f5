"""What another holder of a key does, on a machine of their own: look at metadata that wait, and sign them."""

from __future__ import annotations

from pathlib import Path

from tuf.api.exceptions import RepositoryError
from tuf.api.metadata import Metadata, Root, Targets

from auricle.errors import DataError, SettingsError
from auricle.files import read_kept, write_durably
from auricle_cloud.ota.keys import make_key, public_hex, read_key

LARGEST_BYTES = 2 << 20
"""Bytes of metadata; devices take no larger ones."""


def make_holder_key(file: Path) -> str:
    """Draw a key of a further holder: its public half, in hex; SettingsError: it is there, or is not named `.key`."""
    if file.suffix != ".key":
        raise SettingsError(f"{file} has to end with .key.")
    return public_hex(make_key(file.parent, file.name.removesuffix(".key")).public_key)


def countersign(file: Path, key: Path, out: Path) -> list[str]:
    """Sign metadata that wait, and write them with the signature: what they say, in sentences.

    Parameters
    ----------
    file
        A copy of `pending/root.json` or `pending/targets.json`.
    key
        The holder's.
    out
        Where to write them; may be `file`.

    Raises
    ------
    DataError
        It is neither root nor targets.
    """
    try:
        data = read_kept(file) if file.stat().st_size <= LARGEST_BYTES else b""
        waiting: Metadata[Root] | Metadata[Targets] = Metadata.from_bytes(data)
    except OSError as error:
        raise DataError(f"{file} cannot be read ({error.strerror or error}).") from error
    except RepositoryError as error:
        raise DataError(f"{file} is not metadata that wait for signatures: {error}.") from error
    if not isinstance(waiting.signed, Root | Targets):
        raise DataError(f"{file} is neither root nor targets: the coordinator signs the others itself.")
    waiting.sign(read_key(key), append=True)
    write_durably(out, waiting.to_bytes())
    return [f"{waiting.signed.type} {waiting.signed.version}, good until {waiting.signed.expires:%Y-%m-%d}."] + (
        _of_root(waiting.signed) if isinstance(waiting.signed, Root) else _of_targets(waiting.signed)
    )


def _of_root(root: Root) -> list[str]:
    return [
        f"{name} needs {role.threshold} of {', '.join(public_hex(root.keys[keyid])[:12] for keyid in role.keyids)}."
        for name, role in root.roles.items()
    ]


def _of_targets(targets: Targets) -> list[str]:
    rows = [(path, file.custom or {}) for path, file in sorted(targets.targets.items())]
    said = [f"{path} is {custom.get('version')}, {custom.get('identity')}." for path, custom in rows]
    return said or ["It offers no releases."]
