"""Options under their old names: they work, and are told on standard error."""

from __future__ import annotations

from pathlib import Path

import pytest
from tools import command_tree

from auricle.process.cli import RENAMED, main, with_names_of_today


@pytest.mark.parametrize(
    ("given", "today", "told"),
    [
        ("cloud rounds start --count 3", "cloud rounds start --rounds 3", "--count is now --rounds"),
        ("cloud --state S rounds start --count=3", "cloud --state S rounds start --rounds=3", "--count is now"),
        ("cloud --state=S why 3 --fate late", "cloud --state=S why 3 --outcome late", "--fate is now --outcome"),
        ("edge run --speech D", "edge run --data D", "--speech is now --data"),
        ("cloud tokens create eve --days 7", "cloud tokens create eve --ttl 7d", "--days is now --ttl"),
        ("cloud tokens create eve --days=7", "cloud tokens create eve --ttl=7d", "--days is now --ttl"),
        ("cloud tokens create eve --days", "cloud tokens create eve --ttl", "--days is now --ttl"),
        ("cloud devices hearing --days 7", "cloud devices hearing --days 7", ""),
        ("edge evaluate --pack run --speech D", "edge evaluate --pack run --speech D", ""),
        ("cloud enrol token --count 3", "cloud enrol token --count 3", ""),
        ("cloud rounds start -- --count", "cloud rounds start -- --count", ""),
        ("export pretrain --out D --devices 3", "export pretrain --out D --devices 3", ""),
        ("--help", "--help", ""),
        ("", "", ""),
    ],
)
def test_an_old_name_becomes_the_new_one(given: str, today: str, told: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert with_names_of_today(given.split()) == today.split()
    said = capsys.readouterr()
    assert said.out == ""
    assert (told in said.err) if told else said.err == ""


def test_new_names_are_those_of_the_commands_and_old_ones_are_gone() -> None:
    tree = command_tree.tree()
    options = {path: {one for parameter in command.params for one in parameter.opts} for path, command in tree}
    for path, names in RENAMED.items():
        assert set(names.values()) <= options[path]
        assert not set(names) & options[path]


def test_a_command_takes_an_old_name(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    state = ["--state", str(tmp_path / "state")]
    assert main(["cloud", "models", "download", "1", "--output", str(tmp_path / "model"), *state]) == 5
    said = capsys.readouterr().err
    assert said.startswith("--output is now --out")
    assert "--output" not in said.split("\n", 1)[1]
