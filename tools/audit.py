"""Look up every locked package in the database of known vulnerabilities, by pip-audit.

    python tools/audit.py

Exit code 1: a package has one, or some were not looked up while others were; 75: the database cannot be reached from
here, so that nothing is known. pip-audit is no dependency: `pip install pip-audit`, as the forge's job `audit` does.
"""

from __future__ import annotations

import importlib.util
import json
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

sys.path.insert(0, str(Path(__file__).parents[1]))

from tools.sbom import ROOT, locks

AWAY = 75


class Audited(NamedTuple):
    """What the database says of a lock."""

    known: int
    """Packages that were looked up."""
    skipped: tuple[str, ...]
    """Those that were not."""
    vulnerable: tuple[str, ...]
    """A sentence for each vulnerability."""


def read(report: str) -> Audited:
    """Read pip-audit's JSON; ValueError: it is something else."""
    found = json.loads(report)["dependencies"]
    skipped = tuple(each["name"] for each in found if "skip_reason" in each)
    sentences = tuple(
        f"{each['name']} {each['version']}: {flaw['id']}, mended in {', '.join(flaw['fix_versions']) or 'no version'}"
        for each in found
        for flaw in each.get("vulns", ())
    )
    return Audited(len(found) - len(skipped), skipped, sentences)


def audited(lock: Path) -> Audited:
    """Look up a lock; RuntimeError: pip-audit did not answer."""
    command = [sys.executable, "-m", "pip_audit", "--requirement", str(lock), "--require-hashes", "--disable-pip"]
    done = subprocess.run([*command, "--format", "json"], capture_output=True, text=True, check=False)
    try:
        return read(done.stdout)
    except (ValueError, KeyError, TypeError) as error:
        raise RuntimeError(done.stderr.strip().splitlines()[-1] if done.stderr.strip() else str(error)) from error


def verdict(found: Sequence[Audited]) -> int:
    """The exit code of all locks."""
    if not any(each.known for each in found):
        return AWAY
    return int(any(each.skipped or each.vulnerable for each in found))


def main() -> int:
    if importlib.util.find_spec("pip_audit") is None:
        print("pip-audit is not installed: pip install pip-audit", file=sys.stderr)
        return 2
    found = []
    for lock in locks():
        name = lock.relative_to(ROOT)
        try:
            one = audited(lock)
        except RuntimeError as error:
            one = Audited(0, (str(name),), ())
            print(f"{name}: {error}", file=sys.stderr)
        found.append(one)
        print(f"{name}: {one.known} looked up, {len(one.skipped)} not, {len(one.vulnerable)} vulnerabilities")
        for sentence in one.vulnerable:
            print(f"  {sentence}")
    code = verdict(found)
    if code == AWAY:
        print("The database cannot be reached from here: nothing is known.", file=sys.stderr)
    return code


if __name__ == "__main__":
    sys.exit(main())
