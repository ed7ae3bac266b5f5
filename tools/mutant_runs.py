"""Run the tests of a changed source: in a copy of the project, by forks of a process that has collected them."""

from __future__ import annotations

import contextlib
import gc
import importlib
import os
import shutil
import signal
import sys
import time
from collections.abc import Iterator, Sequence
from importlib.util import cache_from_source
from multiprocessing import connection, get_context
from pathlib import Path
from types import FunctionType, ModuleType
from typing import Any

import pytest

PARTS = ("core", "learning", "edge", "cloud", "export", "fleet")
LEFT_OUT = (".*", "__pycache__", "node_modules")
SLACK = 30.0
"""Seconds that a run may take beyond ten times what it takes without a change."""
PASSED, FAILED, NOT_SWAPPED = 0, 1, 99
PLUGINS = ("no:cacheprovider", "_hypothesis_pytestplugin", "pytest_timeout")
"""Of pytest: the others take longer to load than most tests to run."""


class Tree:
    """A copy of the project in which one file is changed at a time."""

    def __init__(self, root: Path, folder: Path) -> None:
        self.folder = folder
        shutil.copytree(root, folder, ignore=shutil.ignore_patterns(*LEFT_OUT), dirs_exist_ok=True)

    @property
    def said(self) -> str:
        """The end of what pytest printed last."""
        return (self.folder / "said.txt").read_text(errors="replace")[-3000:]

    def in_place(self, file: str, tests: Sequence[str], sources: Sequence[bytes]) -> Iterator[int]:
        """Exit codes of the tests without a change, then with each of these sources' functions."""
        receiver, sender = get_context("fork").Pipe(duplex=False)
        plugin = InPlace(self.folder / file, [None, *sources], sender)
        process = get_context("fork").Process(target=self._run, args=(tests, plugin))
        process.start()
        sender.close()
        with contextlib.suppress(EOFError):
            while True:
                yield receiver.recv()
        process.join()

    def from_start(self, file: str, tests: Sequence[str], source: bytes, seconds: float) -> int:
        """The tests' exit code when everything is imported with this source."""
        path = self.folder / file
        before = path.read_bytes()
        compiled = Path(cache_from_source(str(path)))
        compiled.unlink(missing_ok=True)
        path.write_bytes(source)
        process = get_context("fork").Process(target=self._run, args=(tests, None))
        process.start()
        code = _ended(process.pid, process.sentinel, seconds)
        process.join()
        path.write_bytes(before)
        return process.exitcode if code is None and process.exitcode is not None else FAILED

    def _run(self, tests: Sequence[str], plugin: InPlace | None) -> None:
        os.setpgid(0, 0)
        said = os.open(self.folder / "said.txt", os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
        for stream in (1, 2):
            os.dup2(said, stream)
        os.chdir(self.folder)
        paths = [str(self.folder / part) for part in PARTS]
        sys.path[:0] = [str(self.folder), *paths]
        os.environ["PYTHONPATH"] = os.pathsep.join(paths)
        os.environ["PYTEST_DISABLE_PLUGIN_AUTOLOAD"] = "1"
        sys.dont_write_bytecode = plugin is None
        loaded = [word for name in PLUGINS for word in ("-p", name)]
        options = ["-x", "-q", *loaded, "-m", "not slow", "--hypothesis-seed=0", *tests]
        code = pytest.main(options, plugins=[] if plugin is None else [plugin])
        sys.stdout.flush()
        os._exit(int(code))


class InPlace:
    """A plugin of pytest that runs what was collected once for each source, every time in a child."""

    def __init__(self, path: Path, sources: Sequence[bytes | None], codes: Any) -> None:
        self._path, self._sources, self._codes = path, sources, codes
        self._child = False

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtestloop(self, session: pytest.Session) -> bool | None:
        """In each child pytest goes on with its own loop; here the children's codes are told."""
        if session.testsfailed or not session.items:
            return None
        gc.freeze()
        seconds = 1800.0
        for source in self._sources:
            began = time.monotonic()
            child = os.fork()
            if child == 0:
                self._child = True
                os.setpgid(0, 0)
                if source is not None:
                    self._swap(source)
                return None
            handle = os.pidfd_open(child)
            late = _ended(child, handle, seconds)
            os.close(handle)
            status = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
            self._codes.send(status if late is None else FAILED)
            if source is None:
                seconds = 10 * (time.monotonic() - began) + SLACK
        return True

    def pytest_sessionfinish(self, exitstatus: int) -> None:
        """A child ends here, with what its tests came to."""
        if self._child:
            sys.stdout.flush()
            os._exit(int(exitstatus))

    def _swap(self, source: bytes) -> None:
        """Give the functions of the module the code of a changed source; a child that cannot ends here."""
        found = [module for module in sys.modules.values() if getattr(module, "__file__", None) == str(self._path)]
        if len(found) != 1:
            os._exit(NOT_SWAPPED)
        new = ModuleType(found[0].__name__)
        new.__dict__.update({name: value for name, value in vars(found[0]).items() if name.startswith("__")})
        try:
            exec(compile(source, str(self._path), "exec"), new.__dict__)  # the project's own source
        except Exception:  # noqa: BLE001 - whatever a changed source raises
            os._exit(FAILED)
        try:
            _swap_functions(found[0], new, found[0].__name__)
        except (ValueError, TypeError):
            os._exit(NOT_SWAPPED)


def _swap_functions(old: Any, new: Any, module: str) -> None:
    """Give the functions and methods of one module or class the code of another one's."""
    for name, value in list(vars(new).items()):
        known = vars(old).get(name)
        if isinstance(value, type) and isinstance(known, type) and value.__module__ == module:
            _swap_functions(known, value, module)
        for before, after in zip(_functions(known), _functions(value), strict=False):
            if after.__module__ == module and after.__code__.co_filename == before.__code__.co_filename:
                before.__code__ = after.__code__
                before.__defaults__, before.__kwdefaults__ = after.__defaults__, after.__kwdefaults__


def _functions(value: Any) -> list[FunctionType]:
    """The functions behind a function, method or property."""
    inner = [getattr(value, name, None) for name in ("fget", "__func__", "func", "__wrapped__")]
    return [each for each in (value, *inner) if isinstance(each, FunctionType)]


def _ended(group: int | None, handle: int, seconds: float) -> str | None:
    """Wait for a process and kill what it left behind; "late" where it had to be killed itself."""
    in_time = connection.wait([handle], seconds)
    assert group
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(group, signal.SIGKILL)
    return None if in_time else "late"


def preload(names: Sequence[str]) -> None:
    """Import what many tests need, once; what is not installed makes its tests skip themselves."""
    os.environ["OMP_NUM_THREADS"] = "1"
    for name in names:
        with contextlib.suppress(ImportError):
            importlib.import_module(name)
