"""The packs that lie in the installation, by name."""

from __future__ import annotations

SHIPPED = ("digits", "gsc12", "gsc12-res", "gsc35", "home", "home-more")
DEFAULT_PACK = "home"
"""The shipped pack of devices and coordinators that were told no other."""
