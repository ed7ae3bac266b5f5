"""`auricle flash boards`: what it prints, its exit codes, and that it needs nothing but the core."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from auricle.process.cli import main
from auricle_edge.settings import read_settings
from auricle_export.flash.boards import board_names, load_board, profile_path

ALONE = """
import sys
class Absent:
    def find_spec(self, name, path=None, target=None):
        if name.split(".")[0] in {"torch", "onnx", "onnxscript", "onnxruntime", "soundfile", "safetensors"}:
            raise ModuleNotFoundError(f"No module named {name!r}", name=name)
sys.meta_path.insert(0, Absent())
from auricle.process.cli import main
sys.exit(main(["flash", "boards", "validate", "--json"]))
"""


def test_it_runs_without_pytorch_and_the_libraries_of_other_parts() -> None:
    done = subprocess.run([sys.executable, "-c", ALONE], capture_output=True, text=True, timeout=60, check=False)

    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["ok"] is True


def test_list_names_every_board_and_says_where_only_a_container_runs(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["flash", "boards", "list"]) == 0
    told = capsys.readouterr().out
    assert main(["flash", "boards", "list", "--json"]) == 0
    boards = json.loads(capsys.readouterr().out)["boards"]

    assert all(name in told for name in board_names())
    assert "jetpack-4 (container)" in told
    assert [board["name"] for board in boards] == board_names()
    assert [board["name"] for board in boards if board["container_only"]] == ["jetson-nano"]


@pytest.mark.parametrize("board", board_names())
def test_show_tells_all_of_a_board(board: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["flash", "boards", "show", board]) == 0
    told = " ".join(capsys.readouterr().out.split())
    assert main(["flash", "boards", "show", board, "--json"]) == 0
    facts = json.loads(capsys.readouterr().out)

    profile = load_board(board)
    assert facts["name"] == board
    assert facts["file"] == str(profile_path(board))
    assert profile.title in told
    for part in (*profile.os, *profile.microphone):
        assert part.id in told
    assert len(facts["microphone"]) == len(profile.microphone)


def test_show_writes_files_that_the_agent_takes(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    given = ["flash", "boards", "show", "pi5", "--microphone", "voice-hat", "--wired"]
    assert main([*given, "--json"]) == 0
    files = json.loads(capsys.readouterr().out)["files"]
    assert main(given) == 0
    told = capsys.readouterr().out

    (tmp_path / "edge.toml").write_text(files["edge.toml"])
    settings = read_settings(tmp_path / "edge.toml", {})
    assert settings.buttons.lines() == {"confirm": "gpiochip0:23", "deny": "gpiochip0:6"}
    assert "DeviceAllow=/dev/gpiochip0 rw" in files["auricle-edge.service.d/board.conf"]
    assert files["package"] == "auricle[edge,mic,gpio]\n"
    assert all(text in told for text in files.values())


def test_a_board_for_containers_has_no_drop_in(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["flash", "boards", "show", "jetson-nano", "--files", "--json"]) == 0

    assert set(json.loads(capsys.readouterr().out)["files"]) == {"edge.toml", "package"}


@pytest.mark.parametrize(
    ("given", "sentence"),
    [
        (["show", "pi55"], 'There is no board "pi55": did you mean "pi5"?'),
        (
            ["show", "pi5", "--microphone", "voicehat"],
            'Raspberry Pi 5 has no microphone "voicehat": did you mean "voice-hat"?',
        ),
        (
            ["show", "generic-arm64", "--wired"],
            "The profile of 64-bit ARM board names no GPIO lines: nothing can be wired to it.",
        ),
        (["validate", "absent.toml"], "There is no profile absent.toml: give a file, or the name of a board."),
        (["new", "Pi 6"], '"Pi 6" cannot be the name of a board: take lower-case letters, digits, dots and dashes.'),
        (["new", "mine", "--like", "pi6"], 'There is no board "pi6": did you mean "pi5"?'),
    ],
    ids=["board", "microphone", "wired", "file", "name", "like"],
)
def test_a_mistake_is_one_sentence_and_exit_code_2(
    given: list[str], sentence: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["flash", "boards", *given]) == 2
    assert capsys.readouterr().err == f"auricle: {sentence}\n"
    assert main(["flash", "boards", *given, "--json"]) == 2
    assert json.loads(capsys.readouterr().out) == {"error": sentence}


def test_validate_names_each_mistake_with_its_line(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    good, bad = tmp_path / "pi5.toml", tmp_path / "pi4.toml"
    good.write_text(profile_path("pi5").read_text())
    text = profile_path("pi4").read_text().replace("tasks_max", "task_max").replace("cores = 4", "cores = 0")
    bad.write_text(text)
    cores, tasks = (
        next(n for n, line in enumerate(text.splitlines(), 1) if line.startswith(key)) for key in ("cores", "task_max")
    )

    assert main(["flash", "boards", "validate", str(good), str(bad)]) == 2
    captured = capsys.readouterr()
    assert captured.out.splitlines() == [
        f"ok      {good}",
        f"REFUSED {bad}",
        f"        line {cores}: cores = 0: it takes a number of cores from 1.",
        f'        line {tasks}: there is no key "task_max" in [service]: did you mean "tasks_max"?',
    ]
    assert captured.err == "auricle: 2 mistakes in 1 of 2 profiles.\n"

    assert main(["flash", "boards", "validate", str(good), str(bad), "--json"]) == 2
    verdict = json.loads(capsys.readouterr().out)
    assert verdict["ok"] is False
    assert [(each["file"], each["ok"]) for each in verdict["profiles"]] == [(str(good), True), (str(bad), False)]
    assert verdict["profiles"][1]["problems"][0] == {
        "file": str(bad),
        "line": cores,
        "key": "cores",
        "sentence": "cores = 0: it takes a number of cores from 1.",
    }


@pytest.mark.parametrize("like", board_names())
def test_a_new_profile_is_a_valid_copy_with_its_comments(
    like: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    given = ["flash", "boards", "new", "my-board", "--like", like, "--title", 'Mine, "best"', "--out", str(tmp_path)]
    assert main([*given, "--json"]) == 0
    path = tmp_path / "my-board.toml"
    assert json.loads(capsys.readouterr().out) == {"file": str(path)}

    board, original = load_board(path), load_board(like)
    assert (board.name, board.title) == ("my-board", 'Mine, "best"')
    assert board.os == original.os
    assert path.read_text().count("#") >= profile_path(like).read_text().count("#") - 4
    assert path.read_text().startswith("# Mine")
    assert main(["flash", "boards", "validate", str(path)]) == 0
    capsys.readouterr()

    assert main(given) == 2
    assert capsys.readouterr().err == f"auricle: {path} exists: choose another name or folder, or remove it.\n"


def test_a_new_profile_starts_from_the_generic_one_where_nothing_else_is_said(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)

    assert main(["flash", "boards", "new", "my-board"]) == 0

    assert load_board("my-board.toml").os == load_board("generic-arm64").os
    assert load_board("./my-board.toml").title == "my-board"


def test_a_new_profile_of_a_broken_one_is_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    broken = tmp_path / "broken.toml"
    broken.write_text('name = "broken"\ncores = = 1\n')

    assert main(["flash", "boards", "new", "mine", "--like", str(broken), "--out", str(tmp_path)]) == 2

    assert f"{broken}, line 2: this is not valid TOML" in capsys.readouterr().err
    assert not (tmp_path / "mine.toml").exists()
