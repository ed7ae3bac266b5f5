"""The pages: no command, option, path, test or link that is not there; what can be run runs."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from tests.nightly import nightly_but
from tools import command_tree, run_docs
from tools.doc_checks import anchors, mistakes, script_options
from tools.doc_pages import ROOT, STARTS, blocks, commands, first_commands, mentions, pages, simple_commands, words
from tools.doc_settings import refusal

MOST_WORDS_BY_HAND = 107_750
"""Of all pages; it may only fall, to 90,000."""
RUN = [str(path.relative_to(ROOT)) for path in pages() if run_docs.script(path)]


@pytest.mark.parametrize("path", pages(), ids=lambda path: str(path.relative_to(ROOT)))
@pytest.mark.slow
def test_a_page_has_no_mistake(path: Path) -> None:
    assert [f"{path.relative_to(ROOT)}:{line}: {said}" for line, said in mistakes(path)] == []


@pytest.mark.slow
@pytest.mark.parametrize("name", nightly_but(RUN, ["README.md", "docs/quick-start-fifty.md"]))
def test_a_page_runs(name: str, tmp_path: Path) -> None:
    done = run_docs.run_page(ROOT / name, tmp_path)
    assert done.returncode == 0, done.stdout[-4000:]


def test_quick_starts_are_checked_and_the_one_of_a_laptop_runs_in_every_line() -> None:
    assert {"README.md", "docs/quick-start-laptop.md", "docs/emulation.md"} <= set(RUN)
    laptop = ROOT / "docs/quick-start-laptop.md"
    assert {run_docs.why_not(command, laptop) for command in commands(laptop.read_text())} == {"", "changes the system"}
    for path in (ROOT / "docs").glob("quick-start-*.md"):
        assert len(path.read_text().splitlines()) <= 40
    assert len((ROOT / "README.md").read_text().splitlines()) <= 80


def test_what_is_typed_first_installs_what_a_bare_system_lacks() -> None:
    for path in STARTS:
        typed = first_commands(path)
        assert re.search(r"^sudo apt install .*\bpython3-venv\b", typed[0]), path
        assert any("make" in command for command in typed[1:]) <= (" make " in typed[0]), path
        assert any(".[mic]" in command for command in typed) <= ("libportaudio2" in typed[0]), path


def test_no_reason_stands_for_nothing() -> None:
    found = [(path, command) for path in pages() for command in commands(path.read_text(encoding="utf-8"))]
    given = {run_docs.why_not(command, path) for path, command in found}
    assert {reason for _, reason in run_docs.NOT_RUN} <= given
    assert set(run_docs.PAGES.values()) <= given
    assert all((ROOT / name).is_file() for name in run_docs.PAGES)


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ("auricle edge clips lst", "no command lst"),
        ("auricle edge run --state S --bord pi5", "--bord"),
        ("auricle cloud --sever URL overview", "--sever"),
        ("auricle cloud serve --method multikrum", "multikrum is not one of"),
        ("auricle cloud serve --method krum --method-option nope=1", "nope"),
        ("auricle flash bundle --board pi6 --fleet fleet.toml --out o", "pi6 is not one of"),
        ("auricle cloud rounds wait soon", "Invalid value"),
        ("auricle edge claim --state S", "Missing option '--token-file'"),
        ("sudo auricle cloud", "auricle cloud needs a command"),
        ("make flet", "there is no target flet"),
        ('make fleet ARG="--rounds 4"', "the Makefile knows no ARG"),
        ("python bench/attack.py", "there is no bench/attack.py"),
        ("python bench/attacks.py --sedes 3", "bench/attacks.py has no option --sedes"),
        ("python -m pytest tests/edge/test_nothing.py", "there is no tests/edge/test_nothing.py"),
        ("python -m pytest tests/tools/test_run_docs.py -k " + "nobody" + "_home", "no test of"),
        ("make test 'for ever", "no shell reads this"),
        ('pip install ".[mic]"', "outside of an environment"),
    ],
)
def test_what_is_wrong_in_a_block_is_named(line: str, said: str, tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    page.write_text(f"Text.\n\n    make test\n    {line}\n")
    (found,) = mistakes(page)
    assert found.line == 4
    assert said in found.said


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("Say `auricle edge\nlisen`.", "lisen"),
        ("It is `--no-such-option`.", "--no-such-option"),
        ("See `docs/nothing.md`.", "there is no docs/nothing.md"),
        ("`make nothing` makes it.", "there is no target nothing"),
        ("[here](nothing.md)", "the link leads nowhere: nothing.md"),
        ("[here](#nothing)", "page.md has no heading #nothing"),
        ("```python\nfrom auricle_fleet import Fleet\n```", "auricle_fleet has no Fleet"),
        ("```toml\na = \n```", "no toml reads this block"),
    ],
)
def test_what_is_wrong_in_a_sentence_is_named(text: str, said: str, tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    page.write_text(f"# A heading\n\n{text}\n")
    (found,) = mistakes(page)
    assert said in found.said


@pytest.mark.parametrize(
    ("page", "text", "said"),
    [
        ("docs/service.md", "[detect]\nthreshhold = 0.7", 'did you mean "threshold"'),
        ("docs/coordinator.md", "[rounds]\nmethod = 3", "method"),
        ("docs/emulation.md", "[[groups]]\nattack = 'scall'", "scale"),
        ("docs/bundles.md", "name = 'home'", "broker"),
        ("docs/pretrain.md", "epoch = 3", "epoch"),
    ],
)
def test_settings_are_read_by_what_reads_them(page: str, text: str, said: str) -> None:
    assert said in refusal(page, text)


@pytest.mark.parametrize(
    "line",
    [
        "auricle cloud rounds wait N --timeout SECONDS",
        "auricle edge run ... --runtime auto|step|native|ort-training",
        "auricle cloud --server URL rounds start",
        "auricle cloud rollouts pause|resume|abort r1-3f9a",
        "sudo chroot ROOT /opt/auricle/bin/auricle edge --help",
        "auricle-cloud devices list > devices.txt && auricle --install-completion",
        ". .venv/bin/activate && pip install auricle",
        "sudo $(which auricle) flash disks",
    ],
)
def test_placeholders_and_other_programs_are_no_mistake(line: str, tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    page.write_text(f"```sh\n{line}\n```\n")
    assert mistakes(page) == []


def test_blocks_commands_and_notes_are_read() -> None:
    page = """Text with `auricle edge
status`.

    make fleet \\
        ARGS=1     # it's long

<!-- not run: needs a board -->

    $ auricle edge run
    an answer

<!-- file: run.toml -->
```toml
rounds = 4
```

    not a command
"""
    found = [(block.line, block.kind, block.file) for block in blocks(page)]
    assert found == [(4, "", ""), (9, "", ""), (14, "toml", "run.toml"), (17, "", "")]
    first, second = commands(page)
    assert (first.line, first.parts, first.not_run) == (4, [["make", "fleet", "ARGS=1"]], "")
    assert (second.line, second.text, second.not_run) == (9, "auricle edge run", "needs a board")
    assert list(mentions(page)) == [(1, "auricle edge status")]
    assert list(simple_commands("a|b c > d 2>&1 | e; f")) == [["a", "c"], ["b", "c"], ["e"], ["f"]]


def test_a_page_becomes_a_script_that_stops_at_the_first_failure(tmp_path: Path) -> None:
    page = ROOT / "docs/emulation.md"
    wanted = r"cat > run\.toml .*\[\[groups\]\].*auricle fleet run --config run\.toml\n"
    assert re.search(wanted, run_docs.script(page), re.S)
    served = run_docs._served("auricle cloud serve --state $PWD/var/lib/auricle    # it's there", 7)
    assert served.startswith("auricle cloud serve --state \"$PWD\"'/var/lib/auricle' > served-7.txt")


def test_the_table_counts_every_command() -> None:
    *rows, total = run_docs.table()
    counts = [[int(number) for number in re.findall(r" (\d+)", row[36:60])] for row in rows[1:]]
    assert [sum(column) for column in zip(*counts, strict=True)] == [int(n) for n in total.split()[1:]]
    assert all(commands_ == run + parsed for commands_, run, parsed in counts)


def test_words_by_hand_are_counted_apart_from_made_ones(capsys: pytest.CaptureFixture[str]) -> None:
    counts = words()
    docs = ROOT / "docs"
    assert all(sum(both) == len(path.read_text().split()) for path, both in counts.items())
    assert all(
        counts[docs / name][0] == 0 for name in ("mistakes.md", "commands/edge.md", "results/README.md", "parity.md")
    )
    assert all(min(counts[docs / name]) > 0 for name in ("methods.md", "api.md"))
    assert counts[ROOT / "README.md"][1] == counts[docs / "results/notes/few-labels.md"][1] == 0
    assert sum(by_hand for by_hand, _ in counts.values()) <= MOST_WORDS_BY_HAND
    assert run_docs.main(["--words"]) == 0
    total = capsys.readouterr().out.splitlines()[-1].split()
    assert total == ["all", *(str(sum(column)) for column in zip(*counts.values(), strict=True))]


def test_options_of_a_script_and_headings_of_a_page_are_known() -> None:
    assert {"--help", "--rounds", "--seeds"} <= script_options(ROOT / "bench/attacks.py")
    assert anchors("# How it's made, *here*\n## A `b` c\n") == {"how-its-made-here", "a-b-c"}
    assert {"--json", "--method", "--no-detect", "-h"} <= command_tree.all_options()
