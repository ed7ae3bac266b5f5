"""Name the actions that the workflows use by commit, so that nobody can put other code under the same tag.

    python tools/action_pins.py            # ask each repository for the commits of its tags, and pin what is not pinned
    python tools/action_pins.py --check    # ask nobody; exit 1 where an action is not pinned

An action is pinned as `uses: OWNER/NAME@COMMIT # TAG`. Where a pin is not the commit that its repository has under the
tag, nothing is written and the exit status is 1: a tag was moved, or the pin was never that of the tag.
"""

from __future__ import annotations

import argparse
import re
import subprocess
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path

ROOT = Path(__file__).parents[1]
FORGE = "https://github.com"
USED = re.compile(r"^(?P<before>\s*(?:- )?uses:\s+)(?P<what>[^\s#]+)(?:\s+#\s*(?P<tag>\S+))?(?P<after>.*)$", re.M)
COMMIT = re.compile(r"[0-9a-f]{40}")
ACTION = re.compile(r"(?P<repository>[\w-]+/[\w.-]+)(?:/[\w./-]+)?")
TAG = re.compile(r"v?\d+\.\d+\.\d+")
SECONDS = 60
Lookup = Callable[[str, str], str]


class PinError(Exception):
    """A commit that is not known; the sentence says why."""


@dataclass(frozen=True)
class Use:
    """An action as a workflow names it."""

    file: str
    action: str
    """`OWNER/NAME`, and a folder below it where there is one."""
    ref: str
    """What follows the @."""
    tag: str | None
    """What the comment behind it says."""

    @property
    def repository(self) -> str:
        """`OWNER/NAME`."""
        return "/".join(self.action.split("/")[:2])


def files(workflows: Path) -> list[Path]:
    """Every workflow."""
    return sorted(path for ending in ("*.yml", "*.yaml") for path in workflows.glob(ending))


def uses(workflows: Path) -> Iterator[Use]:
    """Every use of an action that is not in this repository."""
    for path in files(workflows):
        for match in USED.finditer(path.read_text(encoding="utf-8")):
            if not match["what"].startswith("./"):
                action, _, ref = match["what"].partition("@")
                yield Use(path.name, action, ref, match["tag"])


def problems(workflows: Path) -> list[str]:
    """A sentence for each use that is not pinned to a commit with the tag behind it."""
    said, commits = [], dict[tuple[str, str], str]()
    for use in uses(workflows):
        named = f"{use.file}: {use.action}"
        if ACTION.fullmatch(use.action) is None:
            said.append(f"{named} is no action of a repository.")
        elif COMMIT.fullmatch(use.ref) is None:
            said.append(f'{named} is named by "{use.ref}" and not by a commit: python tools/action_pins.py pins it.')
        elif use.tag is None or TAG.fullmatch(use.tag) is None:
            said.append(f"{named} has no version behind its commit: write the tag there, as # v1.2.3.")
        elif commits.setdefault((use.repository, use.tag), use.ref) != use.ref:
            said.append(f"{named} {use.tag} is named by two commits.")
    return said


def moved(workflows: Path, lookup: Lookup) -> list[str]:
    """A sentence for each pin that is not the commit of its tag."""
    pinned = {(use.repository, use.tag or "", use.ref) for use in uses(workflows) if COMMIT.fullmatch(use.ref)}
    said = []
    for repository, tag, ref in sorted(pinned):
        if tag and (commit := lookup(repository, tag)) != ref:
            said.append(f"{repository} is pinned to {ref}, and its tag {tag} is {commit}: find out why.")
    return said


def pin(workflows: Path, lookup: Lookup) -> None:
    """Write the commit of its tag for each action that is named by a tag."""

    def pinned(match: re.Match[str]) -> str:
        action, at, ref = match["what"].partition("@")
        if not at or action.startswith("./") or ACTION.fullmatch(action) is None or COMMIT.fullmatch(ref):
            return match[0]
        commit = lookup(Use("", action, ref, None).repository, ref)
        return f"{match['before']}{action}@{commit} # {ref}"

    written = {path: USED.sub(pinned, path.read_text(encoding="utf-8")) for path in files(workflows)}
    for path, text in written.items():
        path.write_text(text, encoding="utf-8")


@cache
def look_up(repository: str, tag: str, forge: str = FORGE) -> str:
    """Ask a repository for the commit of a tag.

    Raises
    ------
    PinError
        It cannot be reached, or has no such tag.
    """
    name = f"refs/tags/{tag}"
    command = ["git", "ls-remote", "--exit-code", f"{forge}/{repository}", name, f"{name}^{{}}"]
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=SECONDS, check=False)
    except (OSError, subprocess.TimeoutExpired) as error:
        raise PinError(f"{repository} cannot be asked for its tags: {error}") from error
    if done.returncode not in (0, 2):
        why = (done.stderr.strip().splitlines() or ["git says nothing"])[-1]
        raise PinError(f"{repository} cannot be asked for its tags: {why}")
    commits = dict(reversed(line.split("\t")) for line in done.stdout.splitlines())
    commit = commits.get(f"{name}^{{}}") or commits.get(name, "")  # a tag with a message is not the commit itself
    if COMMIT.fullmatch(commit) is None:
        raise PinError(f"{repository} has no tag {tag}.")
    return commit


def main(
    arguments: list[str] | None = None, lookup: Lookup = look_up, workflows: Path = ROOT / ".github" / "workflows"
) -> int:
    """Compare and pin, or say what is not pinned."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--check", action="store_true", help="ask nobody; exit 1 where an action is not pinned")
    given = parser.parse_args(arguments)
    said = []
    try:
        if not given.check:
            said = moved(workflows, lookup)
            if not said:
                pin(workflows, lookup)
        said += problems(workflows)
    except PinError as error:
        said = [str(error)]
    for sentence in said:
        print(sentence, file=sys.stderr)
    return 1 if said else 0


if __name__ == "__main__":
    sys.exit(main())
