"""Systems that boards run: which Python and C library each release of Debian and Ubuntu brings."""

from __future__ import annotations

from typing import Literal, NamedTuple

Base = Literal["buster", "bullseye", "bookworm", "trixie", "bionic", "focal", "jammy", "noble"]

PYTHONS = ((3, 10), (3, 13))
"""Oldest and newest Python that the agent runs on."""
OLDEST_GLIBC = 28
"""Minor version of glibc 2 for which onnxruntime has wheels."""


class Release(NamedTuple):
    """A release of a distribution."""

    title: str
    python: tuple[int, int]
    glibc: int
    """Minor version of glibc 2."""

    @property
    def supported(self) -> bool:
        """Whether the agent runs on its Python."""
        return PYTHONS[0] <= self.python <= PYTHONS[1]


RELEASES: dict[Base, Release] = {
    "buster": Release("Debian 10 (buster)", (3, 7), 28),
    "bullseye": Release("Debian 11 (bullseye)", (3, 9), 31),
    "bookworm": Release("Debian 12 (bookworm)", (3, 11), 36),
    "trixie": Release("Debian 13 (trixie)", (3, 13), 41),
    "bionic": Release("Ubuntu 18.04 (bionic)", (3, 6), 27),
    "focal": Release("Ubuntu 20.04 (focal)", (3, 8), 31),
    "jammy": Release("Ubuntu 22.04 (jammy)", (3, 10), 35),
    "noble": Release("Ubuntu 24.04 (noble)", (3, 12), 39),
}
