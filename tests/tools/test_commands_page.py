"""The command reference is what the commands are."""

from __future__ import annotations

from pathlib import Path

import pytest
from tools import command_tree, commands_page

from auricle.process.command_groups import first_sentence


def test_a_page_that_is_out_of_date_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    assert commands_page.main(["--check"]) == 0
    monkeypatch.setattr(commands_page, "DOCS", tmp_path)
    assert commands_page.main([]) == 0
    assert commands_page.main(["--check"]) == 0
    (tmp_path / "commands" / "old.md").write_text("of a part that is gone")
    page = tmp_path / "commands" / "edge.md"
    page.write_text(page.read_text().replace("`--takes N`", "`--times N`"))
    capsys.readouterr()

    assert commands_page.main(["--check"]) == 1

    said = capsys.readouterr().out
    assert [page in said for page in ("commands/edge.md", "commands/old.md", "docs/commands.md")] == [True, True, False]
    assert commands_page.main([]) == 0
    assert not (tmp_path / "commands" / "old.md").exists()


def test_every_command_and_option_that_help_shows_is_there() -> None:
    pages = commands_page.written()
    index = pages[commands_page.DOCS / "commands.md"]
    for path, command in command_tree.tree():
        if command.hidden or getattr(command, "commands", None) is not None:
            continue
        name = " ".join(path)
        page = pages[commands_page.DOCS / "commands" / f"{path[0]}.md"]
        section = page.partition(f"## auricle {name}\n")[2].partition("\n## ")[0]
        assert f"[`{name}`]" in index
        assert first_sentence(command).split()[0] in section
        for parameter in command.params:
            if not getattr(parameter, "hidden", False) and parameter.opts[0] not in commands_page.COMMON:
                assert all(f"`{one}" in section or one.isidentifier() for one in parameter.opts), (name, parameter.opts)


def test_defaults_words_and_variables_have_a_place() -> None:
    pages = commands_page.written()
    cloud, edge = (pages[commands_page.DOCS / "commands" / f"{part}.md"] for part in ("cloud", "edge"))
    assert "| `--mode sync\\|async` | sync |" in cloud
    assert "| `--api-port N` | 8443 |" in cloud
    assert "| `--state PATH` | that of the settings file, or `AURICLE_EDGE_STATE` | State folder of the" in edge
    assert "| `--token-file PATH` | needed |" in edge
