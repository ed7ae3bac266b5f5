"""The orderings that a newcomer relies on hold, in the suite `headlines` by its command: attacks, detection."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import msgspec
import pytest

from auricle_fleet.suite.claims import SHOWN, verdicts
from auricle_fleet.suite.plan import read_suite
from auricle_fleet.suite.record import SuiteRecord

pytest.importorskip("espeakng_loader")


@pytest.mark.slow
@pytest.mark.nightly
def test_the_headline_orderings_are_shown(tmp_path: Path) -> None:
    out = tmp_path / "headlines"
    command = [sys.executable, "-m", "auricle", "fleet", "suite", "headlines", "--out", str(out)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=2400, check=False)
    assert done.returncode == 0, done.stderr[-4000:]
    record = msgspec.json.decode((out / "results.json").read_bytes(), type=SuiteRecord)
    judged = verdicts(read_suite("headlines")[0].claims, record.tables)
    assert len(judged) == 5
    assert {each.claim.text: (each.verdict, each.values) for each in judged if each.verdict != SHOWN} == {}
