"""A pytest plug-in: when the time is over, the tests that are left are skipped, and the end says which.

AURICLE_TESTS_UNTIL=$(($(date +%s) + 40)) python -m pytest -p tools.time_budget tests/core
"""

from __future__ import annotations

import os
import time
from collections import Counter

import pytest

UNTIL = "AURICLE_TESTS_UNTIL"
"""Environment variable: seconds since 1970 after which no test begins."""
LEAST = "AURICLE_TESTS_LEAST"
"""Environment variable: seconds that tests get from the first one on, however late it is [0]."""
REASON = "the time is over"

_began: list[float] = []
_skipped: Counter[str] = Counter()


def pytest_runtest_setup(item: pytest.Item) -> None:
    """Begin no test after the end, but one."""
    _began.append(time.time())
    if _began[-1] > max(float(os.environ[UNTIL]), _began[0] + float(os.environ.get(LEAST, "0"))):
        pytest.skip(REASON)


def pytest_runtest_logreport(report: pytest.TestReport) -> None:
    """Count what was skipped, by file."""
    if report.skipped and isinstance(report.longrepr, tuple) and report.longrepr[2] == f"Skipped: {REASON}":
        _skipped[report.nodeid.split("::")[0]] += 1


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Name the files whose tests were left out."""
    if _skipped:
        terminalreporter.section(f"{sum(_skipped.values())} tests left out: {REASON}")
        for name, count in sorted(_skipped.items()):
            terminalreporter.write_line(f"{name}: {count}")
