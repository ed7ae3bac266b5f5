"""What a Mac would install: markers of macOS, what wheels need in turn, and what has no wheel."""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

sys.path.insert(0, str(Path(__file__).parents[2] / "tools"))

import mac_wheels
from mac_wheels import Found, Mac

INDEX = {
    "server": Found("3.0", ("loop>=1; sys_platform == 'darwin'", "epoll; sys_platform == 'linux'", "Plain-Text<2")),
    "loop": Found("1.5", ("speed; extra == 'fast'", "intel-only; platform_machine == 'x86_64'")),
    "plain-text": Found("1.9", ("loop[fast]>=1.2",)),
    "speed": Found("1", ()),
}


class Index:
    """Answers as pip does, and keeps what it was asked."""

    def __init__(self) -> None:
        self.asked: list[list[str]] = []

    def __call__(self, mac: Mac, requirements: Sequence[str]) -> Mapping[str, Found]:
        self.asked.append(list(requirements))
        names = [canonicalize_name(Requirement(each).name) for each in requirements]
        return {name: INDEX[name] for name in names if name in INDEX}


def test_what_wheels_need_on_a_mac_is_followed_and_what_has_none_is_named() -> None:
    index = Index()
    wanted = [Requirement("server>=2"), Requirement("gpio; sys_platform == 'linux'")]

    arm = mac_wheels.reached(Mac("3.12", "arm64"), wanted, index)
    intel = mac_wheels.reached(Mac("3.12", "x86_64"), wanted, Index())

    assert sorted(arm) == ["loop", "plain-text", "server", "speed"]  # speed by the extra that plain-text asks for
    assert mac_wheels.row(arm) == "all 4"
    assert index.asked[0] == ["server>=2"]
    assert mac_wheels.row(intel) == "NO WHEEL of 5: intel-only (for loop)"


def test_a_requirement_is_asked_for_once_on_each_mac() -> None:
    index = Index()
    ask = mac_wheels.remembering(index)
    assert ask(Mac("3.12", "arm64"), ["server>=2", "nothing"]) == {"server": INDEX["server"]}
    both = {name: INDEX[name] for name in ("server", "speed")}
    assert ask(Mac("3.12", "arm64"), ["nothing", "server>=2", "speed"]) == both
    assert index.asked == [["server>=2", "nothing"], ["speed"]]


def test_what_pip_says_names_the_package_that_has_no_wheel() -> None:
    none = "ERROR: No matching distribution found for Plain_Text<2,>=1"
    constrained = "ERROR: Cannot install torch==2.13.0 because these package versions have conflicting dependencies."
    assert mac_wheels.without_wheel(none) == "plain-text"
    assert mac_wheels.without_wheel(constrained) == "torch"
    assert mac_wheels.without_wheel("ERROR: the index does not answer") is None


def test_the_extras_of_a_laptop_are_there() -> None:
    names = {canonicalize_name(each.name) for each in mac_wheels.requirements_of("fleet")}
    assert {"numpy", "onnxruntime", "aiohttp", "amqtt", "espeakng-loader", "tuf"} <= names
    assert all(mac_wheels.requirements_of(extra) for extra in mac_wheels.LAPTOP)
