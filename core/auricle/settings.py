"""Settings from a mapping or a TOML file into one frozen struct, with "did you mean" for what does not exist."""

from __future__ import annotations

import dataclasses
import inspect
import json
import re
import sys
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Annotated, Any, Literal, NamedTuple, TypeVar, get_args, get_origin, get_type_hints

import msgspec

from auricle.errors import SettingsError, nearest
from auricle.files import read_text

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

T = TypeVar("T")

LARGEST_BYTES = 1 << 20
"""Bytes of a file of settings."""


LONGEST_BITS = 256
"""Of a whole number that is left to the range of what uses it, whose sentence is clearer."""


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
    known = list(_names(kind).values())
    for name, value in values.items():
        if isinstance(value, str | Path) and not is_text(str(value)):
            raise SettingsError(f"{where}: {name} {str(value)!a} is not UTF-8: rename it, or name another.")
        if isinstance(value, str | Path) and "\0" in str(value):
            raise SettingsError(f"{where}: {name} has a NUL byte in it, which nothing can be named by.")
        if name not in known:
            raise SettingsError(f'{where}: no setting "{name}": {nearest(name, known)}')
    try:
        settings = msgspec.convert(values, kind)
    except msgspec.ValidationError as error:
        said = reason(str(error), values, kind)
        raise SettingsError(f"{where}: {said}{'' if said.endswith('?') else '.'}") from error
    for name, value in values.items():
        if isinstance(value, int) and value.bit_length() > LONGEST_BITS:
            raise SettingsError(f"{where}: {name} is a number of {value.bit_length()} bits: it takes at most 64.")
    return settings


class CheckedMeta(msgspec.StructMeta):
    """Metaclass of structs that programs make: their values are checked as those of a file are, with its sentences."""

    def __call__(cls: type[T], *values: object, **named: object) -> T:  # noqa: N805 - a class
        """Make one; SettingsError for a name that does not exist, and a value that is missing or not allowed."""
        if values:
            try:
                named = inspect.signature(cls).bind(*values, **named).arguments
            except TypeError as misfit:
                raise SettingsError(f"{cls.__name__} does not take these values: {misfit}.") from None
        names = _names(cls)  # a program may say an attribute's
        fields = {names.get(name, name): _plain(value) for name, value in named.items()}
        return from_mapping(cls, fields, cls.__name__)


def _plain(value: object) -> object:
    """A path as a text, numbers and arrays of NumPy as Python's numbers and lists; all else as it is."""
    if isinstance(value, Path):
        return str(value)
    return value if isinstance(value, type) else getattr(value, "tolist", lambda: value)()


def show(value: object, write: Callable[[object], str] = repr) -> str:
    """A value as Python writes it, for a sentence; its kind, where that is too long to be written."""
    try:
        return write(value)
    except (ValueError, RecursionError):  # more digits than Python writes, or nested too deeply
        return f"a value of the kind {type(value).__name__} that is too long to show"


def is_text(value: str) -> bool:
    """Whether it can be written as UTF-8; a path of the system need not be."""
    try:
        value.encode()
    except UnicodeEncodeError:
        return False
    return True


def _names(kind: type) -> dict[str, str]:
    """Names of settings by their attributes'."""
    if dataclasses.is_dataclass(kind):
        return {field.name: field.name for field in dataclasses.fields(kind)}
    return {field.name: field.encode_name for field in msgspec.structs.fields(kind)}


class Setting(NamedTuple):
    """A setting, as a struct declares it."""

    name: str
    kind: Any
    """Its type, without limits and text."""
    default: object
    description: str
    """Of its `msgspec.Meta`; empty where it has none."""


def list_settings(kind: type[msgspec.Struct]) -> Iterator[Setting]:
    """Every setting of a struct, in its order; `msgspec.NODEFAULT` where one has no default."""
    hints, bare = get_type_hints(kind, include_extras=True), get_type_hints(kind)
    for field in msgspec.structs.fields(kind):
        default = field.default
        if default is msgspec.NODEFAULT and field.default_factory is not msgspec.NODEFAULT:
            default = field.default_factory()
        yield Setting(field.encode_name, bare[field.name], default, _description(hints[field.name]))


def _description(hint: object) -> str:
    if get_origin(hint) is not Annotated:
        return ""
    said = (meta.description for meta in get_args(hint)[1:] if isinstance(meta, msgspec.Meta) and meta.description)
    return next(said, "")


def read_toml(path: Path) -> dict[str, object]:
    """Read names and values from a TOML file; SettingsError when it cannot be read, is not a text, or not TOML."""
    text = read_text(path, most=LARGEST_BYTES)
    try:
        values: dict[str, object] = tomllib.loads(text)
    except (ValueError, RecursionError) as error:  # also a number of more digits than Python reads
        raise SettingsError(f"{path} is not valid TOML: {_misread(text, error)}.") from error
    return values


def toml_key(name: str) -> str:
    """A key as TOML writes it: in quotes where it is of more than letters and digits of ASCII, `_` and `-`."""
    return name if re.fullmatch(r"[A-Za-z0-9_-]+", name) else json.dumps(name, ensure_ascii=False)


def _misread(text: str, error: ValueError | RecursionError) -> str:
    """Why it is not TOML."""
    if isinstance(error, RecursionError):
        return "it is nested too deeply"
    if text.lstrip()[:1] == "{":
        return "it looks like JSON; write NAME = VALUE, a setting a line, and tables as [NAME]"
    said = str(error)
    return said[:1].lower() + said[1:]


# -- a validator's words as a sentence

_AT = re.compile(r"^(?P<what>.*?)(?: - at `(?P<path>[^`]+)`)?$", re.DOTALL)
_MISSING = re.compile(r"Object missing required field `(?P<name>[^`]+)`")
_UNKNOWN = re.compile(r"Object contains unknown field `(?P<name>[^`]+)`")
_PATTERN = re.compile(r"Expected `str` matching regex '(?P<pattern>.*)'", re.DOTALL)
_LENGTH = re.compile(r"Expected `(?P<kind>str|array|object)` of length (?P<sign>[<>]=?) (?P<limit>\d+)")
_BOUND = re.compile(r"Expected `(?P<kind>int|float)` (?P<sign>[<>]=?) (?P<limit>\S+)")
_KIND = re.compile(r"Expected `(?P<kind>[^`]+)`, got `(?P<got>[^`]+)`")
_CHOICE = re.compile(r"Invalid enum value (?P<value>.*)")

KINDS = {
    "int": "a whole number",
    "float": "a number",
    "str": "a text in quotes",
    "bool": "true or false",
    "object": "a table",
    "array": "a list",
    "null": "nothing",
}
SIGNS = {">=": "at least", "<=": "at most", ">": "more than", "<": "less than"}
PATTERNS = {
    r"^[a-z0-9-]{4,64}\Z": "4 to 64 of a-z, 0-9 and hyphen",
    r"^[a-z0-9-]{1,64}\Z": "1 to 64 of a-z, 0-9 and hyphen",
    r"^[0-9a-f]{12}\Z": "12 hexadecimal digits",
    r"^[0-9a-f]{64}\Z": "64 hexadecimal digits",
    r"^[0-9a-fA-F]{64}\Z": "64 hexadecimal digits",
    r"^[ -~]*\Z": "letters, digits and signs of ASCII",
}
"""What a pattern of the wire's types wants."""


def reason(said: str, values: Mapping[str, object], kind: type | None = None) -> str:
    """Say in a sentence what a validator said, with the value that was given; its own words where there are no better.

    Parameters
    ----------
    said
        The message of a `msgspec.ValidationError`.
    values
        What was validated.
    kind
        What it was to become: words that a setting takes stand there.
    """
    split = _AT.match(said)
    assert split is not None
    what, path = split["what"], (split["path"] or "$").removeprefix("$").lstrip(".")
    name = path or "it"
    given = _at(values, path)
    shown = "" if given is None or isinstance(given, dict | list) else f", not {_quote(given)}"
    if match := _MISSING.fullmatch(what):
        return f"{match['name']}{f' in {path}' if path else ''} is missing: name it"
    if match := _UNKNOWN.fullmatch(what):
        known = [] if kind is None else sorted(_fields(kind, path))
        hint = f": {nearest(match['name'], known).removesuffix('.')}" if known else ""
        return f'there is no setting "{match["name"]}"{f" in {path}" if path else ""}{hint}'
    if match := _PATTERN.fullmatch(what):
        wanted = next((words for pattern, words in PATTERNS.items() if repr(pattern)[1:-1] == match["pattern"]), None)
        return f"{name} takes {wanted}{shown}" if wanted else said
    if match := _BOUND.fullmatch(what):
        return f"{name} takes {KINDS[match['kind']]}, {SIGNS[match['sign']]} {match['limit']}{shown}"
    if match := _LENGTH.fullmatch(what):
        unit = "characters" if match["kind"] == "str" else "entries"
        return f"{name} takes {SIGNS[match['sign']]} {match['limit']} {unit}{shown}"
    if match := _KIND.fullmatch(what):
        wanted = " or ".join(KINDS.get(kind, kind) for kind in match["kind"].split(" | ") if kind != "null")
        got = KINDS.get(match["got"], match["got"])
        return f"{name} takes {wanted}{shown or f', not {got}'}"
    if match := _CHOICE.fullmatch(what):
        given = match["value"].strip("'") if given is None else given
        known = _choices(kind, path)
        hint = f": {nearest(str(given), known).removesuffix('.')}" if known else ""
        return f"{name} cannot be {_quote(given)}{hint}"
    return said


def _fields(kind: object, path: str) -> set[str]:
    """Names of the settings of the struct that a path leads to; empty where it leads to none."""
    return {name for each in _structs(_type_at(kind, path)) for name in _hints(each)}


def _choices(kind: type | None, path: str) -> list[str]:
    """The words that a setting takes, also one in a table or a list of tables."""
    found = _inside(_type_at(kind, path))
    return [word for one in found if get_origin(one) is Literal for word in get_args(one) if isinstance(word, str)]


def _type_at(kind: object, path: str) -> object:
    """The type of what a path leads to, such as `groups[...].board`; None where it leads nowhere."""
    hint = kind
    for name in re.findall(r"[a-z_]\w*", path):
        hint = next((hints[name] for each in _structs(hint) if name in (hints := _hints(each))), None)
    return hint


def _hints(kind: type) -> dict[str, object]:
    """Types of a struct's settings by name."""
    hints = get_type_hints(kind)
    return {name: hints[attribute] for attribute, name in _names(kind).items()}


def _structs(hint: object) -> list[type]:
    """The structs in a type, such as those of `tuple[Group, ...]`."""
    found = (one for one in _inside(hint) if isinstance(one, type))
    return [one for one in found if hasattr(one, "__struct_fields__") or dataclasses.is_dataclass(one)]


def _inside(hint: object) -> Iterator[object]:
    """A type with all that it is made of, such as those of a union or a tuple."""
    yield hint
    if get_origin(hint) is not Literal:
        for one in get_args(hint):
            yield from _inside(one)


def _at(values: object, path: str) -> object:
    """The value that a path leads to; None where it leads nowhere."""
    for part in re.findall(r"[^.\[\]]+", path):
        if isinstance(values, Mapping):
            values = values.get(part)
        elif isinstance(values, list) and part.isdecimal() and int(part) < len(values):
            values = values[int(part)]
        else:
            values = getattr(values, part, None)
    return values


def _quote(value: object) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    return f'"{value}"' if isinstance(value, str) else show(value, str)
