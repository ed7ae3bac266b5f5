"""What a device seldom needs is loaded at first use."""

from __future__ import annotations

import subprocess
import sys

import pytest

LATE = """
import sys
from auricle_edge.board.late_modules import LateModule, stand_in_for
stand_in_for(("urllib.request", "tempfile", "no_such_module"))
import tempfile, urllib.request
assert type(tempfile) is LateModule is type(urllib.request) and not hasattr(tempfile, "__file__")
from concurrent.futures import ThreadPoolExecutor
with ThreadPoolExecutor(8) as pool:
    assert len({id(each) for each in pool.map(lambda _: tempfile.gettempdir, range(64))}) == 1
assert type(sys.modules["tempfile"]) is not LateModule and callable(urllib.request.getproxies)
import tempfile as again
from urllib.request import Request
assert again is sys.modules["tempfile"] and again.gettempdir is tempfile.gettempdir and Request
import no_such_module
try:
    no_such_module.thing
except ImportError:
    print("well")
"""


def test_a_late_module_is_loaded_once_when_something_of_it_is_asked_for() -> None:
    done = subprocess.run([sys.executable, "-c", LATE], capture_output=True, text=True, check=False)
    assert done.stdout == "well\n", done.stderr


@pytest.mark.parametrize("module", ["auricle_edge.service.listening_device"])
def test_a_service_starts_without_them(module: str) -> None:
    program = (
        "from auricle_edge.board.late_modules import stand_in_for\n"
        "stand_in_for()\n"
        f"import {module}, sys\n"
        "from auricle_edge.board.late_modules import SELDOM, LateModule\n"
        "assert all(type(sys.modules[name]) is LateModule for name in SELDOM)\n"
        "print(*{'onnxruntime', 'http.client', 'importlib.metadata', 'numpy.random'} & set(sys.modules))\n"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout) == (0, "\n"), done.stderr
