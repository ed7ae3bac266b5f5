"""What a coordinator does every second beside its rounds: one chore that fails stops no other, and health says so."""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable, Mapping

from auricle.errors import StorageError
from auricle.process.clock import SYSTEM_CLOCK, Clock
from auricle_cloud.storage.database_errors import SupersededError

log = logging.getLogger("auricle.cloud")

PATIENCE = 3
"""Failures one after the other before health speaks of them: a database that is busy for a moment is none."""


class Every:
    """A chore that is done at most every so often; the first time at once.

    Parameters
    ----------
    seconds
        Between two times.
    chore
        What is done.
    clock
        Whom it asks for the time.
    """

    def __init__(self, seconds: float, chore: Callable[[], object], clock: Clock = SYSTEM_CLOCK) -> None:
        self._seconds, self._chore, self._clock = seconds, chore, clock
        self._next = clock.monotonic()

    def __call__(self) -> None:
        """Do it if it is time; after a failure it is time again."""
        if self._clock.monotonic() >= self._next:
            self._chore()
            self._next = self._clock.monotonic() + self._seconds


class Chores:
    """Does chores by name and remembers which of them fail."""

    def __init__(self) -> None:
        self._failures: dict[str, tuple[int, str]] = {}

    def do(self, chores: Mapping[str, Callable[[], object]]) -> bool:
        """Do each of them, whatever the others raise; whether all were done.

        Raises
        ------
        SupersededError
            Another coordinator has taken over: nothing more is done.
        """
        whole = True
        for name, chore in chores.items():
            try:
                chore()
            except SupersededError:
                raise
            except Exception as error:  # noqa: BLE001 - one chore that fails stops no other
                self._failed(name, error)
                whole = False
            else:
                self._done(name)
        return whole

    async def do_async(self, chores: Mapping[str, Callable[[], Awaitable[object]]]) -> None:
        """Do each of them on the event loop; SupersededError as of `do`."""
        for name, chore in chores.items():
            try:
                await chore()
            except SupersededError:
                raise
            except Exception as error:  # noqa: BLE001 - one chore that fails stops no other
                self._failed(name, error)
            else:
                self._done(name)

    def failing(self) -> str | None:
        """For health: which chores fail again and again, and why; None where all is well."""
        said = [
            f"The coordinator's {name} fails: {why}"
            for name, (times, why) in sorted(self._failures.copy().items())
            if times >= PATIENCE
        ]
        return " ".join(said) or None

    def _done(self, name: str) -> None:
        if self._failures.pop(name, None) is not None:
            log.info("%s works again", name)

    def _failed(self, name: str, error: Exception) -> None:
        times, before = self._failures.get(name, (0, ""))
        why = str(error) or type(error).__name__
        if why != before:
            log.error("%s fails: %s", name, why, exc_info=None if isinstance(error, StorageError) else error)
        self._failures[name] = (times + 1, why)
