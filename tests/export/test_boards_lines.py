"""Lines of TOML keys: nested tables, arrays of tables, strings that look like keys."""

from __future__ import annotations

import sys
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from auricle_export.flash.boards import profile_path
from auricle_export.flash.toml_lines import Path, key_lines, line_of

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

DOCUMENT = '''# a comment with key = 1
top = 1
"quoted key" = 'x # no comment'   # name = 2
a.b."c.d" = [1, 2, # name = 3
  [3,
   4], ]
text = """
[not.a.table]
name = "no \\""" key"
""""
raw = \'\'\'
name = 'x'
\'\'\'\'\'
[table]
name = {first = 1, second = {third = [
  {x = 1}, {x = 2}]}}
[[rows]]
name = "one"
[rows.inner]
deep = true
[[rows.more]]
n = 1
[[rows.more]]
n = 2
[[rows]]
name = 1979-05-27 07:32:00
[[rows.more]]
n = 3
[ "spaced" . out ]
last=1'''

EXPECTED: dict[Path, int] = {
    ("top",): 2,
    ("quoted key",): 3,
    ("a",): 4,
    ("a", "b"): 4,
    ("a", "b", "c.d"): 4,
    ("a", "b", "c.d", 1): 4,
    ("a", "b", "c.d", 2): 5,
    ("a", "b", "c.d", 2, 1): 6,
    ("text",): 7,
    ("raw",): 11,
    ("table",): 14,
    ("table", "name"): 15,
    ("table", "name", "second", "third", 1, "x"): 16,
    ("rows",): 17,
    ("rows", 0): 17,
    ("rows", 0, "inner", "deep"): 20,
    ("rows", 0, "more", 0, "n"): 22,
    ("rows", 0, "more", 1): 23,
    ("rows", 0, "more", 1, "n"): 24,
    ("rows", 1): 25,
    ("rows", 1, "name"): 26,
    ("rows", 1, "more", 0, "n"): 28,
    ("spaced", "out"): 29,
    ("spaced", "out", "last"): 30,
}


def paths_of(value: Any, path: Path = ()) -> list[Path]:
    inner: list[Path] = [path] if path else []
    if isinstance(value, dict):
        return inner + [each for key, item in value.items() for each in paths_of(item, (*path, key))]
    if isinstance(value, list):
        return inner + [each for index, item in enumerate(value) for each in paths_of(item, (*path, index))]
    return inner


def test_each_key_is_found_in_its_line() -> None:
    lines = key_lines(DOCUMENT)

    assert {path: lines[path] for path in EXPECTED} == EXPECTED


def test_exactly_what_the_parser_finds_has_a_line() -> None:
    assert set(key_lines(DOCUMENT)) == set(paths_of(tomllib.loads(DOCUMENT)))


@pytest.mark.parametrize("board", ["pi5", "jetson-nano", "generic-arm64"])
def test_every_key_of_a_profile_stands_in_the_line_that_is_told(board: str) -> None:
    text = profile_path(board).read_text()
    lines = key_lines(text)

    for path in paths_of(tomllib.loads(text)):
        told = text.splitlines()[lines[path] - 1]
        assert str(path[-1]) in told or isinstance(path[-1], int), path


def test_a_key_that_is_missing_stands_in_the_line_of_its_table() -> None:
    lines = key_lines(DOCUMENT)

    assert line_of(lines, ("rows", 1, "absent", "deeper")) == 25
    assert line_of(lines, ("absent",)) == 1
    assert line_of(lines, ()) == 1


KEYS = st.text(st.sampled_from("ab-_ .\"'#=[]\u00e9\U0001f600\\\n\t"), min_size=1, max_size=4)
VALUES = st.recursive(
    st.integers(0, 9) | st.booleans() | st.text(st.sampled_from("ab\"'#=[]{},\n\\\u00e9"), max_size=6),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(KEYS, inner, max_size=3),
    max_leaves=6,
)


def quoted(text: str) -> str:
    return '"' + "".join(f"\\U{ord(each):08X}" if each in '\\"\n\t\U0001f600' else each for each in text) + '"'


def inline(value: Any) -> str:
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, str):
        return quoted(value)
    if isinstance(value, list):
        return "[ # ]\n" + "".join(f"  {inline(each)}, # '\n" for each in value) + "]"
    if isinstance(value, dict):
        # tomllib before Python 3.15 takes no new line among the pairs; lists inside may bring some.
        return "{" + ", ".join(f"{quoted(key)} = {inline(each)}" for key, each in value.items()) + "}"
    return str(value)


@given(
    st.dictionaries(KEYS, VALUES, max_size=3),
    st.dictionaries(KEYS, st.lists(st.dictionaries(KEYS, VALUES, max_size=2), min_size=1, max_size=3), max_size=2),
)
def test_any_document_has_a_line_for_all_that_the_parser_finds(
    top: dict[str, Any], arrays: dict[str, list[dict[str, Any]]]
) -> None:
    text = "".join(f"{quoted(key)} = {inline(value)}\n" for key, value in top.items() if key not in arrays)
    for key, tables in arrays.items():
        for table in tables:
            text += f"[[ {quoted(key)} ]] # [x]\n" + "".join(f"{quoted(k)}={inline(v)}\n" for k, v in table.items())
    values = tomllib.loads(text)

    lines = key_lines(text)

    assert set(lines) == set(paths_of(values))
    for key in values:
        assert text.split("\n")[lines[key,] - 1].lstrip("[ ").startswith(quoted(key))
