"""What is wrong with the answer to a mistake."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator

from tests.mistakes.record import Mistake
from tests.mistakes.run import Outcome

COLUMNS = 80
BEGINNING = "auricle: "  # of the one sentence that says why a command failed
COMMAND = re.compile(r": (?:auricle|pip install|apt install) [^.]*$")
"""A sentence may end with what to type, without a full stop that would be copied with it."""
LOGGED = re.compile(r"\d{4}-\d\d-\d\dT")
RAW = re.compile(
    r"Traceback|\bErrno\b|\b(?:OS|IO|Value|Type|Key|Index|Attribute|Runtime|Unicode\w*|Connection|Timeout|Permission|"
    r"FileNotFound|Import|ModuleNotFound|Overflow|Assertion)Error\b|\bException\b|<class|\bobject at 0x|"
    r"\b(?:(?:msgspec|sqlalchemy|alembic|aiohttp|paho|paho-mqtt)(?!-mqtt| \d)|sqlite3|asyncio|tomllib|"
    r"soundfile\.|libsndfile|zstd\.|click)\b|"
    r"\bssl\.|\[SSL|_ssl\.c|\bSSL:|\bNone\b|background on this error"
)  # what only the writer of a library understands


def faults(mistake: Mistake, outcome: Outcome) -> Iterator[str]:
    """Everything that is not as it has to be, a sentence each."""
    said = f"{outcome.out}\n{outcome.err}"
    if outcome.code != mistake.code:
        yield f"exit code {outcome.code}, not {mistake.code}"
    for word in mistake.says:
        if _filled(word, outcome) not in " ".join(said.split()):
            yield f"does not say {word!r}"
    for word in mistake.silent:
        if _filled(word, outcome) in " ".join(said.split()):
            yield f"says {word!r}"
    if found := RAW.search(said):
        yield f"says {found.group()!r}"
    yield from _sentences(mistake, outcome)
    if not mistake.wide and "--json" not in mistake.command:
        for line in _plain(outcome.out).splitlines():
            if len(line) > COLUMNS and not line.startswith(BEGINNING):  # a terminal wraps a sentence
                yield f"a line of {len(line)} characters: {line[:100]!r}"
    yield from (f"{name} is not as before" for name in outcome.changed)
    if mistake.made_none and outcome.new:
        yield f"left {', '.join(outcome.new)}"


def _filled(word: str, outcome: Outcome) -> str:
    for name, value in outcome.names.items():
        word = word.replace(f"{{{name}}}", value)
    return word


def _plain(text: str) -> str:
    """Without the signs that colour a terminal and move its cursor."""
    return re.sub(r"\x1b\[[0-9;?]*[A-Za-z]", "", text)


def _sentences(mistake: Mistake, outcome: Outcome) -> Iterator[str]:
    """One sentence that says why, of every command that failed; nothing on standard error of one that did not."""
    said = _plain(outcome.out if mistake.terminal else outcome.err)
    why = [line for line in said.splitlines() if line.startswith(BEGINNING)]
    if (
        outcome.code not in (0, 1)
        and not mistake.cut
        and not mistake.told
        and "Interrupted after" not in said + outcome.out
    ):
        if len(why) != 1:
            yield f"{len(why)} sentences say why"
        elif not why[0].endswith((".", "?")) and not COMMAND.search(why[0]):
            yield "its sentence has no end"
        others = [line for line in outcome.err.splitlines() if line and line not in why and not LOGGED.match(line)]
        if others and not (mistake.terminal or mistake.interrupt or mistake.slow):  # what takes long also greets
            yield f"more on standard error: {others[0]!r}"
    if "--json" in mistake.command.split() and outcome.code > 1 and not mistake.interrupt:
        try:
            if not json.loads(outcome.out.splitlines()[-1])["error"]:
                yield "its JSON says no error"
        except (ValueError, LookupError, TypeError):
            yield "what it prints is not JSON with an error"


MASKS = (
    (re.compile(r"/usr/s?bin/mosquitto(?= -c)"), "mosquitto"),
    (re.compile(r"\S*/bin/python[\d.]* -m pip(?= install)"), "pip"),
    (re.compile(r"\b[0-9a-f]{64}\b"), "KEY"),
    (re.compile(r"(?<=[:@])[\w-]{22}(?=@)"), "PASSWORD"),
    (re.compile(r"\d{4}-\d\d-\d\d[T ]\d\d:\d\d(?::\d\d)?(?: UTC|\+0000)?"), "TIME"),
    (re.compile(r"\d{8}-\d{6}"), "TIME"),
    (re.compile(r"\([0-9a-f]{12}\)"), "(IDENTITY)"),
    (re.compile(r"\b\d+(?:\.\d+)? (?:MiB|GiB) (?=free)"), "SIZE "),
)  # what differs from one run to the next
KEPT_LINES = 3


def shown(mistake: Mistake, outcome: Outcome, folder: str) -> str:
    """What was printed, without what differs from one run to the next: the sentence that says why, or the beginning."""
    lines = [line.rstrip() for line in f"{_plain(outcome.out)}\n{_plain(outcome.err)}".splitlines() if line.strip()]
    why = [line for line in lines if line.startswith(BEGINNING)]
    text = "\n".join(why or [line for line in lines if not LOGGED.match(line)][:KEPT_LINES])
    text = text.replace(folder, "DIR")
    for name, value in outcome.names.items():
        if value.isdigit():
            text = text.replace(value, name.upper())
    for mask, word in MASKS:
        text = mask.sub(word, text)
    return text
