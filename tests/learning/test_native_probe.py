"""What the C library is asked for is checked in C: with sanitizers, in a process of its own."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
from tests.learning.sanitizers import sanitized

from auricle_learning.native.library import compiler, library, library_path

pytestmark = pytest.mark.skipif(compiler() is None, reason="there is no C compiler here")


def probe(path: Path, count: int, **environment: str) -> list[int]:
    """How often sums and augmentation were refused in so many tries; AssertionError where the process ends badly."""
    command = [sys.executable, "-m", "tests.learning.sums_probe", str(path), str(count)]
    told = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path), **environment}
    done = subprocess.run(command, env=told, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr[-3000:]
    return [int(word) for word in done.stdout.split()]


def test_sizes_and_draws_that_lie_outside_are_refused() -> None:
    library()
    sums, clips = probe(library_path(), 400)
    assert sums > 100 and clips > 100


@pytest.mark.slow
@pytest.mark.nightly
def test_sanitizers_find_nothing_in_sums_or_augmentation(tmp_path: Path) -> None:
    made, environment = sanitized(tmp_path)
    assert min(probe(made, 1500, **environment)) > 300
