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
from auricle_export.flash.boards import load_board
from auricle_export.flash.bundle.manifest import Manifest
from auricle_export.flash.push.facts import Facts, read_facts, refusals
from auricle_export.flash.push.hosts import Host, read_host, read_hosts, require_each_once
from auricle_export.flash.push.session import PushError

WORDS = st.lists(st.text(st.characters(exclude_characters="\0", exclude_categories=["Cs"]), max_size=12), max_size=4)
NASTY = [
    "",
    "a b",
    "'; touch owned; '",
    "$(touch owned)",
    "`touch owned`",
    "-rf",
    "\\",
    "\n",
    '"',
    "*",
    "!!",
    "ü",
]
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


def test_words_reach_a_board_as_they_are(boards: Boards) -> None:
    board = boards.running[0]

    said = boards.session(board).run('printf "%s|" "$@"; ls "$HOME"', *NASTY)

    assert "|".join(NASTY) + "|" in said
    assert not list(board.home.rglob("owned"))


def test_a_board_that_prints_without_end_is_ended(boards: Boards) -> None:
    with pytest.raises(PushError, match="board-0"):
        boards.session(boards.running[0]).run("yes")


def test_a_board_that_takes_too_long_is_given_up(boards: Boards) -> None:
    with pytest.raises(PushError, match=r"board-0 did not finish within 1 s: try again\."):
        boards.session(boards.running[0]).run("sleep 60", seconds=1)


def test_a_board_says_nothing_that_a_terminal_obeys(boards: Boards) -> None:
    session = boards.session(boards.running[0])

    with pytest.raises(PushError) as caught:
        session.run(r"printf 'first\n\033[2J\007no room\n' >&2; exit 9")

    assert str(caught.value) == "board-0 failed: [2Jno room"
    assert "\033" not in session.run(r"printf '\033[2J'")


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


@pytest.mark.parametrize(
    "text",
    [
        "",
        "-oProxyCommand=touch x",
        "me@-oProxyCommand=x",
        "-l@host",
        "a@b@c",
        "host:0",
        "host:65536",
        "ho st",
        "host\n",
        "::1",
        "[-a]",
        "host:22 ",
        "$(x)",
        "a/b",
        "me@host:-1",
        "ssh://host",
    ],
)
def test_what_is_no_host_is_refused(text: str) -> None:
    with pytest.raises(SettingsError, match="is not a host"):
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


def test_mistakes_in_a_file_of_hosts_are_told_with_their_line(tmp_path: Path) -> None:
    path = tmp_path / "hosts.txt"
    for text, told in (
        ("pi@a\n-x\n", r"line 2: '-x' is not a host"),
        ("pi@a t k\n", "line 1: a line has a host, and the file of a token or nothing"),
        ("\npi@a none.token\n", r"line 2: There is no claim token .*none\.token: a claim removes the file"),
        ("pi@a hosts.txt\n", r"line 1: .*hosts\.txt holds no claim token"),
    ):
        path.write_text(text)
        with pytest.raises(SettingsError, match=told):
            read_hosts(path)


def test_a_board_or_a_token_given_twice_is_refused(tmp_path: Path) -> None:
    (tmp_path / "t").write_text("token" * 6)
    path = tmp_path / "hosts.txt"

    path.write_text("pi@a\nroot@a\n")
    with pytest.raises(SettingsError, match="root@a is named twice"):
        require_each_once(read_hosts(path))
    path.write_text("pi@a t\npi@b t\n")
    with pytest.raises(SettingsError, match="pi@a and pi@b have the same token"):
        require_each_once(read_hosts(path))


ORIN = Manifest(
    version="1.0",
    board="jetson-orin-nano",
    os="jetpack-6",
    base="jammy",
    python="3.10",
    architecture="aarch64",
    fleet="home",
    pack="0" * 64,
    files=(),
)
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
SAID: list[tuple[dict[str, str], str | None]] = [
    ({}, None),
    ({"machine": "x86_64"}, "is Linux on x86_64, and the bundle is for aarch64"),
    ({"kernel": "Darwin"}, "is Darwin on aarch64, and the bundle is for aarch64"),
    ({"has": "3.10 32"}, "runs a 32-bit system, for which there is no onnxruntime: install its 64-bit one"),
    ({"base": "noble"}, "runs noble, and the bundle is for jammy (jetpack-6)"),
    ({"base": ""}, "runs a system without a name, and the bundle is for jammy (jetpack-6)"),
    ({"has": "3.8 64", "python": ""}, "has Python 3.8, and the bundle needs 3.10: apt install python3"),
    ({"has": "", "python": ""}, "has no Python, and the bundle needs 3.10: apt install python3"),
    (
        {"compatible": "nvidia,p3450-0000 nvidia,tegra210"},
        "is not a NVIDIA Jetson Orin Nano: its device tree says nvidia,p3450-0000 nvidia,tegra210",
    ),
    ({"compatible": ""}, "is not a NVIDIA Jetson Orin Nano: its device tree says nothing"),
    ({"free": "10"}, "has 0 MiB free in the user's home, and the bundle needs 95 MiB"),
    ({"user": "1000"}, "let in a user that is not root: log in as root, or give --sudo"),
]


@pytest.mark.parametrize(("said", "reason"), SAID, ids=[",".join(each) or "good" for each, _ in SAID])
def test_a_board_that_a_bundle_is_not_for_is_refused(said: dict[str, str], reason: str | None) -> None:
    found = refusals(Facts(**(GOOD | said)), ORIN, load_board("jetson-orin-nano"), 100_000_000, sudo=False)

    assert next(found, None) == reason


@pytest.mark.parametrize(
    ("board", "compatible"),
    [
        ("pi-zero-2w", "raspberrypi,model-zero-2-w brcm,bcm2837"),
        ("pi3", "raspberrypi,3-model-b-plus brcm,bcm2837"),
        ("pi4", "raspberrypi,4-model-b brcm,bcm2711"),
        ("pi5", "raspberrypi,5-model-b brcm,bcm2712"),
        ("generic-arm64", "radxa,rock-5b rockchip,rk3588"),
        ("generic-x86_64", ""),
    ],
)
def test_a_board_is_known_by_its_device_tree(board: str, compatible: str) -> None:
    found = refusals(Facts(**(GOOD | {"compatible": compatible})), ORIN, load_board(board), 1, sudo=False)

    assert list(found) == []


def test_sudo_is_used_where_it_is_there() -> None:
    board, me = load_board("generic-arm64"), GOOD | {"user": "1000"}

    assert list(refusals(Facts(**me, sudo="asks"), ORIN, board, 1, sudo=True)) == []
    assert list(refusals(Facts(**me), ORIN, board, 1, sudo=True)) == ["has no sudo: log in as root"]
    assert list(refusals(Facts(**me, root="/tmp/here"), ORIN, board, 1, sudo=False)) == []


def test_what_a_board_was_not_asked_for_is_left_out() -> None:
    said = "Welcome!\nauricle:machine=aarch64\nauricle:evil=1\nmachine=x86_64\nauricle:status={}\nauricle:base=a=b\n"

    assert read_facts(said) == Facts(machine="aarch64", status="{}", base="a=b")
    assert read_facts(said).installed is None


@pytest.mark.parametrize(
    "status",
    ["", "[]", "{", '{"journal": null}', '{"journal": {"active": "c", "confirmed": true}, "slots": {"c": {}}}'],
)
def test_a_status_that_is_none_means_that_nothing_is_active(status: str) -> None:
    assert Facts(status=status).installed is None
