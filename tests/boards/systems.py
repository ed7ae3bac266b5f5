"""The boards and systems that there are profiles for, and those of them that a root can be made for."""

from __future__ import annotations

from dataclasses import dataclass

from auricle_export.flash.board import Board, System
from auricle_export.flash.boards import load_board, load_boards
from tests.boards.roots import SUITES


@dataclass(frozen=True)
class Candidate:
    """A board with one of its systems."""

    board: Board
    system: System

    def __str__(self) -> str:
        """Short name."""
        return f"{self.board.name}-{self.system.id}"

    @property
    def obstacle(self) -> str | None:
        """Why there is no root for it, in a sentence; None where there is."""
        if self.system.container is not None:
            return "the agent runs in a container there, not on the system"
        if self.system.base not in SUITES:
            return f"{self.system.base} is Ubuntu, and roots are made of Debian only"
        return None


def everything() -> list[Candidate]:
    """All boards with all their systems."""
    return [Candidate(board, system) for board in load_boards() for system in board.os]


def candidates() -> list[Candidate]:
    """Those that are tried."""
    return [each for each in everything() if each.obstacle is None]


def candidate(board: str, system: str) -> Candidate:
    """One of them."""
    profile = load_board(board)
    return Candidate(profile, profile.system(system))


FEW = [candidate("pi5", "raspios-12"), candidate("generic-x86_64", "debian-13")]
"""Those that are tried where nobody asks for all: both processors and both Pythons."""
