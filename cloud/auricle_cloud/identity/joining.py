"""The code by which devices join a home for some minutes: drawn, counted and forgotten, in a file of the state folder.

It is there in the clear, for its owner alone: who joins draws the salt, so no hash of the code would do. Every process
of this machine may draw one; wrong tries count across starts.
"""

from __future__ import annotations

import fcntl
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import msgspec

from auricle.errors import StorageError
from auricle.files import open_lock, read_kept, write_durably
from auricle.wire.join_codes import draw_code
from auricle.wire.joining import CodeKeys, Join, code_keys, is_proof
from auricle.wire.kinds import UNDECODABLE
from auricle_cloud.identity.requests import ClaimError

FILE = "join-code.json"
CODE_MINUTES = 30.0
"""For how long a code is good where nobody says otherwise."""
WRONG_TRIES = 10
"""After so many the code is worth nothing: somebody guesses, or announces a hub that is not this one."""
MOST_DEVICES = 50
"""So many devices may join by one code."""


class KeptCode(msgspec.Struct, frozen=True, kw_only=True):
    """A code, as it is kept."""

    code: str
    expires: float
    """Seconds since 1970."""
    wrong: int = 0
    salts: list[str] = []
    """Of the devices that joined: what somebody recorded is not heard twice."""


class JoinCodes:
    """The code of one hub.

    Parameters
    ----------
    folder
        The coordinator's state.
    pin
        SHA-256 of the root that devices are shown, 64 hexadecimal digits.
    now
        Whom it asks for the time, in seconds since 1970.
    """

    def __init__(self, folder: Path, pin: str, now: Callable[[], float] = time.time) -> None:
        self._file, self._pin, self._now = folder / FILE, pin, now
        self._trying = threading.Lock()

    def draw(self, seconds: float) -> KeptCode:
        """A new code in place of the one before."""
        drawn = KeptCode(code=draw_code(), expires=self._now() + seconds)
        with self._alone():
            self._write(drawn)
        return drawn

    def current(self) -> KeptCode | None:
        """The code that is good now."""
        try:
            kept = msgspec.json.decode(read_kept(self._file), type=KeptCode)
        except FileNotFoundError:
            return None
        except (OSError, *UNDECODABLE) as error:
            raise StorageError(f"{self._file} is damaged: remove it, and draw another code.") from error
        good = self._now() < kept.expires and kept.wrong < WRONG_TRIES and len(kept.salts) < MOST_DEVICES
        return kept if good else None

    def check(self, asked: Join) -> CodeKeys:
        """The keys of who knows the code.

        Raises
        ------
        ClaimError
            No code is good now, or it is another one, which counts as a try.
        """
        with self._trying, self._alone():  # one at a time: each costs 32 MB
            known = self.current()
            if known is None:
                raise ClaimError(
                    "No device can join now: the hub's code has expired or was tried too often. Draw one on its page, "
                    "with auricle cloud enrol code, or by starting the hub again."
                )
            if asked.salt in known.salts:
                raise ClaimError("This device has joined already, or somebody repeats what it said.")
            keys = code_keys(known.code, asked.salt, self._pin)
            if not is_proof(keys, asked):
                wrong = known.wrong + 1
                self._write(msgspec.structs.replace(known, wrong=wrong))
                left = WRONG_TRIES - wrong
                raise ClaimError(f"This is not the hub's code: it can be tried {left} times more.")
            self._write(msgspec.structs.replace(known, salts=[*known.salts, asked.salt]))
            return keys

    def _write(self, code: KeptCode) -> None:
        write_durably(self._file, msgspec.json.encode(code), mode=0o600)

    @contextmanager
    def _alone(self) -> Iterator[None]:
        with open_lock(self._file.with_suffix(".lock")) as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            yield
