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
from auricle_edge.commands.answer_commands import happened, meter, sentences, with_times
from auricle_edge.service.answers import read_live, read_status
from auricle_edge.service.parts import Parts

STATUS: dict[str, Any] = {
    "device": "kitchen-1",
    "agent": "0.2.0",
    "pack_name": "gsc12",
    "pack": "ab" * 32,
    "running_seconds": 61.0,
    "model": "plugin",
    "capture": {
        "muted": False,
        "running": True,
        "mute_reason": "",
        "device": "USB",
        "native_rate": 48000,
        "level_dbfs": -40.2,
        "problem": None,
        "restarts": {"zeros": 2},
    },
    "listening": {
        "detections": 3,
        "hours": 1.5,
        "by_word": {"yes": 3},
        "detections_per_hour": 2.0,
        "denied_per_hour": 0.7,
        "second_windows": 20,
        "open_share": 0.4,
        "denied": 1,
        "real_time_factor": 0.004,
        "latency_p50": 0.3,
        "latency_p95": 0.6,
        "wakes": 2,
        "timeouts": 1,
        "windows": 400,
        "second_share": 0.05,
    },
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


def read(told: dict[str, Any]) -> list[str]:
    return list(sentences(read_status(told)))


HEARD = {"id": "ab" * 6, "start": 0, "end": 16_000, "word_end": 15_000, "at": 1.7e9, "latency": 0.3}


@pytest.fixture(autouse=True)
def nowhere(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """No settings of this machine."""
    for name in ("AURICLE_EDGE_STATE", "AURICLE_EDGE_CONFIG"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.chdir(tmp_path)


def test_the_status_in_sentences() -> None:
    said = read(STATUS)
    assert said[1] == "Listening to USB at 48000 Hz, -40 dBFS, with the plugin model."
    assert "The microphone was started again: 2 times (zeros)." in said
    assert "Fleet home: not connected: refused; idle." in said
    assert said[-1] == "Gate: wait. Somebody speaks."
    before = STATUS | {"gate": {"verdict": "wait", "reason": "Somebody speaks."}}
    assert read(before)[-1] == said[-1]
    apart = STATUS | {"fleet": STATUS["fleet"] | {"other_pack": "The fleet home runs the pack gsc12."}}
    assert "The fleet home runs the pack gsc12." in read(apart)
    muted = STATUS | {"capture": STATUS["capture"] | {"muted": True, "mute_reason": "switch"}}
    assert read(muted)[1] == "The microphone is muted (switch)."


def test_the_status_says_what_it_waits_for_and_what_the_second_stage_costs() -> None:
    asleep = STATUS | {"state": "asleep", "wake": ["computer", "jarvis"]}
    assert read(asleep)[2] == (
        'Asleep until "computer" or "jarvis"; a wake word opens 3 s for a command. '
        "2 wake words, 1 without a command after them."
    )
    awake = read(asleep | {"state": "awake", "model": "cascade"})
    assert awake[2].startswith("Awake: commands count; ")
    assert awake[3] == "Second stage: judged 5.0% of 400 windows. Best."


def test_an_answer_of_another_version_is_a_sentence() -> None:
    with pytest.raises(AuricleError, match=r"another version than this command \(.*judging_failures.*\): restart it"):
        read_status({name: value for name, value in STATUS.items() if name != "judging_failures"})
    with pytest.raises(AuricleError, match="restart it"):
        read_live({"level_dbfs": "loud"})


def test_the_live_view_shows_the_state_and_says_what_happened() -> None:
    line = {
        "level_dbfs": -30.0,
        "clipping": 0.0,
        "muted": False,
        "running": True,
        "problem": None,
        "speaking": True,
        "posteriors": {"yes": 0.9, "no": 0.1},
        "state": "awake",
    }
    assert meter(read_live(line), "yes").row_count == 5
    wake = HEARD | {"word": "computer", "score": 0.91, "model": "plugin", "kind": "wake", "wake_word": None}
    command = HEARD | {"word": "stop", "score": 0.5, "model": "cascade", "wake_word": "computer"}
    closed = {"wake": "ab" * 6, "wake_word": "computer", "end": 48_000, "at": 1.7e9}
    assert happened(read_live(line | {"detection": wake})) == "computer (wake word, 0.91, plugin)"
    assert happened(read_live(line | {"detection": command})) == "stop (0.50, cascade, after computer)"
    assert happened(read_live(line | {"timeout": closed})) == "no command after computer"
    assert happened(read_live(line)) == ""


@pytest.mark.parametrize(
    "change", [{}, {"muted": True}, {"running": False, "problem": "gone"}, {"level_dbfs": None}], ids=str
)
def test_the_live_view_draws_whatever_comes(change: dict[str, Any]) -> None:
    line = {
        "level_dbfs": -30.0,
        "clipping": 0.0,
        "muted": False,
        "running": True,
        "problem": None,
        "speaking": True,
        "posteriors": {"yes": 0.9, "no": 0.1},
    } | change
    assert meter(read_live(line), "yes").row_count == 4


@pytest.mark.parametrize("command", ["status", "listen", "confirm", "deny", "mute", "unmute", "rollback"], ids=str)
def test_without_a_device_a_command_says_how_to_name_one(command: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["edge", command]) == 2
    assert "--state" in capsys.readouterr().err


def test_without_a_service_a_command_says_so(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["edge", "status", "--state", str(tmp_path), "--json"]) == 2
    captured = capsys.readouterr()
    assert "No service runs" in json.loads(captured.out)["error"]


def test_the_status_says_which_version_runs_and_how_far_a_rollout_has_come() -> None:
    runs = {"board": "pi5", "os": "raspios-13", "bundle": "ab" * 32, "version": "0.2.0.post1"}
    assert read(STATUS | {"updates": runs})[1] == "Version 0.2.0.post1 (abababababab) for pi5, raspios-13."
    trial = runs | {"confirmed": False, "rollout": "r2-4d13", "state": "trial"}
    assert read(STATUS | {"updates": trial})[1:3] == [
        "Version 0.2.0.post1 (abababababab) for pi5, raspios-13, on trial.",
        "Rollout r2-4d13: trial.",
    ]
    failed = runs | {"rollout": "r2-4d13", "state": "failed", "reason": "It was not healthy within 300 s."}
    assert read(STATUS | {"updates": failed})[2] == "Rollout r2-4d13: failed: It was not healthy within 300 s."


def test_an_installed_board_without_a_service_is_sent_to_its_units(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    home, state, etc = (tmp_path / name for name in ("opt/auricle", "var/lib/auricle", "etc/auricle"))
    for folder in (home, state, etc):
        folder.mkdir(parents=True)
    (home / "slots.json").write_text('{"active": "a"}')
    monkeypatch.setenv("AURICLE_INSTALLATION", str(home))

    assert main(["edge", "status", "--state", str(state)]) == 2
    assert "systemctl status auricle-edge says why" in capsys.readouterr().err
    (etc / "claim.token").touch()
    assert main(["edge", "status", "--state", str(state)]) == 2
    assert "once this board has claimed its certificate: systemctl status auricle-claim" in capsys.readouterr().err
    assert main(["edge", "status", "--state", str(tmp_path)]) == 2
    assert "No service runs in" in capsys.readouterr().err


def test_the_old_name_of_record_works_and_says_the_new_one(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for command, hint in (("enroll", True), ("record", False)):
        assert main(["edge", command, "yes", "--keep", "--state", str(tmp_path)]) == 2
        said = capsys.readouterr().err
        assert "No service runs" in said
        assert ("auricle edge enroll is now auricle edge record" in said) == hint


def test_the_unit_is_printed_as_it_is(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["edge", "unit"]) == 0
    assert "Type=notify" in capsys.readouterr().out


def test_doctor_simulated_gives_a_line_a_check(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    main(["edge", "doctor", "--simulate", "--state", str(tmp_path), "--json"])
    findings = json.loads(capsys.readouterr().out)["findings"]
    checks = ["versions", "processor", "memory", "pack", "clock", "disk", "microphone", "lines", "sensors"]
    assert [f["check"] for f in findings] == checks


def test_doctor_says_when_no_sound_comes(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    code = main(["edge", "doctor", "--state", str(tmp_path), "--source", "file:/no/such.wav", "--json"])
    findings = {f["check"]: f for f in json.loads(capsys.readouterr().out)["findings"]}
    assert code == 1
    assert findings["microphone"]["verdict"] == "bad"
    assert "/no/such.wav" in findings["microphone"]["sentence"]


def test_packs_are_updated_and_rolled_back_by_command(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    pack = tmp_path / "tiny.tar.zst"
    pack.write_bytes(pack_bytes(tiny_pack.pack()))
    assert main(["edge", "update", str(pack), "--state", str(tmp_path / "s"), "--json"]) == 0
    told = json.loads(capsys.readouterr().out)
    assert (told["pack"], told["restart_needed"]) == (tiny_pack.pack().identity, False)
    assert main(["edge", "rollback", "--state", str(tmp_path / "s")]) == 0
    assert "home" in capsys.readouterr().out
    assert main(["edge", "rollback", "--state", str(tmp_path / "s")]) == 7
    assert "no pack to go back to" in capsys.readouterr().err


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

    assert "Name a PACK; or, for a newer bundle, the device's settings with --config." in capsys.readouterr().err


def test_a_pack_and_what_is_of_a_bundle_do_not_go_together(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["edge", "update", "gsc12", "--root", str(tmp_path), "--state", str(tmp_path / "s")]) == 2

    assert "leave one out" in capsys.readouterr().err
    assert not (tmp_path / "s").exists()


@pytest.mark.parametrize(
    ("heard", "running", "speaks"), [(True, True, True), (True, False, False), (False, True, False)]
)
def test_nobody_speaks_where_no_sound_comes(heard: bool, running: bool, speaks: bool) -> None:
    parts = SimpleNamespace(
        detector=SimpleNamespace(speaking=heard), capture=SimpleNamespace(state=SimpleNamespace(running=running))
    )

    assert Parts.speaking.fget(parts) is speaks  # type: ignore[attr-defined]
