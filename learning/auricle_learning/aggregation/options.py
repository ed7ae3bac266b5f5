"""Checks on the options of a rule, each with a sentence that names the option."""

from __future__ import annotations

import math
import sys
from collections.abc import Iterable
from numbers import Real

from auricle.errors import SettingsError, nearest

LARGEST = sys.float_info.max


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
    raise SettingsError(f"{name} is {value!r}; it must be a number {lower}{upper}.")


def check_count(name: str, value: object, *, least: int = 0, optional: bool = True) -> None:
    """Refuse what is not a whole number of at least `least`, or None with `optional`.

    Raises
    ------
    SettingsError
        The value is not such a number.
    """
    if (optional and value is None) or (isinstance(value, int) and not isinstance(value, bool) and value >= least):
        return
    raise SettingsError(f"{name} is {value!r}; it must be a whole number of at least {least}.")


def check_switch(name: str, value: object) -> None:
    """Refuse what is neither true nor false.

    Raises
    ------
    SettingsError
        The value is another one.
    """
    if not isinstance(value, bool):
        raise SettingsError(f"{name} is {value!r}; it must be true or false.")


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
