"""The shipped profiles: right about their systems, and what they lead to is taken by the agent and by systemd."""

from __future__ import annotations

import re
import sys
import zipfile
from pathlib import Path

import pytest
from tests.edge.board_trees import JETSON, PI3, PI5, plant

from auricle.errors import SettingsError
from auricle.settings import from_mapping
from auricle_edge.board.gate import GateSettings
from auricle_edge.board.sensors import read
from auricle_edge.listening.capture.settings import parse_source
from auricle_edge.listening.events.buttons import ButtonSettings
from auricle_edge.settings import read_settings
from auricle_export.flash.board import PYTHONS, RELEASES, Board
from auricle_export.flash.boards import BoardError, board_names, load_board, load_boards
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


def test_there_is_a_profile_for_each_board_that_is_promised() -> None:
    promised = {
        "generic-arm64",
        "generic-x86_64",
        "jetson-nano",
        "jetson-orin-nano",
        "pi-zero-2w",
        "pi3",
        "pi4",
        "pi5",
    }
    assert promised <= set(NAMES)


@pytest.mark.parametrize(
    ("name", "systems"),
    [
        ("pi-zero-2w", {"raspios-12": "3.11", "raspios-13": "3.13"}),
        ("pi3", {"raspios-12": "3.11", "raspios-13": "3.13"}),
        ("pi4", {"raspios-12": "3.11", "raspios-13": "3.13"}),
        ("pi5", {"raspios-12": "3.11", "raspios-13": "3.13"}),
        ("jetson-orin-nano", {"jetpack-6": "3.10", "jetpack-7": "3.12"}),
        ("jetson-nano", {"jetpack-4": "3.11"}),
    ],
)
def test_each_board_has_its_systems_and_their_python(name: str, systems: dict[str, str]) -> None:
    assert {system.id: system.python for system in load_board(name).os} == systems


def test_only_the_jetson_nano_is_for_containers_only() -> None:
    assert [board.name for board in load_boards() if board.container_only] == ["jetson-nano"]
    assert load_board("jetson-nano").system().container == "bookworm"


def test_the_pythons_that_profiles_may_name_are_those_of_the_package() -> None:
    wanted = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["requires-python"]

    (low, high) = PYTHONS

    assert wanted == f">={low[0]}.{low[1]},<{high[0]}.{high[1] + 1}"


def test_the_wheels_locked_for_boards_are_those_of_raspberry_pi_os() -> None:
    locked = {path.stem for path in (ROOT / "edge" / "requirements").glob("*.txt")}

    wanted = {
        f"{board.architecture}-{system.wheel_tag.split('-')[0]}"
        for board in load_boards()
        if board.boot is not None
        for system in board.os
    }

    assert wanted and wanted <= locked


@pytest.mark.parametrize(("name", "microphone", "wired"), CHOICES)
def test_the_agent_takes_the_settings_that_a_profile_leads_to(
    name: str, microphone: str | None, wired: bool, tmp_path: Path
) -> None:
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
    assert tables["capture"] == {
        "source": "alsa:CARD=sndrpigooglevoi",
        "rate": 48000,
        "mute_switch": "gpio:gpiochip0:26:low",
    }
    assert tables["buttons"] == {"confirm": "gpiochip0:23", "deny": "gpiochip0:6"}


def test_the_button_of_a_hat_works_without_any_wire() -> None:
    _, tables = edge_settings(load_board("pi5"), "kitchen-1", microphone="respeaker-2mic")

    assert from_mapping(ButtonSettings, tables["buttons"], "buttons") == ButtonSettings(confirm="gpiochip0:17")
    assert "mute_switch" not in tables["capture"]


@pytest.mark.parametrize("name", NAMES)
def test_a_drop_in_changes_only_what_the_unit_may_have_changed(name: str) -> None:
    board = load_board(name)
    if board.container_only:
        with pytest.raises(SettingsError, match="in a container only"):
            drop_in(board)
        return

    text = drop_in(board, wired=board.gpio is not None)

    keys = re.findall(r"^(\w+)=", text, re.MULTILINE)
    limits = {"MemoryHigh", "MemoryMax", "TasksMax"}
    assert set(keys) == limits | ({"DeviceAllow", "SupplementaryGroups"} if board.gpio else set())
    assert all(f"\n{key}=" in UNIT for key in keys)
    assert "DeviceAllow" not in drop_in(board)


def test_a_drop_in_of_a_pi_opens_its_gpio_chip_and_nothing_else() -> None:
    assert drop_in(load_board("pi5"), wired=True).splitlines()[1:] == [
        "[Service]",
        "MemoryHigh=160M",
        "MemoryMax=256M",
        "TasksMax=64",
        "DeviceAllow=/dev/gpiochip0 rw",
        "SupplementaryGroups=gpio",
    ]


@pytest.mark.parametrize(
    ("name", "tree", "degrees"),
    [("pi5", PI5, 51.2), ("pi3", PI3, 80.6), ("jetson-nano", JETSON, 43.5)],
    ids=["pi5", "pi3", "jetson-nano"],
)
def test_the_sensors_of_a_profile_are_those_that_the_agent_reads(
    name: str, tree: dict[str, str], degrees: float, tmp_path: Path
) -> None:
    board = load_board(name)
    _, tables = edge_settings(board, "kitchen-1")

    readings = read(plant(tmp_path, tree), from_mapping(GateSettings, tables["gate"], "gate"))

    assert readings.temperature == degrees
    assert readings.throttling is not None
    assert not {"temperature", "throttling"} & set(readings.unknown)
    assert not set(board.sensors.required) & set(readings.unknown)


def test_no_line_of_a_pi_is_used_by_a_hat_and_by_a_wire() -> None:
    for board in load_boards():
        if board.gpio is None:
            continue
        wired = {board.gpio.confirm, board.gpio.deny, board.gpio.mute, board.gpio.led}
        hats = {line for microphone in board.microphone for line in (microphone.button, microphone.led) if line}
        assert not wired & hats, board.name


def test_memory_limits_do_something_on_raspberry_pi_os() -> None:
    for board in load_boards():
        if board.boot is not None:
            assert "cgroup_enable=memory" in board.boot.cmdline


def test_every_release_that_a_profile_may_name_is_known_once() -> None:
    assert {base for base, release in RELEASES.items() if release.supported} == {"bookworm", "trixie", "jammy", "noble"}


def test_a_board_that_does_not_exist_is_named_with_the_nearest() -> None:
    with pytest.raises(BoardError, match='There is no board "pi6": did you mean "pi'):
        load_board("pi6")


def test_a_system_or_microphone_that_a_board_has_not_is_named_with_the_nearest() -> None:
    board: Board = load_board("jetson-orin-nano")

    with pytest.raises(SettingsError, match=r'has no system "jetpack-5": did you mean "jetpack-[67]"'):
        board.system("jetpack-5")
    with pytest.raises(SettingsError, match='has no microphone "respeaker-light": did you mean "respeaker-lite"'):
        edge_settings(board, "kitchen-1", microphone="respeaker-light")
    assert board.system() == board.os[0]
    assert board.system("jetpack-7") == board.os[1]


def test_nothing_can_be_wired_to_a_board_without_lines() -> None:
    with pytest.raises(SettingsError, match="names no GPIO lines"):
        edge_toml(load_board("generic-x86_64"), "kitchen-1", wired=True)


def test_a_name_that_no_device_can_have_is_refused() -> None:
    with pytest.raises(SettingsError, match=r'"Kitchen\\n1" cannot be the name of a device'):
        edge_toml(load_board("pi5"), "Kitchen\n1")


@pytest.mark.slow
def test_an_installed_wheel_has_the_profiles_and_an_editable_one_reads_the_checkout(tmp_path: Path) -> None:
    builder = pytest.importorskip("hatchling.builders.wheel", reason="hatchling is not installed").WheelBuilder(
        str(ROOT)
    )
    inside = "auricle_export/flash/profiles/"

    built = {
        kind: zipfile.ZipFile(next(builder.build(directory=str(tmp_path / kind), versions=[kind]))).namelist()
        for kind in ("standard", "editable")
    }

    assert sorted(name for name in built["standard"] if name.startswith(inside)) == [
        f"{inside}{name}.toml" for name in NAMES
    ]
    assert not [name for name in built["editable"] if name.endswith(".toml")]
