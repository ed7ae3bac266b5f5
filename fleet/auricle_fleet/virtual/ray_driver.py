"""This process as the driver of a Ray cluster: a sentence whatever Ray does, and none of its processes left behind.

Ray waits for minutes for what does not come, raises exceptions of all kinds, and leaves the processes that it has begun
where its start fails. So it begins in a thread that nobody has to wait for, and what it began is ended from outside.
"""

from __future__ import annotations

import contextlib
import importlib
import logging
import os
import signal
import socket
import sys
import threading
from collections.abc import Callable, Collection, Iterator
from functools import partial
from pathlib import Path
from typing import Any

from auricle.errors import AuricleError
from auricle.process.clock import SYSTEM_CLOCK
from auricle_fleet.virtual.crew import LOOK, cores
from auricle_fleet.virtual.ray_processes import RayWatcher, is_rays, ray_processes
from auricle_learning.training.train import TrainingStopped

LOCAL = "local"
FAILED = "The Ray cluster failed: start it again, and go on with --resume."
CONNECT = 10.0
"""Seconds in which a cluster has to be reached."""
HEAD_SECONDS = 2.0
"""Between two looks at a cluster's head."""
START_SECONDS = 180.0
"""In which Ray has to have begun, or its cluster to be reached."""
END_SECONDS = 20.0
"""In which Ray's own end has to be over; what is left then is killed."""
LOGS = Path("/tmp/ray/session_latest/logs")
STDERR = 2
_HEAD = b"/gcs_server"
"""In the path of the program that is a cluster's head."""
_PR_SET_CHILD_SUBREAPER = 36


class RayDriver:
    """A connection to a cluster, or one that is begun on this machine and ends with it.

    Parameters
    ----------
    address
        Of the cluster, as Ray writes it, or `local`.
    stopped
        Whether the run ends.

    Raises
    ------
    AuricleError
        Ray cannot be begun here, or the cluster cannot be reached.
    TrainingStopped
        The run ended before.
    """

    def __init__(self, address: str, stopped: Callable[[], bool]) -> None:
        self._address, self._error = address, False
        self._began, self._ends = threading.Event(), threading.Event()
        self._before = set(ray_processes())
        self.head = ClusterHead(self._before)
        _have_orphans_as_children(True)
        self._watcher = RayWatcher(STDERR)
        self._quiet = _QuietLibraries()
        # The kernel ends Ray's processes with the thread that began them, so it lives as long as they do.
        self._thread = threading.Thread(target=self._drive, name="ray", daemon=True)
        self._thread.start()
        try:
            self._wait(stopped)
        except BaseException:
            self.close()
            raise

    def _drive(self) -> None:
        import ray

        begin = partial(ray.init, log_to_driver=False, logging_level=logging.CRITICAL)
        with contextlib.ExitStack() as until_it_ends:
            try:
                if self._address == LOCAL:
                    until_it_ends.enter_context(_on_loopback())
                    # "local": not the cluster that a file in /tmp or a variable names.
                    begin(address="local", num_cpus=cores(), include_dashboard=False)
                else:
                    begin(self._address)
                self.head.address = ray.get_runtime_context().gcs_address
            except BaseException:  # noqa: BLE001  # Ray raises what it likes; whatever it is, there is no cluster
                self._error = True
            self._began.set()
            self._ends.wait()
            with contextlib.suppress(Exception):
                ray.shutdown()

    def _wait(self, stopped: Callable[[], bool]) -> None:
        deadline = SYSTEM_CLOCK.monotonic() + START_SECONDS
        while not self._began.wait(LOOK):
            if stopped():
                raise TrainingStopped("The run ends.")
            self.head.require(self._no_cluster)
            if SYSTEM_CLOCK.monotonic() > deadline:
                raise AuricleError(f"{self._no_cluster} It was waited for {START_SECONDS:g} seconds.")
        if self._error:
            raise AuricleError(self._no_cluster)

    @property
    def _no_cluster(self) -> str:
        if self._address != LOCAL:
            return f"There is no Ray cluster at {self._address}: start one there, or say --ray local."
        return (
            f"Ray cannot begin on this machine, which may be too busy or too small: try again, or leave --ray out and "
            f"give --processes. Its own logs are in {LOGS}."
        )

    def close(self) -> None:
        """Leave the cluster; end one that was begun here."""
        self._ends.set()
        if self._began.is_set():
            self._thread.join(END_SECONDS)
        while left := [each for each in ray_processes() if each not in self._before]:
            for process in left:
                with contextlib.suppress(ProcessLookupError):
                    os.kill(process, signal.SIGKILL)
            for process in left:
                _forget(process)
        _have_orphans_as_children(False)
        self._watcher.end()
        if not self._thread.is_alive():  # else it would go on to say what it waits for
            self._quiet.end()


class ClusterHead:
    """The process that knows a cluster's nodes. Where it is gone, Ray ends ours after a minute, without a word.

    Parameters
    ----------
    before
        Ray's processes of which none is this cluster's.
    """

    def __init__(self, before: Collection[int]) -> None:
        self.address = ""
        """`host:port`; empty until it is known: then the head is one of this process's children."""
        self._before, self._seen, self._next = before, set[int](), 0.0

    def require(self, sentence: str) -> None:
        """AuricleError with this sentence where it is gone; it is looked at every `HEAD_SECONDS`."""
        if SYSTEM_CLOCK.monotonic() >= self._next:
            self._next = SYSTEM_CLOCK.monotonic() + HEAD_SECONDS
            if not self.is_there():
                raise AuricleError(sentence)

    def watch(self, call: Callable[[], None]) -> None:
        """Let a call ask it for something; AuricleError where it ends before it answers."""
        raised: list[BaseException] = []
        answered = threading.Event()

        def ask() -> None:
            try:
                call()
            except BaseException as error:  # noqa: BLE001  # it is raised below, in the thread that waits
                raised.append(error)
            answered.set()

        threading.Thread(target=ask, daemon=True).start()
        while not answered.wait(LOOK):
            self.require(FAILED)
        if raised:
            raise raised[0]

    def is_there(self) -> bool:
        """Whether it answers, or has not begun."""
        if self.address:
            try:
                require_there(self.address)
            except OSError:
                return False
            return True
        heads = {each for each in ray_processes() if each not in self._before and is_rays(each, _HEAD)}
        is_gone, self._seen = bool(self._seen - heads), self._seen | heads
        return not is_gone


def require_there(address: str) -> None:
    """OSError where nobody listens at `host:port`: Ray itself would try for minutes."""
    host, _, port = address.rpartition("://")[2].rpartition(":")
    if host and port.isdecimal():
        socket.create_connection((host.strip("[]"), int(port)), CONNECT).close()


@contextlib.contextmanager
def _on_loopback() -> Iterator[None]:
    """Have Ray's servers listen on 127.0.0.1, as it does on a Mac: they ask nobody who connects for anything.

    Elsewhere it takes the machine's address, also where 127.0.0.1 is asked for.
    """
    constants: Any = importlib.import_module("ray._private.ray_constants")
    before, constants.ENABLE_RAY_CLUSTER = constants.ENABLE_RAY_CLUSTER, False
    try:
        yield
    finally:
        constants.ENABLE_RAY_CLUSTER = before


class _QuietLibraries:
    """Libraries in C++ write to the descriptor of standard error, past Python: nowhere, until the end of this."""

    def __init__(self) -> None:
        self._ours, self._descriptor = sys.stderr, os.dup(STDERR)
        with contextlib.suppress(OSError, ValueError, AttributeError):  # not a file, or none, as in a notebook
            if sys.stderr.fileno() == STDERR:
                sys.stderr = os.fdopen(self._descriptor, "w", 1, sys.stderr.encoding, sys.stderr.errors, closefd=False)
        with Path(os.devnull).open("wb") as nowhere:
            os.dup2(nowhere.fileno(), STDERR)

    def end(self) -> None:
        """As before."""
        os.dup2(self._descriptor, STDERR)
        sys.stderr = self._ours
        os.close(self._descriptor)


def _forget(process: int) -> None:
    """Take a killed child out of the table of processes."""
    for _ in range(100):
        with contextlib.suppress(ChildProcessError):
            if os.waitpid(process, os.WNOHANG) != (0, 0):
                return
        SYSTEM_CLOCK.sleep(LOOK / 10)


def _have_orphans_as_children(they_are: bool) -> None:
    """Whether a process whose parent ends becomes this one's child (prctl(2)); only Linux does that."""
    if sys.platform.startswith("linux"):
        from ctypes import CDLL

        CDLL(None).prctl(_PR_SET_CHILD_SUBREAPER, int(they_are))
