"""What keeps a device's modules small: they are loaded late, and without the docstrings of functions."""

from __future__ import annotations

import subprocess
import sys
from types import CodeType, FunctionType

import pytest

from auricle_edge.board.bare_code import SHORTEST, bare

LONG = "A sentence that is longer than the shortest docstring that is taken out."
SOURCE = f'''
"""{LONG}"""

def told(x):
    """{LONG}"""
    return x, "{LONG[:-1]}"

def silent():
    return "{LONG}"

def outer():
    """{LONG}"""
    def inner():
        """{LONG}"""
        return lambda: "{LONG}"
    return inner

class Kept:
    """{LONG}"""

    def method(self):
        """{LONG}"""
        return [f"{{each}}{LONG}" for each in "ab"]

words = [str(each) + "{LONG}" for each in range(2)]
'''


def run(code: CodeType) -> dict[str, object]:
    made: dict[str, object] = {"__name__": "made"}
    exec(code, made)
    return made


def test_only_the_docstrings_of_functions_are_taken_out() -> None:
    code = compile(SOURCE, "made", "exec")
    before, after = run(code), run(bare(code))
    for made in (before, after):
        told, silent, outer, kept = (made[name] for name in ("told", "silent", "outer", "Kept"))
        assert isinstance(told, FunctionType) and isinstance(silent, FunctionType) and isinstance(outer, FunctionType)
        assert isinstance(kept, type)
        assert told(1) == (1, LONG[:-1]) and silent() == LONG and outer()()() == LONG
        assert kept().method() == ["a" + LONG, "b" + LONG] and made["words"] == ["0" + LONG, "1" + LONG]
        assert kept.__doc__ == made["__doc__"] == LONG
        wanted = LONG if made is before else ""
        assert [told.__doc__, outer.__doc__, outer().__doc__, kept.method.__doc__] == [wanted] * 4
        assert silent.__doc__ is None
    assert len(LONG) >= SHORTEST


def test_code_without_docstrings_is_the_same_object() -> None:
    code = compile("def f(x):\n    return x + 1\n", "made", "exec")
    assert bare(code) is code


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
def test_a_service_starts_with_neither(module: str) -> None:
    program = (
        "from auricle_edge.board.bare_code import load_bare\n"
        "from auricle_edge.board.late_modules import stand_in_for\n"
        "load_bare(); stand_in_for()\n"
        f"import {module}, asyncio, sys, numpy.ma\n"
        "assert not asyncio.run.__doc__ and numpy.linalg.inv.__doc__\n"
        "print(*{'onnxruntime', 'http.client', 'importlib.metadata', 'numpy.random'} & set(sys.modules))\n"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout) == (0, "\n"), done.stderr
