"""Parquet tables with sound inside, as Hugging Face publishes them, unpacked into files and a list of these."""

from __future__ import annotations

import importlib
import json
from collections.abc import Iterator, Mapping
from pathlib import Path

from auricle.errors import DataError, extra_command

_AT_ONCE = 32
"""Rows in memory."""


def unpack_table(table: Path, folder: Path) -> Path:
    """Write the sound of each row to a file and the other columns to a list of JSON lines; give the list.

    The column of sound holds the bytes of a file, or an object with `bytes`; numbers that stand for names of labels
    (ClassLabel) become these. A row without bytes keeps the path that it has.

    Raises
    ------
    DataError
        pyarrow is not installed, or the table cannot be read.
    """
    try:
        arrow, parquet = importlib.import_module("pyarrow"), importlib.import_module("pyarrow.parquet")
    except ImportError as error:
        raise DataError(f"{table} is a Parquet table, which needs pyarrow: {extra_command('parquet')}.") from error
    out = folder / "list.jsonl"
    try:
        with parquet.ParquetFile(table) as opened, out.open("w", encoding="utf-8") as file:
            names = _names_of_labels(opened.schema_arrow.metadata or {})
            rows = (row for some in opened.iter_batches(batch_size=_AT_ONCE) for row in some.to_pylist())
            for number, row in enumerate(rows, 1):
                cells = dict(_cells(row, folder / f"row-{number}", names))
                file.write(json.dumps(cells) + "\n")
    except (OSError, ValueError, OverflowError, arrow.ArrowException) as error:
        raise DataError(f"{table} is not a Parquet table that can be read: copy it again.") from error
    return out


def _cells(row: Mapping[str, object], target: Path, names: Mapping[str, list[str]]) -> Iterator[tuple[str, object]]:
    for name, cell in row.items():
        content = cell.get("bytes") if isinstance(cell, dict) else cell
        if isinstance(content, bytes):
            target.write_bytes(content)
            yield "path", target.name
        elif isinstance(cell, dict) and isinstance(cell.get("path"), str):
            yield name, cell["path"]
        elif isinstance(cell, int) and name in names and 0 <= cell < len(names[name]):
            yield name, names[name][cell]
        elif isinstance(cell, str | int | float):
            yield name, cell


def _names_of_labels(metadata: Mapping[bytes, bytes]) -> dict[str, list[str]]:
    """The names behind the numbers of each column of labels, as Hugging Face's datasets keep them in a table."""
    try:
        features = json.loads(metadata.get(b"huggingface", b"{}"))["info"]["features"]
        return {
            name: [str(each) for each in feature["names"]]
            for name, feature in features.items()
            if isinstance(feature, dict) and isinstance(feature.get("names"), list)
        }
    except (ValueError, KeyError, TypeError, AttributeError):
        return {}
