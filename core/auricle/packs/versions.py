"""Which of two versions is the higher one, in the order of PEP 440."""

from __future__ import annotations

import math
import re

from auricle.errors import DataError

_VERSION = re.compile(
    r"(?P<release>\d{1,9}(\.\d{1,9}){0,5})((?P<letter>a|b|rc)(?P<number>\d{1,9}))?"
    r"(\.post(?P<post>\d{1,9}))?(\.dev(?P<dev>\d{1,9}))?(\+[a-z0-9.]{1,40})?"
)
LETTERS = {"a": 0, "b": 1, "rc": 2}

Key = tuple[tuple[int, ...], float, float, float, float]


def version_key(text: str) -> Key:
    """What versions are sorted by; what stands after a `+` does not count.

    Raises
    ------
    DataError
        It is no version.
    """
    found = _VERSION.fullmatch(text)
    if found is None:
        raise DataError(f'"{text[:80]}" is not a version: write it like 1.2.0 or 1.2.0rc1.')
    release = [int(part) for part in found["release"].split(".")]
    while len(release) > 1 and release[-1] == 0:
        release.pop()
    letter: float = LETTERS.get(found["letter"] or "", 3)
    if found["letter"] is None and found["post"] is None and found["dev"] is not None:
        letter = -1
    return (
        tuple(release),
        letter,
        int(found["number"] or 0),
        -1 if found["post"] is None else int(found["post"]),
        math.inf if found["dev"] is None else int(found["dev"]),
    )
