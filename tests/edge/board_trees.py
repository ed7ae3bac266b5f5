"""Roots of boards: the files that a sensor reads, below a folder of a test's own."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

COMMON = {
    "proc/loadavg": "0.80 0.50 0.40 1/300 4242\n",
    "proc/meminfo": "MemTotal:        4096000 kB\nMemFree:          100000 kB\nMemAvailable:    2048000 kB\n",
    "sys/devices/system/cpu/online": "0-3\n",
}
ROUTE = (
    "Iface\tDestination\tGateway \tFlags\tRefCnt\tUse\tMetric\tMask\t\tMTU\tWindow\tIRTT\n"
    "wlan0\t00000000\t0101A8C0\t0003\t0\t0\t600\t00000000\t0\t0\t0\n"
    "eth0\t00000000\t0101A8C0\t0003\t0\t0\t100\t00000000\t0\t0\t0\n"
    "eth0\t0000A8C0\t00000000\t0001\t0\t0\t100\t00FFFFFF\t0\t0\t0\n"
)
PI5 = {
    **COMMON,
    "sys/class/thermal/thermal_zone0/type": "cpu-thermal\n",
    "sys/class/thermal/thermal_zone0/temp": "51200\n",
    "sys/class/thermal/cooling_device0/type": "pwm-fan\n",
    "sys/class/thermal/cooling_device0/cur_state": "3\n",
    "sys/devices/platform/soc@107c000000/soc@107c000000:firmware/get_throttled": "50000\n",
}
PI3 = {
    **COMMON,
    "sys/class/thermal/thermal_zone0/type": "cpu-thermal\n",
    "sys/class/thermal/thermal_zone0/temp": "80600\n",
    "usr/bin/vcgencmd": '#!/bin/sh\n[ "$1" = get_throttled ] && echo throttled=0x50005\n',
}
JETSON = {
    **COMMON,
    "sys/devices/system/cpu/online": "0-5\n",
    "sys/class/thermal/thermal_zone0/type": "AO-therm\n",
    "sys/class/thermal/thermal_zone0/temp": "47000\n",
    "sys/class/thermal/thermal_zone1/type": "CPU-therm\n",
    "sys/class/thermal/thermal_zone1/temp": "43500\n",
    "sys/class/thermal/thermal_zone2/type": "PMIC-Die\n",
    "sys/class/thermal/thermal_zone2/temp": "100000\n",
    "sys/class/thermal/cooling_device0/type": "thermal-cpufreq-0\n",
    "sys/class/thermal/cooling_device0/cur_state": "0\n",
}
LAPTOP = {
    **COMMON,
    "proc/net/route": ROUTE,
    "usr/bin/nmcli": '#!/bin/sh\n[ "$5" = eth0 ] && echo "no (guessed)"\n',
    "sys/class/net/eth0/uevent": "INTERFACE=eth0\nIFINDEX=2\n",
    "sys/class/thermal/thermal_zone0/type": "x86_pkg_temp\n",
    "sys/class/thermal/thermal_zone0/temp": "62000\n",
    "sys/class/thermal/thermal_zone1/type": "acpitz\n",
    "sys/class/thermal/thermal_zone1/temp": "27800\n",
    "sys/class/power_supply/AC/type": "Mains\n",
    "sys/class/power_supply/AC/online": "0\n",
    "sys/class/power_supply/BAT0/type": "Battery\n",
    "sys/class/power_supply/BAT0/present": "1\n",
    "sys/class/power_supply/BAT0/status": "Discharging\n",
    "sys/class/power_supply/BAT0/capacity": "64\n",
    "sys/class/power_supply/hidpp_battery_0/type": "Battery\n",
    "sys/class/power_supply/hidpp_battery_0/scope": "Device\n",
    "sys/class/power_supply/hidpp_battery_0/capacity": "3\n",
}


def plant(root: Path, files: Mapping[str, str | bytes]) -> Path:
    """Write the files below a root; scripts can be run."""
    for name, content in files.items():
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content.encode() if isinstance(content, str) else content)
        if "/bin/" in f"/{name}":
            path.chmod(0o755)
    return root
