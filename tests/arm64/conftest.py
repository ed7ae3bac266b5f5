"""The emulated board, and a folder that host and board both see."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.arm64.board import Board, progress
from tests.arm64.emulation import UnavailableError
from tests.arm64.wheels import UnreachableError


@pytest.fixture(scope="session")
def board() -> Board:
    """The board with this checkout on it; skips, saying why, where this machine or its network cannot make one."""
    try:
        board = Board.from_environment()
        board.make(progress)
    except (UnavailableError, UnreachableError) as error:
        pytest.skip(f"no arm64 root: {error}")
    return board


@dataclass(frozen=True)
class Shared:
    """A folder by its two names."""

    path: Path
    """On the host."""
    inside: str
    """On the board."""


@pytest.fixture
def shared(board: Board) -> Iterator[Shared]:
    """A new folder in the board's /tmp."""
    with tempfile.TemporaryDirectory(prefix="auricle-", dir=board.path / "tmp") as folder:
        yield Shared(Path(folder), f"/tmp/{Path(folder).name}")
