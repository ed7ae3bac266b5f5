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
        ("cloud", "serve", "sqlalchemy"),
        ("fleet", "run", "sqlalchemy"),
        ("fleet", "run", "onnxruntime"),
    ],
)
@pytest.mark.several
@pytest.mark.slow
def test_a_missing_part_says_which_extra_to_install(part: str, command: str, absent: str) -> None:
    done = without({absent}, part, command, "--json")
    says = json.loads(done.stdout)["error"]
    assert absent in says and f"[{part}]" in says and "pip install" in says
    assert (done.returncode, done.stderr) == (2, f"auricle: {says}\n")


def test_the_overview_needs_no_part_and_nothing_but_the_core() -> None:
    parts = {"onnxruntime", "soundfile", "sqlalchemy", "torch", "amqtt", "safetensors", "click", "espeakng_loader"}
    done = without(parts, "--help")
    assert done.returncode == 0, done.stderr
    assert all(part in done.stdout for part in PARTS)


def test_a_module_of_our_own_that_is_missing_is_a_fault_and_not_an_extra() -> None:
    done = without({"auricle_cloud"}, "cloud", "serve")
    assert done.returncode == 1
    assert "ModuleNotFoundError" in done.stderr
    assert "pip install" not in done.stderr


SERVE = "cloud serve --fleet f --state x --broker"


def test_the_environment_is_text_and_what_it_hides_is_not_shown(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("AURICLE_PASSWORD", "secr\udce9t")
    assert main(["edge", "run"]) == 2
    assert capsys.readouterr().err == "auricle: AURICLE_PASSWORD of the environment is not UTF-8: set another.\n"


def test_a_folder_that_is_not_text_is_none_to_work_in(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = tmp_path / "caf\udce9"
    try:
        folder.mkdir()
    except OSError:  # of a file system that takes UTF-8 alone
        pytest.skip("no such folder can be made here")
    monkeypatch.chdir(folder)
    assert main(["cloud", "serve", "--state", "s"]) == 2
    assert r"caf\udce9' is not UTF-8: rename it" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("line", "says"),
    [
        ("flet run", 'did you mean "fleet"?'),
        ("fleet rnu", "rnu"),
        ("fleet run --rond 3", "--rond"),
        ("fleet run --rounds many", "--rounds"),
        ("fleet run --rounds", "--rounds"),
        ("fleet run --method lap", 'did you mean "lpa"?'),
        ("fleet run --resume run", "--out"),
        ("fleet run --resume run.toml", "--config"),
        ("fleet run --resume a.tar", "*.tar"),
        ("fleet run --resume absent", "absent"),
        ("cloud serve", "fleet, broker, state"),
        ("cloud serve --broker mqtt://h --fleet A/B --state x", "fleet"),
        (f"{SERVE} mqtt://h --seed -1", "seed"),
        (f"{SERVE} mqtt://h --deadline nan", "deadline"),
        (f"{SERVE} ftp://h", "ftp"),
        ("cloud rounds start 3", "--rounds 3"),
        ("cloud rounds start --mode fast", "sync or async"),
        ("cloud rounds show pi-001", "ROUND"),
        ("cloud devices remove pi-1", 'did you mean "forget"?'),
        ("cloud status", 'did you mean "overview"?'),
        ("cloud rounds strat", 'did you mean "start"?'),
        ("cloud stauts", 'did you mean "overview"?'),
        ("cloud devices why pi-1", 'did you mean "auricle cloud why"?'),
        ("cloud rollback", "auricle cloud models rollback"),
        ("edge start", 'did you mean "run"?'),
        ("edge run --wake computer", "[detect] wake is a setting of the file that --config names"),
        ("edge run --wakeword computer", "auricle edge run --help"),
        ("edge run --device dev-a", "state"),
        ("edge run --device dev-a --state x --fleet f", "broker and coordinator"),
        ("edge run --config /no/such.toml", "/no/such.toml"),
        ("edge record yes --takes 0", "--takes"),
        ("edge devices -s", "--help, --json"),
        ("edge doctor /", "--state"),
        ("edge evaluate --keywords nowhere", "nowhere"),
        ("edge settings", "calibrate, claim, clips"),
        ("--no-such-option", "--no-such-option"),
        ("fleet run --out caf\udce9", r"'caf\udce9' is not UTF-8"),
        ("export pretrain --data=caf\udce9 --out x.pack", r"'--data=caf\udce9' is not UTF-8"),
    ],
)
@pytest.mark.several
def test_a_mistake_gets_one_sentence_and_exit_code_2(
    line: str, says: str, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "run").mkdir()
    for name in ("run.toml", "a.tar"):
        (tmp_path / name).write_text("")
    code = main(line.split())
    captured = capsys.readouterr()
    assert (code, captured.out) == (2, "")
    assert captured.err.startswith("auricle: ")
    assert len(captured.err.splitlines()) == 1
    assert says in captured.err


@pytest.mark.several
@pytest.mark.parametrize("line", ["cloud", "cloud releases", "edge clips"])
def test_a_group_alone_says_its_commands(line: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(line.split()) == 0
    captured = capsys.readouterr()
    assert captured.err == "" and captured.out.startswith(f"Usage: auricle {line} ")


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


@pytest.mark.parametrize("line", ["fleet run", "fleet plan"])
@pytest.mark.several
def test_options_of_a_run_stand_under_their_subjects(line: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main([*line.split(), "--help"]) == 0
    shown = capsys.readouterr().out
    titles = re.findall(r"^([A-Z][a-z ]+):$", shown, re.MULTILINE)
    assert titles[-8:] == [
        *("Options", "Fleet and devices", "Speech", "Method and training", "Engine and machine"),
        *("Network", "Privacy", "Results"),
    ]
    alone = shown.partition("\nOptions:\n")[2].partition("\n\n")[0]
    assert re.findall(r"^  (?:-h, )?(--[a-z]+)", alone, re.MULTILINE) == ["--config", "--help"]
    assert max(map(len, shown.splitlines())) <= 80


@pytest.mark.parametrize("line", ["", "--help", "-h", "cloud", "cloud --help", "fleet run --help", "edge run -h"])
@pytest.mark.several
def test_help_is_no_mistake(line: str, capsys: pytest.CaptureFixture[str]) -> None:
    code = main(line.split())
    captured = capsys.readouterr()
    assert code == 0
    assert "Usage: auricle" in captured.out
    assert captured.err == ""


@pytest.mark.parametrize("as_json", [False, True], ids=["text", "json"])
def test_an_interruption_is_said(
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
