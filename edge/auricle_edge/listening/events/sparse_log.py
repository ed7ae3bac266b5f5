"""Warnings that somebody else can cause as often as they like: each appears once a minute, with how often it came."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable

EVERY_SECONDS = 60.0
"""Seconds between two warnings with the same sentence and the same first argument."""
KINDS_WARNINGS = 64
"""Warnings that are told apart; of more, the oldest is forgotten."""


class SparseLog:
    """Passes warnings on to a log, each kind once a minute.

    Parameters
    ----------
    log
        Where they go.
    clock
        Seconds that never go back.
    """

    def __init__(self, log: logging.Logger, clock: Callable[[], float] = time.monotonic) -> None:
        self._log, self._clock = log, clock
        self._kinds: dict[tuple[str, object], tuple[float, int]] = {}

    def warning(self, sentence: str, *arguments: object) -> None:
        """Warn, or only count where the same was said less than a minute ago."""
        kind, now = (sentence, arguments[:1]), self._clock()
        said, passed_over = self._kinds.get(kind, (-EVERY_SECONDS, 0))
        if said + EVERY_SECONDS > now:
            self._kinds[kind] = said, passed_over + 1
            return
        self._kinds.pop(kind, None)
        if len(self._kinds) >= KINDS_WARNINGS:
            del self._kinds[next(iter(self._kinds))]
        self._kinds[kind] = now, 0
        more = f" ({passed_over:,} more like it since it was last said.)" if passed_over else ""
        self._log.warning(sentence + more.replace("%", "%%"), *arguments)
