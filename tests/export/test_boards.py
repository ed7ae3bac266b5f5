"""The shipped profiles are right about their systems and taken by the agent; and `auricle flash boards`."""

from __future__ import annotations

import json
import re
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest
from tests.edge.board_trees import JETSON, PI3, PI5, plant

from auricle.errors import SettingsError
from auricle.process.cli import main
from auricle.settings import from_mapping
from auricle_edge.board.gate import GateSettings
from auricle_edge.board.sensors import read
from auricle_edge.listening.capture.settings import parse_source
from auricle_edge.listening.events.buttons import ButtonSettings
from auricle_edge.settings import read_settings
from auricle_export.flash.board import PYTHONS, RELEASES, Board
from auricle_export.flash.boards import BoardError, board_names, load_board, load_boards, profile_path
from auricle_export.flash.device_files import drop_in, edge_settings, edge_toml, extras

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

ROOT = Path(__file__).parents[2]
NAMES = board_names()
UNIT = (ROOT / "edge" / "auricle_edge" / "service" / "auricle-edge.service").read_text()
BOARDS = {name: load_board(name) for name in NAMES}
CHOICES = [
    (name, microphone, wired)
    for name, board in BOARDS.items()
    for microphone in (None, *(each.id for each in board.microphone))
    for wired in ((False, True) if board.gpio else (False,))
]


RASPIOS = {"raspios-12": "3.11", "raspios-13": "3.13"}
SYSTEMS = dict.fromkeys(("pi-zero-2w", "pi3", "pi4", "pi5"), RASPIOS)
SYSTEMS |= {"jetson-orin-nano": {"jetpack-6": "3.10", "jetpack-7": "3.12"}, "jetson-nano": {"jetpack-4": "3.11"}}


@pytest.mark.parametrize("name", SYSTEMS)
def test_each_board_has_its_systems_and_their_python(name: str) -> None:
    assert {system.id: system.python for system in load_board(name).os} == SYSTEMS[name]


def test_profiles_promise_what_the_package_and_its_locks_have() -> None:
    wanted = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["requires-python"]
    (low, high) = PYTHONS
    locked = {path.stem for path in (ROOT / "edge" / "requirements").glob("*.txt")}
    pis = [board for board in load_boards() if board.boot is not None]
    wheels = {f"{pi.architecture}-{system.wheel_tag.split('-')[0]}" for pi in pis for system in pi.os}

    assert {"generic-arm64", "generic-x86_64", *SYSTEMS} <= set(NAMES)
    assert [board.name for board in load_boards() if board.container_only] == ["jetson-nano"]
    assert load_board("jetson-nano").system().container == "bookworm"
    assert wanted == f">={low[0]}.{low[1]},<{high[0]}.{high[1] + 1}"
    assert wheels and wheels <= locked
    assert {base for base, release in RELEASES.items() if release.supported} == {"bookworm", "trixie", "jammy", "noble"}
    assert all("cgroup_enable=memory" in pi.boot.cmdline for pi in pis if pi.boot is not None)


def test_no_line_of_a_pi_is_used_by_a_hat_and_by_a_wire() -> None:
    for board in (board for board in load_boards() if board.gpio is not None):
        assert board.gpio is not None
        wired = {board.gpio.confirm, board.gpio.deny, board.gpio.mute, board.gpio.led}
        hats = {line for microphone in board.microphone for line in (microphone.button, microphone.led) if line}
        assert not wired & hats, board.name


@pytest.mark.parametrize(("name", "microphone", "wired"), CHOICES)
def test_the_agent_takes_a_profiles_settings(name: str, microphone: str | None, wired: bool, tmp_path: Path) -> None:
    board = load_board(name)
    path = tmp_path / "edge.toml"
    path.write_text(edge_toml(board, "kitchen-1", microphone=microphone, wired=wired))

    settings = read_settings(path, {})

    parse_source(settings.capture)
    assert settings.local == board.agent.local
    assert settings.threads == board.agent.threads
    assert settings.gate.hot == board.sensors.hot
    assert settings.gate.required == board.sensors.required
    assert bool(settings.capture.mute_switch) == wired
    assert ("gpio" in extras(board, microphone=microphone, wired=wired)) == (
        bool(settings.buttons.lines()) or bool(settings.capture.mute_switch)
    )


def test_the_text_of_the_settings_says_what_the_settings_are() -> None:
    board = load_board("pi4")

    top, tables = edge_settings(board, "kitchen-1", microphone="voice-hat", wired=True)

    assert tomllib.loads(edge_toml(board, "kitchen-1", microphone="voice-hat", wired=True)) == {**top, **tables}
    heard = {"source": "alsa:CARD=sndrpigooglevoi", "rate": 48000, "mute_switch": "gpio:gpiochip0:26:low"}
    assert tables["capture"] == heard
    assert tables["buttons"] == {"confirm": "gpiochip0:23", "deny": "gpiochip0:6"}
    _, tables = edge_settings(load_board("pi5"), "kitchen-1", microphone="respeaker-2mic")
    assert from_mapping(ButtonSettings, tables["buttons"], "buttons") == ButtonSettings(confirm="gpiochip0:17")
    assert "mute_switch" not in tables["capture"]


@pytest.mark.parametrize("name", NAMES)
def test_a_drop_in_changes_only_what_the_unit_may_have_changed(name: str) -> None:
    board = load_board(name)
    if board.container_only:
        with pytest.raises(SettingsError, match="container"):
            drop_in(board)
        return

    text = drop_in(board, wired=board.gpio is not None)

    keys = re.findall(r"^(\w+)=", text, re.MULTILINE)
    limits = {"MemoryHigh", "MemoryMax", "TasksMax"}
    assert set(keys) == limits | ({"DeviceAllow", "SupplementaryGroups"} if board.gpio else set())
    assert all(f"\n{key}=" in UNIT for key in keys)
    assert "DeviceAllow" not in drop_in(board)
    if name == "pi5":
        limits = "[Service] MemoryHigh=160M MemoryMax=256M TasksMax=64"
        opened = [*limits.split(), "DeviceAllow=/dev/gpiochip0 rw", "SupplementaryGroups=gpio"]
        assert text.splitlines()[1:] == opened


@pytest.mark.parametrize(
    ("name", "tree", "degrees"),
    [("pi5", PI5, 51.2), ("pi3", PI3, 80.6), ("jetson-nano", JETSON, 43.5)],
    ids=["pi5", "pi3", "jetson-nano"],
)
def test_the_agent_reads_a_profiles_sensors(name: str, tree: dict[str, str], degrees: float, tmp_path: Path) -> None:
    board = load_board(name)
    _, tables = edge_settings(board, "kitchen-1")
    readings = read(plant(tmp_path, tree), from_mapping(GateSettings, tables["gate"], "gate"))
    assert readings.temperature == degrees
    assert readings.throttling is not None
    assert not {"temperature", "throttling"} & set(readings.unknown)
    assert not set(board.sensors.required) & set(readings.unknown)


def test_a_board_system_or_microphone_that_is_not_there_is_named_with_the_nearest() -> None:
    board: Board = load_board("jetson-orin-nano")

    with pytest.raises(BoardError, match=r'"pi6".*"pi'):
        load_board("pi6")
    with pytest.raises(SettingsError, match=r'"jetpack-5".*"jetpack-[67]"'):
        board.system("jetpack-5")
    with pytest.raises(SettingsError, match=r'"respeaker-light".*"respeaker-lite"'):
        edge_settings(board, "kitchen-1", microphone="respeaker-light")
    with pytest.raises(SettingsError, match="GPIO"):
        edge_toml(load_board("generic-x86_64"), "kitchen-1", wired=True)
    with pytest.raises(SettingsError, match=r'"Kitchen\\n1"'):
        edge_toml(load_board("pi5"), "Kitchen\n1")
    assert board.system() == board.os[0]
    assert board.system("jetpack-7") == board.os[1]


@pytest.mark.slow
@pytest.mark.nightly
def test_an_installed_wheel_has_the_profiles_and_an_editable_one_reads_the_checkout(tmp_path: Path) -> None:
    wheel = pytest.importorskip("hatchling.builders.wheel", reason="hatchling is not installed")
    builder = wheel.WheelBuilder(str(ROOT))
    inside = "auricle_export/flash/profiles/"

    built = {
        kind: zipfile.ZipFile(next(builder.build(directory=str(tmp_path / kind), versions=[kind]))).namelist()
        for kind in ("standard", "editable")
    }

    shipped = sorted(name for name in built["standard"] if name.startswith(inside))
    assert shipped == [f"{inside}{name}.toml" for name in NAMES]
    assert not [name for name in built["editable"] if name.endswith(".toml")]


Printed = pytest.CaptureFixture[str]
ALONE = """
import sys
class Absent:
    def find_spec(self, name, path=None, target=None):
        if name.split(".")[0] in {"torch", "onnx", "onnxscript", "onnxruntime", "soundfile", "safetensors"}:
            raise ModuleNotFoundError(f"No module named {name!r}", name=name)
sys.meta_path.insert(0, Absent())
from auricle.process.cli import main
sys.exit(main(["flash", "boards", "validate", "--json"]))
"""


@pytest.mark.slow
def test_it_runs_without_pytorch_and_the_libraries_of_other_parts() -> None:
    done = subprocess.run([sys.executable, "-c", ALONE], capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["ok"] is True


def test_list_names_every_board_and_says_where_only_a_container_runs(capsys: Printed) -> None:
    assert main(["flash", "boards", "list"]) == 0
    told = capsys.readouterr().out
    assert main(["flash", "boards", "list", "--json"]) == 0
    boards = json.loads(capsys.readouterr().out)["boards"]

    assert all(name in told for name in board_names())
    assert "jetpack-4 (container)" in told
    assert [board["name"] for board in boards] == board_names()
    assert [board["name"] for board in boards if board["container_only"]] == ["jetson-nano"]


@pytest.mark.parametrize("board", board_names())
def test_show_tells_all_of_a_board(board: str, capsys: Printed) -> None:
    assert main(["flash", "boards", "show", board]) == 0
    told = " ".join(capsys.readouterr().out.split())
    assert main(["flash", "boards", "show", board, "--json"]) == 0
    facts = json.loads(capsys.readouterr().out)

    profile = load_board(board)
    assert facts["name"] == board
    assert facts["file"] == str(profile_path(board))
    assert profile.title in told
    for part in (*profile.os, *profile.microphone):
        assert part.id in told
    assert len(facts["microphone"]) == len(profile.microphone)


def test_show_writes_files_that_the_agent_takes(tmp_path: Path, capsys: Printed) -> None:
    given = ["flash", "boards", "show", "pi5", "--microphone", "voice-hat", "--wired"]
    assert main([*given, "--json"]) == 0
    files = json.loads(capsys.readouterr().out)["files"]
    assert main(given) == 0
    told = capsys.readouterr().out

    (tmp_path / "edge.toml").write_text(files["edge.toml"])
    settings = read_settings(tmp_path / "edge.toml", {})
    assert settings.buttons.lines() == {"confirm": "gpiochip0:23", "deny": "gpiochip0:6"}
    assert "DeviceAllow=/dev/gpiochip0 rw" in files["auricle-edge.service.d/board.conf"]
    assert files["package"] == "auricle[edge,mic,gpio]\n"
    assert all(text in told for text in files.values())
    assert main(["flash", "boards", "show", "jetson-nano", "--files", "--json"]) == 0
    assert set(json.loads(capsys.readouterr().out)["files"]) == {"edge.toml", "package"}  # for containers: no drop-in


def test_a_new_profile_starts_from_the_generic_one_and_not_from_a_broken_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: Printed
) -> None:
    monkeypatch.chdir(tmp_path)
    assert main(["flash", "boards", "new", "my-board"]) == 0
    assert load_board("my-board.toml").os == load_board("generic-arm64").os
    assert load_board("./my-board.toml").title == "my-board"

    (tmp_path / "broken.toml").write_text('name = "broken"\ncores = = 1\n')
    assert main(["flash", "boards", "new", "mine", "--like", "./broken.toml"]) == 2
    assert "broken.toml, line 2: " in capsys.readouterr().err
    assert not (tmp_path / "mine.toml").exists()


@pytest.mark.parametrize(
    ("given", "noun"),
    [
        (["show", "pi55"], '"pi5"'),
        (["show", "pi5", "--microphone", "voicehat"], '"voice-hat"'),
        (["show", "generic-arm64", "--wired"], "GPIO"),
        (["validate", "absent.toml"], "absent.toml"),
        (["new", "Pi 6"], '"Pi 6"'),
        (["new", "mine", "--like", "pi6"], '"pi5"'),
    ],
    ids=["board", "microphone", "wired", "file", "name", "like"],
)
def test_a_mistake_is_one_sentence_and_exit_code_2(given: list[str], noun: str, capsys: Printed) -> None:
    assert main(["flash", "boards", *given]) == 2
    said = capsys.readouterr().err
    assert noun in said and said.count("\n") == 1
    assert main(["flash", "boards", *given, "--json"]) == 2
    assert f"auricle: {json.loads(capsys.readouterr().out)['error']}\n" == said


def test_validate_names_each_mistake_with_its_line(tmp_path: Path, capsys: Printed) -> None:
    good, bad = tmp_path / "pi5.toml", tmp_path / "pi4.toml"
    good.write_text(profile_path("pi5").read_text())
    text = profile_path("pi4").read_text().replace("tasks_max", "task_max").replace("cores = 4", "cores = 0")
    bad.write_text(text)
    lines = text.splitlines()
    cores, tasks = (next(n for n, line in enumerate(lines, 1) if line.startswith(key)) for key in ("cores", "task_max"))

    assert main(["flash", "boards", "validate", str(good), str(bad)]) == 2
    captured = capsys.readouterr()
    lines = captured.out.splitlines()
    numbered = [["line", f"{number}:"] for number in (cores, tasks)]
    assert [line.split()[:2] for line in lines] == [["ok", str(good)], ["REFUSED", str(bad)], *numbered]
    assert "2 mistakes in 1 of 2" in captured.err

    assert main(["flash", "boards", "validate", str(good), str(bad), "--json"]) == 2
    verdict = json.loads(capsys.readouterr().out)
    assert verdict["ok"] is False
    assert [(each["file"], each["ok"]) for each in verdict["profiles"]] == [(str(good), True), (str(bad), False)]
    problem = verdict["profiles"][1]["problems"][0]
    assert [problem[part] for part in ("file", "line", "key")] == [str(bad), cores, "cores"]


@pytest.mark.parametrize("like", board_names())
def test_a_new_profile_is_a_valid_copy_with_its_comments(like: str, tmp_path: Path, capsys: Printed) -> None:
    given = ["flash", "boards", "new", "my-board", "--like", like, "--title", 'Mine, "best"', "--out", str(tmp_path)]
    assert main([*given, "--json"]) == 0
    path = tmp_path / "my-board.toml"
    assert json.loads(capsys.readouterr().out) == {"file": str(path)}

    board, original = load_board(path), load_board(like)
    assert (board.name, board.title) == ("my-board", 'Mine, "best"')
    assert board.os == original.os
    assert path.read_text().count("#") >= profile_path(like).read_text().count("#") - 4
    assert path.read_text().startswith("# Mine")
    assert main(["flash", "boards", "validate", str(path)]) == 0
    capsys.readouterr()

    assert main(given) == 2
    assert str(path) in capsys.readouterr().err
