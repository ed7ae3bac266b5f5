"""The one family of errors: each carries a sentence that a user can act on."""

from __future__ import annotations

import difflib
from collections.abc import Iterable

INVALID = 2
"""Exit code: an option, a setting or a file that is not valid. Also of errors that have no code of their own."""
ENDED_OTHERWISE = 3
"""Exit code: what was waited for ended otherwise, such as an aborted round."""
OUT_OF_TIME = 4
"""Exit code: what was waited for took too long."""
NOT_FOUND = 5
"""Exit code: what was named does not exist."""
UNREACHABLE = 6
"""Exit code: a server or broker that does not answer."""
REFUSED = 7
"""Exit code: what was asked does not go with how things are."""
DENIED = 8
"""Exit code: a token or role that does not allow it."""
LATER = 75
"""Exit code: not now, but the same may work later."""


class AuricleError(Exception):
    """What was wrong, where, and what to do, in one sentence. A command prints it and exits with `exit_code`."""

    exit_code = INVALID


class SettingsError(AuricleError):
    """A setting or an option that does not exist or whose value is not allowed."""


class DataError(AuricleError):
    """Audio or another input that is missing, unreadable or not enough."""


class PackError(AuricleError):
    """A pack that is not whole, not sound or not what its manifest says."""


class WireError(AuricleError):
    """Bytes from the network that are not a valid message."""


class BrokerError(AuricleError):
    """A broker that cannot be started or reached."""

    exit_code = UNREACHABLE


class StorageError(AuricleError):
    """A folder, database or disk that cannot take what has to be kept."""


def nearest(word: str, known: Iterable[str]) -> str:
    """Name the nearest known word as a hint, e.g. `did you mean "lpa"?`, or list what there is.

    Parameters
    ----------
    word
        What the user wrote.
    known
        The words that would have been accepted.
    """
    choices = sorted(known)
    close = difflib.get_close_matches(word, choices, n=1, cutoff=0.5)
    return f'did you mean "{close[0]}"?' if close else f"there is: {', '.join(choices)}."
