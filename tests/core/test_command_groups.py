"""Commands are loaded when they are called: what each imports, and that help of a group says what they say."""

from __future__ import annotations

import subprocess
import sys

import pytest
import typer

from auricle.process.cli import PARTS, build_app
from auricle.process.command_groups import MissingPartError, command_group, first_sentence

IMPORTED = """
import contextlib, io, sys
from auricle.process.cli import main
with contextlib.redirect_stdout(io.StringIO()), contextlib.redirect_stderr(io.StringIO()):
    main(sys.argv[1:])
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


def imported(line: str) -> set[str]:
    program = [sys.executable, "-c", IMPORTED, *line.split()]
    return {*subprocess.run(program, capture_output=True, text=True, timeout=60, check=True).stdout.split()}


@pytest.mark.parametrize("part", PARTS)
@pytest.mark.several
def test_help_of_a_part_loads_none_of_its_commands(part: str) -> None:
    modules = imported(f"{part} --help")
    assert not LIBRARIES & modules and len(modules) < 250
    assert not {name for name in modules if name.endswith("_commands")}


@pytest.mark.parametrize(
    ("line", "uses", "most"),
    [
        ("edge status --state nowhere", set[str](), 450),
        ("edge run --help", set[str](), 400),
        ("fleet run --help", {"numpy"}, 500),
        ("fleet broker --help", {"numpy", "cryptography"}, 500),
    ],
)
@pytest.mark.several
def test_a_command_imports_what_it_uses(line: str, uses: set[str], most: int) -> None:
    modules = imported(line)
    assert LIBRARIES & modules <= uses and len(modules) < most


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
