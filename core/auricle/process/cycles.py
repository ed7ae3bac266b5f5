"""How often Python looks for objects that hold each other: a server makes few of them, and many others."""

from __future__ import annotations

import gc

OFTEN = 50_000, 20, 50
"""Objects made since the last look at the youngest generation; looks at one before a look at the next (700, 10, 10)."""


def look_seldom() -> None:
    """Leave what a program has loaded out of every further look, and look less often.

    For a process that serves and is set up: what is thrown away later than now is found as before, only later.
    """
    gc.collect()
    gc.freeze()
    gc.set_threshold(*OFTEN)
