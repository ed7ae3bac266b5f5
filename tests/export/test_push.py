"""`auricle flash push` to real SSH servers, with the real installer, below a folder of theirs."""

from __future__ import annotations

import io
import json
import os
import platform
import shutil
import signal
import stat
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from rich.console import Console
from tests.arm64.emulation import UnavailableError
from tests.edge.slots_bundle import quick_folder
from tests.edge.slots_machine import Machine, machine_root
from tests.export.ssh_boards import BOARD, ROOT, Boards, SshBoard, bundle, key, profile, require_sshd, system

from auricle.process import table
from auricle.process.cli import main
from auricle_export.flash import push_commands
from auricle_export.flash.bundle.build import build_bundle
from auricle_export.flash.bundle.wheelhouse import UnreachableError
from auricle_export.flash.fleet_file import load_fleet
from auricle_export.flash.push.crowd import push_all
from auricle_export.flash.push.hosts import Host
from auricle_export.flash.push.installation import HEALTH, INSTALL, Outcome, Step, open_parcel, read_health
from auricle_export.flash.push.session import Access
from auricle_export.flash.push_commands import _tell

FLEET = f"""
name = "home"
broker = "mqtts://hub.lan:8883"
server = "https://hub.lan:8443"
ca_pin = "{64 * "0"}"
coordinator = "{64 * "0"}"
"""
CHECKUP = """#!/bin/sh
touch /var/lib/auricle/x && [ "$(id -u)" != 0 ] || exit 1
touch /etc/x 2>/dev/null || echo "may write its state, no more"
"""
TOKEN = b"auricle-claim-1-kitchen-0123456789abcdef\n"


@pytest.fixture
def boards() -> Iterator[Boards]:
    require_sshd()
    with quick_folder() as folder:
        made = Boards(folder)
        yield made
        made.stop()


@pytest.fixture
def parcel(tmp_path: Path) -> Path:
    return bundle(tmp_path, "1.0")


def push(boards: Boards, bundle: Path, *more: str) -> int:
    given = ["--board", BOARD, "--bundle", str(bundle), "--ssh-config", str(boards.config), "--root", ROOT]
    return main(["flash", "push", *more, *given])


def told(capsys: pytest.CaptureFixture[str]) -> list[dict[str, str]]:
    outcomes: list[dict[str, str]] = json.loads(capsys.readouterr().out)["hosts"]
    return outcomes


def journal(board: SshBoard) -> dict[str, object]:
    read: dict[str, object] = json.loads((board.root / "opt/auricle/slots.json").read_text())
    return read


def test_a_board_gets_the_bundle_and_its_token(
    boards: Boards, parcel: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    board = boards.start()
    (tmp_path / "kitchen.token").write_bytes(TOKEN)

    assert push(boards, parcel, "board-0", "--token", str(tmp_path / "kitchen.token"), "--json") == 0

    outcome = told(capsys)[0]
    assert (outcome["host"], outcome["state"], outcome["version"], outcome["slot"]) == (
        "board-0",
        "installed",
        "1.0",
        "a",
    )
    assert outcome["identity"] == open_parcel(parcel, profile()).identity
    assert journal(board)["active"] == "a"
    token = board.root / "etc/auricle/claim.token"
    assert token.read_bytes() == TOKEN
    assert stat.S_IMODE(token.stat().st_mode) == 0o600
    assert not list((board.home / ".cache/auricle-push").iterdir())


@pytest.mark.slow
def test_twice_is_the_same_as_once(boards: Boards, parcel: Path, capsys: pytest.CaptureFixture[str]) -> None:
    board = boards.start()
    assert push(boards, parcel, "board-0", "--json") == 0
    before = sorted((str(path), path.stat().st_mtime_ns) for path in (board.root / "opt").rglob("*"))
    capsys.readouterr()

    assert push(boards, parcel, "board-0") == 0

    assert "unchanged" in capsys.readouterr().out
    assert sorted((str(path), path.stat().st_mtime_ns) for path in (board.root / "opt").rglob("*")) == before


@pytest.mark.slow
def test_a_newer_bundle_goes_into_the_other_slot(boards: Boards, parcel: Path, tmp_path: Path) -> None:
    board = boards.start()

    assert push(boards, parcel, "board-0") == 0
    assert push(boards, bundle(tmp_path, "2.0"), "board-0") == 0

    assert (journal(board)["active"], journal(board)["previous"]) == ("b", "a")


@pytest.mark.slow
@pytest.mark.parametrize("left", ["bundle.part", "bundle.tar"])
def test_what_an_earlier_attempt_left_is_no_obstacle(left: str, boards: Boards, parcel: Path) -> None:
    board = boards.start()
    folder = board.home / ".cache/auricle-push" / open_parcel(parcel, profile()).identity
    folder.mkdir(parents=True)
    (folder / left).write_bytes(parcel.read_bytes()[:5000])

    assert push(boards, parcel, "board-0") == 0

    assert journal(board)["active"] == "a"


def test_what_was_changed_in_the_home_after_copying_is_not_run_by_root(
    boards: Boards, parcel: Path, tmp_path: Path
) -> None:
    board, other = boards.start(), bundle(tmp_path, "6.6.6")

    def heard(host: Host) -> Step:
        def step(what: str, done: int, all_: int) -> None:
            if what == "installing":
                next(board.home.glob(".cache/auricle-push/*/bundle.tar")).write_bytes(other.read_bytes())

        return step

    parts = (Access(config=boards.config), open_parcel(parcel, profile()), profile(), heard)
    outcome = push_all([Host("board-0")], *parts, root=ROOT, sudo=False, password=None, at_once=1)[0]

    assert outcome.state == "failed"
    assert "somebody changed it there" in outcome.reason
    assert not (board.root / "opt").exists()


def test_a_connection_that_ends_while_installing_leaves_no_copy_of_roots(parcel: Path, tmp_path: Path) -> None:
    made, folder, root = open_parcel(parcel, profile()), tmp_path / "copied", tmp_path / "device"
    (tmp_path / "copies").mkdir()
    folder.mkdir()
    shutil.copy(parcel, folder / "bundle.tar")
    (root / "etc").mkdir(parents=True)
    (root / "etc/os-release").write_text(f"VERSION_CODENAME={system().base}\n")
    script = INSTALL.replace("/var/tmp", str(tmp_path / "copies"))
    words = (str(root), sys.executable, str(folder), made.identity, "0", made.sha256)

    process = subprocess.Popen(["sh", "-c", script, "sh", *words], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)
    assert process.stdout is not None
    process.stdout.close()

    assert process.wait() != 0
    assert json.loads((root / "opt/auricle/slots.json").read_text())["active"] == "a"
    assert not list((tmp_path / "copies").iterdir())


def test_addresses_and_words_of_a_board_are_shown_as_they_are(capsys: pytest.CaptureFixture[str]) -> None:
    _tell([Outcome(host="pi@[fd00::1]", state="installed", service="[/bold]")], as_json=False)

    said = capsys.readouterr().out
    assert "pi@[fd00::1]" in said
    assert "[/bold]" in said


@pytest.mark.slow
@pytest.mark.skipif(os.geteuid() != 0 or platform.machine() != "x86_64", reason="only root on x86_64 can start it")
@pytest.mark.skipif(not all(map(shutil.which, ("systemd-nspawn", "debootstrap", "nsenter"))), reason="no nspawn")
def test_the_check_up_on_a_board_is_not_roots() -> None:
    try:
        with machine_root("push") as root:
            program = root / "opt/auricle/bin/auricle"
            program.parent.mkdir(parents=True)
            program.write_text(CHECKUP)
            program.chmod(0o755)
            unit = root / "etc/systemd/system/auricle-edge.service"
            unit.write_text("[Service]\nExecStart=/bin/sleep infinity\nSupplementaryGroups=audio\n")
            unit.with_name("auricle-claim.service").write_text(
                "[Service]\nType=oneshot\nExecStart=/bin/sh -c 'echo auricle: The token has expired. >&2; exit 2'\n"
            )
            (root / "etc/auricle").mkdir()
            (root / "etc/auricle/claim.token").write_bytes(TOKEN)
            machine = Machine(root)
            try:
                machine.wait("systemctl is-active --quiet multi-user.target")
                said = machine.run("sh", "-c", HEALTH, "sh", "claim").stdout
            finally:
                machine.cut()
    except UnavailableError as error:
        pytest.skip(str(error))
    assert "auricle:service=active" in said
    assert "auricle:doctor=may write its state, no more" in said
    assert "auricle:claim=The token has expired.\n" in said


def test_a_token_that_was_not_exchanged_is_the_first_that_is_told(capsys: pytest.CaptureFixture[str]) -> None:
    doctor = '{"findings": [{"check": "microphone", "verdict": "bad", "sentence": "There is none."}]}'
    said = f"auricle:claim=The token has expired.\nauricle:service=inactive\nauricle:doctor={doctor}\n"

    service, findings = read_health(said)
    _tell([Outcome(host="pi", state="installed", service=service, findings=findings)], as_json=False)

    assert [each.check for each in findings] == ["claim", "microphone"]
    assert "claim: The token was not exchanged yet: The token has expired." in capsys.readouterr().out
    assert read_health('auricle:service=active\nauricle:doctor={"findings": []}')[1] == ()


@pytest.mark.slow
def test_a_connection_that_breaks_while_copying_fails_and_the_same_command_ends_it(
    boards: Boards, tmp_path: Path
) -> None:
    board = boards.start()
    large = bundle(tmp_path, "1.0", more={"etc/large": bytes(24 << 20)})

    def heard(host: Host) -> Step:
        return lambda what, done, all_: board.hang_up() if (what, done > 1 << 20) == ("copying", True) else None

    parts = (Access(config=boards.config), open_parcel(large, profile()), profile(), heard)
    outcome = push_all([Host("board-0")], *parts, root=ROOT, sudo=False, password=None, at_once=1)[0]

    assert outcome.state == "failed"
    assert outcome.reason.startswith("board-0 cannot be reached: ")
    assert not (board.root / "opt").exists()
    assert push(boards, large, "board-0") == 0


@pytest.mark.slow
def test_an_interruption_ends_all_boards_and_says_so(boards: Boards, tmp_path: Path) -> None:
    first, second = boards.start(), boards.start()
    large = bundle(tmp_path, "1.0", more={"etc/large": bytes(24 << 20)})

    interrupted: list[int] = []

    def heard(host: Host) -> Step:
        def step(what: str, done: int, all_: int) -> None:
            if what == "copying" and done > 1 << 20 and not interrupted:
                interrupted.append(done)
                os.kill(os.getpid(), signal.SIGINT)

        return step

    parts = (Access(config=boards.config), open_parcel(large, profile()), profile(), heard)
    hosts = [Host("board-0"), Host("board-1")]
    before = signal.signal(
        signal.SIGINT, signal.default_int_handler
    )  # it is ignored where a shell started the tests by &
    try:
        outcomes = push_all(hosts, *parts, root=ROOT, sudo=False, password=None, at_once=1)
    finally:
        signal.signal(signal.SIGINT, before)

    assert [outcome.state for outcome in outcomes] == ["interrupted", "interrupted"]
    assert outcomes[0].reason == "board-0 was interrupted."
    assert not (first.root / "opt").exists()
    assert not (second.home / ".cache").exists()


def test_many_boards_of_a_file_end_each_for_itself(
    boards: Boards, parcel: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    one, two, other = boards.start(), boards.start(), boards.start()
    two.stop()
    (other.root / "etc/os-release").write_text("VERSION_CODENAME=sid\n")
    (tmp_path / "one.token").write_bytes(TOKEN)
    (tmp_path / "hosts.txt").write_text("# all of them\nboard-0 one.token\n\nboard-1\nboard-2  # the odd one\n")

    assert push(boards, parcel, "--hosts", str(tmp_path / "hosts.txt"), "--json") == 1

    outcomes = told(capsys)
    assert [outcome["state"] for outcome in outcomes] == ["installed", "failed", "failed"]
    assert outcomes[1]["reason"] == "board-1 refuses connections: is SSH enabled, and the port right?"
    assert outcomes[2]["reason"].startswith("board-2 runs sid, and the bundle is for ")
    assert (one.root / "etc/auricle/claim.token").read_bytes() == TOKEN
    assert not (other.root / "opt").exists()
    assert not (other.home / ".cache").exists()


@pytest.mark.slow
def test_the_table_at_the_end_tells_of_every_board(
    boards: Boards, parcel: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    boards.start()
    boards.start().stop()
    (tmp_path / "hosts.txt").write_text("board-0\nboard-1\n")

    assert push(boards, parcel, "--hosts", str(tmp_path / "hosts.txt")) == 1

    rows = [" ".join(line.split()) for line in capsys.readouterr().out.splitlines()]
    assert "board-0 installed 1.0 a" in rows
    assert "board-1 failed board-1 refuses connections: is SSH enabled, and the port right?" in rows


def test_names_of_boards_are_whole_on_a_terminal_of_80_columns(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    long = Host("jetson-orin-nano-in-the-kitchen.building-7.example.org", "installer", 2222)
    shown = io.StringIO()
    monkeypatch.setattr(push_commands, "Console", lambda **_: Console(file=shown, force_terminal=True, width=80))
    monkeypatch.setattr(table, "console", lambda **_: Console(width=80))

    with push_commands._bars([long, Host("10.0.0.7", "pi")], hidden=False) as heard:
        heard(long)("copying", 30, 100)
    failed = Outcome(
        host=str(long), state="failed", reason="it refuses connections: is SSH enabled, and the port right?"
    )
    _tell([failed, Outcome(host="pi@10.0.0.7", state="installed", version="0.1.0.post1", slot="a")], False)

    assert str(long) in shown.getvalue() and "…" not in shown.getvalue()
    lines = capsys.readouterr().out.splitlines()
    assert max(map(len, lines)) <= 80
    assert [line.split() for line in lines if line.startswith(str(long))] == [[str(long), "failed"]]
    assert "it refuses connections: is SSH enabled, and the port right?" in [line.strip() for line in lines]
    assert any(line.split()[:2] == ["pi@10.0.0.7", "installed"] for line in lines)


def test_an_unknown_host_key_is_refused_and_believed_only_when_told_so(
    boards: Boards, parcel: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    board = boards.start(known=False)

    assert push(boards, parcel, "board-0", "--json") == 1
    assert "has a host key that is not known" in told(capsys)[0]["reason"]
    assert not (board.home / ".cache").exists()

    assert push(boards, parcel, "board-0", "--accept-new") == 0
    assert "board-0 ssh-ed25519" in boards.known.read_text()


@pytest.mark.slow
def test_another_host_key_than_before_is_refused_whatever_is_told(
    boards: Boards, parcel: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    board = boards.start(known=False)
    key(tmp_path / "former")
    boards.known.write_text(f"board-0 {(tmp_path / 'former.pub').read_text()}")

    assert push(boards, parcel, "board-0", "--accept-new", "--json") == 1

    assert "shows another host key than before" in told(capsys)[0]["reason"]
    assert not (board.home / ".cache").exists()


@pytest.mark.slow
def test_a_key_that_the_board_does_not_know_does_not_let_in(
    boards: Boards, parcel: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    boards.start()
    key(tmp_path / "stranger")
    boards.config.write_text(boards.config.read_text().replace(f"{boards.folder}/mine", f"{tmp_path}/stranger"))

    assert push(boards, parcel, "board-0", "--json") == 1
    assert "board-0 does not let you in" in told(capsys)[0]["reason"]

    assert push(boards, parcel, "board-0", "--identity", str(boards.folder / "mine")) == 0


def test_a_bundle_for_another_board_is_refused_before_anybody_is_asked(
    boards: Boards, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    strange = bundle(tmp_path, "1.0", board="pi5", os="raspios-12")

    assert push(boards, strange, "board-0") == 2

    assert f"is a bundle for pi5, not for {BOARD}" in capsys.readouterr().err


def test_a_damaged_bundle_is_refused_before_anybody_is_asked(
    boards: Boards, parcel: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    content = bytearray(parcel.read_bytes())
    content[content.index(b"a pack of")] ^= 1
    parcel.write_bytes(content)

    assert push(boards, parcel, "board-0") == 2

    assert "pack.tar.zst" in capsys.readouterr().err


@pytest.mark.slow
def test_what_the_installer_refuses_is_told_in_its_words(
    boards: Boards, parcel: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    board = boards.start()
    assert push(boards, parcel, "board-0") == 0
    capsys.readouterr()

    assert push(boards, bundle(tmp_path, "2.0", fleet="other"), "board-0", "--json") == 1

    assert told(capsys)[0]["reason"] == (
        "board-0 failed: This bundle is for the fleet other, and this device's is home."
    )
    assert journal(board)["active"] == "a"


@pytest.mark.slow
@pytest.mark.timeout(600)
def test_a_whole_bundle_is_pushed_and_what_it_installed_runs(boards: Boards, tmp_path: Path) -> None:
    board = boards.start()
    (tmp_path / "fleet.toml").write_text(FLEET)
    try:
        built = build_bundle(profile(), load_fleet(tmp_path / "fleet.toml"), tmp_path, os=system().id)
    except UnreachableError as error:
        pytest.skip(str(error))

    assert push(boards, built.path, "board-0") == 0

    python = board.root / "opt/auricle/current/bin/python3"
    done = subprocess.run([python, "-I", "-m", "auricle", "--version"], capture_output=True, text=True, check=True)
    assert done.stdout == f"auricle {built.manifest.version}\n"
