"""The one family of errors: each carries a sentence that a user can act on."""

from __future__ import annotations

import difflib
from collections.abc import Iterable


class AuricleError(Exception):
    """What was wrong, where, and what to do, in one sentence. A command prints it and exits with `exit_code`."""

    exit_code = 2


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
