"""Traces of availability: what a file may say, who follows which, and rounds on the virtual clock."""

from __future__ import annotations

import json
import math
import tempfile
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from auricle.errors import DataError, SettingsError
from auricle.process.cli import main
from auricle_fleet import FleetRun
from auricle_fleet.population.traces import Timeline, read_trace, require_traces, timelines
from auricle_fleet.settings.fleet_settings import FleetSettings
from auricle_fleet.settings.groups import Group, Trace

HEADER = "device,time,online,charging,idle,kilobits\n"


def group(file: Path, **more: Any) -> Group:
    return Group(name="traced", count=2, trace=Trace(file=str(file), **more))


def read(folder: Path, text: str, name: str = "trace.csv", **more: Any) -> list[Timeline]:
    (folder / name).write_text(text)
    return read_trace(group(folder / name, **more))


def test_a_device_takes_part_while_it_is_all_that_is_needed(tmp_path: Path) -> None:
    text = HEADER + "a,0,1,0,1,\na,10,1,1,1,64\nb,5,1,1,1,\na,20,yes,TRUE,1,128\na,30,1,0,1,\na,40,1,1,1,\n"
    a, b = read(tmp_path, text)
    assert a.stays == ((10, 30), (40, math.inf)) and b.stays == ((5, math.inf),)
    assert [a.comes(at) for at in (0, 10, 29, 30, 99)] == [10, 10, 29, 40, 99]
    assert [a.leaves(at) for at in (10, 29, 40)] == [30, 30, math.inf]
    assert [a.kilobits(at) for at in (0, 15, 20, 99)] == [None, 64, 128, None]
    assert read(tmp_path, text, needs=("online",))[0].stays == ((0, math.inf),)


def test_lines_of_json_and_a_table_say_the_same(tmp_path: Path) -> None:
    rows = [
        {"device": "a", "time": 0, "idle": False},
        {"device": "b", "time": 0.5, "kilobits": 3},
        {"device": "a", "time": 2},
    ]
    lines = read(tmp_path, "\n".join(map(json.dumps, rows)) + "\n\n", "trace.jsonl")
    assert lines == read(tmp_path, "time,device,idle,kilobits\n0,a,0,\n0.5,b,1,3\n\n2,a,1,\n")
    assert lines == [Timeline(((2, math.inf),)), Timeline(((0.5, math.inf),), ((0.5, 3.0),))]


def test_a_trace_begins_again(tmp_path: Path) -> None:
    (day,) = read(tmp_path, "device,time,online\na,0,1\na,2,0\na,8,1\n", repeat=10.0)
    assert [day.comes(at) for at in (0, 3, 9, 12, 13)] == [0, 8, 9, 18, 18]
    assert [day.leaves(at) for at in (0, 9, 18)] == [2, 12, 22]  # from 8 on, over the end, until 2
    assert day.leaves(3) == 3
    (always,) = read(tmp_path, "device,time\na,0\n", repeat=10.0)
    assert always.leaves(25.0) == math.inf
    (first,) = read(tmp_path, "device,time,online\na,0,1\na,2,0\n", repeat=0.1 + 10)
    (tenths,) = read(tmp_path, "device,time,online\na,33006.7,1\na,54606.7,0\n", repeat=86400.0)
    for timeline, length in ((first, 2.0), (tenths, 21600.0)):
        assert timeline.repeat is not None
        for times in range(1, 2000):  # whatever is lost in rounding, somebody who comes is there then
            at = timeline.comes((times - 0.1) * timeline.repeat)
            assert timeline.comes(at) == at
            assert timeline.leaves(at) - at == pytest.approx(length, rel=1e-6)
    (never,) = read(tmp_path, "device,time,idle\na,0,0\n", repeat=10.0)
    assert never.comes(25.0) == math.inf
    (late,) = read(tmp_path, "device,time\na,4\n", repeat=10.0)
    assert (late.comes(1), late.leaves(5), late.comes(10)) == (4, 10, 14)


@given(
    st.lists(st.tuples(st.integers(1, 50), st.booleans()), min_size=1, max_size=12),
    st.none() | st.integers(1, 40),
    st.integers(0, 8000).map(lambda quarters: quarters / 4),
)
def test_who_comes_is_there_and_stays_until_it_leaves(
    steps: list[tuple[int, bool]], rest: int | None, at: float
) -> None:
    """Against the rows themselves, looked up one by one."""
    times = [sum(step for step, _ in steps[: place + 1]) for place in range(len(steps))]
    end = math.inf if rest is None else float(times[-1] + rest)
    stays: list[tuple[float, float]] = []
    for (_, there), begin, until in zip(steps, times, [*times[1:], end], strict=True):
        if there:
            stays.append((stays.pop()[0] if stays and stays[-1][1] == begin else begin, until))
    line = Timeline(tuple(stays), (), None if rest is None else end)

    def there(now: float) -> bool:
        now = now if rest is None else math.fmod(now, end)
        return any(
            on for (_, on), begin, until in zip(steps, times, [*times[1:], end], strict=True) if begin <= now < until
        )

    comes = line.comes(at)
    if comes == math.inf:
        assert not any(on for _, on in steps) or rest is None
        return
    assert comes == at or not there(at)
    assert there(comes + 0.125)
    leaves = line.leaves(comes + 0.125)
    assert leaves > comes + 0.125
    if leaves < math.inf:
        assert there(leaves - 0.125) and not there(leaves + 0.125)


MISTAKES = [
    ("", "no row"),
    (HEADER, "no row"),
    ("device,tyme\n", "line 1: the column"),
    ("device,online\na,1\n", "line 1: it names no column time"),
    ("device,time,time\n", "twice"),
    ("device,time\na,0\nb\n", "line 3: 1 cells"),
    ("device,time\na,5\nb,0\na,5\n", "line 4: the time 5 of a"),
    *((f"device,time\na,{wrong}\n", "line 2: time") for wrong in ("soon", "-1", "nan")),
    ("device,time,online\na,0,maybe\n", "line 2: online"),
    *((f"device,time,kilobits\na,0,{wrong}\n", "line 2: kilobits") for wrong in ("0", "inf")),
    ("device,time\n,0\n", "line 2: device"),
    ('device,time\n"a"b,0\n', "line 2: this is not a line"),
    ('{"device": "a", "time": 0}\n{"device": "a"', "line 2: this is not an object"),
    ("[1]\n", "line 1: this is not an object"),
    ('{"device": "a", "time": 0, "onlin": true}\n', 'line 1: there is no "onlin"'),
    ('{"device": "a"}\n', "line 1: it names no time"),
    ('{"time": 3}\n', "line 1: it names no device"),
    ('{"device": "a", "time": 0, "idle": 1}\n', "line 1: idle"),
    ("[" * 100_000 + "\n", "line 1: this is not an object"),
]


@pytest.mark.parametrize(("text", "says"), MISTAKES)
def test_a_table_or_lines_of_json_with_a_mistake_are_refused_with_their_line(
    tmp_path: Path, text: str, says: str
) -> None:
    with pytest.raises(DataError, match="trace") as caught:
        read(tmp_path, text, "trace.jsonl" if text[:1] in ("{", "[") else "trace.csv")
    assert says in str(caught.value)


def test_files_that_are_none_are_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for file, says in ((tmp_path / "no.csv", "cannot be read"), (tmp_path, "is not a file")):
        with pytest.raises(DataError, match=says):
            read_trace(group(file))
    with pytest.raises(SettingsError, match="NUL"):
        group(Path("a\0b"))
    (tmp_path / "b.csv").write_bytes(b"device,time\n\xff,0\n")
    with pytest.raises(DataError, match="UTF-8"):
        read_trace(group(tmp_path / "b.csv"))
    with pytest.raises(DataError, match="raise repeat"):
        read(tmp_path, "device,time\na,10\n", repeat=10.0)
    (tmp_path / "never.csv").write_text("device,time,charging\na,0,0\n")
    with pytest.raises(DataError, match="never"):
        require_traces([group(tmp_path / "never.csv")])
    monkeypatch.setattr("auricle_fleet.population.traces.MOST_ROWS", 2)
    with pytest.raises(DataError, match="2 rows"):
        read(tmp_path, "device,time\na,0\na,1\na,2\n", "long.csv")
    monkeypatch.setattr("auricle_fleet.population.traces.MOST_BYTES", 20)
    with pytest.raises(DataError, match="24 bytes"):
        read(tmp_path, "device,time\na,0\na,1\na,3\n", "large.csv")


def test_devices_of_a_group_follow_a_trace_in_turn_as_the_seed_draws(tmp_path: Path) -> None:
    (tmp_path / "t.csv").write_text("device,time\n" + "".join(f"d{k},{k}\n" for k in range(3)))
    traced = Group(name="traced", count=5, trace=Trace(file=str(tmp_path / "t.csv")))
    where = [traced, None, traced, traced, Group(name="slow"), traced, traced]
    drawn = timelines(where, 0)
    assert [line is None for line in drawn] == [False, True, False, False, True, False, False]
    begins = [line.comes(0.0) for line in drawn if line is not None]
    assert sorted(begins[:3]) == [0, 1, 2] and begins[3:] == begins[:2]
    assert drawn == timelines(where, 0)
    assert any(timelines(where, seed) != drawn for seed in range(1, 9))


@pytest.mark.parametrize("command", [("plan",), ("run", "--config")])
def test_a_command_refuses_a_trace_that_is_wrong(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], command: tuple[str, ...]
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("t.csv").write_text("device,time\na,0\na,0\n")
    Path("f.toml").write_text('engine = "virtual"\n[[groups]]\nname = "g"\ntrace = { file = "t.csv" }\n')
    assert main(["fleet", *command, "f.toml"]) == 2
    assert "t.csv, line 3" in capsys.readouterr().err
    assert [path.name for path in sorted(tmp_path.iterdir())] == ["f.toml", "t.csv"]


def test_only_the_virtual_engine_has_a_clock_for_traces(tmp_path: Path) -> None:
    traced = group(tmp_path / "t.csv")
    with pytest.raises(SettingsError, match="--engine virtual"):
        FleetRun(FleetSettings(engine="live", groups=(traced,)))
    with pytest.raises(SettingsError, match="--round-every"):
        FleetRun(FleetSettings(engine="live", round_every=60.0))
    with pytest.raises(SettingsError, match="--round-every is -1"):
        FleetRun(FleetSettings(engine="virtual", round_every=-1.0))


def test_a_suite_is_refused_before_its_first_run_where_a_trace_cannot_be_followed(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    trace = f'{{ file = "{tmp_path / "no.csv"}" }}'
    (tmp_path / "s.toml").write_text(
        f'settings = {{ groups = [{{ name = "g", trace = {trace} }}] }}\n[[methods]]\nname="m"'
    )
    assert main(["fleet", "suite", str(tmp_path / "s.toml"), "--out", str(tmp_path / "out")]) == 2
    assert capsys.readouterr().err.count("no.csv") == 1
    assert not (tmp_path / "out").exists()


@settings(max_examples=150, deadline=None)
@given(
    st.binary(max_size=120)
    | st.text('ab01,.\n\r"{}[]:-e \t', max_size=120).map(lambda text: ("device,time,kilobits\n" + text).encode())
    | st.text('ab01,.\n"{}[]:-e', max_size=60).map(lambda text: b'{"device": "a", "time": 0}\n' + text.encode()),
    st.sampled_from(("csv", "jsonl")),
)
def test_whatever_a_file_holds_is_a_trace_or_refused_in_a_sentence(content: bytes, ending: str) -> None:
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / f"t.{ending}"
        file.write_bytes(content)
        try:
            lines = read_trace(group(file))
        except DataError as error:
            assert str(file) in str(error) and str(error).endswith((".", "?"))
            return
    assert lines and all(0 <= line.comes(0.0) <= 1e9 for line in lines)
