"""A pytest plug-in: what became of each test, for `tools/gate.py`.

    pytest -p tools.gate_results --results out/gate/fast.json

The file has `seconds` by test (setup and teardown included), and `failed`: the first line of the reason by test.
"""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path

import pytest

SECONDS: Counter[str] = Counter()
FAILED: dict[str, str] = {}


def pytest_addoption(parser: pytest.Parser) -> None:
    """Where the results go."""
    parser.addoption("--results", type=Path, metavar="FILE", help="write seconds and failures of each test as JSON")


def reason_of(report: pytest.TestReport | pytest.CollectReport) -> str:
    """One line that says why a test failed."""
    crash = getattr(report.longrepr, "reprcrash", None)
    lines = str(crash.message if crash is not None else report.longrepr or "").strip().splitlines()
    line = (lines[0] if crash is not None else lines[-1]) if lines else "no reason was given"
    return line[:200]


def pytest_runtest_logreport(report: pytest.TestReport) -> None:
    """Add up the seconds, and keep the first failure."""
    SECONDS[report.nodeid] += report.duration
    if report.failed:
        FAILED.setdefault(report.nodeid, reason_of(report))


def pytest_collectreport(report: pytest.CollectReport) -> None:
    """A file that cannot be imported fails as a whole."""
    if report.failed:
        FAILED.setdefault(report.nodeid, reason_of(report))


def pytest_sessionfinish(session: pytest.Session) -> None:
    """Write the file; the workers of pytest-xdist leave it to the process that began them."""
    path: Path | None = session.config.getoption("--results")
    if path is None or hasattr(session.config, "workerinput"):
        return
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps({"failed": FAILED, "seconds": {name: round(t, 2) for name, t in SECONDS.items()}}))
