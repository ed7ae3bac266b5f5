"""Whatever Ray does as it begins ends in a sentence, and what it began ends: a stand-in for Ray that misbehaves.

Ray itself takes a minute to begin on a busy machine: test_ray.py has it.
"""

from __future__ import annotations

import subprocess
import sys
import threading
from collections.abc import Callable
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest

from auricle.errors import AuricleError
from auricle_fleet.virtual import ray_driver
from auricle_fleet.virtual.ray_crew import _in_a_sentence
from auricle_fleet.virtual.ray_driver import RayDriver
from auricle_learning.training.train import TrainingStopped

linux = pytest.mark.skipif(not sys.platform.startswith("linux"), reason="processes are looked for in /proc")


def begin(name: str) -> subprocess.Popen[bytes]:
    """A process that looks like one of Ray's."""
    return subprocess.Popen([name, "600"], executable="/bin/sleep")


ORPHAN = """
import subprocess
print(subprocess.Popen(['ray::Orphan', '600'], executable='/bin/sleep', stdout=subprocess.DEVNULL).pid)
"""
"""A program that leaves a process without a parent, and says which."""


def lives(process: int) -> bool:
    return Path(f"/proc/{process}").exists()


@pytest.fixture
def ray(monkeypatch: pytest.MonkeyPatch) -> Callable[..., None]:
    def set_up(init: Callable[..., object], shutdown: Callable[[], object] = lambda: None) -> None:
        module = ModuleType("ray")
        module.init, module.shutdown = init, shutdown  # type: ignore[attr-defined]
        module.get_runtime_context = lambda: SimpleNamespace(gcs_address="")  # type: ignore[attr-defined]
        monkeypatch.setitem(sys.modules, "ray", module)
        constants = SimpleNamespace(ENABLE_RAY_CLUSTER=True)
        monkeypatch.setitem(sys.modules, "ray._private.ray_constants", constants)

    return set_up


@linux
@pytest.mark.parametrize("raised", [Exception("60 lines"), OSError("no"), SystemExit(1), MemoryError()])
def test_whatever_ray_raises_as_it_begins_is_one_sentence_and_nothing_is_left(
    ray: Callable[..., None], raised: BaseException
) -> None:
    begun: list[int] = []

    def init(**_: object) -> None:
        begun.append(begin("ray::DashboardAgent").pid)
        begun.append(int(subprocess.run([sys.executable, "-c", ORPHAN], stdout=subprocess.PIPE, check=True).stdout))
        raise raised

    ray(init)
    other = begin("another")
    try:
        with pytest.raises(AuricleError, match=r"^Ray cannot begin on this machine, .*/logs\.$"):
            RayDriver("local", lambda: False)
        assert other.poll() is None and len(begun) == 2 and not any(map(lives, begun))
    finally:
        other.kill()
        other.wait()


@linux
@pytest.mark.parametrize("end", ["the run is stopped", "it takes too long"])
def test_a_start_that_does_not_end_is_given_up(
    ray: Callable[..., None], monkeypatch: pytest.MonkeyPatch, end: str
) -> None:
    waits, begun = threading.Event(), []

    def init(*_: object, **__: object) -> None:
        begun.append(begin("ray::raylet").pid)
        waits.wait()

    ray(init)
    monkeypatch.setattr(ray_driver, "START_SECONDS", 0.0 if end == "it takes too long" else 60.0)
    refused = TrainingStopped if end == "the run is stopped" else AuricleError
    with pytest.raises(refused) as error:
        RayDriver("127.0.0.1:6379", lambda: end == "the run is stopped" and bool(begun))
    if refused is AuricleError:
        assert str(error.value).startswith("There is no Ray cluster at 127.0.0.1:6379: start one there, or say")
    waits.set()
    assert not any(map(lives, begun))


@linux
def test_a_cluster_that_fails_at_its_end_is_ended(ray: Callable[..., None]) -> None:
    begun: list[int] = []

    def shutdown() -> None:
        raise RuntimeError("the raylet is gone")

    ray(lambda **_: begun.append(begin("ray::raylet").pid), shutdown)
    RayDriver("local", lambda: False).close()
    assert begun and not any(map(lives, begun))


@linux
def test_a_cluster_that_begins_here_is_for_this_machine_alone(ray: Callable[..., None]) -> None:
    """And no other that a variable or a file in /tmp names; Ray's choice of addresses is as before afterwards."""
    told: list[tuple[tuple[object, ...], dict[str, object], bool]] = []
    ray(lambda *given, **named: told.append((given, named, constants.ENABLE_RAY_CLUSTER)))
    constants: Any = sys.modules["ray._private.ray_constants"]
    for address in ("local", "127.0.0.1:6379"):
        RayDriver(address, lambda: False).close()
    (_, here, on_network), (given, named, elsewhere) = told
    assert (here["address"], here["include_dashboard"], on_network) == ("local", False, False)
    assert (given, "address" in named, elsewhere) == (("127.0.0.1:6379",), False, True)
    assert constants.ENABLE_RAY_CLUSTER


def test_what_a_library_writes_past_python_is_not_seen_and_our_own_sentences_are() -> None:
    program = """
import os, sys, types
from auricle_fleet.virtual.ray_driver import RayDriver
def init(*_, **__):
    os.write(2, b"rpc_client.h:153: Failed to connect")
    print("ours", file=sys.stderr)
sys.modules["ray._private.ray_constants"] = types.SimpleNamespace(ENABLE_RAY_CLUSTER=True)
sys.modules["ray"] = types.SimpleNamespace(
    init=init, shutdown=lambda: None, get_runtime_context=lambda: types.SimpleNamespace(gcs_address="")
)
RayDriver("local", lambda: False).close()
os.write(2, b"as before")
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stderr == "ours\nas before"


def test_what_ray_raises_in_a_round_is_a_sentence() -> None:
    for raised in (Exception("x"), ConnectionError(), AttributeError("core_worker")):
        with pytest.raises(AuricleError) as said, _in_a_sentence():
            raise raised
        assert str(said.value) == "The Ray cluster failed: start it again, and go on with --resume."
    with pytest.raises(TrainingStopped), _in_a_sentence():
        raise TrainingStopped("The run ends.")
