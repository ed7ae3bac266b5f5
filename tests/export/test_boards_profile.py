"""Mistakes in a profile: each is named with its line, its key and what would have been right."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from auricle_export.flash.boards import BoardError, load_board, profile_path, read_profile, read_text
from auricle_export.flash.document import LARGEST, Problem

PI5 = profile_path("pi5").read_text()
JETSON = profile_path("jetson-orin-nano").read_text()


def line_with(text: str, part: str) -> int:
    return next(number for number, line in enumerate(text.splitlines(), 1) if part in line)


def problems_of(text: str, stem: str = "pi5") -> list[Problem]:
    board, problems = read_text(text.encode(), f"{stem}.toml", stem)
    assert (board is None) == bool(problems)
    return problems


def only(old: str, new: str, text: str = PI5, stem: str = "pi5") -> Problem:
    """The one mistake of a profile in which a part was replaced; its line must be that of the replacement."""
    assert old in text
    changed = text.replace(old, new, 1)
    problems = problems_of(changed, stem)
    assert len(problems) == 1, [str(problem) for problem in problems]
    return problems[0]


WRONG = [
    (
        "cores = 4",
        "core = 4\ncores = 4",
        "core",
        'there is no key "core" at the top of the profile: did you mean "cores"?',
    ),
    (
        "tasks_max = 64",
        "task_max = 64",
        "service.task_max",
        'there is no key "task_max" in [service]: did you mean "tasks_max"?',
    ),
    (
        'first_boot = "firstrun"',
        'firstboot = "firstrun"',
        "os[1].firstboot",
        'there is no key "firstboot" in [[os]]: did you mean "first_boot"?',
    ),
    (
        'first_boot = "firstrun"',
        'first_boot = "firstboot"',
        "os[1].first_boot",
        'os[1].first_boot = "firstboot": did you mean "firstrun"?',
    ),
    (
        'architecture = "aarch64"',
        'architecture = "armv7l"',
        "architecture",
        'architecture = "armv7l": this is a 32-bit system, for which there is no onnxruntime: use its 64-bit system.',
    ),
    (
        'architecture = "aarch64"',
        'architecture = "arm64"',
        "architecture",
        'architecture = "arm64": did you mean "aarch64"?',
    ),
    (
        "memory_mib = [1024, 2048, 4096, 8192, 16384]",
        'memory_mib = [1024,\n  "2048"]',
        "memory_mib[1]",
        'memory_mib[1] = "2048": it takes whole MiB, from 32.',
    ),
    (
        "memory_mib = [1024, 2048, 4096, 8192, 16384]",
        "memory_mib = 1024",
        "memory_mib",
        "memory_mib = 1024: it takes a list, got int.",
    ),
    ("threads = 2", "threads = 0", "agent.threads", "agent.threads = 0: it takes a number of threads from 1."),
    (
        'confirm = "gpiochip0:5"',
        'confirm = "GPIO5"',
        "gpio.confirm",
        'gpio.confirm = "GPIO5": it takes a line such as "gpiochip0:17".',
    ),
    (
        'source = "alsa:usb=2886:0018"',
        'source = "alsa:CARD=1"',
        "microphone[1].source",
        'microphone[1].source = "alsa:CARD=1": it takes a source that keeps its name, such as "alsa:CARD=Device", '
        '"alsa:usb=0d8c:0014" or "mic:NAME".',
    ),
    (
        'required = ["temperature"]',
        'required = [\n  "temprature",\n]',
        "sensors.required[0]",
        'sensors.required[0] = "temprature": did you mean "temperature"?',
    ),
    ("hot = 75.0", 'hot = "75"', "sensors.hot", 'sensors.hot = "75": it takes degrees Celsius from -40 to 125.'),
    ('name = "pi5"', 'name = "pi 5"', "name", 'name = "pi 5": it takes lower-case letters, digits, dots and dashes.'),
    ("hot = 75.0", "hot = nan", "sensors.hot", "sensors.hot = NaN: it takes degrees Celsius from -40 to 125."),
]

UNFIT = [
    (
        'base = "bookworm"\npython = "3.11"',
        'base = "bookworm"\npython = "3.13"',
        "os[1].python",
        'Debian 12 (bookworm) has Python 3.11: write python = "3.11"',
    ),
    (
        "cp311-cp311-manylinux",
        "cp313-cp313-manylinux",
        "os[1].wheel_tag",
        "Python 3.11 takes wheels of cp311, not of cp313",
    ),
    (
        "cp311-cp311-manylinux_2_28_aarch64",
        "cp311-cp311-manylinux_2_28_x86_64",
        "os[1].wheel_tag",
        "the board is aarch64, and the wheels are for x86_64",
    ),
    (
        "cp311-cp311-manylinux_2_28_aarch64",
        "cp311-cp311-manylinux_2_38_aarch64",
        "os[1].wheel_tag",
        "wheels for glibc 2.38 do not load on Debian 12 (bookworm), which has 2.36",
    ),
    (
        "cp311-cp311-manylinux_2_28_aarch64",
        "cp311-cp311-manylinux_2_17_aarch64",
        "os[1].wheel_tag",
        "onnxruntime has no wheels for glibc before 2.28",
    ),
    (
        'base = "bookworm"',
        'base = "bullseye"',
        "os[1].base",
        "Debian 11 (bullseye) has Python 3.9, and the agent needs 3.10 to 3.13: run the agent in a container",
    ),
    ('id = "raspios-12"', 'id = "raspios-13"', "os[1].id", 'the id "raspios-13" is given twice'),
    ("threads = 2", "threads = 5", "agent.threads", "5 threads are more than the board's 4 cores"),
    (
        'local = "resnet-base"',
        'local = "resnet-bass"',
        "agent.local",
        'the pack home has no model "resnet-bass": did you mean "resnet-base"?',
    ),
    ('pack = "home"', 'pack = "gsc13"', "agent.pack", 'there is no shipped pack "gsc13": did you mean "gsc'),
    (
        "memory_max_mib = 256",
        "memory_max_mib = 1000",
        "service.memory_max_mib",
        "1000 MiB are more than half of the 1024 MiB that the smallest of these boards has",
    ),
    (
        "memory_high_mib = 160",
        "memory_high_mib = 300",
        "service.memory_high_mib",
        "300 MiB must be less than memory_max_mib, 256",
    ),
    (
        "memory_high_mib = 160",
        "memory_high_mib = 96",
        "service.memory_high_mib",
        "96 MiB are too few to train in: give at least 128",
    ),
    ("hot = 75.0", "hot = 90.0", "sensors.hot", "90 °C must be less than too_hot, 85 °C"),
    (
        'required = ["temperature"]',
        'required = ["temperature", "power"]',
        "sensors.required[1]",
        '"power" can never be read where supply = "none"',
    ),
    ('deny = "gpiochip0:6"', 'deny = "gpiochip0:5"', "gpio.deny", "the line gpiochip0:5 is that of confirm already"),
    (
        'deny = "gpiochip0:6"',
        'deny = "gpiochip4:6"',
        "gpio.deny",
        "gpiochip4:6 is not on gpiochip0, the chip of the header",
    ),
    ('deny = "gpiochip0:6"', 'deny = "gpiochip0:54"', "gpio.deny", "gpiochip0 has lines 0 to 53, not 54"),
    (
        'button = "gpiochip0:27"',
        'button = "gpiochip0:99"',
        "microphone[7].button",
        "gpiochip0 has lines 0 to 53, not 99",
    ),
    (
        "channel = 1 ",
        "channel = 2 ",
        "microphone[2].channel",
        "channel 2 is not among the 2 that are opened, counted from 0",
    ),
    ('name = "pi5"', 'name = "pi6"', "name", 'the name of pi5.toml has to be "pi5", not "pi6"'),
]


@pytest.mark.parametrize(("old", "new", "key", "sentence"), WRONG, ids=[case[2] for case in WRONG])
def test_a_wrong_key_or_value_is_named_with_its_line(old: str, new: str, key: str, sentence: str) -> None:
    problem = only(old, new)

    changed = PI5.replace(old, new, 1)
    assert (problem.key, problem.sentence) == (key, sentence)
    assert any(line in changed.splitlines()[problem.line - 1] for line in new.splitlines())


@pytest.mark.parametrize(("old", "new", "key", "part"), UNFIT, ids=[case[2] for case in UNFIT])
def test_what_does_not_fit_together_is_named_with_its_line(old: str, new: str, key: str, part: str) -> None:
    problem = only(old, new)

    assert problem.key == key
    assert problem.sentence.startswith(part)
    changed = PI5.replace(old, new, 1)
    assert new.splitlines()[-1] in changed.splitlines()[problem.line - 1]


def test_a_hat_needs_a_chip_for_its_button_and_a_boot_partition_for_its_overlay() -> None:
    hat = (
        '\n[[microphone]]\nid = "hat"\ntitle = "HAT"\nsource = "mic"\nbutton = "gpiochip0:5"\noverlay = "dtoverlay=x"\n'
    )
    text = profile_path("generic-arm64").read_text() + hat

    problems = problems_of(text, "generic-arm64")

    assert [(problem.key, problem.line) for problem in problems] == [
        ("microphone[4].button", line_with(text, "button = ")),
        ("microphone[4].overlay", line_with(text, "overlay =")),
    ]


def test_firstrun_is_for_boards_with_a_boot_partition() -> None:
    problem = only('wheel_tag = "cp312', 'first_boot = "firstrun"\nwheel_tag = "cp312', JETSON, "jetson-orin-nano")

    assert (problem.key, problem.sentence.partition(":")[0]) == ("os[1].first_boot", "firstrun is Raspberry Pi OS's")


def test_all_mistakes_are_told_in_the_order_of_their_lines() -> None:
    text = PI5.replace("cores = 4", "cores = 0").replace("threads = 2", 'threads = "two"').replace("soc =", "sock =")

    problems = problems_of(text)

    assert [problem.key for problem in problems] == ["sock", "cores", "agent.threads"]
    assert [problem.line for problem in problems] == [
        line_with(text, "sock"),
        line_with(text, "cores = 0"),
        line_with(text, "threads ="),
    ]


def test_a_key_that_is_missing_is_named_in_the_line_of_its_table() -> None:
    problem = only('title = "JetPack 7.2 (Jetson Linux 39.2)"\n', "", JETSON, "jetson-orin-nano")

    second = [n for n, line in enumerate(JETSON.splitlines(), 1) if line == "[[os]]"][1]
    assert str(problem) == f'jetson-orin-nano.toml, line {second}: the key "title" is missing in [[os]].'


@pytest.mark.parametrize(
    ("text", "line", "sentence"),
    [
        (b'name = "x"\ncores = = 4\n', 2, "this is not valid TOML: Invalid value (at line 2, column 9)."),
        (b'name = "x"\n\ntitle = "y', 3, "this is not valid TOML: "),
        (b'name = "x"\nname = "y"\n', 2, "this is not valid TOML: Cannot overwrite a value (at line 2"),
        (b'name = "x"\ntitle = "\xff"\n', 2, "this is not UTF-8."),
        (b"x = " + b"[" * 3000 + b"]" * 3000, 1, "this is not valid TOML: "),
        (b'x = 1\nos = "twelve"', 2, 'os takes tables [[os]], not "twelve".'),
        (b"x = 1\nos = [1]", 2, "os[0] takes a table, not 1."),
    ],
    ids=["syntax", "end", "twice", "encoding", "depth", "no-tables", "no-table"],
)
def test_what_is_no_profile_at_all_is_refused_with_a_line(text: bytes, line: int, sentence: str) -> None:
    board, problems = read_text(text, "x.toml", "x")

    assert board is None
    assert any(problem.line == line and problem.sentence.startswith(sentence) for problem in problems)


def test_a_table_that_does_not_exist_or_is_none_is_refused() -> None:
    text = PI5.replace("[agent]\n", "[agents]\n").replace("cores = 4", "agent = 1\ncores = 4")

    assert [(problem.line, problem.sentence) for problem in problems_of(text)] == [
        (line_with(text, "agent = 1"), "agent takes a table, not 1."),
        (line_with(text, "[agents]"), 'there is no key "agents" at the top of the profile: did you mean "agent"?'),
    ]


def test_an_array_of_tables_that_is_none_is_refused() -> None:
    head = PI5[: PI5.index("[[os]]")]

    assert [str(problem) for problem in problems_of(head + "os = []\n")] == [
        f"pi5.toml, line {head.count(chr(10)) + 1}: os takes tables [[os]], not []."
    ]


def test_what_a_terminal_would_obey_is_not_printed_as_it_is() -> None:
    problem = only("cores = 4", 'cores = "\\u001b[2J"')

    assert "\x1b" not in str(problem)
    assert '"\\u001b[2J"' in problem.sentence


def test_lines_count_alike_with_the_line_ends_of_windows() -> None:
    text = PI5.replace("tasks_max = 64", "task_max = 64")

    assert problems_of(text.replace("\n", "\r\n")) == problems_of(text)


def test_a_board_is_loaded_from_a_file_or_refused_with_its_first_mistake(tmp_path: Path) -> None:
    path = tmp_path / "pi5.toml"
    path.write_text(PI5)
    assert load_board(path) == load_board(str(path)) == load_board("pi5")

    path.write_text(PI5.replace("cores = 4", "cores = 0").replace("tasks_max", "task_max"))
    with pytest.raises(BoardError) as refused:
        load_board(path)

    first = f"{path}, line {line_with(PI5, 'cores = 4')}: cores = 0: it takes a number of cores from 1."
    assert str(refused.value) == f"{first} 1 more in this file."
    assert [problem.key for problem in refused.value.problems] == ["cores", "service.task_max"]


def test_a_file_that_is_no_profile_by_its_size_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "big.toml"
    path.write_bytes(b"#" * (LARGEST + 1))

    with pytest.raises(BoardError, match="longer than 64 KiB"):
        read_profile(path)
    with pytest.raises(BoardError, match="There is no profile"):
        load_board(tmp_path / "absent.toml")
    with pytest.raises(BoardError, match="cannot be read"):
        read_profile(tmp_path)


@given(st.integers(0, len(PI5) - 1), st.integers(0, 40), st.text(max_size=20))
def test_any_damage_is_a_board_or_a_list_of_mistakes(at: int, length: int, text: str) -> None:
    damaged = PI5[:at] + text + PI5[at + length :]

    board, problems = read_text(damaged.encode("utf-8", "surrogatepass"), "pi5.toml", "pi5")

    assert (board is None) == bool(problems)
    assert all(1 <= problem.line <= damaged.count("\n") + 1 for problem in problems)
