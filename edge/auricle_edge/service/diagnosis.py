"""A bundle that helps somebody else to help: how the device is, and nothing of what it heard or who may enter."""

from __future__ import annotations

import json
import re
import tarfile
import time
from collections.abc import Callable, Mapping
from io import BytesIO
from pathlib import Path

from auricle.errors import StorageError
from auricle.files import describe, write_durably

SECRETS = re.compile(r"(password|token|secret|passphrase)|(^|_)key($|_)", re.IGNORECASE)
IN_URL = re.compile(r"(?<=://)[^/@\s]*@")
HIDDEN = "(removed)"
WORDS = frozenset({"word", "words", "guess", "label", "labels", "thresholds", "missed_word", "speaker"})
"""Names under which stands what somebody says or said."""
COMMANDS = frozenset({"hook"})
"""Names of commands, of which the program may be told: arguments hold tokens and addresses."""


def redact(value: object, name: str = "") -> object:
    """The same without passwords, keys, tokens, user parts of URLs, words and arguments of commands."""
    if SECRETS.search(name) or name in WORDS:
        return HIDDEN if value not in (None, (), [], {}) else value
    if name in COMMANDS and isinstance(value, list | tuple) and value:
        return [redact(value[0]), *[HIDDEN] * (len(value) - 1)]
    if isinstance(value, Mapping):
        return {str(key): redact(each, str(key)) for key, each in value.items()}
    if isinstance(value, list | tuple):
        return [redact(each, name) for each in value]
    return IN_URL.sub(f"{HIDDEN}@", value) if isinstance(value, str) else value


def write_bundle(path: Path, parts: Mapping[str, Callable[[], object]]) -> list[str]:
    """Write a `.tar.gz` of JSON files, each redacted; what cannot be had says why instead.

    Parameters
    ----------
    path
        Where to; a file that is there is replaced.
    parts
        Makes the content of each file, by its name without `.json`.

    Returns
    -------
    list
        Names of the files in it.

    Raises
    ------
    StorageError
        It cannot be written.
    """
    packed = BytesIO()
    with tarfile.open(fileobj=packed, mode="w:gz") as archive:
        for name, make in parts.items():
            try:
                content = redact(make())
            except Exception as error:  # noqa: BLE001 - a bundle is wanted most when things are broken
                content = {"error": IN_URL.sub(f"{HIDDEN}@", str(error))}
            data = json.dumps(content, indent=1, sort_keys=True, default=str).encode()
            entry = tarfile.TarInfo(f"auricle-diagnosis/{name}.json")
            entry.size, entry.mtime, entry.mode = len(data), int(time.time()), 0o600
            archive.addfile(entry, BytesIO(data))
    try:
        write_durably(path, packed.getvalue(), mode=0o600)
    except OSError as error:
        raise StorageError(describe(error, path)) from error
    return [f"{name}.json" for name in parts]
