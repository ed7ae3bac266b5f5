"""What has to exist before a mistake can be made: by name, see `sounds.py`, `places.py` and `brokers.py`."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, ExitStack
from pathlib import Path
from typing import TypeVar

from tests.mistakes.record import Mistake

T = TypeVar("T")


class UnavailableError(Exception):
    """This machine cannot make what has to exist before; why."""


class Need:
    """What is made once for many mistakes, when the first one needs it: a filled state, a running server."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._made: dict[str, object] = {}
        self._open = ExitStack()

    def once(self, name: str, make: Callable[[Path], T]) -> T:
        """What `make` made in a folder of its own."""
        if name not in self._made:
            place = self.folder / name
            place.mkdir(mode=0o755)
            self._made[name] = make(place)
        made: T = self._made[name]  # type: ignore[assignment]
        return made

    def running(self, name: str, start: Callable[[Path], AbstractContextManager[T]]) -> T:
        """What `start` gave, which ends when this is closed."""
        return self.once(name, lambda place: self._open.enter_context(start(place)))

    def close(self) -> None:
        self._open.close()


class Before:
    """A folder in which a mistake is made, and what stands for the names in its command."""

    def __init__(self, folder: Path, need: Need) -> None:
        self.folder, self.need = folder, need
        self.names: dict[str, str] = {}
        self.open = ExitStack()

    @contextlib.contextmanager
    def made(self, mistake: Mistake) -> Iterator[None]:
        """Everything that the mistake needs, until the end of the block."""
        from tests.mistakes import brokers, places, sounds

        (self.folder / "home").mkdir()
        with self.open:
            for name in mistake.before:
                place = next(each for each in (sounds, places, brokers) if hasattr(each, name))
                getattr(place, name)(self)
            for name, text in mistake.files.items():
                path = self.folder / name
                path.parent.mkdir(parents=True, exist_ok=True)
                path.write_text(text)
            yield
