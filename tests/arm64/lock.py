"""Write the locks in `edge/requirements` anew: `python -m tests.arm64.lock`, with network."""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path

from auricle.errors import AuricleError
from tests.arm64.wheels import (
    TARGETS,
    Target,
    WheelError,
    applies,
    closure_gaps,
    extra_requirements,
    fetch,
    read_lock,
    resolved,
    unmet,
)

HEADER = """\
# The edge extra for CPython 3.{minor} on {machine}, from wheels only (glibc 2.28 or newer).
# Written by: python -m tests.arm64.lock
"""


def write_lock(target: Target) -> int:
    """Resolve a target's lock anew and replace the old one; returns the number of wheels.

    Raises
    ------
    WheelError
        A dependency has no wheel for the target, or the result does not satisfy the extra; the old lock stays.
    """
    wanted = [str(requirement) for requirement in extra_requirements() if applies(requirement, target)]
    lines = sorted(resolved(target, *(text.split(";")[0].strip() for text in wanted)), key=lambda line: line.name)
    old = target.lock.read_text() if target.lock.exists() else None
    target.lock.parent.mkdir(parents=True, exist_ok=True)
    header = HEADER.format(minor=target.minor, machine=target.machine)
    target.lock.write_text(header + "".join(f"{line}\n" for line in lines))
    try:
        with tempfile.TemporaryDirectory() as folder:
            locked = read_lock(target.lock)
            gaps = [
                *unmet(extra_requirements(), locked, target),
                *closure_gaps(fetch(target, Path(folder) / "wheels"), locked, target),
            ]
        if gaps:
            raise WheelError(f"The lock for {target.tag} does not hold together: {'; '.join(gaps)}.")
    except AuricleError:
        if old is None:
            target.lock.unlink()
        else:
            target.lock.write_text(old)
        raise
    return len(lines)


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
