"""Our modules and those of Python's library, loaded without the docstrings of their functions.

Other packages keep theirs: NumPy looks into its own when `numpy.ma` is imported.

`python -OO` does that too, but takes out what is asserted, and wants compiled files of its own, which an installation
does not have: every start would compile five hundred modules.
"""

from __future__ import annotations

import sys
from importlib.machinery import SOURCE_SUFFIXES, SourceFileLoader
from types import CodeType

SHORTEST = 40
"""Characters: a shorter string may be one that the function uses too, and both are one constant."""
_HAS_DOCSTRING = 0x4000000
"""`co_flags` from Python 3.13 on; before, a function without a docstring has None in its place."""


def bare(code: CodeType) -> CodeType:
    """The same code, in which no function has a docstring; those of classes and modules stay."""
    consts = tuple(bare(const) if isinstance(const, CodeType) else const for const in code.co_consts)
    if _begins_with_docstring(code):
        consts = ("", *consts[1:])
    return code if all(a is b for a, b in zip(consts, code.co_consts, strict=True)) else code.replace(co_consts=consts)


def _begins_with_docstring(code: CodeType) -> bool:
    first = code.co_consts[0] if code.co_consts else None
    if not isinstance(first, str) or len(first) < SHORTEST or not code.co_flags & 0x2 or code.co_name.startswith("<"):
        return False
    return bool(code.co_flags & _HAS_DOCSTRING) or sys.version_info < (3, 13)


class BareLoader(SourceFileLoader):
    """Loads a module, and one of ours or of Python's library without the docstrings of its functions."""

    def get_code(self, fullname: str) -> CodeType | None:
        """What is compiled, less the docstrings."""
        code, top = super().get_code(fullname), fullname.partition(".")[0]
        ours = top.startswith("auricle") or top in sys.stdlib_module_names
        return bare(code) if ours and code is not None else code


def load_bare() -> None:
    """From now on load every module so; before anything large is imported."""
    from importlib.machinery import (
        BYTECODE_SUFFIXES,
        EXTENSION_SUFFIXES,
        ExtensionFileLoader,
        FileFinder,
        SourcelessFileLoader,
    )

    hook = FileFinder.path_hook(
        (ExtensionFileLoader, EXTENSION_SUFFIXES),
        (BareLoader, SOURCE_SUFFIXES),
        (SourcelessFileLoader, BYTECODE_SUFFIXES),
    )
    sys.path_hooks.insert(0, hook)
    sys.path_importer_cache.clear()
