"""Which wheels a board's Python takes, by SHA-256: the locks in `edge/requirements`, of which a wheel has a copy.

A lock is a pip requirements file with one wheel a line. It names no index: pip takes the one it is configured with.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

from auricle.errors import AuricleError
from auricle.files import read_kept
from auricle_export.flash.board import System

INSTALLED = Path(__file__).parents[1] / "locks"
CHECKOUT = Path(__file__).parents[4] / "edge" / "requirements"
LOCKS = INSTALLED if INSTALLED.is_dir() else CHECKOUT
EXTRAS = ("edge", "mic", "gpio", "updates")
"""What of Auricle a lock satisfies."""
GLIBC = (28, 27, 26, 24, 17)
"""Minor versions of glibc 2 that wheels are built for; 2.28 is older than that of any board's system in support."""
_LINE = re.compile(r"^(?P<name>[a-z0-9.-]+)==(?P<version>\S+) --hash=sha256:(?P<sha256>[0-9a-f]{64})\Z")


class WheelError(AuricleError):
    """A lock or a wheelhouse that is not whole."""


@dataclass(frozen=True)
class Target:
    """A board's Python."""

    minor: int
    """Of CPython 3."""
    machine: str = "aarch64"

    @classmethod
    def of(cls, system: System) -> Target:
        """That of a board's system."""
        return cls(int(system.python.removeprefix("3.")), system.wheel_tag.split("_", 3)[-1])

    @property
    def tag(self) -> str:
        """Short name, as in wheels: `cp311`."""
        return f"cp3{self.minor}"

    @property
    def name(self) -> str:
        """Name of its lock and of the folder of its wheels: `aarch64-cp311`."""
        return f"{self.machine}-{self.tag}"

    @property
    def lock(self) -> Path:
        """The lock of this target."""
        return LOCKS / f"{self.name}.txt"

    @property
    def platforms(self) -> list[str]:
        """Platform tags of the wheels it takes."""
        return [*(f"manylinux_2_{minor}_{self.machine}" for minor in GLIBC), f"manylinux2014_{self.machine}"]

    @property
    def options(self) -> list[str]:
        """pip's options that make it choose for this target, wherever it runs, and wheels only."""
        chosen = ["--only-binary=:all:", "--implementation", "cp", "--python-version", f"3.{self.minor}"]
        for abi in (self.tag, "abi3", "none"):
            chosen += ["--abi", abi]
        for platform in self.platforms:
            chosen += ["--platform", platform]
        return chosen


@dataclass(frozen=True)
class Locked:
    """One line of a lock."""

    name: str
    version: str
    sha256: str

    def __str__(self) -> str:
        """The line."""
        return f"{self.name}=={self.version} --hash=sha256:{self.sha256}"


def read_lock(path: Path) -> dict[str, Locked]:
    """The lines of a lock by canonical name.

    Raises
    ------
    WheelError
        There is no such lock; or it has a line that is neither a comment nor `name==version --hash=sha256:...`, or a
        name twice.
    """
    try:
        lines = read_kept(path).decode().splitlines()
    except OSError as error:
        raise WheelError(f"There is no list of wheels {path.name}: no bundle can be made for this Python.") from error
    found: dict[str, Locked] = {}
    for text in lines:
        if not text or text.startswith("#"):
            continue
        line = _LINE.match(text)
        if line is None or line["name"] in found:
            raise WheelError(f"{path.name} has a line that is not a locked wheel, or one twice: {text}")
        found[line["name"]] = Locked(line["name"], line["version"], line["sha256"])
    return found
