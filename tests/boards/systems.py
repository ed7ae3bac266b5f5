"""The boards and systems that there are profiles for, and how each is tried."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import msgspec

from auricle_export.flash.board import RELEASES, Base, Board, System
from auricle_export.flash.boards import load_board, load_boards, profile_path
from auricle_export.flash.toml_lines import key_lines

STAND_INS: dict[Base, tuple[Base, str]] = {"jammy": ("bookworm", "debian-12"), "noble": ("trixie", "debian-13")}
"""Releases of Ubuntu, whose archive for arm64 is not everywhere to be had, and the Debian next to each."""
REPLACED = ("base", "python", "wheel_tag")
"""What differs in a profile where Debian stands in for Ubuntu."""


@dataclass(frozen=True)
class Candidate:
    """A board with one of its systems."""

    board: Board
    system: System
    """As it is tried."""
    stand_in: str | None = None
    """The Debian that is there in place of the profile's Ubuntu; None: all is as the profile says."""

    def __str__(self) -> str:
        """Short name."""
        return f"{self.board.name}-{self.system.id}" + (f"-as-{self.stand_in}" if self.stand_in else "")

    def profile(self, folder: Path) -> str:
        """What `--board` takes: the board's name, or a profile written to a folder, with Debian in Ubuntu's place."""
        if self.stand_in is None:
            return self.board.name
        text = profile_path(self.board.name).read_text("utf-8")
        lines, where = text.splitlines(keepends=True), key_lines(text)
        index = [system.id for system in self.board.os].index(self.system.id)
        for key in REPLACED:
            lines[where["os", index, key] - 1] = f'{key} = "{getattr(self.system, key)}"\n'
        place = folder / f"{self.board.name}.toml"
        place.write_text("".join(lines), "utf-8")
        return str(place)


def everything() -> list[Candidate]:
    """All boards with all their systems on which the agent is installed, each followed by its stand-in."""
    found: list[Candidate] = []
    for board in load_boards():
        for system in board.os:
            if system.container is None:
                found += [Candidate(board, system), *_stand_in(board, system)]
    return found


def containers() -> list[Candidate]:
    """Those where the agent runs in a container, not on the system."""
    return [Candidate(board, system) for board in load_boards() for system in board.os if system.container is not None]


def _stand_in(board: Board, system: System) -> list[Candidate]:
    """The Debian next to an arm64 board's Ubuntu, unless the board has one itself."""
    if board.architecture != "aarch64" or system.base not in STAND_INS:
        return []
    base, name = STAND_INS[system.base]
    if any(other.base == base for other in board.os):
        return []
    python = ".".join(map(str, RELEASES[base].python))
    tag = f"cp{python.replace('.', '')}"
    wheel_tag = "-".join([tag, tag, system.wheel_tag.split("-")[-1]])
    return [Candidate(board, msgspec.structs.replace(system, base=base, python=python, wheel_tag=wheel_tag), name)]


def candidate(board: str, system: str) -> Candidate:
    """One of them."""
    profile = load_board(board)
    return Candidate(profile, profile.system(system))


FEW = [candidate("pi5", "raspios-12"), candidate("generic-x86_64", "debian-13")]
"""Those that are tried where nobody asks for all: both processors and both Pythons."""
