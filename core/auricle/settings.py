"""Settings from a mapping or a TOML file into one frozen struct, with "did you mean" for what does not exist."""

from __future__ import annotations

import dataclasses
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Annotated, Any, NamedTuple, TypeVar, get_args, get_origin, get_type_hints

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


class Setting(NamedTuple):
    """A setting, as a struct declares it."""

    name: str
    kind: Any
    """Its type, without limits and text."""
    default: object
    description: str
    """Of its `msgspec.Meta`; empty where it has none."""


def declared(kind: type[msgspec.Struct]) -> Iterator[Setting]:
    """Every setting of a struct, in its order; `msgspec.NODEFAULT` where one has no default."""
    hints, bare = get_type_hints(kind, include_extras=True), get_type_hints(kind)
    for field in msgspec.structs.fields(kind):
        default = field.default
        if default is msgspec.NODEFAULT and field.default_factory is not msgspec.NODEFAULT:
            default = field.default_factory()
        yield Setting(field.name, bare[field.name], default, _description(hints[field.name]))


def _description(hint: object) -> str:
    if get_origin(hint) is not Annotated:
        return ""
    said = (meta.description for meta in get_args(hint)[1:] if isinstance(meta, msgspec.Meta) and meta.description)
    return next(said, "")


def read_toml(path: Path) -> dict[str, object]:
    """Read names and values from a TOML file; SettingsError when it cannot be read or parsed."""
    try:
        values: dict[str, object] = tomllib.loads(path.read_text("utf-8"))
    except OSError as error:
        raise SettingsError(f"{path} cannot be read ({error.strerror}).") from error
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise SettingsError(f"{path} is not valid TOML: {error}.") from error
    return values
