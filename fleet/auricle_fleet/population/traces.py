"""Recorded traces of availability: when devices were online, charging and idle, followed on the virtual clock."""

from __future__ import annotations

import csv
import math
from bisect import bisect_right
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import msgspec
import numpy as np
from msgspec import Meta

from auricle.errors import DataError, because, nearest
from auricle.files import NamesOnDisk, read_lines
from auricle.wire.kinds import UNDECODABLE
from auricle_fleet.settings.groups import Group, Need

MOST_BYTES, MOST_ROWS, MOST_TIME = 64 << 20, 1_000_000, 1e9
"""Bytes and rows of a trace, and seconds in it, at most."""
MOST_ROUNDED = 8
"""Last digits of a time that rounding can take."""
STATES: tuple[Need, ...] = ("online", "charging", "idle")
YES, NO = frozenset({"1", "true", "yes"}), frozenset({"0", "false", "no"})


class Row(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """A line of a trace: how a device is from a time on, until its next line."""

    device: Annotated[str, Meta(min_length=1, max_length=100)]
    time: Annotated[float, Meta(ge=0, le=MOST_TIME)]
    """Seconds since the trace began."""
    online: bool = True
    charging: bool = True
    idle: bool = True
    kilobits: Annotated[float, Meta(gt=0, le=1e9)] | None = None
    """Thousand bits a second, each way; None: as its group's network has it."""


@dataclass(frozen=True)
class Timeline:
    """When one device can take part, and how fast its network is; times in seconds of the virtual clock."""

    stays: tuple[tuple[float, float], ...]
    """Beginnings and ends of the times in which it can, rising and apart; before, between and after them it cannot."""
    rates: tuple[tuple[float, float | None], ...] = ()
    """Times from which the network has so many kilobits a second, rising; None: as its group's."""
    repeat: float | None = None
    """Seconds after which everything begins again; the last end is not after it."""

    def comes(self, at: float) -> float:
        """The earliest time, not before `at`, when it can take part; infinity where it never can again."""
        past, now = self._place(at)
        place = self._stay(now)
        if place == len(self.stays):
            return self._within(past + self.repeat + self.stays[0][0]) if self.repeat and self.stays else math.inf
        begin = self.stays[place][0]
        return at if begin <= now else self._within(past + begin)

    def leaves(self, at: float) -> float:
        """When it cannot any more what it can at `at`; infinity where that does not end."""
        past, now = self._place(at)
        place = self._stay(now)
        end = self.stays[place][1] if place < len(self.stays) and self.stays[place][0] <= now else now
        if self.repeat is None or end < self.repeat or self.stays[0][0] > 0:
            return past + end
        first = self.stays[0][1]  # it goes on from the last to the first
        return math.inf if first >= self.repeat else past + self.repeat + first

    def kilobits(self, at: float) -> float | None:
        """Of the network at this time."""
        place = bisect_right(self.rates, self._place(at)[1], key=lambda rate: rate[0]) - 1
        return self.rates[place][1] if place >= 0 else None

    def _stay(self, now: float) -> int:
        """The place of the first stay that ends after a time of a repetition."""
        return bisect_right(self.stays, now, key=lambda stay: stay[1])

    def _within(self, at: float) -> float:
        """A beginning on the clock, or the next number after it that is in the stay: a sum may be rounded down."""
        for _ in range(MOST_ROUNDED):
            now = self._place(at)[1]
            place = self._stay(now)
            if place < len(self.stays) and self.stays[place][0] <= now:
                break
            at = math.nextafter(at, math.inf)
        return at

    def _place(self, at: float) -> tuple[float, float]:
        """The beginning of the repetition in which a time lies, and how far it lies in it."""
        if self.repeat is None:
            return 0.0, at
        past = math.floor(at / self.repeat) * self.repeat
        return past, at - past


def _rows_of(path: Path) -> dict[str, list[Row]]:
    """The lines of a trace by device, in the order in which devices first appear."""
    lines = read_lines(path, "The trace", refusal=DataError)
    found: dict[str, list[Row]] = {}
    for count, (line, row) in enumerate((_of_json if path.suffix == ".jsonl" else _of_csv)(path, lines), 1):
        if count > MOST_ROWS:
            raise DataError(f"The trace {path} has more than {MOST_ROWS:,} rows: leave devices out.")
        rows = found.setdefault(row.device, [])
        if rows and row.time <= rows[-1].time:
            raise DataError(
                f"{path}, line {line}: the time {row.time:g} of {row.device} is not after its "
                f"{rows[-1].time:g} before: times of a device have to rise."
            )
        rows.append(row)
    if not found:
        raise DataError(f"The trace {path} has no row.")
    return found


def _of_csv(path: Path, lines: Iterable[str]) -> Iterator[tuple[int, Row]]:
    """Line numbers and rows of a table whose first line names the columns."""
    reader, known = csv.reader(lines, strict=True), Row.__struct_fields__
    names: list[str] = []
    try:
        for cells in reader:
            if not names:
                names = [cell.strip().lower() for cell in cells]
                for name in names:
                    if name not in known or names.count(name) > 1:
                        why = "is there twice" if name in known else f"is not one of a trace: {nearest(name, known)}"
                        raise DataError(f'{path}, line 1: the column "{name[:100]}" {why.rstrip(".")}.')
                if missing := {"device", "time"} - set(names):
                    raise DataError(f"{path}, line 1: it names no column {min(missing)}; a trace has device and time.")
            elif cells:
                if len(cells) != len(names):
                    raise DataError(
                        f"{path}, line {reader.line_num}: {len(cells)} cells, and line 1 names {len(names)} columns."
                    )
                plain = {name: _plain(name, cell.strip()) for name, cell in zip(names, cells, strict=True)}
                yield reader.line_num, _row(path, reader.line_num, plain)
    except csv.Error as error:
        raise DataError(f"{path}, line {reader.line_num}: this is not a line of CSV.") from error


def _plain(name: str, cell: str) -> object:
    """What a cell says, where it can be read; else the cell."""
    if name in STATES:
        low = cell.lower()
        return True if low in YES else False if low in NO else cell
    if name == "kilobits" and not cell:
        return None
    if name in ("time", "kilobits"):
        try:
            return float(cell)
        except ValueError:
            return cell
    return cell


def _of_json(path: Path, lines: Iterable[str]) -> Iterator[tuple[int, Row]]:
    """Line numbers and rows of a file with an object a line."""
    for number, text in enumerate(lines, 1):
        if text.strip():
            try:
                plain = msgspec.json.decode(text, type=dict[str, object])
            except UNDECODABLE as error:
                raise DataError(f"{path}, line {number}: this is not an object of JSON.") from error
            yield number, _row(path, number, plain)


def _row(path: Path, line: int, plain: Mapping[str, object]) -> Row:
    """A row that is sound; DataError with the line and what is wrong."""
    try:
        row = msgspec.convert(plain, Row)
        if math.isfinite(row.time) and math.isfinite(row.kilobits or 0):
            return row
    except UNDECODABLE:
        """Which of its values it is stands below."""
    known = Row.__struct_fields__
    for name, given in plain.items():
        if name not in known:
            raise DataError(f'{path}, line {line}: there is no "{name[:100]}" in a trace: {nearest(name, known)}')
        try:
            found = msgspec.convert({"device": "d", "time": 0, name: given}, Row)
        except UNDECODABLE:
            found = None
        if found is None or not (math.isfinite(found.time) and math.isfinite(found.kilobits or 0)):
            raise DataError(f'{path}, line {line}: {name} has to be {_WANTED[name]}, not "{str(given)[:100]}".')
    raise DataError(f"{path}, line {line}: it names {'no time' if 'device' in plain else 'no device'}.")


_WANTED: dict[str, str] = {
    "device": "1 to 100 characters",
    "time": f"seconds from 0 to {MOST_TIME:,.0f}",
    "online": "1 or 0",
    "charging": "1 or 0",
    "idle": "1 or 0",
    "kilobits": "a number above 0, or empty",
}


def read_trace(group: Group) -> list[Timeline]:
    """The timelines of a group's trace, one for each device in it, in the order in which they first appear.

    Raises
    ------
    DataError
        The file cannot be read or is too long; a line is not a row (with its number); times of a device do not rise;
        or it is longer than the time after which it is to begin again.
    """
    told = group.trace
    assert told is not None
    path = NamesOnDisk().find(Path(told.file))
    try:
        size = path.stat().st_size
    except (OSError, ValueError) as error:
        why = because(error) if isinstance(error, OSError) else "its name is not one of a file"
        raise DataError(f"The trace {path} cannot be read: {why}.") from error
    if not path.is_file():
        raise DataError(f"The trace {path} is not a file: name one in CSV, or with an object of JSON a line.")
    if size > MOST_BYTES:
        raise DataError(f"The trace {path} has {size:,} bytes and may have {MOST_BYTES:,}: leave devices out.")
    recorded = _rows_of(path)
    last = max(rows[-1].time for rows in recorded.values())
    if told.repeat is not None and last >= told.repeat:
        raise DataError(
            f'The trace {path} goes on to {last:g} s, and the group "{group.name}" repeats it after {told.repeat:g} s: '
            "raise repeat."
        )
    return [_timeline(rows, told.needs, told.repeat) for rows in recorded.values()]


def require_traces(groups: Iterable[Group]) -> None:
    """See that every trace can be followed, before anything is made for a run; DataError as of `read_trace`."""
    for group in groups:
        if group.trace is not None:
            found = read_trace(group)
            if not any(timeline.stays for timeline in found):
                needs = group.trace.needs
                wanted = " and ".join([", ".join(needs[:-1]), needs[-1]] if len(needs) > 1 else needs)
                raise DataError(
                    f"No device of the trace {group.trace.file} is ever {wanted}: leave one out of needs, or choose "
                    "another trace."
                )


def _timeline(rows: list[Row], needs: tuple[Need, ...], repeat: float | None) -> Timeline:
    stays: list[tuple[float, float]] = []
    ends = [*(row.time for row in rows[1:]), math.inf if repeat is None else repeat]
    for row, end in zip(rows, ends, strict=True):
        if all(getattr(row, need) for need in needs):
            begin = stays.pop()[0] if stays and stays[-1][1] == row.time else row.time
            stays.append((begin, end))
    rates = tuple((row.time, row.kilobits) for row in rows)
    return Timeline(tuple(stays), rates if any(rate for _, rate in rates) else (), repeat)


def timelines(groups: list[Group | None], seed: int) -> list[Timeline | None]:
    """The timeline that each device follows, drawn by the seed; None: it is always there.

    A group with more devices than its trace has follows them again in turn.

    Raises
    ------
    DataError
        As of `read_trace`.
    """
    found: list[Timeline | None] = [None] * len(groups)
    for place, group in enumerate(
        {group.name: group for group in groups if group is not None and group.trace}.values()
    ):
        recorded = read_trace(group)
        order = np.random.default_rng([seed, 43, place]).permutation(len(recorded))
        mine = [device for device, other in enumerate(groups) if other is group]
        for number, device in enumerate(mine):
            found[device] = recorded[order[number % len(order)]]
    return found
