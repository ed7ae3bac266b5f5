"""The command `auricle`: exit codes, hints, missing parts, and errors as JSON."""

from __future__ import annotations

import json
import re
import signal
import subprocess
import sys
from pathlib import Path
from typing import Annotated

import pytest
import typer

from auricle import __version__
from auricle.process.cli import PARTS, main

FORBID = """
import sys
class Absent:
    def find_spec(self, name, path=None, target=None):
        if name.split(".")[0] in {absent!r}:
            raise ModuleNotFoundError(f"No module named {{name!r}}", name=name)
sys.meta_path.insert(0, Absent())
from auricle.process.cli import main
sys.exit(main({arguments!r}))
"""


def without(absent: set[str], *arguments: str) -> subprocess.CompletedProcess[str]:
    code = FORBID.format(absent=absent, arguments=list(arguments))
    return subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60, check=False)


@pytest.mark.parametrize(
    ("part", "command", "absent"),
    [
        ("edge", "run", "soundfile"),
        ("edge", "run", "soundfile"),
        ("cloud", "serve", "sqlalchemy"),
        ("fleet", "run", "sqlalchemy"),
        ("fleet", "run", "onnxruntime"),
    ],
)
@pytest.mark.several
def test_a_missing_part_says_which_extra_to_install(part: str, command: str, absent: str) -> None:
    done = without({absent}, part, command, "--json")

    says = f'"auricle {part}" needs {absent}, which is not installed: pip install "auricle[{part}]"'
    assert done.returncode == 2
    assert done.stderr == f"auricle: {says}\n"
    assert json.loads(done.stdout) == {"error": says}


def test_the_overview_needs_no_part_and_nothing_but_the_core() -> None:
    done = without(
        {"onnxruntime", "soundfile", "sqlalchemy", "torch", "amqtt", "safetensors", "click", "espeakng_loader"},
        "--help",
    )

    assert done.returncode == 0, done.stderr
    assert all(part in done.stdout for part in PARTS)


def test_a_module_of_our_own_that_is_missing_is_a_fault_and_not_an_extra() -> None:
    done = without({"auricle_cloud"}, "cloud", "serve")

    assert done.returncode == 1
    assert "ModuleNotFoundError" in done.stderr
    assert "pip install" not in done.stderr


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (["flet", "run"], 'There is no command "flet": did you mean "fleet"?'),
        (["fleet", "rnu"], "rnu"),
        (["fleet", "run", "--rond", "3"], "--rond"),
        (["fleet", "run", "--rounds", "many"], "--rounds"),
        (["fleet", "run", "--rounds"], "--rounds"),
        (["fleet", "run", "--rule", "lap"], 'did you mean "lpa"?'),
        (["cloud", "serve"], "needs fleet, broker, state: give --fleet"),
        (["cloud", "serve", "--broker", "mqtt://h", "--fleet", "A/B", "--state", "x"], "fleet"),
        (["cloud", "serve", "--broker", "mqtt://h", "--fleet", "f", "--state", "x", "--seed", "-1"], "seed"),
        (["cloud", "serve", "--broker", "mqtt://h", "--fleet", "f", "--state", "x", "--deadline", "nan"], "deadline"),
        (["cloud", "serve", "--broker", "ftp://h", "--fleet", "f", "--state", "x"], "ftp"),
        (["edge", "run", "--device", "dev-a"], "state"),
        (["edge", "run", "--device", "dev-a", "--state", "x", "--fleet", "f"], "broker and coordinator"),
        (["edge", "run", "--config", "/no/such.toml"], "/no/such.toml"),
        (["--no-such-option"], "--no-such-option"),
    ],
)
@pytest.mark.several
def test_a_mistake_gets_one_sentence_and_exit_code_2(
    arguments: list[str], says: str, capsys: pytest.CaptureFixture[str]
) -> None:
    code = main(arguments)

    captured = capsys.readouterr()
    assert code == 2
    assert captured.out == ""
    assert captured.err.startswith("auricle: ")
    assert len(captured.err.splitlines()) == 1
    assert says in captured.err


@pytest.mark.several
def test_a_file_or_folder_without_its_option_is_told_which(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "run").mkdir()
    for name in ("run.toml", "a.tar"):
        (tmp_path / name).write_text("")

    for word, says in [
        ("run", "takes no run here; a folder of results is named by --out."),
        ("run.toml", "takes no run.toml here; a file of settings is named by --config."),
        ("a.tar", "takes no a.tar here; where a pattern such as *.tar matches several files, name one."),
        ("absent", "takes no absent here."),
    ]:
        assert main(["fleet", "run", "--resume", word]) == 2
        assert says in capsys.readouterr().err


@pytest.mark.several
def test_what_is_not_there_has_an_exit_code_of_its_own(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["cloud", "why", "1", "--state", "/no/such"]) == 5
    assert "no coordinator's database" in capsys.readouterr().err


@pytest.mark.several
def test_an_error_as_json_is_one_object(capsys: pytest.CaptureFixture[str]) -> None:
    code = main(["fleet", "run", "--preset", "papers", "--json"])

    captured = capsys.readouterr()
    assert code == 2
    assert json.loads(captured.out) == {"error": captured.err.removeprefix("auricle: ").rstrip("\n")}
    assert "papers" in captured.out


def test_the_version(capsys: pytest.CaptureFixture[str]) -> None:
    code = main(["--version"])

    assert (code, capsys.readouterr().out) == (0, f"auricle {__version__}\n")
    assert re.fullmatch(r"\d+\.\d+\.\d+\S*", __version__)


@pytest.mark.parametrize(
    "arguments",
    [[], ["--help"], ["-h"], ["cloud"], ["cloud", "--help"], ["fleet", "run", "--help"], ["edge", "run", "-h"]],
)
@pytest.mark.several
def test_help_is_no_mistake(arguments: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    code = main(arguments)

    captured = capsys.readouterr()
    assert code == 0
    assert "Usage: auricle" in captured.out
    assert captured.err == ""


@pytest.mark.parametrize("as_json", [False, True], ids=["text", "json"])
def test_an_interrupted_command_says_so(
    as_json: bool, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    app = typer.Typer()

    @app.command()
    def wait(as_json: Annotated[bool, typer.Option("--json")] = False) -> None:
        signal.raise_signal(signal.SIGINT)

    app.callback()(lambda: None)
    monkeypatch.setattr("auricle.process.cli._load", lambda part: app)

    assert main(["cloud", "wait", *(["--json"] if as_json else [])]) == 130

    printed = capsys.readouterr()
    assert printed.err == "auricle: Interrupted.\n"
    assert printed.out == ('{"error": "Interrupted."}\n' if as_json else "")


@pytest.mark.parametrize("group", ["cloud", "edge"])
def test_a_group_says_the_first_sentence_of_each_command_whole(group: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main([group, "--help"]) == 0

    assert "..." not in capsys.readouterr().out.split("Commands:")[1]


def test_help_says_kinds_in_plain_words(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["edge", "calibrate", "--help"]) == 0

    said = capsys.readouterr().out
    assert "<path>" in said and "<float>" in said
    assert "list[" not in said and "range>" not in said
