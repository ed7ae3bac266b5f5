"""The one family of errors: each carries a sentence that a user can act on."""

from __future__ import annotations

import errno
import functools
import os
import re
import sys
from collections.abc import Callable, Iterable

TYPE_CHECKING = False
if TYPE_CHECKING:
    from pathlib import Path
    from typing import ParamSpec, TypeVar

    P = ParamSpec("P")
    T = TypeVar("T")
    Kind = TypeVar("Kind", bound=type)

INVALID_CODE = 2
"""Exit code: an option, a setting or a file that is not valid. Also of errors that have no code of their own."""
ENDED_OTHERWISE = 3
"""Exit code: what was waited for ended otherwise, such as an aborted round."""
OUT_OF_TIME = 4
"""Exit code: what was waited for took too long."""
NOT_FOUND = 5
"""Exit code: what was named does not exist."""
UNREACHABLE_CODE = 6
"""Exit code: a server or broker that does not answer."""
REFUSED_CODE = 7
"""Exit code: what was asked does not go with how things are."""
DENIED_CODE = 8
"""Exit code: a token or role that does not allow it."""
LATER_CODE = 75
"""Exit code: not now, but the same may work later."""


class AuricleError(Exception):
    """What was wrong, where, and what to do, in one sentence. A command prints it and exits with `exit_code`."""

    exit_code = INVALID_CODE


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

    exit_code = UNREACHABLE_CODE


class BrokerDistrustError(BrokerError):
    """A broker whose certificate does not hold, or that speaks no TLS or denies this name: trying again is in vain."""


class MessageTooLargeError(BrokerError):
    """A message of a size that the broker does not take: sending it again is in vain, smaller ones go on."""


class LinkStoppedError(BrokerError):
    """A message that was not answered because we ended the link ourselves."""


class StorageError(AuricleError):
    """A folder, database or disk that cannot take what has to be kept."""


def closest(word: str, known: Iterable[str], least: float = 0.5) -> str | None:
    """The known word that is most like this one, None where none is alike enough; `least` as of `nearest`."""
    import difflib  # for a mistake only: a device that listens does without

    return next(iter(difflib.get_close_matches(word, sorted(known), n=1, cutoff=least)), None)


def nearest(word: str, known: Iterable[str], least: float = 0.5) -> str:
    """Name the nearest known word as a hint, e.g. `did you mean "lpa"?`, or list what there is, if anything.

    Parameters
    ----------
    word
        What the user wrote.
    known
        The words that would have been accepted.
    least
        How alike a word has to be to be meant, at most 1.
    """
    choices = sorted(known)
    close = closest(word, choices, least)
    if close is not None:
        return f'did you mean "{close}"?'
    return f"there is: {', '.join(choices)}." if choices else "there are none yet."


# -- calls that do not fit


def refuse_misfits(function: Callable[P, T], name: str = "") -> Callable[P, T]:
    """Have a function raise SettingsError for an unknown name, a missing value or too many. A decorator.

    A call that fits is as it was; `name` is what the sentence calls the function, without one its own.
    """

    @functools.wraps(function)
    def called(*values: P.args, **named: P.kwargs) -> T:
        try:
            return function(*values, **named)
        except TypeError:
            _require_fit(function, name or function.__qualname__, values, named)
            raise

    return called


def refuse_misfits_of(kind: Kind) -> Kind:
    """Have a class refuse values that no instance is made of, as `refuse_misfits` does. A decorator."""
    kind.__init__ = refuse_misfits(kind.__init__, kind.__name__)  # type: ignore[misc]
    return kind


def _require_fit(
    function: Callable[..., object], name: str, values: tuple[object, ...], named: dict[str, object]
) -> None:
    """SettingsError where a call does not fit; where it does, its TypeError is of something else."""
    import inspect  # for a mistake only: a device that listens does without

    signature = inspect.signature(function)
    known = [each for each in signature.parameters if each not in ("self", "cls")]
    takes_any = any(each.kind is each.VAR_KEYWORD for each in signature.parameters.values())
    unknown = None if takes_any else next((each for each in named if each not in known), None)
    if unknown is not None:
        raise SettingsError(f'{name} takes no "{unknown}": {nearest(unknown, known)}') from None
    try:
        signature.bind(*values, **named)
    except TypeError as misfit:
        raise SettingsError(f"{name} does not take these values: {misfit}.") from None


# -- how to install what is missing, as it works where this interpreter runs


def pip_command(*requirements: str) -> str:
    """The command that installs packages beside this interpreter, e.g. `pip install wandb`.

    Where `pip` is not this interpreter's, as on a Debian whose environment is not activated, the interpreter is named.

    Parameters
    ----------
    requirements
        Packages and options as pip takes them; quoted where a shell would read them otherwise.
    """
    words = (f'"{each}"' if set(each) & set("[]<> ") else each for each in requirements)
    return f"{_pip()} install {' '.join(words)}"


def extra_command(extra: str, *, elsewhere: bool = False) -> str:
    """The command that adds an extra to this installation, e.g. `pip install -e "/home/anna/auricle[mic]"`.

    No index has Auricle: it comes from the checkout or wheel that this installation was made from, or, where that is
    not known or gone, from the folder of a checkout.

    Parameters
    ----------
    extra
        A name in `[project.optional-dependencies]`.
    elsewhere
        Whether it is for an environment of its own, whose `pip` is not this interpreter's.
    """
    source = _source()
    if source is None:
        return f'pip install ".[{extra}]" in a checkout of Auricle'
    wanted = f"{source}[{extra}]" if source.is_dir() else f"auricle[{extra}] @ {source.as_uri()}"
    if elsewhere:
        return f'pip install "{wanted}"'
    linked = ("-e",) if source == _checkout() else ()  # its own files run, and have to go on doing so
    return pip_command(*linked, wanted)


def _pip() -> str:
    from pathlib import Path
    from shutil import which

    pip, here = which("pip"), Path(sys.executable).parent
    own = pip is not None and Path(pip).parent == here and sys.prefix != sys.base_prefix
    return "pip" if own else f"{sys.executable} -m pip"


def _checkout() -> Path | None:
    """The checkout whose files run; None where an installed copy does."""
    from pathlib import Path

    checkout = Path(__file__).resolve().parents[2]
    return checkout if (checkout / "pyproject.toml").is_file() else None


def _source() -> Path | None:
    """The checkout or wheel that this was installed from; None where nobody wrote it down, or it is not there now."""
    import json  # for a mistake only: a device that listens does without
    from importlib.metadata import Distribution, PackageNotFoundError
    from pathlib import Path
    from urllib.parse import unquote, urlsplit

    if (checkout := _checkout()) is not None:
        return checkout
    try:
        written = Distribution.from_name("auricle").read_text("direct_url.json")
        url = urlsplit(json.loads(written or "{}").get("url", ""))
    except (PackageNotFoundError, OSError, ValueError, AttributeError):
        return None
    place = Path(unquote(url.path))
    return place if url.scheme == "file" and place.is_absolute() and place.exists() else None


# -- why the system, the network or TLS refused something, without numbers and names of a library

_CERTIFICATE = {
    9: "it is not valid yet by the clock of this side",
    10: "it has expired by the clock of this side",
    18: "it is self-signed",
    19: "its authority is not one that is trusted here",
    20: "its authority is not one that is trusted here",
    21: "its authority is not one that is trusted here",
    23: "it was revoked",
    62: "it is for another name",
    64: "it is for another address",
}
"""OpenSSL's X509_V_ERR codes."""
_HANDSHAKE = {
    "WRONG_VERSION_NUMBER": "what listens there does not speak TLS",
    "RECORD_LAYER_FAILURE": "what listens there does not speak TLS",
    "UNEXPECTED_EOF_WHILE_READING": "the connection was closed during the TLS handshake",
    "NO_START_LINE": "it does not hold what it should in PEM",
    "PEM_LIB": "it does not hold what it should in PEM",
    "NO_CERTIFICATE_OR_CRL_FOUND": "it does not hold a certificate in PEM",
    "KEY_VALUES_MISMATCH": "the key is not that of the certificate",
    "TLSV1_ALERT_UNKNOWN_CA": "it does not trust the authority of this side's certificate",
    "TLSV13_ALERT_CERTIFICATE_REQUIRED": "it asks for a certificate of this side",
    "SSLV3_ALERT_CERTIFICATE_REVOKED": "this side's certificate was revoked",
    "SSLV3_ALERT_CERTIFICATE_EXPIRED": "this side's certificate has expired",
}
"""What `ssl.SSLError.reason` says, by OpenSSL's names."""
_NETWORK = {
    errno.ECONNREFUSED: "nothing listens there",
    errno.ECONNRESET: "the other side closed the connection",
    errno.EPIPE: "the other side closed the connection",
    errno.EHOSTUNREACH: "no network leads there",
    errno.ENETUNREACH: "no network leads there",
    errno.EADDRINUSE: "the port is in use",
    errno.ENOSPC: "the disk is full",
    errno.EDQUOT: "the disk is full",
}


def because(error: BaseException) -> str:
    """Why it failed, for the middle of a sentence: begins small, ends without a full stop.

    Parameters
    ----------
    error
        Of the system, of a connection or of TLS; another one's own words are taken as they are.
    """
    import socket
    import ssl  # here: what has no connection does without them

    if isinstance(error, ssl.SSLCertVerificationError):
        why = _CERTIFICATE.get(error.verify_code) or _small(error.verify_message)
        return f"its certificate does not hold: {why}"
    if isinstance(error, ssl.SSLError):
        reason = (getattr(error, "reason", None) or "").upper().replace(" ", "_")
        if not reason:  # some have their reason in the message alone: "[SSL] PEM lib (_ssl.c:3905)"
            reason = re.sub(r"^\[.*?\]\s*|\s*\(_ssl.*", "", str(error)).upper().replace(" ", "_")
        return _HANDSHAKE.get(reason) or f"TLS failed, {reason.replace('_', ' ').lower()}"
    if isinstance(error, socket.gaierror):
        return "no address is known for this name"
    if type(error).__name__ == "TimeoutError" or isinstance(error, TimeoutError):  # asyncio has its own before 3.11
        return "no answer came in time"
    if isinstance(error, OSError) and error.errno is not None:
        return _NETWORK.get(error.errno) or _small(os.strerror(error.errno))
    return _small(str(error).strip().rstrip(".")) or type(error).__name__


def _small(text: str) -> str:
    """With a small first letter, where the first word is one that only begins a sentence."""
    first = text.split(" ")[0]
    return text[:1].lower() + text[1:] if first[1:].islower() else text
