"""What a sentence says to write instead, and whether that is then accepted."""

from __future__ import annotations

import re
from pathlib import Path

import msgspec

from tests.mistakes.before import Need
from tests.mistakes.judge import BEGINNING
from tests.mistakes.record import Mistake
from tests.mistakes.run import Outcome, run

SUGGESTS = re.compile(r'(?:did you mean|write) "([^"]+)"')
REFUSES = re.compile(r'"([^"]+)"|no option (-\S+?):')
SOON = 5.0
"""Seconds in which a command refuses what it does not accept; one that goes on longer is ended."""


def corrected(mistake: Mistake, said: str) -> Mistake | None:
    """The command with what its answer says to write; None where it says nothing, or of something not typed here."""
    suggested = SUGGESTS.search(said)
    refused = [] if suggested is None else REFUSES.findall(said[: suggested.start()])
    if suggested is None or not refused:
        return None
    wrong, right = "".join(refused[-1]), suggested[1]
    if right.startswith("auricle "):
        after = mistake.command.partition(wrong)[2]
        return msgspec.structs.replace(mistake, command=f"{right}{after}", interrupt="")
    if wrong in mistake.command:
        return msgspec.structs.replace(mistake, command=mistake.command.replace(wrong, right, 1), interrupt="")
    if any(wrong in text for text in mistake.files.values()):
        files = {name: text.replace(wrong, right, 1) for name, text in mistake.files.items()}
        return msgspec.structs.replace(mistake, files=files, interrupt="")
    return None


def refused_again(mistake: Mistake, outcome: Outcome, folder: Path, need: Need) -> str:
    """The sentence in which what was to be written is refused too; empty where it is accepted."""
    said = _why(outcome)
    again = corrected(mistake, said)
    suggested = SUGGESTS.search(said)
    if again is None or suggested is None:
        return ""
    place = folder / "corrected"
    place.mkdir()
    answer = _why(run(again, place, need, SOON))
    return answer if suggested[1] in [one or other for one, other in REFUSES.findall(answer)] else ""


def _why(outcome: Outcome) -> str:
    lines = f"{outcome.out}\n{outcome.err}".splitlines()
    return next((line for line in lines if line.startswith(BEGINNING)), "")
