"""Commands are loaded when they are called: what each imports, and that help of a group says what they say."""

from __future__ import annotations

import os
import socket
import subprocess
import sys

import pytest
import typer

from auricle.errors import UNREACHABLE_CODE
from auricle.process.cli import PARTS, build_app
from auricle.process.command_groups import MissingPartError, command_group, first_sentence

IMPORTED = """
import contextlib, io, sys
from auricle.process.cli import main
with contextlib.redirect_stdout(io.StringIO()), contextlib.redirect_stderr(io.StringIO()):
    codes = [main(line.split()) for line in sys.argv[1:]]
print(*codes)
print(*sys.modules)
"""
LIBRARIES = {
    "numpy",
    "cryptography",
    "onnxruntime",
    "soundfile",
    "safetensors",
    "paho",
    "sqlalchemy",
    "aiohttp",
    "torch",
}
OF_A_SERVER = (
    "overview",
    "journal",
    "why 1",
    *("rounds list", "rounds show 1", "rounds why 1", "rounds start", "rounds abort 1 --yes", "rounds wait 1"),
    *("rounds watch", "rounds schedule list", "rounds schedule set night --at 02:00"),
    *("devices list", "devices show dev-a", "devices logs dev-a", "devices hearing", "devices approve --all"),
    *("models list", "models show 1", "models promote 1 --yes", "models download 1"),
    *("releases list", "releases show pack/home"),
    *("rollouts list", "rollouts show r-1", "rollouts start pack/home --yes", "rollouts watch", "rollouts pause r-1"),
    *("tokens list", "tokens create ana --role viewer --ttl 7d"),
)


def imported(*lines: str, token: str = "") -> tuple[set[str], list[int]]:
    """What a process has loaded once it has run these commands, and how each ended."""
    program = [sys.executable, "-c", IMPORTED, *lines]
    around = {**os.environ, "AURICLE_TOKEN": token}
    done = subprocess.run(program, capture_output=True, text=True, timeout=60, check=True, env=around)
    codes, modules = done.stdout.splitlines()
    return {*modules.split()}, [int(code) for code in codes.split()]


@pytest.mark.parametrize("part", PARTS)
@pytest.mark.several
def test_help_of_a_part_loads_none_of_its_commands(part: str) -> None:
    modules, _ = imported(f"{part} --help")
    assert not LIBRARIES & modules and len(modules) < 250
    assert not {name for name in modules if name.endswith("_commands")}


@pytest.mark.parametrize(
    ("line", "uses", "most"),
    [
        ("edge status --state nowhere", set[str](), 450),
        ("edge run --help", set[str](), 400),
        ("edge devices", set[str](), 450),
        ("edge unit", set[str](), 450),
        ("edge doctor --help", set[str](), 450),
        ("cloud use", set[str](), 550),
        ("fleet run --help", {"numpy"}, 500),
        ("fleet broker --help", {"numpy", "cryptography"}, 500),
    ],
)
@pytest.mark.several
def test_a_command_imports_what_it_uses(line: str, uses: set[str], most: int) -> None:
    modules, _ = imported(line)
    assert LIBRARIES & modules <= uses and len(modules) < most


@pytest.mark.several
def test_asking_a_server_loads_no_database_array_or_certificate() -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        nobody = f"http://127.0.0.1:{taken.getsockname()[1]}"
    modules, codes = imported(*(f"cloud {line} --server {nobody}" for line in OF_A_SERVER), token="auricle_x")
    assert dict(zip(OF_A_SERVER, codes, strict=True)) == dict.fromkeys(OF_A_SERVER, UNREACHABLE_CODE)
    assert not LIBRARIES & modules and len(modules) < 600


@pytest.mark.parametrize("part", PARTS)
@pytest.mark.several
def test_help_of_a_group_says_the_first_sentence_of_each_command(part: str) -> None:
    group = typer.main.get_command(build_app(part)).commands[part]  # type: ignore[attr-defined]
    said = {name: "" if command.hidden else first_sentence(command) for name, command in group.commands.items()}
    assert {name: entry.sentence for name, entry in group.commands.entries.items()} == said


def test_a_library_that_a_command_misses_is_named_with_its_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    class Absent:
        def find_spec(self, name: str, path: object = None, target: object = None) -> None:
            if name == "toy_commands":
                raise ModuleNotFoundError("No module named 'sqlalchemy'", name="sqlalchemy")

    monkeypatch.setattr(sys, "meta_path", [Absent(), *sys.meta_path])
    app = typer.Typer(cls=command_group("cloud", "toy_commands", {"run": {"run": "Run."}}))
    app.callback()(lambda: None)
    group = typer.main.get_command(app)
    assert list(group.commands) == ["run"]  # type: ignore[attr-defined]
    with pytest.raises(MissingPartError, match=r"sqlalchemy.*\[cloud\]"):
        group.commands["run"]  # type: ignore[attr-defined]
