"""An emulated 32-bit board: a Debian armhf with its own Python and NumPy, and nothing of Auricle installed."""

from __future__ import annotations

from auricle_export.flash.bundle.wheelhouse import cache_folder
from tests.arm64.debian import DebianRoot

PACKAGES = ("python3", "python3-typer", "python3-numpy")
"""NumPy is Debian's, since PyPI has no wheel of it for this machine; typer is what `auricle` needs to start."""


def armhf_root() -> DebianRoot:
    """The root, which `make` makes once and keeps."""
    return DebianRoot(cache_folder("armhf-bookworm-numpy"), "armhf", packages=PACKAGES)
