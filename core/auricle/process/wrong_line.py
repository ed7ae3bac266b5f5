"""What is wrong with a command line, and what the system refused, in the sentences of this project."""

from __future__ import annotations

import re
from typing import Any

import typer

from auricle.errors import because, nearest

_BOUND = re.compile(r"Input should be (?P<sign>greater|less) than (?P<equal>or equal to )?(?P<limit>\S+)")
_KINDS = {"integer": "a whole number", "number": "a number", "boolean": "true or false"}


def wrong_line(error: typer.BadParameter) -> str:
    """The sentence for what typer refuses.

    Parameters
    ----------
    error
        Any of its errors that a command line can cause.
    """
    given = getattr(error, "option_name", None)
    if given and getattr(error, "possibilities", None) is not None and "No such option" in error.message:
        return f"There is no option {given}: {nearest(given, _options(error))}"
    said = error.format_message()
    hint, _, why = said.partition(": ")
    if bound := _BOUND.search(why):
        least = bound["sign"] == "greater"
        sign = ("at least" if least else "at most") if bound["equal"] else ("more than" if least else "less than")
        said = f"{hint}: it has to be {sign} {bound['limit']}"
    for kind, words in _KINDS.items():
        if why.startswith(f"Input should be a valid {kind}"):
            said = f"{hint}: it has to be {words}"
    return said if said.endswith((".", "?")) else f"{said}."


def _options(error: typer.BadParameter) -> list[str]:
    """The options of the command that was called."""
    context: Any = error.ctx
    if context is None:
        return []
    return [name for each in context.command.get_params(context) for name in each.opts if name.startswith("--")]


def of_the_system(error: OSError) -> str:
    """The sentence for what the system refused, with the path where it names one."""
    name = error.filename
    where = name.decode(errors="replace") if isinstance(name, bytes) else "" if name is None else str(name)
    return f"{where} cannot be used: {because(error)}." if where else f"The system refused: {because(error)}."
