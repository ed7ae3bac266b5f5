"""Settings from a mapping or a TOML file into one frozen struct, with "did you mean" for what does not exist."""

from __future__ import annotations

import dataclasses
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import TypeVar

import msgspec

from auricle.errors import SettingsError, nearest

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

T = TypeVar("T")


def from_mapping(kind: type[T], values: Mapping[str, object], where: str) -> T:
    """Make settings of a struct type from names and values.

    Parameters
    ----------
    kind
        A msgspec struct or dataclass.
    values
        What the user gave.
    where
        The file or command line it stands in, for the message.

    Raises
    ------
    SettingsError
        A name that does not exist, or a value that is not allowed.
    """
    if dataclasses.is_dataclass(kind):
        known = [field.name for field in dataclasses.fields(kind)]
    else:
        known = [field.encode_name for field in msgspec.structs.fields(kind)]  # type: ignore[arg-type]
    for name in values:
        if name not in known:
            raise SettingsError(f'{where}: no setting "{name}": {nearest(name, known)}')
    try:
        return msgspec.convert(values, kind)
    except msgspec.ValidationError as error:
        raise SettingsError(f"{where}: {error}.") from error


def read_toml(path: Path) -> dict[str, object]:
    """Read names and values from a TOML file; SettingsError when it cannot be read or parsed."""
    try:
        values: dict[str, object] = tomllib.loads(path.read_text("utf-8"))
    except OSError as error:
        raise SettingsError(f"{path} cannot be read ({error.strerror}).") from error
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise SettingsError(f"{path} is not valid TOML: {error}.") from error
    return values
