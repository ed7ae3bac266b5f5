"""Write the locks in `edge/requirements` again: `python -m tests.arm64.lock`, with network."""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path

from packaging.requirements import Requirement

from auricle.errors import AuricleError
from tests.arm64.wheels import (
    EXTRAS,
    TARGETS,
    Locked,
    Target,
    WheelError,
    applies,
    closure_gaps,
    extra_requirements,
    fetch,
    reached,
    read_lock,
    resolved,
    unmet,
)

HEADER = """\
# The extras {extras} for CPython 3.{minor} on {machine}, from wheels only (glibc 2.28 or newer).
# Written by: python -m tests.arm64.lock
"""


def write_lock(target: Target) -> int:
    """Resolve a target's lock again and replace the old one; returns the number of wheels.

    pip takes the markers of what wheels need from the Python it runs on: what that leaves out is asked for by name, and
    what it adds is left out again."""
    old = target.lock.read_text() if target.lock.exists() else None
    wanted = [text_of(requirement) for requirement in extra_requirements() if applies(requirement, target)]
    try:
        while True:
            _write(target, resolved(target, *wanted))
            locked = read_lock(target.lock)
            with tempfile.TemporaryDirectory() as folder:
                wheels = fetch(target, Path(folder) / "wheels")
                gaps = closure_gaps(wheels, locked, target)
                if not gaps:
                    needed = reached(target, wheels)
                    break
            more = [text_of(Requirement(gap.partition(": ")[2].removesuffix(" is not locked"))) for gap in gaps]
            if not set(more) - set(wanted):
                raise WheelError(f"The lock for {target.name} does not hold together: {'; '.join(gaps)}.")
            wanted += more
        _write(target, [line for name, line in locked.items() if name in needed])
        unlocked = unmet(extra_requirements(), read_lock(target.lock), target)
        if unlocked:
            raise WheelError(f"The lock for {target.name} does not satisfy the extras: {'; '.join(unlocked)}.")
    except AuricleError:
        if old is None:
            target.lock.unlink(missing_ok=True)
        else:
            target.lock.write_text(old)
        raise
    return len(needed)


def text_of(requirement: Requirement) -> str:
    """A requirement without its marker."""
    return str(requirement).partition(";")[0].strip()


def _write(target: Target, lines: list[Locked]) -> None:
    header = HEADER.format(extras=", ".join(EXTRAS), minor=target.minor, machine=target.machine)
    target.lock.parent.mkdir(parents=True, exist_ok=True)
    target.lock.write_text(header + "".join(f"{line}\n" for line in sorted(lines, key=lambda line: line.name)))


def main() -> int:
    """Write every lock."""
    try:
        for target in TARGETS:
            print(f"{target.lock.name}: {write_lock(target)} wheels", flush=True)
    except AuricleError as error:
        print(f"lock: {error}", file=sys.stderr)
        return error.exit_code
    return 0


if __name__ == "__main__":
    sys.exit(main())
