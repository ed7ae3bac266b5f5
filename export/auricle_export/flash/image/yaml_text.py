"""YAML in the form that is JSON: every text quoted, so that nothing in a value can be read as YAML."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Union

Value = Union[bool, int, str, None, Mapping[str, "Value"], Sequence["Value"]]  # noqa: UP007


def yaml(value: Value, indent: int = 0) -> str:
    """Write a value so that every reader of YAML 1.1 or 1.2 gives the same one back.

    Parameters
    ----------
    value
        Numbers, text, and lists and mappings of them.
    indent
        Spaces before its closing bracket.
    """
    inner = " " * (indent + 2)
    if isinstance(value, str):
        return quoted(value)
    if value is None or isinstance(value, int):
        return json.dumps(value)
    if isinstance(value, Mapping):
        parts = [f"{inner}{quoted(name)}: {yaml(part, indent + 2)}" for name, part in value.items()]
        return _bracketed("{", parts, "}", indent)
    return _bracketed("[", [f"{inner}{yaml(part, indent + 2)}" for part in value], "]", indent)


def quoted(text: str) -> str:
    """A text in double quotes; all but the plain letters and signs of ASCII are written by their numbers.

    JSON's own escapes would not do: YAML takes two halves of a surrogate pair for two characters.
    """
    return '"' + "".join(map(_escaped, text)) + '"'


def _escaped(sign: str) -> str:
    if sign in '"\\':
        return f"\\{sign}"
    if " " <= sign <= "~":
        return sign
    return f"\\u{ord(sign):04x}" if ord(sign) < 0x10000 else f"\\U{ord(sign):08x}"


def _bracketed(opening: str, parts: list[str], closing: str, indent: int) -> str:
    return f"{opening}\n" + ",\n".join(parts) + f"\n{' ' * indent}{closing}" if parts else opening + closing
