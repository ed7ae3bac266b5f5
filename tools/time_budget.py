"""A pytest plug-in: when the time is over, the tests that are left do not begin, and the end says which.

AURICLE_TESTS_UNTIL=$(($(date +%s) + 40)) python -m pytest -p tools.time_budget tests/core
"""

from __future__ import annotations

import os
import time
from collections import Counter
from typing import Any

import pytest

UNTIL = "AURICLE_TESTS_UNTIL"
"""Environment variable: seconds since 1970 after which no test begins."""
LEAST = "AURICLE_TESTS_LEAST"
"""Environment variable: seconds that tests get from the first one on, however late it is [0]."""
REASON = "the time is over"
KEY = "auricle_left_out"
"""Of what a worker of pytest-xdist tells at its end."""

_began: list[float] = []
_left_out: Counter[str] = Counter()


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_protocol(item: pytest.Item) -> bool | None:
    """Begin no test after the end, but one: a thousand that are left take no time, as skipping each would."""
    _began.append(time.time())
    if _began[-1] <= max(float(os.environ[UNTIL]), _began[0] + float(os.environ.get(LEAST, "0"))):
        return None
    _left_out[item.nodeid.split("::")[0]] += 1
    return True


def pytest_sessionfinish(session: pytest.Session) -> None:
    """A worker tells what it left out."""
    told = getattr(session.config, "workeroutput", None)
    if told is not None:
        told[KEY] = dict(_left_out)


@pytest.hookimpl(optionalhook=True)
def pytest_testnodedown(node: Any) -> None:  # pytest-xdist's, which may not be installed
    """Take what a worker told."""
    _left_out.update(getattr(node, "workeroutput", {}).get(KEY, {}))


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Name the files whose tests were left out."""
    if _left_out:
        terminalreporter.section(f"{sum(_left_out.values())} tests left out: {REASON}")
        for name, count in sorted(_left_out.items()):
            terminalreporter.write_line(f"{name}: {count}")
