"""How a benchmark ends: its report and the command that gave it, or JSON, or one sentence why it could not measure."""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import TypeVar

import msgspec

from auricle.errors import AuricleError
from bench.step_environments import NoEnvironment
from bench.step_process import Failed

_T = TypeVar("_T")


def answer(measure: Callable[[], _T], report: Callable[[_T], str], *, as_json: bool) -> int:
    """Measure, and print what came out; the exit status.

    Parameters
    ----------
    measure
        Returns what JSON can say.
    report
        Makes text of it.
    """
    try:
        found = measure()
    except (AuricleError, NoEnvironment, Failed) as error:
        print(f"bench: {error}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        print("\nbench: interrupted; nothing is left behind.", file=sys.stderr)
        return 130
    if as_json:
        print(msgspec.json.encode(found).decode())
    else:
        print(f"{report(found)}\n\ncommand: python {' '.join(sys.argv)}")
    return 0
