"""Options of a rule: a struct that refuses what is not allowed, with a sentence that names the option."""

from __future__ import annotations

import functools
import math
import sys
from collections.abc import Iterable, Mapping
from numbers import Real
from typing import Annotated, Any, NamedTuple, TypeVar, get_type_hints

import msgspec
from msgspec import inspect

from auricle.errors import SettingsError, nearest
from auricle.settings import show

LARGEST = sys.float_info.max
LARGEST_INTEGER = 1 << 53
"""What an option says in a plan (`auricle.wire.plan.Option`)."""

Positive = Annotated[float, msgspec.Meta(gt=0)]
NotNegative = Annotated[float, msgspec.Meta(ge=0)]
Part = Annotated[float, msgspec.Meta(ge=0, lt=1)]
"""A fraction that is not the whole."""
Count = Annotated[int, msgspec.Meta(ge=1)]


class Options(msgspec.Struct, frozen=True):
    """Options of a rule: fields with a default, of kinds whose bounds and meaning `msgspec.Meta` says.

    An integer becomes a float where one is asked for. What single values cannot say is refused in a `__post_init__`
    that calls this one first.

    Raises
    ------
    SettingsError
        A value is of another kind, not finite, or outside its bounds.
    """

    def __post_init__(self) -> None:
        for field in list_fields(type(self)):
            value = getattr(self, field.name)
            fitted = _convert(field, value)
            if fitted is not value:
                msgspec.structs.force_setattr(self, field.name, fitted)


Kind = TypeVar("Kind", bound=Options)


class OptionField(NamedTuple):
    """An option as its struct declares it."""

    name: str
    kind: Any
    """With its bounds, as `msgspec.convert` takes it."""
    description: str
    """Empty where the struct has none."""


@functools.cache
def list_fields(kind: type[Options]) -> tuple[OptionField, ...]:
    """The options that a struct declares, in their order."""
    hints = get_type_hints(kind, include_extras=True)
    return tuple(OptionField(name, hints[name], _find_description(hints[name])) for name in kind.__struct_fields__)


def read_options(options: Kind, values: Mapping[str, object], where: str) -> Kind:
    """Options with other values, as a command line, a file or a plan has them.

    Parameters
    ----------
    options
        Have the values of those that are not named.
    where
        Whose they are, as a sentence says it.

    Raises
    ------
    SettingsError
        There is no option of that name, or a value is not allowed.
    """
    known = options.__struct_fields__
    for name in values:
        if name not in known:
            raise SettingsError(f'{where} has no option "{name}"; {nearest(name, known) if known else "it has none."}')
    return msgspec.structs.replace(options, **values)


def describe_values(field: OptionField) -> str:
    """What values an option takes, as the end of a sentence; None, which some take for another value, is not named."""
    return _describe(_bare_type(inspect.type_info(field.kind)))


def list_changes(options: Options) -> dict[str, object]:
    """Those that differ from their defaults, by name."""
    fields = msgspec.structs.fields(options)
    return {each.name: value for each in fields if (value := getattr(options, each.name)) != each.default}


def _find_description(kind: object) -> str:
    """What the last of a kind's metas says of it."""
    texts = [each.description for each in getattr(kind, "__metadata__", ()) if isinstance(each, msgspec.Meta)]
    return next((text for text in reversed(texts) if text), "")


def _convert(field: OptionField, value: object) -> object:
    """A value as its option has it."""
    try:
        fitted = msgspec.convert(value, field.kind)
        parts = fitted if isinstance(fitted, tuple) else (fitted,)
        if all(math.isfinite(each) for each in parts if isinstance(each, float)):
            return _require_sendable(field.name, fitted)
    except (msgspec.ValidationError, OverflowError):
        pass
    kind = _bare_type(inspect.type_info(field.kind))
    if isinstance(kind, inspect.LiteralType):
        raise SettingsError(f'{field.name} is "{value}"; {nearest(str(value), map(str, kind.values))}')
    raise SettingsError(f"{field.name} is {show(value)}; it must be {_describe(kind)}.")


def _require_sendable(name: str, value: object) -> object:
    """Return a value; SettingsError where it is a number that a plan cannot say."""
    if isinstance(value, int) and abs(value) > LARGEST_INTEGER:
        raise SettingsError(f"{name} is {show(value)}; a number may have at most 53 bits.")
    return value


def _bare_type(kind: inspect.Type) -> inspect.Type:
    """A kind without what is said of it, and without None."""
    if isinstance(kind, inspect.Metadata):
        return _bare_type(kind.type)
    if isinstance(kind, inspect.UnionType):
        return _bare_type(next(each for each in kind.types if not isinstance(each, inspect.NoneType)))
    return kind


def _describe(kind: inspect.Type) -> str:
    """What a value of a kind is, as the end of a sentence."""
    if isinstance(kind, inspect.LiteralType):
        return ", ".join(map(str, kind.values))
    if isinstance(kind, inspect.BoolType):
        return "true or false"
    if isinstance(kind, inspect.VarTupleType):
        return f"a list of numbers{_describe_bounds(_bare_type(kind.item_type))}"
    if isinstance(kind, inspect.IntType):
        return f"a whole number{_describe_bounds(kind).replace(' at least', ' of at least')}"
    if isinstance(kind, inspect.FloatType):
        return f"a number{_describe_bounds(kind)}"
    return "a word" if isinstance(kind, inspect.StrType) else "as the method says"


def _describe_bounds(kind: inspect.Type) -> str:
    """The bounds of a number, with a space before them."""
    if not isinstance(kind, inspect.IntType | inspect.FloatType):
        return ""
    if kind.ge is not None and kind.le is not None:
        return f" from {kind.ge:g} to {kind.le:g}"
    words = (("at least", kind.ge), ("greater than", kind.gt), ("at most", kind.le), ("less than", kind.lt))
    said = " and ".join(f"{word} {bound:g}" for word, bound in words if bound is not None)
    return f" {said}" if said else ""


def check_number(name: str, value: object, *, least: float = 0.0, above: bool = False, below: float = math.inf) -> None:
    """Refuse what is not a finite number in [least, below), or in (least, below) with `above`.

    Raises
    ------
    SettingsError
        The value is not such a number.
    """
    is_number = isinstance(value, Real) and not isinstance(value, bool) and -LARGEST <= value <= LARGEST  # type: ignore[operator]
    if is_number and least <= float(value) < below and not (above and value == least):  # type: ignore[arg-type]
        return
    lower = f"greater than {least:g}" if above else f"at least {least:g}"
    upper = "" if math.isinf(below) else f" and less than {below:g}"
    raise SettingsError(f"{name} is {show(value)}; it must be a number {lower}{upper}.")


def check_choice(name: str, value: object, choices: Iterable[str]) -> None:
    """Refuse a word that is not in `choices`.

    Raises
    ------
    SettingsError
        The value is another word; the nearest is named.
    """
    known = tuple(choices)
    if value not in known:
        raise SettingsError(f'{name} is "{value}"; {nearest(str(value), known)}')
