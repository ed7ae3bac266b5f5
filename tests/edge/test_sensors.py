"""What the gate's sensors read from the files of real boards, and from files that are absent or lie."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.edge.board_trees import COMMON, JETSON, LAPTOP, PI3, PI5, ROUTE, plant

from auricle_edge.board.gate import GateSettings, Readings, Throttling
from auricle_edge.board.sensors import Sensors, read

DEFAULT = GateSettings()
TEMPERATURE = "sys/class/thermal/thermal_zone0/temp"


def _read(root: Path, files: Mapping[str, str | bytes], limits: GateSettings = DEFAULT) -> Readings:
    return read(plant(root, files), limits)


def test_a_pi_5(tmp_path: Path) -> None:
    readings = _read(tmp_path, PI5)
    assert (readings.power, readings.battery, readings.network) == (None, None, None)
    assert readings.temperature == 51.2
    assert readings.throttling == Throttling(occurred=("under-voltage", "throttled"))
    assert readings.load == pytest.approx(0.2, abs=0.02)
    assert readings.memory == 2000.0
    assert readings.problems == ()
    assert readings.unknown == ("power", "network")


def test_a_pi_3_that_is_throttled(tmp_path: Path) -> None:
    readings = _read(tmp_path, PI3)
    assert readings.temperature == 80.6
    assert readings.throttling is not None
    assert readings.throttling.now == ("under-voltage", "throttled")


def test_a_jetson_whose_power_chip_always_says_100(tmp_path: Path) -> None:
    readings = _read(tmp_path, JETSON)
    assert (readings.temperature, readings.throttling) == (43.5, Throttling())
    assert readings.load == pytest.approx(0.8 / 6, abs=0.02)
    braked = _read(tmp_path, {**JETSON, "sys/class/thermal/cooling_device0/cur_state": "2\n"})
    assert braked.throttling == Throttling(capped=True)


def test_a_laptop_on_its_battery(tmp_path: Path) -> None:
    readings = _read(tmp_path, LAPTOP)
    assert (readings.power, readings.battery, readings.temperature) == ("battery", 64.0, 62.0)
    assert readings.network == "free"


@pytest.mark.parametrize(
    ("online", "status", "power"),
    [
        *(("1", status, "mains") for status in ("Charging", "Full", "Not charging", "Unknown")),
        *((online, "Discharging", "battery") for online in "10"),
        ("0", "Unknown", "battery"),
        ("what", "Charging", "mains"),
        ("what", "Unknown", None),
    ],
)
def test_where_the_power_comes_from(tmp_path: Path, online: str, status: str, power: str | None) -> None:
    files = {**LAPTOP, "sys/class/power_supply/AC/online": online, "sys/class/power_supply/BAT0/status": status}
    assert _read(tmp_path, files).power == power


def test_a_battery_that_was_taken_out_is_none(tmp_path: Path) -> None:
    files = {"sys/class/power_supply/BAT0/present": "0\n", "sys/class/power_supply/AC/online": "1\n"}
    readings = _read(tmp_path, {**LAPTOP, **files})
    assert (readings.power, readings.battery) == ("mains", None)


def test_a_container_with_nothing(tmp_path: Path) -> None:
    assert read(tmp_path, DEFAULT) == Readings()
    assert read(tmp_path / "absent", DEFAULT) == Readings()


@pytest.mark.parametrize(
    ("path", "content", "field"),
    [
        *(
            (TEMPERATURE, said, "temperature")
            for said in ("-274000\n", "999999\n", "nan", "", b"\xff\0\xfe", "1" * 5000)
        ),
        *(("sys/class/power_supply/BAT0/capacity", said, "battery") for said in ("101\n", "full\n")),
        *(("proc/loadavg", said, "load") for said in ("-1 0 0\n", "inf\n", "\n")),
        ("proc/meminfo", "MemTotal: 10 kB\nMemAvailable: 11 kB\n", "memory"),
        ("proc/meminfo", "nothing\n", "memory"),
        *(
            ("usr/bin/vcgencmd", said, "throttling")
            for said in ("#!/bin/sh\necho error=1 error_msg=not-registered\n", "#!/bin/sh\nexit 1\n", "not a program\n")
        ),
        ("usr/bin/nmcli", "#!/bin/sh\nexit 8\n", "network"),
    ],
    ids=lambda value: value[:24] if isinstance(value, str) else "bytes",
)
def test_a_sensor_that_lies_is_unknown_and_reported(
    tmp_path: Path, path: str, content: str | bytes, field: str
) -> None:
    readings = _read(tmp_path, {**LAPTOP, path: content})
    assert getattr(readings, field) is None
    assert field in readings.unknown
    assert len(readings.problems) == 1
    others = {"power", "battery", "temperature", "load", "memory", "network"} - {field}
    assert all(getattr(readings, name) is not None for name in others)


@pytest.mark.skipif(os.geteuid() == 0, reason="root may read every file")
def test_a_file_that_must_not_be_read_is_unknown_and_reported(tmp_path: Path) -> None:
    plant(tmp_path, LAPTOP)
    (tmp_path / TEMPERATURE).chmod(0)
    readings = read(tmp_path, DEFAULT)
    assert readings.temperature is None
    assert "Permission" in readings.problems[0]


def test_a_folder_where_a_file_should_be_is_unknown_and_reported(tmp_path: Path) -> None:
    plant(tmp_path, {**COMMON, "sys/class/thermal/thermal_zone0/type": "cpu-thermal"})
    (tmp_path / TEMPERATURE).mkdir()
    readings = read(tmp_path, DEFAULT)
    assert readings.temperature is None
    assert len(readings.problems) == 1


def test_of_two_zones_one_of_which_lies_the_other_is_believed(tmp_path: Path) -> None:
    files = {**PI5, "sys/class/thermal/thermal_zone1/type": "cpu1", "sys/class/thermal/thermal_zone1/temp": "-274000"}
    readings = _read(tmp_path, files)
    assert readings.temperature == 51.2
    assert len(readings.problems) == 1


def test_the_settings_choose_the_zones(tmp_path: Path) -> None:
    assert _read(tmp_path, JETSON, GateSettings(zones=("AO-*",))).temperature == 47.0
    assert read(tmp_path, GateSettings(zones=("ao-*", "cpu*"))).temperature == 47.0
    assert read(tmp_path, GateSettings(zones=("none",))).temperature is None


@pytest.mark.parametrize(
    ("changes", "network"),
    [
        ({"usr/bin/nmcli": "#!/bin/sh\necho yes\n"}, "metered"),
        ({"usr/bin/nmcli": '#!/bin/sh\necho "yes (guessed)"\n'}, "metered"),
        ({"usr/bin/nmcli": "#!/bin/sh\necho no\n"}, "free"),
        ({"usr/bin/nmcli": "#!/bin/sh\necho unknown\n"}, None),
        ({"sys/class/net/eth0/uevent": "DEVTYPE=wwan\nINTERFACE=eth0\n"}, "metered"),
        ({"proc/net/route": ROUTE.splitlines()[0]}, None),
        ({"proc/net/route": ROUTE.replace("eth0", "-h\x00../x")}, None),
    ],
    ids=str,
)
def test_what_the_network_costs(tmp_path: Path, changes: dict[str, str], network: str | None) -> None:
    files = {**LAPTOP, **changes}
    if network is None and "proc/net/route" in changes:
        files["proc/net/route"] = files["proc/net/route"].replace("wlan0", "lo/..")
    assert _read(tmp_path, files).network == network


def test_what_the_user_said_about_the_network_is_not_asked_of_it(tmp_path: Path) -> None:
    assert _read(tmp_path, LAPTOP, GateSettings(metered="yes")).network == "metered"
    assert read(tmp_path / "absent", GateSettings(metered="no")).network == "free"


def test_the_network_manager_is_asked_once_a_minute(tmp_path: Path) -> None:
    calls = tmp_path / "calls"
    asked = {"usr/bin/nmcli": f"#!/bin/sh\necho x >> {calls}\necho yes\n"}
    sensors = Sensors(plant(tmp_path, {**LAPTOP, **asked}), DEFAULT)
    assert [sensors().network for _ in range(3)] == ["metered"] * 3
    assert calls.read_text() == "x\n"


def test_heat_and_memory_alone_are_read_without_a_command(tmp_path: Path) -> None:
    command = {"usr/bin/vcgencmd": f"#!/bin/sh\necho x >> {tmp_path}/calls\n"}
    board = Sensors(plant(tmp_path, {**PI3, **command}), DEFAULT).read_board()
    assert board == Readings(temperature=80.6, memory=read(tmp_path, DEFAULT).memory)
    (tmp_path / "calls").unlink(missing_ok=True)
    Sensors(tmp_path, DEFAULT).read_board()
    assert not (tmp_path / "calls").exists()


@settings(max_examples=60)
@given(st.dictionaries(st.sampled_from(sorted(name for name in LAPTOP if "bin" not in name)), st.binary(max_size=60)))
def test_no_file_crashes_the_sensors(tmp_path_factory: pytest.TempPathFactory, lies: dict[str, bytes]) -> None:
    readings = _read(tmp_path_factory.mktemp("root"), {**LAPTOP, **lies})
    assert readings.temperature is None or -40 <= readings.temperature <= 125
    assert readings.battery is None or 0 <= readings.battery <= 100
    assert readings.load is None or readings.load >= 0
    assert readings.memory is None or readings.memory >= 0
