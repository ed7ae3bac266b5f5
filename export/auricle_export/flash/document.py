"""Reading a TOML document into a struct: every mistake, with its line and the nearest thing that would do."""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Callable, Iterable, Iterator
from functools import cache
from pathlib import Path
from typing import TypeVar

import msgspec
from msgspec import inspect

from auricle.errors import SettingsError, nearest
from auricle.files import decode_text, read_bytes
from auricle_export.flash.toml_lines import Path as KeyPath
from auricle_export.flash.toml_lines import key_lines, line_of

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

T = TypeVar("T", bound=msgspec.Struct)

LARGEST_BYTES = 64 << 10
"""Bytes: no document is longer."""
THIRTY_TWO_BITS = ("armhf", "armel", "armv6l", "armv7l", "arm", "i386", "i686", "x86")
SHOWN_CHARACTERS = 60
SECRETS = ("psk", "password_hash")
"""Keys whose values are not repeated in a message."""


class Problem(msgspec.Struct, frozen=True):
    """A mistake in a document."""

    file: str
    line: int
    """From 1."""
    key: str
    """What it is about: `os[0].python`; empty for the whole document."""
    sentence: str

    def __str__(self) -> str:
        return f"{self.file}, line {self.line}: {self.sentence}"


class DocumentError(SettingsError):
    """A document that cannot be used; `problems` has all that is wrong with it."""

    def __init__(self, message: str, problems: tuple[Problem, ...] = ()) -> None:
        super().__init__(message)
        self.problems = problems


def read_content(path: Path, noun: str, refusal: type[DocumentError]) -> bytes:
    """The bytes of a document, a `noun` such as "profile". `refusal`: it cannot be read, or is too long."""
    return read_bytes(path, f"The {noun}", most=LARGEST_BYTES, refusal=refusal)


def read_document(
    kind: type[T], content: bytes, file: str, noun: str, objections: Callable[[T], Iterable[tuple[KeyPath, str]]]
) -> tuple[T | None, list[Problem]]:
    """Read and check a document.

    Parameters
    ----------
    kind
        The struct that it says.
    content, file, noun
        Its bytes, its name, and what people call such a file.
    objections
        What contradicts something else in a struct whose parts are each allowed: keys, and sentences without an end.

    Returns
    -------
    tuple
        The struct, None where something is wrong; and all mistakes in the order of their lines.
    """
    try:
        text = decode_text(content, "this")
        values = tomllib.loads(text)
        lines = key_lines(text)
    except SettingsError as error:
        return None, [Problem(file, _line_of_error(str(error), content), "", str(error))]
    except RecursionError:
        return None, [Problem(file, 1, "", "this is not valid TOML: it is nested too deeply.")]
    except ValueError as error:
        return None, [Problem(file, _line_of_error(str(error), content), "", f"this is not valid TOML: {error}.")]
    found = list(_mistakes(kind, values, (), noun))
    read = None
    if not found:
        read = msgspec.convert(values, kind)
        found = list(objections(read))
    problems = [
        Problem(file, line_of(lines, path), _dotted_path(path), _with_full_stop(sentence)) for path, sentence in found
    ]
    return None if problems else read, sorted(problems, key=lambda problem: problem.line)


def first_of(problems: list[Problem]) -> str:
    """The first mistake, and how many more there are."""
    more = f" {len(problems) - 1} more in this file." if len(problems) > 1 else ""
    return f"{problems[0]}{more}"


def _line_of_error(message: str, content: bytes) -> int:
    told = re.search(r"(?:at |\()line (\d+)", message)
    return int(told[1]) if told else content.rstrip().count(b"\n") + 1


def _mistakes(kind: type[msgspec.Struct], values: object, path: KeyPath, noun: str) -> Iterator[tuple[KeyPath, str]]:
    """What in a table its type does not allow."""
    if not isinstance(values, dict):
        yield path, f"{_dotted_path(path)} takes a table, not {quote(values)}"
        return
    fields, types = _fields(kind)
    hints = {name: _hint(name, fields) for name in values if name not in fields}
    for name, hint in hints.items():
        yield (*path, name), f"there is no key {quote(name)} {_where(path, noun)}: {hint}"
    for name, field in fields.items():
        here = (*path, name)
        if name not in values:
            if field.required and f'did you mean "{name}"?' not in hints.values():
                yield path, f"the key {quote(name)} is missing {_where(path, noun)}"
            continue
        inner, many = _table_type(types[name])
        if inner is None:
            yield from _bad_value(field.type, types[name], values[name], here)
        elif not many:
            yield from _mistakes(inner, values[name], here, noun)
        elif not isinstance(values[name], list) or not values[name]:
            yield here, f"{_dotted_path(here)} takes tables [[{_dotted_path(here)}]], not {quote(values[name])}"
        else:
            for index, value in enumerate(values[name]):
                yield from _mistakes(inner, value, (*here, index), noun)


@cache
def _fields(kind: type[msgspec.Struct]) -> tuple[dict[str, msgspec.structs.FieldInfo], dict[str, inspect.Type]]:
    """The keys that a struct takes, and the types of their values."""
    fields = {field.encode_name: field for field in msgspec.structs.fields(kind)}
    info = inspect.type_info(kind)
    assert isinstance(info, inspect.StructType)
    return fields, {field.encode_name: field.type for field in info.fields}


def _unwrap(info: inspect.Type) -> inspect.Type:
    """A type without None and what is said about it."""
    while True:
        if isinstance(info, inspect.Metadata):
            info = info.type
        elif isinstance(info, inspect.UnionType):
            info = next(kind for kind in info.types if not isinstance(kind, inspect.NoneType))
        else:
            return info


def _table_type(info: inspect.Type) -> tuple[type[msgspec.Struct] | None, bool]:
    """The struct that a field holds, and whether several; None for a plain value."""
    info = _unwrap(info)
    many = isinstance(info, inspect.VarTupleType)
    if isinstance(info, inspect.VarTupleType):
        info = _unwrap(info.item_type)
    return (info.cls if isinstance(info, inspect.StructType) else None), many


def _bad_value(kind: object, info: inspect.Type, value: object, path: KeyPath) -> Iterator[tuple[KeyPath, str]]:
    try:
        msgspec.convert(value, kind)
    except msgspec.ValidationError as error:
        element = re.search(r"`\$\[(\d+)\]`", str(error))
        if element and isinstance(value, list):
            path, value = (*path, int(element[1])), value[int(element[1])]
            info = _unwrap(info)
            info = info.item_type if isinstance(info, inspect.VarTupleType) else info
        shown = "..." if path[-1] in SECRETS else quote(value)
        yield path, f"{_dotted_path(path)} = {shown}: {_allowed_values(info, value, str(error))}"


def _allowed_values(info: inspect.Type, value: object, error: str) -> str:
    """What a value may be."""
    plain = _unwrap(info)
    if value in THIRTY_TWO_BITS:
        return "this is a 32-bit system, for which there is no onnxruntime: use its 64-bit system"
    if isinstance(plain, inspect.LiteralType):
        choices = [str(choice) for choice in plain.values]
        return _hint(value, choices) if isinstance(value, str) else f"there is: {', '.join(choices)}"
    described = _description(info)
    if described and not isinstance(plain, inspect.VarTupleType):
        return f"it takes {described}"
    return error.partition(" - at `$")[0].replace("`", "").replace("Expected", "it takes", 1).replace("array", "a list")


def _description(info: inspect.Type) -> str | None:
    if isinstance(info, inspect.Metadata):
        text = (info.extra_json_schema or {}).get("description")
        return str(text) if text else _description(info.type)
    if isinstance(info, inspect.UnionType):
        return next((text for kind in info.types if (text := _description(kind))), None)
    return None


def _hint(word: object, known: Iterable[str]) -> str:
    return nearest(str(word), known).removesuffix(".")


def _with_full_stop(sentence: str) -> str:
    return sentence if sentence.endswith("?") else f"{sentence}."


def quote(value: object) -> str:
    text = json.dumps(value, default=str)
    return text if len(text) <= SHOWN_CHARACTERS else f"{text[:SHOWN_CHARACTERS]}..."


def _dotted_path(path: KeyPath) -> str:
    """`os[0].python`; quoted where a key has other characters than a bare one."""
    told = ""
    for part in path:
        if isinstance(part, int):
            told += f"[{part}]"
        else:
            plain = part if re.fullmatch(r"[A-Za-z0-9_-]{1,64}", part) else quote(part)
            told += f".{plain}" if told else plain
    return told


def _where(path: KeyPath, noun: str) -> str:
    if not path:
        return f"at the top of the {noun}"
    return f"in [[{path[0]}]]" if isinstance(path[-1], int) else f"in [{_dotted_path(path)}]"
