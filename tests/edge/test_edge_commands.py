"""The commands of a device where no service runs: what they print, their JSON, their exit codes."""

from __future__ import annotations

import json
from dataclasses import asdict
from datetime import datetime
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from tests.core import tiny_pack

from auricle.errors import AuricleError
from auricle.packs.pack import pack_bytes
from auricle.process.cli import main
from auricle_edge.board.gate import Decision
from auricle_edge.commands.answer_commands import describe_change, meter, with_times
from auricle_edge.commands.status_sentences import sentences
from auricle_edge.service.answers import read_live, read_status
from auricle_edge.service.parts import Parts

CAPTURE: dict[str, Any] = {"muted": False, "running": True, "mute_reason": "", "device": "USB", "native_rate": 48000}
COUNTS = ("detections", "second_windows", "denied", "wakes", "timeouts", "windows")
RATES = ("hours", "detections_per_hour", "denied_per_hour", "open_share", "real_time_factor", "second_share")
LISTENING: dict[str, Any] = {
    **dict(zip(COUNTS, (3, 20, 1, 2, 1, 400), strict=True)),
    **dict(zip(RATES, (1.5, 2.0, 0.7, 0.4, 0.004, 0.05), strict=True)),
}
STATUS: dict[str, Any] = {
    "device": "kitchen-1",
    "agent": "0.2.0",
    "pack_name": "gsc12",
    "pack": "ab" * 32,
    "running_seconds": 61.0,
    "model": "plugin",
    "capture": CAPTURE | {"level_dbfs": -40.2, "problem": None, "restarts": {"zeros": 2}},
    "listening": LISTENING | {"by_word": {"yes": 3}, "latency_p50": 0.3, "latency_p95": 0.6},
    "state": "open",
    "wake": [],
    "window": 3.0,
    "second_stage": "auto",
    "model_reason": "Best.",
    "fleet": {"name": "home", "connected": False, "last_error": "refused", "state": "idle"},
    "sensitivity": {"step": 1, "remote": True},
    "report": {"hearing": True, "words": False, "last": None},
    "gate": asdict(Decision("wait", "Somebody speaks.", "speaking")),
    "judging_failures": 0,
    "updates": {},
    "outputs": {},
    "last": None,
}


HEARD = {"id": "ab" * 6, "start": 0, "end": 16_000, "word_end": 15_000, "at": 1.7e9, "latency": 0.3}


@pytest.fixture(autouse=True)
def nowhere(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    for name in ("AURICLE_EDGE_STATE", "AURICLE_EDGE_CONFIG"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.chdir(tmp_path)


UPDATES = {"board": "pi5", "os": "raspios-13", "bundle": "ab" * 32, "version": "0.2.0.post1", "rollout": "r2-4d13"}


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({}, ["USB at 48000 Hz, -40 dBFS", "2 times (zeros)", "home: not connected: refused", "Gate: wait."]),
        ({"gate": {"verdict": "wait", "reason": "Somebody speaks."}}, ["Gate: wait. Somebody speaks."]),
        ({"fleet": STATUS["fleet"] | {"other_pack": "Another pack."}}, ["Another pack."]),
        ({"capture": STATUS["capture"] | {"muted": True, "mute_reason": "switch"}}, ["muted (switch)"]),
        ({"state": "asleep", "wake": ["computer", "jarvis"]}, ['"computer" or "jarvis"', "3 s", "2 wake words, 1"]),
        ({"state": "awake", "wake": ["computer"], "model": "cascade"}, ["Awake", "5.0% of 400 windows", "Best."]),
        ({"vote": {"model": "head", "share": 0.3}}, ["Vote: head of the pack has a share of 0.3"]),
        ({"updates": UPDATES | {"rollout": ""}}, ["0.2.0.post1 (abababababab) for pi5, raspios-13."]),
        ({"updates": UPDATES | {"confirmed": False, "state": "trial"}}, ["on trial", "r2-4d13: trial."]),
        ({"updates": UPDATES | {"state": "failed", "reason": "Not healthy."}}, ["r2-4d13: failed: Not healthy."]),
    ],
    ids=range(10),
)
def test_the_status_in_sentences(change: dict[str, Any], words: list[str]) -> None:
    said = "\n".join(sentences(read_status(STATUS | change)))
    assert [word for word in words if word not in said] == []


def test_an_answer_of_another_version_is_refused() -> None:
    with pytest.raises(AuricleError, match="judging_failures"):
        read_status({name: value for name, value in STATUS.items() if name != "judging_failures"})
    with pytest.raises(AuricleError):
        read_live({"level_dbfs": "loud"})


LINE: dict[str, Any] = {"level_dbfs": -30.0, "clipping": 0.0, "muted": False, "running": True, "problem": None}
LINE |= {"speaking": True, "posteriors": {"yes": 0.9, "no": 0.1}}


def test_the_live_view_shows_the_state_and_says_what_happened() -> None:
    line = LINE | {"state": "awake"}
    assert meter(read_live(line), "yes").row_count == 5
    wake = HEARD | {"word": "computer", "score": 0.91, "model": "plugin", "kind": "wake", "wake_word": None}
    command = HEARD | {"word": "stop", "score": 0.5, "model": "cascade", "wake_word": "computer"}
    closed = {"wake": "ab" * 6, "wake_word": "computer", "end": 48_000, "at": 1.7e9}
    assert describe_change(read_live(line | {"detection": wake})) == "computer (wake word, 0.91, plugin)"
    assert describe_change(read_live(line | {"detection": command})) == "stop (0.50, cascade, after computer)"
    assert describe_change(read_live(line | {"timeout": closed})) == "no command after computer"
    assert describe_change(read_live(line)) == ""


@pytest.mark.parametrize(
    "change", [{}, {"muted": True}, {"running": False, "problem": "gone"}, {"level_dbfs": None}], ids=str
)
def test_the_live_view_draws_whatever_comes(change: dict[str, Any]) -> None:
    assert meter(read_live(LINE | change), "yes").row_count == 4


@pytest.mark.parametrize("command", ["status", "listen", "confirm", "deny", "mute", "unmute", "rollback"], ids=str)
def test_without_a_device_a_command_says_how_to_name_one(command: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["edge", command]) == 2
    assert "--state" in capsys.readouterr().err


def test_without_a_service_a_command_says_so(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["edge", "status", "--state", str(tmp_path), "--json"]) == 2
    assert "No service" in json.loads(capsys.readouterr().out)["error"]


def test_an_installed_board_without_a_service_is_sent_to_its_units(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    home, state, etc = (tmp_path / name for name in ("opt/auricle", "var/lib/auricle", "etc/auricle"))
    for folder in (home, state, etc):
        folder.mkdir(parents=True)
    (home / "slots.json").write_text('{"active": "a"}')
    monkeypatch.setenv("AURICLE_INSTALLATION", str(home))
    for unit in ("auricle-edge", "auricle-claim"):
        assert main(["edge", "status", "--state", str(state)]) == 2
        assert f"systemctl status {unit}" in capsys.readouterr().err
        (etc / "claim.token").touch()
    assert main(["edge", "status", "--state", str(tmp_path)]) == 2
    assert "systemctl" not in capsys.readouterr().err


@pytest.mark.parametrize(("command", "hint"), [("enroll", True), ("record", False)])
def test_the_old_name_of_record_works_and_says_the_new_one(
    command: str, hint: bool, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["edge", command, "yes", "--keep", "--state", str(tmp_path)]) == 2
    assert ("auricle edge record" in capsys.readouterr().err) == hint


def test_the_unit_is_printed_as_it_is(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["edge", "unit"]) == 0
    assert "Type=notify" in capsys.readouterr().out


def test_doctor_simulated_gives_a_line_a_check(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    main(["edge", "doctor", "--simulate", "--state", str(tmp_path), "--json"])
    checks = {found["check"] for found in json.loads(capsys.readouterr().out)["findings"]}
    assert checks == {
        *["versions", "processor", "memory", "pack", "clock", "disk", "lasting", "microphone", "lines", "sensors"]
    }


def test_doctor_says_when_no_sound_comes(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    code = main(["edge", "doctor", "--state", str(tmp_path), "--source", "file:/no/such.wav", "--json"])
    findings = {f["check"]: f for f in json.loads(capsys.readouterr().out)["findings"]}
    assert code == 1
    assert findings["microphone"]["verdict"] == "bad"
    assert "/no/such.wav" in findings["microphone"]["sentence"]


def test_packs_are_updated_and_rolled_back_by_command(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    pack, state = tmp_path / "tiny.tar.zst", ("--state", str(tmp_path / "s"))
    pack.write_bytes(pack_bytes(tiny_pack.pack()))
    assert main(["edge", "update", str(pack), *state, "--json"]) == 0
    told = json.loads(capsys.readouterr().out)
    assert (told["pack"], told["restart_needed"]) == (tiny_pack.pack().identity, False)
    assert main(["edge", "rollback", *state]) == 0
    assert "home" in capsys.readouterr().out
    assert main(["edge", "rollback", *state]) == 7


def test_a_diagnosis_without_a_service_says_what_is_missing(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["edge", "diag", "--state", str(tmp_path), "--out", str(tmp_path / "d.tar.gz"), "--json"]) == 0
    assert "sensors.json" in json.loads(capsys.readouterr().out)["parts"]
    assert (tmp_path / "d.tar.gz").exists()


def test_what_the_service_tells_in_seconds_commands_write_in_iso_8601() -> None:
    told = with_times({"last": {"word": "yes", "at": 1.7e9}, "state": "open", "report": {"last": None}})
    assert datetime.fromisoformat(told["last"]["at"]).timestamp() == 1.7e9
    assert (told["state"], told["report"]) == ("open", {"last": None})
    assert with_times({"last": None}) == {"last": None}


@pytest.mark.parametrize("name", ["update", "upgrade"])
def test_without_a_pack_it_is_the_newer_bundle_that_settings_are_needed_for(
    name: str, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("auricle_edge.commands.place.CONFIG", tmp_path / "none.toml")
    assert main(["edge", name]) == 2
    assert "--config" in capsys.readouterr().err


def test_a_pack_and_what_is_of_a_bundle_do_not_go_together(tmp_path: Path) -> None:
    assert main(["edge", "update", "gsc12", "--root", str(tmp_path), "--state", str(tmp_path / "s")]) == 2
    assert not (tmp_path / "s").exists()


@pytest.mark.parametrize(("heard", "running"), [(True, True), (True, False), (False, True)])
def test_nobody_speaks_where_no_sound_comes(heard: bool, running: bool) -> None:
    capture = SimpleNamespace(state=SimpleNamespace(running=running))
    parts = SimpleNamespace(detector=SimpleNamespace(speaking=heard), capture=capture)
    assert Parts.speaking.fget(parts) is (heard and running)  # type: ignore[attr-defined]
