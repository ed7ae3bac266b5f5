"""The C library compiled with AddressSanitizer and UndefinedBehaviorSanitizer."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from auricle_learning.native.library import compile_library, compiler


def sanitized(folder: Path) -> tuple[Path, dict[str, str]]:
    """The library, and the environment that a process needs that loads it; skips where the compiler has none."""
    found = compiler()
    assert found is not None
    told = subprocess.run([found, "-print-file-name=libasan.so"], capture_output=True, text=True, check=False)
    if not Path(told.stdout.strip()).is_absolute():
        pytest.skip("the compiler has no AddressSanitizer")
    flags = ("-O1", "-g", "-fsanitize=address,undefined", "-fno-sanitize-recover=all")
    return compile_library(found, folder, flags), {"LD_PRELOAD": told.stdout.strip(), "ASAN_OPTIONS": "detect_leaks=0"}
