"""Rows of a backup's tables: each is as its table wants it, or the backup is refused before anything is replaced."""

from __future__ import annotations

import base64
import binascii
import json
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path

import sqlalchemy as sa

from auricle.errors import AuricleError
from auricle.files import open_kept
from auricle_cloud.storage.backup import ROWS_AT_ONCE

LARGEST_ROW = 64 << 20
"""Bytes of a row: no coordinator writes one that comes near."""
DEEPEST = 64
"""Tables and lists inside of each other in a value."""


class BackupError(AuricleError):
    """A file that is not a backup, or is damaged."""


class _WrongValueError(Exception):
    """A value that its column cannot hold; the argument says what it should be."""


def batches(path: Path, table: sa.Table) -> Iterator[list[dict[str, object]]]:
    """Rows of a file of JSON lines as a table takes them, at most `ROWS_AT_ONCE` at once.

    Parameters
    ----------
    table
        As the database has it: types and names of its columns.

    Raises
    ------
    BackupError
        A line is not a row of this table; the sentence names it, the column and what belongs there.
    """
    checks = {column.name: _check_of(column.type) for column in table.columns}
    rows: list[dict[str, object]] = []
    with open_kept(path) as lines:
        number = 0
        while line := lines.readline(LARGEST_ROW + 1):
            number += 1
            rows.append(_row(line, checks, f"row {number} of the table {table.name}"))
            if len(rows) == ROWS_AT_ONCE:
                yield rows
                rows = []
    if rows:
        yield rows


Check = Callable[[object], object]


def _damage(what: str) -> BackupError:
    return BackupError(f"The backup is damaged: {what}: restore another one.")


def _row(line: bytes, checks: Mapping[str, Check], where: str) -> dict[str, object]:
    if len(line) > LARGEST_ROW:
        raise _damage(f"{where} holds more than {LARGEST_ROW >> 20} MiB")
    try:
        row = json.loads(line)
    except RecursionError as error:
        raise _damage(f"{where} is nested too deeply") from error
    except ValueError as error:  # of JSON and of text, and a number of more digits than Python reads
        raise _damage(f"{where} is not JSON") from error
    if not isinstance(row, dict) or row.keys() - checks:
        raise _damage(f"{where} has not the columns of its table")
    for name, value in row.items():
        if value is None:
            continue
        try:
            row[name] = checks[name](value)
        except _WrongValueError as error:
            raise _damage(f"{name} in {where} takes {error}") from error
    return row


def _check_of(kind: sa.types.TypeEngine[object]) -> Check:
    if isinstance(kind, sa.LargeBinary):
        return _binary
    if isinstance(kind, sa.Boolean):
        return _boolean
    if isinstance(kind, sa.Integer):
        return _whole(63 if isinstance(kind, sa.BigInteger) else 31)
    if isinstance(kind, sa.Float | sa.Numeric):
        return _number
    return _check_depth if isinstance(kind, sa.JSON) else _text


def _binary(value: object) -> bytes:
    try:
        return base64.b64decode(value if isinstance(value, str) else "?", validate=True)
    except (binascii.Error, ValueError) as error:
        raise _WrongValueError("bytes in base64") from error


def _boolean(value: object) -> object:
    if not isinstance(value, bool):
        raise _WrongValueError("true or false")
    return value


def _whole(bits: int) -> Check:
    def check(value: object) -> object:
        if type(value) is not int or not -(1 << bits) <= value < 1 << bits:
            raise _WrongValueError(f"a whole number of {bits + 1} bits")
        return value

    return check


def _number(value: object) -> object:
    if isinstance(value, bool) or not isinstance(value, int | float) or (isinstance(value, int) and abs(value) >> 1000):
        raise _WrongValueError("a number")
    return value


def _text(value: object) -> object:
    if not isinstance(value, str) or "\0" in value or (not value.isascii() and not _encodes(value)):
        raise _WrongValueError("a text")
    return value


def _encodes(value: str) -> bool:
    try:
        value.encode()
    except UnicodeEncodeError:
        return False
    return True


def _check_depth(value: object) -> object:
    layer = [value]
    for _ in range(DEEPEST):
        if not layer:
            return value
        tables = [
            inner.values() if isinstance(inner, dict) else inner for inner in layer if isinstance(inner, dict | list)
        ]
        layer = [inner for table in tables for inner in table]
    raise _WrongValueError(f"at most {DEEPEST} tables and lists inside of each other")
