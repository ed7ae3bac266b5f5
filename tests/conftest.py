"""What tests of several parts need: a real PostgreSQL, where it is installed."""

from __future__ import annotations

import gc
import os
import signal
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING

import hypothesis
import pytest
from backports.zstd import CompressionParameter

from auricle.packs import archive
from tests.recorder import Recorder

if TYPE_CHECKING:
    from tests.cloud.postgres import Server

# A busy machine is no error in what is tested; everything else stays as Hypothesis has it here.
hypothesis.settings.register_profile("auricle", deadline=None)
hypothesis.settings.load_profile("auricle")


def pytest_configure(config: pytest.Config) -> None:
    """A folder of a test may lie in memory, as /tmp does on many systems, and be claimed for.

    Ctrl-C counts, also where a shell started us in the background, with SIGINT ignored: tests send it."""
    os.environ.setdefault("AURICLE_EDGE_IN_MEMORY", "1")
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)
    config.pluginmanager.register(Recorder(config.getoption("--record"), config.rootpath))


def pytest_addoption(parser: pytest.Parser) -> None:
    """Where `tools/reliability_page.py` finds what was run last."""
    parser.addoption("--record", type=Path, metavar="FILE", help="write outcome, time and figures of marked tests")


def pytest_collection_finish() -> None:
    """What thousands of tests are is looked through no more: a full collection takes 0.8 s otherwise."""
    gc.collect()
    gc.freeze()


@pytest.fixture(autouse=True)
def umask_kept() -> Iterator[None]:
    """Commands that close what they write to others do so for a test's process, too: until the test ends."""
    before = os.umask(0o022)
    os.umask(before)
    yield
    os.umask(before)


@pytest.fixture(autouse=True, scope="session")
def packed_quickly() -> Iterator[Mapping[int, int]]:
    """Packs of the tests are compressed quickly, not best; how a pack is compressed that is sent to boards."""
    best, archive.PACKING = archive.PACKING, {CompressionParameter.compression_level: 1}
    yield best
    archive.PACKING = best


@pytest.fixture
def packed_best(packed_quickly: Mapping[int, int], monkeypatch: pytest.MonkeyPatch) -> None:
    """Packs are compressed as they are outside of tests."""
    monkeypatch.setattr(archive, "PACKING", packed_quickly)


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
