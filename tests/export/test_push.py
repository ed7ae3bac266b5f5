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
from collections.abc import Callable, Iterator
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

Printed = pytest.CaptureFixture[str]
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


def told(capsys: Printed) -> list[dict[str, str]]:
    return json.loads(capsys.readouterr().out)["hosts"]  # type: ignore[no-any-return]


def journal(board: SshBoard) -> dict[str, object]:
    return json.loads((board.root / "opt/auricle/slots.json").read_text())  # type: ignore[no-any-return]


def push_heard(boards: Boards, bundle: Path, heard: Callable[[Host], Step], count: int = 1) -> list[Outcome]:
    """Push to the first boards, one after the other, and tell each step."""
    parts = (Access(config=boards.config), open_parcel(bundle, profile()), profile(), heard)
    hosts = [Host(f"board-{number}") for number in range(count)]
    return push_all(hosts, *parts, root=ROOT, sudo=False, password=None, at_once=1)


@pytest.mark.slow
def test_twice_is_the_same_as_once_and_a_newer_goes_into_the_other_slot(
    boards: Boards, parcel: Path, tmp_path: Path, capsys: Printed
) -> None:
    board = boards.start()
    assert push(boards, parcel, "board-0", "--json") == 0
    before = sorted((str(path), path.stat().st_mtime_ns) for path in (board.root / "opt").rglob("*"))
    capsys.readouterr()

    assert push(boards, parcel, "board-0") == 0
    assert "unchanged" in capsys.readouterr().out
    assert sorted((str(path), path.stat().st_mtime_ns) for path in (board.root / "opt").rglob("*")) == before

    assert push(boards, bundle(tmp_path, "2.0"), "board-0") == 0
    assert (journal(board)["active"], journal(board)["previous"]) == ("b", "a")

    capsys.readouterr()
    assert push(boards, bundle(tmp_path, "3.0", fleet="other"), "board-0", "--json") == 1
    assert "fleet other" in told(capsys)[0]["reason"]
    assert journal(board)["active"] == "b"


@pytest.mark.slow
@pytest.mark.parametrize("left", ["bundle.part", "bundle.tar"])
def test_what_an_earlier_attempt_left_is_no_obstacle(left: str, boards: Boards, parcel: Path) -> None:
    board = boards.start()
    folder = board.home / ".cache/auricle-push" / open_parcel(parcel, profile()).identity
    folder.mkdir(parents=True)
    (folder / left).write_bytes(parcel.read_bytes()[:5000])
    assert push(boards, parcel, "board-0") == 0
    assert journal(board)["active"] == "a"


def test_what_was_changed_after_copying_is_not_run_by_root(boards: Boards, parcel: Path, tmp_path: Path) -> None:
    board, other = boards.start(), bundle(tmp_path, "6.6.6")

    def heard(host: Host) -> Step:
        def step(what: str, done: int, all_: int) -> None:
            if what == "installing":
                next(board.home.glob(".cache/auricle-push/*/bundle.tar")).write_bytes(other.read_bytes())

        return step

    outcome = push_heard(boards, parcel, heard)[0]

    assert outcome.state == "failed"
    assert "changed" in outcome.reason
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


@pytest.mark.slow
@pytest.mark.skipif(os.geteuid() != 0 or platform.machine() != "x86_64", reason="only root on x86_64 can start it")
@pytest.mark.skipif(not all(map(shutil.which, ("systemd-nspawn", "debootstrap", "nsenter"))), reason="no nspawn")
@pytest.mark.nightly
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


def test_a_token_that_was_not_exchanged_is_told_first_and_words_stay_as_they_are(capsys: Printed) -> None:
    doctor = '{"findings": [{"check": "microphone", "verdict": "bad", "sentence": "There is none."}]}'
    said = f"auricle:claim=The token has expired.\nauricle:service=[/bold]\nauricle:doctor={doctor}\n"

    service, findings = read_health(said)
    _tell([Outcome(host="pi@[fd00::1]", state="installed", service=service, findings=findings)], as_json=False)

    assert [each.check for each in findings] == ["claim", "microphone"]
    out = capsys.readouterr().out
    assert all(part in out for part in ("pi@[fd00::1]", "[/bold]", "claim: ", "The token has expired."))
    assert read_health('auricle:service=active\nauricle:doctor={"findings": []}')[1] == ()


@pytest.mark.slow
def test_a_connection_that_breaks_fails_and_the_same_command_ends_it(boards: Boards, tmp_path: Path) -> None:
    board = boards.start()
    large = bundle(tmp_path, "1.0", more={"etc/large": bytes(24 << 20)})

    def heard(host: Host) -> Step:
        return lambda what, done, all_: board.hang_up() if (what, done > 1 << 20) == ("copying", True) else None

    outcome = push_heard(boards, large, heard)[0]

    assert outcome.state == "failed"
    assert "reached" in outcome.reason
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

    # it is ignored where a shell started the tests by &
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        outcomes = push_heard(boards, large, heard, 2)
    finally:
        signal.signal(signal.SIGINT, before)

    assert [outcome.state for outcome in outcomes] == ["interrupted", "interrupted"]
    assert not (first.root / "opt").exists()
    assert not (second.home / ".cache").exists()


def test_boards_of_a_file_end_each_for_itself(boards: Boards, parcel: Path, tmp_path: Path, capsys: Printed) -> None:
    one, two, other = boards.start(), boards.start(), boards.start()
    two.stop()
    (other.root / "etc/os-release").write_text("VERSION_CODENAME=sid\n")
    (tmp_path / "one.token").write_bytes(TOKEN)
    (tmp_path / "hosts.txt").write_text("# all of them\nboard-0 one.token\n\nboard-1\nboard-2  # the odd one\n")

    assert push(boards, parcel, "--hosts", str(tmp_path / "hosts.txt"), "--json") == 1

    outcomes = told(capsys)
    assert [outcome["state"] for outcome in outcomes] == ["installed", "failed", "failed"]
    assert "connections" in outcomes[1]["reason"]
    assert "sid" in outcomes[2]["reason"]
    assert not (other.root / "opt").exists()
    assert not (other.home / ".cache").exists()
    identity = open_parcel(parcel, profile()).identity
    first = {"host": "board-0", "version": "1.0", "slot": "a", "identity": identity}
    assert outcomes[0].items() >= first.items()
    assert journal(one)["active"] == "a"
    token = one.root / "etc/auricle/claim.token"
    assert (token.read_bytes(), stat.S_IMODE(token.stat().st_mode)) == (TOKEN, 0o600)
    assert not list((one.home / ".cache/auricle-push").iterdir())


def test_names_of_boards_are_whole_in_80_columns(monkeypatch: pytest.MonkeyPatch, capsys: Printed) -> None:
    long = Host("jetson-orin-nano-in-the-kitchen.building-7.example.org", "installer", 2222)
    shown = io.StringIO()
    monkeypatch.setattr(push_commands, "Console", lambda **_: Console(file=shown, force_terminal=True, width=80))
    monkeypatch.setattr(table, "console", lambda **_: Console(width=80))

    with push_commands._bars([long, Host("10.0.0.7", "pi")], hidden=False) as heard:
        heard(long)("copying", 30, 100)
    failed = Outcome(host=str(long), state="failed", reason="it refuses connections")
    _tell([failed, Outcome(host="pi@10.0.0.7", state="installed", version="0.1.0.post1", slot="a")], False)

    assert str(long) in shown.getvalue() and "…" not in shown.getvalue()
    lines = capsys.readouterr().out.splitlines()
    assert max(map(len, lines)) <= 80
    assert [line.split() for line in lines if line.startswith(str(long))] == [[str(long), "failed"]]
    assert failed.reason in [line.strip() for line in lines]
    assert any(line.split()[:2] == ["pi@10.0.0.7", "installed"] for line in lines)


def test_an_unknown_host_key_is_believed_only_when_told_so(boards: Boards, parcel: Path, capsys: Printed) -> None:
    board = boards.start(known=False)
    assert push(boards, parcel, "board-0", "--json") == 1
    assert "host key" in told(capsys)[0]["reason"]
    assert not (board.home / ".cache").exists()
    assert push(boards, parcel, "board-0", "--accept-new") == 0
    assert "board-0 ssh-ed25519" in boards.known.read_text()


@pytest.mark.slow
def test_another_host_key_and_a_strangers_are_refused(
    boards: Boards, parcel: Path, tmp_path: Path, capsys: Printed
) -> None:
    board = boards.start(known=False)
    for name in ("former", "stranger"):
        key(tmp_path / name)
    boards.known.write_text(f"board-0 {(tmp_path / 'former.pub').read_text()}")

    assert push(boards, parcel, "board-0", "--accept-new", "--json") == 1
    assert "another host key" in told(capsys)[0]["reason"]
    assert not (board.home / ".cache").exists()

    boards.known.write_text(f"board-0 {(board.folder / 'host.pub').read_text()}")
    boards.config.write_text(boards.config.read_text().replace(f"{boards.folder}/mine", f"{tmp_path}/stranger"))
    assert push(boards, parcel, "board-0", "--json") == 1
    assert "let you in" in told(capsys)[0]["reason"]
    assert push(boards, parcel, "board-0", "--identity", str(boards.folder / "mine")) == 0


def test_a_bundle_for_another_board_or_a_damaged_one_is_refused_before_anybody_is_asked(
    boards: Boards, parcel: Path, tmp_path: Path, capsys: Printed
) -> None:
    assert push(boards, bundle(tmp_path, "1.1", board="pi5", os="raspios-12"), "board-0") == 2
    assert "pi5" in capsys.readouterr().err
    content = bytearray(parcel.read_bytes())
    content[content.index(b"a pack of")] ^= 1
    parcel.write_bytes(content)
    assert push(boards, parcel, "board-0") == 2
    assert "pack.tar.zst" in capsys.readouterr().err


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
