"""Rows of a backup: what no coordinator wrote is refused in one sentence, and nothing is replaced."""

from __future__ import annotations

import hashlib
import json
import random
import tarfile
from pathlib import Path
from typing import Any

import msgspec
import pytest
from tests.cloud.filled_store import fill
from tests.cloud.test_backup import Change, rewritten, saved

from auricle_cloud.storage.backup import MANIFEST, Entry, Manifest
from auricle_cloud.storage.backup_rows import DEEPEST
from auricle_cloud.storage.blobs import Blobs
from auricle_cloud.storage.restore import EPOCH_LEAP, MOST_STARTS, BackupError, restore_backup
from auricle_cloud.storage.store import FILE, Store


def with_lines(table: str, change: Any) -> Change:
    """A backup whose manifest fits what `change` makes of the lines of a table."""

    def changed(members: list[tuple[tarfile.TarInfo, bytes]]) -> None:
        name = f"tables/{table}.jsonl"
        at = next(i for i, (member, _) in enumerate(members) if member.name == name)
        content = b"".join(line + b"\n" for line in change(members[at][1].splitlines()))
        members[at] = (members[at][0], content)
        before = msgspec.json.decode(members[-1][1], type=Manifest)
        entry = Entry(name, len(content), hashlib.sha256(content).hexdigest())
        files = [entry if each.path == name else each for each in before.files]
        assert members[-1][0].name == MANIFEST
        members[-1] = (members[-1][0], msgspec.json.encode(msgspec.structs.replace(before, files=files)))

    return changed


def with_value(table: str, column: str, value: str) -> Change:
    """A backup whose first row of a table has this text of JSON as a value."""

    def changed(lines: list[bytes]) -> list[bytes]:
        mark = '"put it here"'
        row = json.dumps(json.loads(lines[0]) | {column: json.loads(mark)}).replace(mark, value)
        return [row.encode(), *lines[1:]]

    return with_lines(table, changed)


def with_epoch(text: str) -> Change:
    return with_lines("meta", lambda _: [json.dumps({"key": "epoch", "value": text}).encode()])


EPOCHS_OF_NOBODY = (str(2**62), str(MOST_STARTS + 1), "-1", "x", "1e3", "²", "9" * 5000)
NESTED = "[" * 100_000 + "]" * 100_000


@pytest.mark.parametrize(
    ("change", "says"),
    [
        (with_value("events", "id", "NaN"), "id in row 1 of the table events takes a whole number"),
        (with_value("events", "id", "1.5"), "whole number"),
        (with_value("events", "id", "true"), "whole number"),
        (with_value("events", "id", str(2**70)), "whole number"),
        (with_value("events", "id", str(2**31)), "whole number of 32 bits"),
        (with_value("devices", "samples", str(2**63)), "whole number of 64 bits"),
        (with_value("devices", "samples", "9" * 5000), "row 1 of the table devices is not JSON"),
        (with_value("devices", "first_seen", str(2**2000)), "a number"),
        (with_value("devices", "online", "2"), "true or false"),
        (with_value("devices", "boot", NESTED), "nested too deeply"),
        (with_value("devices", "boot", '"\\ud800"'), "a text"),
        (with_value("devices", "boot", '"\\u0000"'), "a text"),
        (with_value("devices", "public_key", '"%"'), "base64"),
        (with_value("rounds", "report", "[" * (DEEPEST + 1) + "]" * (DEEPEST + 1)), "inside of each other"),
        (with_value("devices", "no_such", "1"), "has not the columns"),
        (with_lines("devices", lambda lines: [b"[]", *lines]), "has not the columns"),
        (with_lines("devices", lambda lines: [b"\xff\xfe", *lines]), "is not JSON"),
        (with_lines("devices", lambda lines: [*lines, lines[0]]), "do not fit"),
        *((with_epoch(text), "epoch") for text in EPOCHS_OF_NOBODY),
    ],
)
def test_a_row_that_no_coordinator_wrote_is_refused_in_a_sentence(tmp_path: Path, change: Change, says: str) -> None:
    (tmp_path / "state").mkdir()
    filled = fill(tmp_path / "state")
    source = rewritten(saved(filled, tmp_path / "b"), tmp_path / "c", change)
    filled.store.close()
    there = {path: path.read_bytes() for path in filled.folder.rglob("*") if path.is_file()}

    with pytest.raises(BackupError, match=says) as refused:
        restore_backup(source, filled.folder, filled.blobs)

    assert "\n" not in str(refused.value)
    assert len(str(refused.value)) < 500
    assert {path: path.read_bytes() for path in filled.folder.rglob("*") if path.is_file()} == there


def test_the_largest_values_come_back(tmp_path: Path) -> None:
    (tmp_path / "state").mkdir()
    filled = fill(tmp_path / "state")
    source = saved(filled, tmp_path / "b")
    filled.store.close()
    deep = "[" * (DEEPEST - 1) + "]" * (DEEPEST - 1)
    for table, column, value in (("devices", "samples", str(2**63 - 1)), ("rounds", "report", deep)):
        source = rewritten(source, tmp_path / f"c-{column}", with_value(table, column, value))
    source = rewritten(source, tmp_path / "d", with_epoch(str(MOST_STARTS)))

    restore_backup(source, tmp_path / "other", Blobs(tmp_path / "other" / "blobs"))

    store = Store(tmp_path / "other" / FILE)
    assert max(row.samples for row in store.devices.all()) == 2**63 - 1
    assert store.database.take_over() == MOST_STARTS + EPOCH_LEAP + 1
    store.close()


VALUES = (
    "NaN",
    "Infinity",
    str(2**70),
    str(-(2**63) - 1),
    "1e400",
    '""',
    '"\\ud800x"',
    "[]",
    "{}",
    "true",
    "null",
    "1.5",
)


def test_any_value_in_any_column_is_taken_or_refused(tmp_path: Path) -> None:
    (tmp_path / "state").mkdir()
    filled = fill(tmp_path / "state")
    source = saved(filled, tmp_path / "b")
    filled.store.close()
    draw = random.Random(1)
    tables = {"devices": 3, "rounds": 3, "updates": 3, "models": 2, "events": 2}
    for table, most in tables.items():
        columns = sorted(json.loads(_first_line(source, table)))
        for column in draw.sample(columns, most):
            changed = rewritten(source, tmp_path / "c", with_value(table, column, draw.choice(VALUES)))
            try:
                restore_backup(changed, tmp_path / "other", Blobs(tmp_path / "other" / "blobs"))
            except BackupError as error:
                assert "\n" not in str(error)


def _first_line(source: Path, table: str) -> bytes:
    found: list[bytes] = []

    def look(lines: list[bytes]) -> list[bytes]:
        found.append(lines[0])
        return lines

    rewritten(source, source.with_name("looked-at"), with_lines(table, look))
    return found[0]
