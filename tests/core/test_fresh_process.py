"""A process that goes on again: the same id, the settings, and nothing of before."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from auricle.process import ending

BEFORE = """
import os, sys
from auricle.process import ending
ending.ours = True
print(os.getpid(), flush=True)
ending.become("goes_on", b'{"secret": 1}', "--json")
"""
AFTER = """
import json, os, sys
from auricle.process.ending import given
loaded = "auricle.process.ending" in sys.modules
print(json.dumps([os.getpid(), json.loads(given(sys.argv[1])), sys.argv[2:], loaded]))
"""


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="a process is replaced on Linux only")
def test_the_settings_pass_through_a_file_that_lies_nowhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "goes_on.py").write_text(AFTER)
    monkeypatch.setenv("PYTHONPATH", ":".join([str(tmp_path), *sys.path]))

    done = subprocess.run([sys.executable, "-c", BEFORE], capture_output=True, text=True, check=False, timeout=60)

    assert done.returncode == 0, done.stderr
    first, second = done.stdout.splitlines()
    assert json.loads(second) == [int(first), {"secret": 1}, ["--json"], True]


def test_a_program_that_calls_a_command_is_not_replaced() -> None:
    assert not ending.ours
    ending.become("goes_on", b"")
