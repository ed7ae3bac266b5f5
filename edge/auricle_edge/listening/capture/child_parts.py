"""What the parts of the child have in common: pieces of sound, refusals, an end with the parent, and frames.

A frame is what the child writes to the listener: a header of fixed size and what it announces. Header, little endian:
magic, kind, flags, channels, rate (Hz), size, first, time. For sound, `size` counts frames
of interleaved int16, `first` is the number of its first frame since the source began (a jump tells of frames that were
dropped since the listener was too slow), `time` the monotonic second at which its last frame was read. Otherwise `size`
counts bytes of JSON. The child imports this, so it needs next to nothing.
"""

from __future__ import annotations

import os
import sys
from struct import Struct

TYPE_CHECKING = False
if TYPE_CHECKING:  # typing alone is a sixth of the child
    from collections.abc import Mapping, Sequence
    from typing import Protocol, TypedDict

    class ChildOptions(TypedDict):
        """What the child is told: `settings.Source`, where to begin, and whose child it is; without msgspec here."""

        kind: str
        target: str
        fast: bool
        loop: bool
        rate: int | None
        channels: int | None
        least: int
        """Channels that have to be opened for the chosen one to be among them."""
        block: float
        first: int
        """Sample frames of a recording that were given out before."""
        parent: int
        """Process id."""

    class Origin(Protocol):
        """An open source."""

        device: str
        """Its name, for the user."""
        rate: int
        """Of what was read last, Hz."""
        channels: int
        waits: bool
        """Whether it waits for a slow listener; a microphone cannot, and its sound is dropped."""

        def read(self) -> Piece | None:
            """Wait for the next piece; None at the end; Refusal when the device fails."""


class Piece:
    """Sound as it was read.

    Parameters
    ----------
    data
        Interleaved int16, little endian.
    lost
        Whether an unknown amount was lost before it.
    """

    def __init__(self, data: bytes, lost: bool = False) -> None:
        self.data, self.lost = data, lost


NO_OTHER = ", nor any other: plug one in, or see whether this user is in the group audio."


class Refusal(Exception):  # noqa: N818 - what a device does
    """A source that cannot be opened or read now; `reason` is counted, the sentence is for the user."""

    def __init__(self, reason: str, sentence: str) -> None:
        super().__init__(sentence)
        self.reason = reason


def missing(what: str, there: Sequence[str]) -> Refusal:
    """The refusal of a source that is not there, with what is."""
    others = f"; there is: {', '.join(there)}." if there else NO_OTHER
    return Refusal("no-device", f"No {what}{others}")


RATES = (48_000, 44_100, 32_000, 16_000, 96_000, 22_050, 8_000)
"""Hz at which a device is tried when it refuses its own."""


def rates(wanted: int | None, native: int | None) -> list[int]:
    """The rates at which to open a device, in order."""
    return list(dict.fromkeys(rate for rate in (wanted, native, *RATES) if rate))


def counts(wanted: int | None, most: int | None, least: int = 1) -> list[int]:
    """The numbers of channels with which to open a device, in order; first those that have the chosen channel."""
    found = list(dict.fromkeys(count for count in (wanted, min(2, most or 2), 1, 2, most) if count))
    return sorted(found, key=lambda count: count < least)


HEADER = Struct("<4sBBHIIQd")
MAGIC = b"AUC1"
SOUND, OPENED, FAILED, ENDED, LISTED, FINDING = range(1, 7)
LOST = 1
"""Flag: an unknown number of frames was lost before these."""
LONGEST_TEXT = 1 << 16
"""Bytes of JSON at most."""


def sound(data: bytes, channels: int, rate: int, first: int, lost: bool, time: float) -> bytes:
    """A frame of sound."""
    size = len(data) // (2 * channels)
    return HEADER.pack(MAGIC, SOUND, LOST if lost else 0, channels, rate, size, first, time) + data


def text(kind: int, payload: bytes, time: float) -> bytes:
    """A frame of JSON."""
    return HEADER.pack(MAGIC, kind, 0, 0, 0, len(payload), 0, time) + payload


def object_text(fields: Mapping[str, str | int]) -> bytes:
    """Names and what belongs to them as JSON; the library for that would be a fifth of the child."""
    return ("{" + ",".join(f"{_string(name)}:{_value(value)}" for name, value in fields.items()) + "}").encode("ascii")


def _value(value: str | int) -> str:
    return _string(value) if isinstance(value, str) else str(value).lower()


def _string(text: str) -> str:
    """A string of JSON: what is not a plain character is written by its numbers in UTF-16.

    A name of a file need not be text: what Python keeps of it as half a pair is a question mark.
    """
    units = text.encode("utf-16-be", "replace")
    codes = [units[i] << 8 | units[i + 1] for i in range(0, len(units), 2)]
    return '"' + "".join(chr(c) if 32 <= c < 127 and c not in (34, 92) else f"\\u{c:04x}" for c in codes) + '"'


_MADV_DONTNEED = 4


def give_back_code() -> None:
    """Return freed heap and the pages of libraries' code: what goes on being called is mapped again from the file.

    `auricle_edge.board.memory.give_back` for a process that has neither `re` nor `pathlib`; Linux only.
    """
    if not sys.platform.startswith("linux"):
        return
    from ctypes import CDLL, c_size_t, c_void_p

    library = CDLL(None)
    if hasattr(library, "malloc_trim"):  # glibc
        library.malloc_trim(0)
    try:
        with open("/proc/self/maps") as file:  # noqa: PTH123 - pathlib makes the child bigger
            lines = [line.split() for line in file]
    except OSError:
        return
    for place, rights, *_, path in lines:
        if rights == "r-xp" and path.startswith("/"):
            start, end = (int(address, 16) for address in place.split("-"))
            library.madvise(c_void_p(start), c_size_t(end - start), _MADV_DONTNEED)


_PR_SET_PDEATHSIG, _SIGKILL = 1, 9
LOOK_SECONDS = 0.5


def die_with(parent: int) -> None:
    """Have the kernel kill this process when its parent ends, also while it is stopped (prctl(2), PR_SET_PDEATHSIG).

    Only Linux does that: elsewhere a thread looks twice a second, until the process runs another program.

    Parameters
    ----------
    parent
        Its process id; when it has ended already, this process ends here.
    """
    if sys.platform.startswith("linux"):
        from ctypes import CDLL

        CDLL(None).prctl(_PR_SET_PDEATHSIG, _SIGKILL)
    else:
        import threading

        threading.Thread(target=_end_after, args=(parent,), name="parent", daemon=True).start()
    if os.getppid() != parent:
        sys.exit(0)


def _end_after(parent: int) -> None:
    import time

    while os.getppid() == parent:
        time.sleep(LOOK_SECONDS)
    os._exit(0)
