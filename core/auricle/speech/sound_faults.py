"""Why a file of sound is not used, or not used as it stands: one closed list, and the counts that commands show."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from enum import Enum
from pathlib import Path
from textwrap import TextWrapper

from auricle.errors import DataError


class SoundFault(Enum):
    """What is wrong with a file of sound, in the words of the table of a command."""

    ABSENT = "there is no such file"
    NOT_REGULAR = "not a regular file"
    CLOSED = "cannot be opened or read"
    EMPTY = "holds no sound"
    FORMAT = "not a format that is read"
    OLD_LIBRARY = "needs a newer libsndfile"
    DAMAGED = "damaged: cannot be decoded"
    CUT = "holds less sound than its header claims"
    SEVERAL = "several recordings in one file"
    RATE = "a sample rate that is not read"
    LONG = "too long"
    NOT_FINITE = "samples that are not finite numbers"
    SCALE = "samples in a scale that is not known"
    SILENT = "silent"
    CHANNELS = "more than two channels"
    RAW = "raw samples without a header"
    BESIDE = "in no folder of a word"
    INSIDE = "in a folder inside that of a word"
    UNDERSCORE = "in a folder whose name is no word"
    NOT_CHOSEN = "of a label that is not chosen"
    NAME = "nothing says who speaks: a speaker each"
    OPPOSITE = "opposite channels: the louder one is used"
    INT16_SCALE = "floats in the scale of int16: divided"
    NO_SIZE = "a header without size: read to the end"
    LESS = "a header that claims less than there is: read to the end"
    NO_END = "not closed by its recorder: read to where it ends"

    @property
    def is_used(self) -> bool:
        """Whether the sound of such a file is used all the same."""
        return self in (
            SoundFault.NAME,
            SoundFault.OPPOSITE,
            SoundFault.INT16_SCALE,
            SoundFault.NO_SIZE,
            SoundFault.LESS,
            SoundFault.NO_END,
        )

    def finding(self, sentence: str) -> Finding:
        """This fault in one file, which the sentence names."""
        return Finding(self.value, sentence, self.is_used)


@dataclass(frozen=True, slots=True)
class Finding:
    """What was found in one file, or in one row of a list."""

    reason: str
    """The same words for all files of that kind: a `SoundFault`, or what a row of a list lacks."""

    sentence: str
    """It names the file, what is wrong with it and what to do."""

    is_used: bool = False
    """Whether its sound is used all the same."""


class SoundError(DataError):
    """A file whose sound is not used."""

    def __init__(self, fault: SoundFault, sentence: str) -> None:
        super().__init__(sentence)
        self.fault = fault

    @property
    def finding(self) -> Finding:
        """The same as a value, to be counted."""
        return self.fault.finding(str(self))


@dataclass(frozen=True, slots=True)
class FindingCount:
    """How many files have one reason: a row of the table, and of `--json`."""

    reason: str
    files: int
    is_used: bool
    example: str


def count_findings(findings: Iterable[Finding]) -> list[FindingCount]:
    """Count by reason, the commonest first, each with the sentence of its first file."""
    counts: dict[tuple[str, bool], tuple[int, str]] = {}
    for finding in findings:
        kind = finding.reason, finding.is_used
        count, example = counts.get(kind, (0, finding.sentence))
        counts[kind] = count + 1, example
    rows = [FindingCount(reason, count, used, example) for (reason, used), (count, example) in counts.items()]
    return sorted(rows, key=lambda row: (row.is_used, -row.files, row.reason))


def sentences_of(findings: Iterable[Finding]) -> tuple[str, ...]:
    """A sentence for each file that is not used."""
    return tuple(finding.sentence for finding in findings if not finding.is_used)


def findings_table(counts: Iterable[FindingCount]) -> str:
    """A table of 80 columns: how many files, what was found, and one example below it; empty where nothing was."""
    rows = list(counts)
    if not rows:
        return ""
    lines = [f"{'files':>7}  what was found"]
    for row in rows:
        lines.append(f"{row.files:>7,}  {row.reason if row.is_used else f'not used: {row.reason}'}")
        lines += _BELOW.wrap(row.example)
    return "\n".join(lines)


_INDENT = " " * 9
_BELOW = TextWrapper(
    80, initial_indent=_INDENT, subsequent_indent=_INDENT, break_long_words=False, break_on_hyphens=False
)


def nothing_usable(where: Path | str, findings: Iterable[Finding], what: str = "file of sound") -> str:
    """Say that nothing could be used: how many files there were, the commonest reason and an example of it."""
    rows = [row for row in count_findings(findings) if not row.is_used]
    if not rows:
        return f"There is no {what} in {where}: name another folder or list."
    total = sum(row.files for row in rows)
    many = f"{rows[0].files:,} of {total:,}: " if len(rows) > 1 else f"all {total:,}: " if total > 1 else ""
    return f"No {what} in {where} could be used; {many}{rows[0].reason}. The first: {rows[0].example}"
