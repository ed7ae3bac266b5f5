"""Mistakes in a profile, each with its line, its key and what would have been right; and lines of TOML keys."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from auricle_export.flash.boards import BoardError, load_board, profile_path, read_profile, read_text
from auricle_export.flash.document import LARGEST_BYTES, Problem
from auricle_export.flash.toml_lines import Path as Keys
from auricle_export.flash.toml_lines import key_lines, line_of

PI5 = profile_path("pi5").read_text()
JETSON = profile_path("jetson-orin-nano").read_text()


def line_with(text: str, part: str) -> int:
    return next(number for number, line in enumerate(text.splitlines(), 1) if part in line)


def problems_of(text: str, stem: str = "pi5") -> list[Problem]:
    board, problems = read_text(text.encode(), f"{stem}.toml", stem)
    assert (board is None) == bool(problems)
    return problems


def only(old: str, new: str, text: str = PI5, stem: str = "pi5") -> Problem:
    """The one mistake of a profile in which a part was replaced."""
    assert old in text
    problems = problems_of(text.replace(old, new, 1), stem)
    assert len(problems) == 1, [str(problem) for problem in problems]
    return problems[0]


SIZES = "memory_mib = [1024, 2048, 4096, 8192, 16384]"
PYTHON = 'base = "bookworm"\npython = '
TAG = "cp311-cp311-manylinux_2_28_aarch64"
WRONG = [
    # what stands there, what is put in its place, the key that is told, and a part of the sentence
    ("cores = 4", "core = 4\ncores = 4", "core", '"cores"'),
    ("tasks_max = 64", "task_max = 64", "service.task_max", '"tasks_max"'),
    ('first_boot = "firstrun"', 'firstboot = "firstrun"', "os[1].firstboot", '"first_boot"'),
    ('first_boot = "firstrun"', 'first_boot = "firstboot"', "os[1].first_boot", '"firstrun"'),
    ('architecture = "aarch64"', 'architecture = "armv7l"', "architecture", "32-bit"),
    ('architecture = "aarch64"', 'architecture = "arm64"', "architecture", '"aarch64"'),
    (SIZES, 'memory_mib = [1024,\n  "2048"]', "memory_mib[1]", '"2048"'),
    (SIZES, "memory_mib = 1024", "memory_mib", "list"),
    ("threads = 2", "threads = 0", "agent.threads", "from 1"),
    ('confirm = "gpiochip0:5"', 'confirm = "GPIO5"', "gpio.confirm", '"gpiochip0:17"'),
    ('source = "alsa:usb=2886:0018"', 'source = "alsa:CARD=1"', "microphone[1].source", '"alsa:CARD=Device"'),
    ('required = ["temperature"]', 'required = [\n  "temprature",\n]', "sensors.required[0]", '"temperature"'),
    ("hot = 75.0", 'hot = "75"', "sensors.hot", "-40 to 125"),
    ("hot = 75.0", "hot = nan", "sensors.hot", "NaN"),
    ('name = "pi5"', 'name = "pi 5"', "name", "letters"),
    (PYTHON + '"3.11"', PYTHON + '"3.13"', "os[1].python", "3.11"),
    ("cp311-cp311-manylinux", "cp313-cp313-manylinux", "os[1].wheel_tag", "cp311"),
    (TAG, TAG.replace("aarch64", "x86_64"), "os[1].wheel_tag", "x86_64"),
    (TAG, TAG.replace("28", "38"), "os[1].wheel_tag", "2.36"),
    (TAG, TAG.replace("28", "17"), "os[1].wheel_tag", "2.28"),
    ('base = "bookworm"', 'base = "bullseye"', "os[1].base", "container"),
    ('id = "raspios-12"', 'id = "raspios-13"', "os[1].id", "twice"),
    ("threads = 2", "threads = 5", "agent.threads", "4 cores"),
    ('local = "resnet-base"', 'local = "resnet-bass"', "agent.local", '"resnet-base"'),
    ('pack = "home"', 'pack = "gsc13"', "agent.pack", '"gsc'),
    ("memory_max_mib = 256", "memory_max_mib = 1000", "service.memory_max_mib", "half of the 1024 MiB"),
    ("memory_high_mib = 160", "memory_high_mib = 300", "service.memory_high_mib", "256"),
    ("memory_high_mib = 160", "memory_high_mib = 96", "service.memory_high_mib", "128"),
    ("hot = 75.0", "hot = 90.0", "sensors.hot", "85 °C"),
    ('required = ["temperature"]', 'required = ["temperature", "power"]', "sensors.required[1]", '"power"'),
    ('deny = "gpiochip0:6"', 'deny = "gpiochip0:5"', "gpio.deny", "confirm"),
    ('deny = "gpiochip0:6"', 'deny = "gpiochip4:6"', "gpio.deny", "header"),
    ('deny = "gpiochip0:6"', 'deny = "gpiochip0:54"', "gpio.deny", "0 to 53"),
    ('button = "gpiochip0:27"', 'button = "gpiochip0:99"', "microphone[7].button", "0 to 53"),
    ("channel = 1 ", "channel = 2 ", "microphone[2].channel", "channel 2"),
    ('name = "pi5"', 'name = "pi6"', "name", '"pi5"'),
]


@pytest.mark.parametrize(("old", "new", "key", "part"), WRONG, ids=[case[2] for case in WRONG])
def test_what_is_wrong_or_does_not_fit_together_is_named_with_its_line(old: str, new: str, key: str, part: str) -> None:
    problem = only(old, new)
    assert problem.key == key
    assert part in problem.sentence
    told = PI5.replace(old, new, 1).splitlines()[problem.line - 1]
    assert any(line in told for line in new.splitlines()[-2:])


def test_a_hat_needs_a_chip_for_its_button_and_a_boot_partition_for_its_overlay_as_firstrun_does() -> None:
    hat = '\n[[microphone]]\nid = "hat"\ntitle = "HAT"\nsource = "mic"\n'
    hat += 'button = "gpiochip0:5"\noverlay = "dtoverlay=x"\n'
    text = profile_path("generic-arm64").read_text() + hat

    problems = problems_of(text, "generic-arm64")

    assert [(problem.key, problem.line) for problem in problems] == [
        ("microphone[4].button", line_with(text, "button = ")),
        ("microphone[4].overlay", line_with(text, "overlay =")),
    ]
    first_boot = 'first_boot = "firstrun"\nwheel_tag = "cp312'
    assert only('wheel_tag = "cp312', first_boot, JETSON, "jetson-orin-nano").key == "os[1].first_boot"


def test_all_mistakes_are_told_in_the_order_of_their_lines_and_alike_with_the_line_ends_of_windows() -> None:
    text = PI5.replace("cores = 4", "cores = 0").replace("threads = 2", 'threads = "two"').replace("soc =", "sock =")
    problems = problems_of(text)
    assert problems_of(text.replace("\n", "\r\n")) == problems
    expected = [("sock", "sock"), ("cores", "cores = 0"), ("agent.threads", "threads =")]
    assert [(problem.key, problem.line) for problem in problems] == [(k, line_with(text, part)) for k, part in expected]


def test_a_key_that_is_missing_is_named_in_the_line_of_its_table() -> None:
    problem = only('title = "JetPack 7.2 (Jetson Linux 39.2)"\n', "", JETSON, "jetson-orin-nano")
    second = [n for n, line in enumerate(JETSON.splitlines(), 1) if line == "[[os]]"][1]
    assert str(problem).startswith(f"jetson-orin-nano.toml, line {second}: ")
    assert '"title"' in problem.sentence


@pytest.mark.parametrize(
    ("text", "line", "noun"),
    [
        (b'name = "x"\ncores = = 4\n', 2, "TOML"),
        (b'name = "x"\n\ntitle = "y', 3, "TOML"),
        (b'name = "x"\nname = "y"\n', 2, "TOML"),
        (b'name = "x"\ntitle = "\xff"\n', 2, "UTF-8"),
        (b"x = " + b"[" * 3000 + b"]" * 3000, 1, "TOML"),
        (b'x = 1\nos = "twelve"', 2, "tables"),
        (b"x = 1\nos = [1]", 2, "table"),
        (PI5[: PI5.index("[[os]]")].encode() + b"os = []\n", PI5[: PI5.index("[[os]]")].count("\n") + 1, "tables"),
    ],
    ids=["syntax", "end", "twice", "encoding", "depth", "no-tables", "no-table", "empty"],
)
def test_what_is_no_profile_at_all_is_refused_with_a_line(text: bytes, line: int, noun: str) -> None:
    board, problems = read_text(text, "x.toml", "x")
    assert board is None
    assert any(problem.line == line and noun in problem.sentence for problem in problems)


def test_a_table_that_does_not_exist_or_is_none_is_refused() -> None:
    text = PI5.replace("[agent]\n", "[agents]\n").replace("cores = 4", "agent = 1\ncores = 4")
    lines = [line_with(text, "agent = 1"), line_with(text, "[agents]")]
    assert [problem.line for problem in problems_of(text)] == lines


def test_what_a_terminal_would_obey_is_not_printed_as_it_is() -> None:
    problem = only("cores = 4", 'cores = "\\u001b[2J"')
    assert "\x1b" not in str(problem)
    assert '"\\u001b[2J"' in problem.sentence


def test_a_board_is_loaded_from_a_file_or_refused_with_its_first_mistake(tmp_path: Path) -> None:
    path = tmp_path / "pi5.toml"
    path.write_text(PI5)
    assert load_board(path) == load_board(str(path)) == load_board("pi5")

    path.write_text(PI5.replace("cores = 4", "cores = 0").replace("tasks_max", "task_max"))
    with pytest.raises(BoardError) as refused:
        load_board(path)

    assert str(refused.value).startswith(f"{path}, line {line_with(PI5, 'cores = 4')}: cores = 0")
    assert "1 more" in str(refused.value)
    assert [problem.key for problem in refused.value.problems] == ["cores", "service.task_max"]


def test_a_file_that_is_no_profile_by_its_size_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "big.toml"
    path.write_bytes(b"#" * (LARGEST_BYTES + 1))

    with pytest.raises(BoardError, match="64 KiB"):
        read_profile(path)
    with pytest.raises(BoardError, match="no profile"):
        load_board(tmp_path / "absent.toml")
    with pytest.raises(BoardError, match="is a folder, not a file"):
        read_profile(tmp_path)


@settings(max_examples=40)
@given(st.integers(0, len(PI5) - 1), st.integers(0, 40), st.text(max_size=20))
def test_any_damage_is_a_board_or_a_list_of_mistakes(at: int, length: int, text: str) -> None:
    damaged = PI5[:at] + text + PI5[at + length :]
    board, problems = read_text(damaged.encode("utf-8", "surrogatepass"), "pi5.toml", "pi5")
    assert (board is None) == bool(problems)
    assert all(1 <= problem.line <= damaged.count("\n") + 1 for problem in problems)


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

EXPECTED = """top 2, quoted key 3, a 4, a/b 4, a/b/c.d 4, a/b/c.d/1 4, a/b/c.d/2 5, a/b/c.d/2/1 6, text 7, raw 11,
table 14, table/name 15, table/name/second/third/1/x 16, rows 17, rows/0 17, rows/0/inner/deep 20, rows/0/more/0/n 22,
rows/0/more/1 23, rows/0/more/1/n 24, rows/1 25, rows/1/name 26, rows/1/more/0/n 28, spaced/out 29,
spaced/out/last 30"""


def paths_of(value: Any, path: Keys = ()) -> list[Keys]:
    inner: list[Keys] = [path] if path else []
    if isinstance(value, dict):
        return inner + [each for key, item in value.items() for each in paths_of(item, (*path, key))]
    if isinstance(value, list):
        return inner + [each for index, item in enumerate(value) for each in paths_of(item, (*path, index))]
    return inner


def test_each_key_is_found_in_its_line_and_exactly_what_the_parser_finds_has_one() -> None:
    lines = key_lines(DOCUMENT)
    for path, _, line in (each.strip().rpartition(" ") for each in EXPECTED.split(",")):
        assert lines[tuple(int(part) if part.isdigit() else part for part in path.split("/"))] == int(line), path
    assert set(lines) == set(paths_of(tomllib.loads(DOCUMENT)))
    # What is missing stands in the line of its table.
    assert [line_of(lines, path) for path in (("rows", 1, "absent", "deeper"), ("absent",), ())] == [25, 1, 1]


@pytest.mark.parametrize("board", ["pi5", "jetson-nano", "generic-arm64"])
def test_every_key_of_a_profile_stands_in_the_line_that_is_told(board: str) -> None:
    text = profile_path(board).read_text()
    lines = key_lines(text)
    for path in paths_of(tomllib.loads(text)):
        told = text.splitlines()[lines[path] - 1]
        assert str(path[-1]) in told or isinstance(path[-1], int), path


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
def test_any_document_has_a_line_for_all_its_keys(top: dict[str, Any], arrays: dict[str, list[dict[str, Any]]]) -> None:
    text = "".join(f"{quoted(key)} = {inline(value)}\n" for key, value in top.items() if key not in arrays)
    for key, tables in arrays.items():
        for table in tables:
            text += f"[[ {quoted(key)} ]] # [x]\n" + "".join(f"{quoted(k)}={inline(v)}\n" for k, v in table.items())
    values = tomllib.loads(text)

    lines = key_lines(text)

    assert set(lines) == set(paths_of(values))
    for key in values:
        assert text.split("\n")[lines[key,] - 1].lstrip("[ ").startswith(quoted(key))
