"""Actions by commit: looked up in repositories of git, written into workflows, and compared with what a tag is now."""

from __future__ import annotations

import shutil
import subprocess
from functools import partial
from pathlib import Path

import pytest
from tools import action_pins
from tools.action_pins import Lookup, PinError, look_up, main, problems

WORKFLOWS = action_pins.ROOT / ".github" / "workflows"
OTHER = "0" * 40


def git(folder: Path, *arguments: str) -> str:
    name = ("-c", "user.name=a", "-c", "user.email=a@example.org", "-c", "tag.gpgSign=false")
    return subprocess.run(["git", *name, *arguments], cwd=folder, capture_output=True, text=True, check=True).stdout


@pytest.fixture
def forge(tmp_path: Path) -> dict[str, str]:
    """Repositories below `forge/`: v1.0.0 is a commit, v2.0.0 a tag with a message at the next one; by tag, which."""
    repository = tmp_path / "forge" / "somebody" / "action"
    repository.mkdir(parents=True)
    git(repository, "init", "-q")
    commits = {}
    for tag, message in (("v1.0.0", ()), ("v2.0.0", ("-m", "two"))):
        git(repository, "commit", "-q", "--allow-empty", "-m", tag)
        git(repository, "tag", *message, tag)
        commits[tag] = git(repository, "rev-parse", "HEAD").strip()
    return commits


@pytest.fixture
def lookup(tmp_path: Path, forge: dict[str, str]) -> Lookup:
    return partial(look_up, forge=str(tmp_path / "forge"))


@pytest.fixture
def workflows(tmp_path: Path) -> Path:
    folder = tmp_path / "workflows"
    folder.mkdir()
    return folder


def using(workflows: Path, *lines: str) -> Path:
    path = workflows / "one.yml"
    path.write_text("jobs:\n  a:\n    steps:\n" + "".join(f"      - uses: {line}\n" for line in lines))
    return path


def test_every_action_of_our_workflows_is_pinned() -> None:
    assert problems(WORKFLOWS) == []
    assert {use.file for use in action_pins.uses(WORKFLOWS)} == {"checks.yml", "nightly.yml", "release.yml"}


def test_no_way_to_write_a_use_is_overlooked() -> None:
    yaml = pytest.importorskip("yaml")

    def found(value: object) -> list[str]:
        if isinstance(value, list):
            return [use for each in value for use in found(each)]
        if not isinstance(value, dict):
            return []
        own = [value["uses"]] if isinstance(value.get("uses"), str) else []
        return own + [use for each in value.values() for use in found(each)]

    for path in action_pins.files(WORKFLOWS):
        parsed = [use for use in found(yaml.safe_load(path.read_text())) if not use.startswith("./")]
        assert parsed == [f"{use.action}@{use.ref}" for use in action_pins.uses(WORKFLOWS) if use.file == path.name]


@pytest.mark.parametrize(
    ("line", "why"),
    [
        ("somebody/action@v1.0.0", "not by a commit"),
        ("somebody/action@main", "not by a commit"),
        ("somebody/action", "not by a commit"),
        (f"somebody/action@{OTHER[:12]} # v1.0.0", "not by a commit"),
        (f"somebody/action@{OTHER}", "no version"),
        (f"somebody/action@{OTHER} # main", "no version"),
        ("docker://alpine:3", "no action of a repository"),
    ],
)
def test_what_is_not_pinned_is_told(workflows: Path, line: str, why: str) -> None:
    using(workflows, line, "./.github/workflows/nightly.yml")
    (said,) = problems(workflows)
    assert why in said
    assert main(["--check"], workflows=workflows) == 1


def test_a_tag_is_written_as_its_commit_and_that_only_once(
    workflows: Path, forge: dict[str, str], lookup: Lookup
) -> None:
    path = using(workflows, "somebody/action@v1.0.0", "somebody/action/below@v2.0.0", "./own.yml")

    assert main([], lookup, workflows) == 0

    lines = [line.partition("uses: ")[2] for line in path.read_text().splitlines()[3:]]
    one, two = forge["v1.0.0"], forge["v2.0.0"]
    assert lines == [f"somebody/action@{one} # v1.0.0", f"somebody/action/below@{two} # v2.0.0", "./own.yml"]
    before = path.read_bytes()
    assert main([], lookup, workflows) == 0
    assert path.read_bytes() == before


def test_a_tag_that_was_moved_is_told_and_nothing_is_written(
    workflows: Path, tmp_path: Path, lookup: Lookup, capsys: pytest.CaptureFixture[str]
) -> None:
    path = using(workflows, f"somebody/action@{OTHER} # v1.0.0", "somebody/action@v2.0.0")
    before = path.read_bytes()

    assert main([], lookup, workflows) == 1

    assert "its tag v1.0.0 is" in capsys.readouterr().err
    assert path.read_bytes() == before


def test_two_commits_under_one_tag_are_told(workflows: Path) -> None:
    using(workflows, f"somebody/action@{OTHER} # v1.0.0", f"somebody/action@{'1' * 40} # v1.0.0")
    assert ["two commits" in said for said in problems(workflows)] == [True]


def test_what_cannot_be_asked_or_is_not_there_is_one_sentence(
    workflows: Path, tmp_path: Path, lookup: Lookup, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(PinError, match=r"has no tag v3\.0\.0"):
        lookup("somebody/action", "v3.0.0")
    shutil.rmtree(tmp_path / "forge")
    using(workflows, "somebody/action@v1.0.0")
    assert main([], lookup, workflows) == 1
    assert capsys.readouterr().err.startswith("somebody/action cannot be asked")
