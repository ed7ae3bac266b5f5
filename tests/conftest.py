"""What tests of several parts need: a real PostgreSQL, where it is installed."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from typing import TYPE_CHECKING

import hypothesis
import pytest

if TYPE_CHECKING:
    from tests.cloud.postgres import Server

# A busy machine is no error in what is tested; everything else stays as Hypothesis has it here.
hypothesis.settings.register_profile("auricle", deadline=None)
hypothesis.settings.load_profile("auricle")


def pytest_configure() -> None:
    """Ctrl-C counts, also where a shell started us in the background, with SIGINT ignored: tests send it."""
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)


@pytest.fixture(autouse=True)
def umask_kept() -> Iterator[None]:
    """Commands that close what they write to others do so for a test's process, too: until the test ends."""
    before = os.umask(0o022)
    os.umask(before)
    yield
    os.umask(before)


@pytest.fixture(scope="session")
def server() -> Iterator[Server]:
    """A running PostgreSQL; skips without one, or without its library."""
    pytest.importorskip("psycopg")
    from tests.cloud.postgres import Server, programs

    place = programs()
    if place is None:
        pytest.skip("PostgreSQL (initdb, postgres) is not installed")
    running = Server(place)
    yield running
    running.stop()


@pytest.fixture
def postgres_url(server: Server) -> Iterator[str]:
    """A fresh, empty database."""
    url = server.empty()
    yield url
    server.drop(url)
