"""The names that a package promises, imported when they are first asked for: importing the package stays light."""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:  # without typing: the smallest process of a device imports this
    from collections.abc import Callable, Mapping


def promised(package: str, names: Mapping[str, str]) -> tuple[Callable[[str], object], Callable[[], list[str]]]:
    """Make a package's `__getattr__` and `__dir__` (PEP 562).

    Parameters
    ----------
    package
        Its `__name__`.
    names
        By promised name, the module that has it.
    """

    def get(name: str) -> object:
        if name not in names:
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        import importlib

        return getattr(importlib.import_module(names[name]), name)

    def listed() -> list[str]:
        import importlib

        return sorted({*names, *vars(importlib.import_module(package))})

    return get, listed
