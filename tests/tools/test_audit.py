"""The audit of locked packages: what pip-audit answers, and that what was not looked up is not called good."""

from __future__ import annotations

import json

import pytest
from tools.audit import AWAY, Audited, read, verdict

REPORT = {
    "dependencies": [
        {"name": "good", "version": "1.0", "vulns": []},
        {"name": "bad", "version": "2.0", "vulns": [{"id": "PYSEC-1", "fix_versions": ["2.1"]}]},
        {"name": "worse", "version": "3.0", "vulns": [{"id": "PYSEC-2", "fix_versions": []}]},
        {"name": "hidden", "skip_reason": "not found"},
    ]
}


def test_vulnerabilities_and_what_was_skipped_are_read() -> None:
    found = read(json.dumps(REPORT))
    assert (found.known, found.skipped) == (3, ("hidden",))
    assert found.vulnerable == ("bad 2.0: PYSEC-1, mended in 2.1", "worse 3.0: PYSEC-2, mended in no version")
    for wrong in ("", "[]", "{}"):
        with pytest.raises((ValueError, KeyError, TypeError)):
            read(wrong)


def test_only_a_whole_look_without_a_finding_is_good() -> None:
    good, away = Audited(5, (), ()), Audited(0, ("a", "b"), ())
    assert verdict([good, good]) == 0
    assert verdict([good, away]) == 1
    assert verdict([good, Audited(5, (), ("a 1: PYSEC-1",))]) == 1
    assert verdict([away, away]) == AWAY
