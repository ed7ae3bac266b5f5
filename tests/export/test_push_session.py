"""What reaches a board's shell, what comes back, and who is meant by a line of a file."""

from __future__ import annotations

import shlex
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.export.ssh_boards import Boards, require_sshd

from auricle.errors import SettingsError
from auricle.wire.bundle import Manifest
from auricle_export.flash.boards import load_board
from auricle_export.flash.push.facts import Facts, read_facts, refusals
from auricle_export.flash.push.hosts import Host, read_host, read_hosts, require_each_once
from auricle_export.flash.push.session import PushError

WORDS = st.lists(st.text(st.characters(exclude_characters="\0", exclude_categories=["Cs"]), max_size=12), max_size=4)
NASTY = ["", "a b", "'; touch owned; '", "$(touch owned)", "`touch owned`", "-rf", "\\", "\n", '"', "*", "!!", "ü"]
ECHO = 'for word; do printf "%s\\0" "$word"; done'


@pytest.fixture(scope="module")
def boards(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Boards]:
    require_sshd()
    made = Boards(tmp_path_factory.mktemp("boards"))
    made.start()
    yield made
    made.stop()


@given(WORDS)
@settings(max_examples=60)
def test_words_reach_a_shell_as_they_are(words: list[str]) -> None:
    command = shlex.join(["sh", "-c", ECHO, "sh", *words])
    done = subprocess.run(["sh", "-c", command], capture_output=True, check=True)
    assert done.stdout.decode().split("\0")[:-1] == words


@pytest.mark.slow
def test_words_reach_a_board_as_they_are_and_one_that_prints_or_takes_too_long_is_ended(boards: Boards) -> None:
    board = boards.running[0]
    assert "|".join(NASTY) + "|" in boards.session(board).run('printf "%s|" "$@"; ls "$HOME"', *NASTY)
    assert not list(board.home.rglob("owned"))
    with pytest.raises(PushError, match="board-0"):
        boards.session(board).run("yes")
    with pytest.raises(PushError, match="1 s"):
        boards.session(board).run("sleep 60", seconds=1)
    with pytest.raises(PushError) as caught:
        boards.session(board).run(r"printf 'first\n\033[2J\007no room\n' >&2; exit 9")
    assert str(caught.value) == "board-0 failed: [2Jno room"  # nothing that a terminal obeys
    assert "\033" not in boards.session(board).run(r"printf '\033[2J'")


@pytest.mark.skipif(
    shutil.which("sudo") is None or subprocess.run(["sudo", "-n", "true"], capture_output=True).returncode != 0,
    reason="sudo is not installed, or asks",
)
def test_root_is_become_by_sudo(boards: Boards) -> None:
    session = boards.session(boards.running[0])
    session.sudo = True
    said = session.run('id -u; printf "%s:" "$@"; cat', *NASTY[:5], given=b"token", as_root=True)
    assert said.endswith("0\n" + ":".join(NASTY[:5]) + ":token")


@pytest.mark.parametrize(
    ("text", "host"),
    [
        ("pi@kitchen.lan", Host("kitchen.lan", "pi")),
        ("kitchen", Host("kitchen")),
        ("jetson@10.0.0.7:2222", Host("10.0.0.7", "jetson", 2222)),
        ("me@[fe80::1%eth0]:22", Host("fe80::1%eth0", "me", 22)),
    ],
)
def test_a_host_is_read_and_written_the_same(text: str, host: Host) -> None:
    assert read_host(text) == host
    assert str(host) == text


BARE = ["", "-l@host", "a@b@c", "host:0", "host:65536", "ho st", "host\n", "::1", "[-a]", "host:22 ", "$(x)", "a/b"]


@pytest.mark.parametrize("text", [*BARE, "-oProxyCommand=touch x", "me@-oProxyCommand=x", "me@host:-1", "ssh://host"])
def test_what_is_no_host_is_refused(text: str) -> None:
    with pytest.raises(SettingsError, match="host"):
        read_host(text)


@given(st.text(max_size=30))
@settings(max_examples=200)
def test_no_host_is_an_option_of_ssh(text: str) -> None:
    try:
        host = read_host(text)
    except SettingsError:
        return
    assert not host.name.startswith("-")
    assert not (host.user or "").startswith("-")
    assert shlex.quote(host.name.replace("%", "")) == host.name.replace("%", "") or ":" in host.name


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("pi@a\n-x\n", r"line 2: '-x'"),
        ("pi@a t k\n", "line 1"),
        ("\npi@a none.token\n", r"line 2: .*none\.token"),
        ("pi@a hosts.txt\n", r"line 1: .*hosts\.txt"),
        ("pi@a\nroot@a\n", "root@a is named twice"),
        ("pi@a t\npi@b t\n", "pi@a and pi@b have the same token"),
    ],
)
def test_mistakes_in_a_file_of_hosts_are_told(text: str, told: str, tmp_path: Path) -> None:
    (tmp_path / "t").write_text("token" * 6)
    path = tmp_path / "hosts.txt"
    path.write_text(text)
    with pytest.raises(SettingsError, match=told):
        require_each_once(read_hosts(path))


FACTS = {"version": "1.0", "board": "jetson-orin-nano", "os": "jetpack-6", "base": "jammy", "python": "3.10"}
ORIN = Manifest(**FACTS, architecture="aarch64", fleet="home", pack="0" * 64, files=())
GOOD = {
    "kernel": "Linux",
    "machine": "aarch64",
    "user": "0",
    "base": "jammy",
    "has": "3.10 64",
    "python": "/usr/bin/python3",
    "compatible": "nvidia,p3768-0000+p3767-0005 nvidia,p3767-0005 nvidia,tegra234",
    "free": "9999999",
}
SAID: list[tuple[dict[str, str], str]] = [
    ({}, ""),
    ({"machine": "x86_64"}, "Linux on x86_64"),
    ({"kernel": "Darwin"}, "Darwin on aarch64"),
    ({"has": "3.10 32"}, "32-bit"),
    ({"base": "noble"}, "noble"),
    ({"base": ""}, "without a name"),
    ({"has": "3.8 64", "python": ""}, "3.8"),
    ({"has": "", "python": ""}, "no Python"),
    ({"compatible": "nvidia,p3450-0000 nvidia,tegra210"}, "nvidia,p3450-0000 nvidia,tegra210"),
    ({"compatible": ""}, "nothing"),
    ({"free": "10"}, "95 MiB"),
    ({"user": "1000"}, "--sudo"),
]


@pytest.mark.parametrize(("said", "reason"), SAID, ids=[",".join(each) or "good" for each, _ in SAID])
def test_a_board_that_a_bundle_is_not_for_is_refused(said: dict[str, str], reason: str) -> None:
    found = refusals(Facts(**(GOOD | said)), ORIN, load_board("jetson-orin-nano"), 100_000_000, sudo=False)
    refused = next(found, None)
    assert (refused is None) is (reason == "")
    assert reason in (refused or "")


TREES = {
    "pi-zero-2w": "raspberrypi,model-zero-2-w brcm,bcm2837",
    "pi3": "raspberrypi,3-model-b-plus brcm,bcm2837",
    "pi4": "raspberrypi,4-model-b brcm,bcm2711",
    "pi5": "raspberrypi,5-model-b brcm,bcm2712",
    "generic-arm64": "radxa,rock-5b rockchip,rk3588",
    "generic-x86_64": "",
}


@pytest.mark.parametrize(("board", "compatible"), TREES.items())
def test_a_board_is_known_by_its_device_tree(board: str, compatible: str) -> None:
    found = refusals(Facts(**(GOOD | {"compatible": compatible})), ORIN, load_board(board), 1, sudo=False)
    assert list(found) == []
    me = GOOD | {"user": "1000", "compatible": compatible}
    ways = (({"sudo": "asks"}, True), ({}, True), ({"root": "/tmp/here"}, False))
    told = [list(refusals(Facts(**me, **more), ORIN, load_board(board), 1, sudo=sudo)) for more, sudo in ways]
    assert [len(each) for each in told] == [0, 1, 0]  # sudo is used where it is there


def test_what_a_board_was_not_asked_for_is_left_out() -> None:
    said = "Welcome!\nauricle:machine=aarch64\nauricle:evil=1\nmachine=x86_64\nauricle:status={}\nauricle:base=a=b\n"
    assert read_facts(said) == Facts(machine="aarch64", status="{}", base="a=b")
    assert read_facts(said).installed is None


def test_a_status_that_is_none_means_that_nothing_is_active() -> None:
    unknown = '{"journal": {"active": "c", "confirmed": true}, "slots": {"c": {}}}'
    for status in ("", "[]", "{", '{"journal": null}', unknown):
        assert Facts(status=status).installed is None
