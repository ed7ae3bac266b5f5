"""What other packages add under an entry point group: found by its name, imported only when it is asked for."""

from __future__ import annotations

import functools
import inspect
import sys
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, ParamSpec, TypeVar

from auricle.errors import AuricleError, SettingsError

if TYPE_CHECKING:
    from importlib.metadata import EntryPoint

P = ParamSpec("P")
R = TypeVar("R")

LONGEST_REASON = 200
"""Characters of what a foreign package says of an error."""


def entry_points_of(group: str) -> Mapping[str, list[EntryPoint]]:
    """Entry points of a group by their name; nothing is imported."""
    return _read_entry_points(group, tuple(sys.path))


@functools.cache
def _read_entry_points(group: str, _path: tuple[str, ...]) -> Mapping[str, list[EntryPoint]]:
    """Read once for each path: a suite asks for each of its runs, and every package's metadata is a file."""
    from importlib.metadata import entry_points  # most of a megabyte, which a device that listens does without

    found: dict[str, list[EntryPoint]] = {}
    for entry in entry_points(group=group):
        if not any(entry.value == other.value for other in found.get(entry.name, [])):  # listed twice on the path
            found.setdefault(entry.name, []).append(entry)
    return found


def load(what: str, name: str, entries: list[EntryPoint]) -> tuple[object, str]:
    """Import what a package adds.

    Parameters
    ----------
    what
        What it is called in a sentence: method, runtime.
    name, entries
        An item of `entry_points_of`.

    Returns
    -------
    tuple
        It, and the package's name.

    Raises
    ------
    SettingsError
        Two packages offer it, or it cannot be imported.
    """
    if len(entries) > 1:
        packages = " and ".join(sorted(_package(entry) for entry in entries))
        raise SettingsError(f'the {what} "{name}" comes from {packages}; uninstall one of them.')
    package = _package(entries[0])
    try:
        return entries[0].load(), package
    except Exception as error:
        raise SettingsError(
            f'the {what} "{name}" of {package} cannot be loaded ({_reason(error)}); update or uninstall the package.'
        ) from error


def guard(function: Callable[P, R], what: str, where: str, kind: type[AuricleError]) -> Callable[P, R]:
    """Turn what a foreign function raises into one sentence: `where` is the subject, `what` as of `load`."""

    @functools.wraps(function)
    def call(*given: P.args, **options: P.kwargs) -> R:
        try:
            return function(*given, **options)
        except AuricleError:
            raise
        except Exception as error:
            raise kind(f"{where} failed ({_reason(error)}); choose another {what} or update the package.") from error

    return call


def takes(function: object, count: int, *names: str) -> bool:
    """Whether something can be called with so many values in order, and with these names.

    Parameters
    ----------
    function
        Of another package; one that does not say what it takes is believed.
    count, names
        What it will be called with.
    """
    if not callable(function):
        return False
    try:
        inspect.signature(function).bind(*range(count), **dict.fromkeys(names))
    except TypeError:
        return False
    except ValueError:  # one written in C
        return True
    return True


def _reason(error: Exception) -> str:
    """The first line of what a foreign error says."""
    return (str(error).strip().splitlines() or [type(error).__name__])[0][:LONGEST_REASON]


def _package(entry: EntryPoint) -> str:
    return entry.dist.name if entry.dist is not None else entry.value
