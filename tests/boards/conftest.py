"""Which boards are tried, and the house whose servers they meet."""

from __future__ import annotations

import shutil
import sys
from collections.abc import Iterator
from contextlib import ExitStack

import pytest

from auricle.mqtt_link.mosquitto_program import find_mosquitto
from tests.arm64.emulation import UnavailableError
from tests.arm64.wheels import UnreachableError
from tests.boards.roots import Root, base_root, fresh_root, qemu_cpu
from tests.boards.systems import FEW, Candidate, everything
from tests.firstboot.house import House, house


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add `--all`."""
    parser.addoption("--all", action="store_true", default=False, help="Every board and system, not only two of them.")


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """A test for each board and system."""
    if "candidate" in metafunc.fixturenames:
        chosen = everything() if metafunc.config.getoption("--all", default=False) else FEW
        metafunc.parametrize("candidate", chosen, ids=str)


@pytest.fixture(scope="session")
def home(tmp_path_factory: pytest.TempPathFactory) -> Iterator[House]:
    """A house on this machine's loopback."""
    if find_mosquitto() is None:
        pytest.skip("mosquitto is not installed")
    with house(tmp_path_factory.mktemp("house"), ["127.0.0.1"]) as made:
        yield made


@pytest.fixture
def root(candidate: Candidate) -> Iterator[Root]:
    """A fresh root of the candidate's system; skips, saying why, where none can be made."""
    if shutil.which("unshare") is None:
        pytest.skip("unshare is not installed: apt install util-linux")
    with ExitStack() as stack:
        try:
            base, cpu = base_root(candidate.board, candidate.system), qemu_cpu(candidate.board)
            made = stack.enter_context(fresh_root(base, cpu, progress))
        except (UnavailableError, UnreachableError) as error:
            pytest.skip(f"no root for {candidate}: {error}")
        yield made


def progress(text: str) -> None:
    """Say what is going on, on standard error."""
    print(f"boards: {text}", file=sys.stderr, flush=True)
