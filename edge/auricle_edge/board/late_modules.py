"""Modules that other modules import at their top and use in a function that a device seldom calls: loaded at first use.

Until then a stand-in has their place in `sys.modules`. A service that runs for months on a small board would keep each
of them for the one call that never comes; what they are imported by is Python's library and other packages, which we
cannot tell to import later.
"""

from __future__ import annotations

import importlib
import sys
import threading
import urllib  # noqa: F401 - the package of one of them, in which `import urllib.request` has to find it
from collections.abc import Iterable
from types import ModuleType

SELDOM = (
    *("urllib.request", "ipaddress", "tokenize", "pickle", "tempfile", "shutil", "locale"),
    *("ssl", "asyncio.sslproto"),
    *("numpy._core._add_newdocs", "numpy._core._add_newdocs_scalars"),
)
"""Imported by paho (for proxies), urllib.parse, inspect and linecache, NumPy, and subprocess; and by asyncio and paho,
where only a broker with TLS needs them. What NumPy loads is the documentation of its functions, for `help`."""


class LateModule(ModuleType):
    """Stands for a module that nobody has needed yet; thread-safe."""

    def __getattr__(self, name: str) -> object:
        """Load the module when something of it is asked for; who only looks through modules is told of nothing."""
        if name.startswith("__") and name not in ("__path__", "__all__"):
            raise AttributeError(name)
        return getattr(_load(self), name)


def _load(stand_in: LateModule) -> ModuleType:
    name = stand_in.__name__
    with _LOCK:
        if sys.modules.get(name) is stand_in:
            del sys.modules[name]
    return importlib.import_module(name)


_LOCK = threading.Lock()


def stand_in_for(names: Iterable[str] = SELDOM) -> None:
    """Put stand-ins for modules that were not imported yet, before anything imports them."""
    for name in names:
        if name not in sys.modules:
            stand_in = LateModule(name)
            sys.modules[name] = stand_in
            parent, _, child = name.rpartition(".")
            if parent in sys.modules:
                setattr(sys.modules[parent], child, stand_in)
