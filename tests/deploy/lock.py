"""Write the locks in `deploy/requirements` again: `python -m tests.deploy.lock`, with network."""

from __future__ import annotations

import sys
from pathlib import Path

from auricle.errors import AuricleError
from tests.arm64.wheels import CHECKOUT, Target, applies, extra_requirements, resolved

FOLDER = CHECKOUT / "deploy" / "requirements"
EXTRAS = ("cloud", "postgres")
TARGETS = (Target(13, "x86_64"), Target(13, "aarch64"))
"""The coordinator's image, which chooses by `uname -m`; the agent's takes the locks in edge/requirements."""
BUILD = FOLDER / "build.txt"


def lock_of(target: Target) -> Path:
    """The coordinator's lock on this machine."""
    return FOLDER / f"coordinator-{target.machine}.txt"


def wanted(target: Target) -> list[str]:
    """What pyproject.toml asks for there."""
    return sorted({str(each).split(";")[0].strip() for each in extra_requirements(*EXTRAS) if applies(each, target)})


def write(path: Path, header: str, target: Target, requirements: list[str]) -> int:
    """Resolve a lock; returns the number of wheels. WheelError: a dependency has no wheel for the target."""
    lines = sorted(resolved(target, *requirements), key=lambda line: line.name)
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(f"# {header}\n# Written by: python -m tests.deploy.lock\n" + "".join(f"{line}\n" for line in lines))
    return len(lines)


def main() -> int:
    """Write every lock."""
    try:
        for target in TARGETS:
            of = f"The coordinator's image: CPython 3.{target.minor} on {target.machine}, wheels only."
            print(f"{lock_of(target).name}: {write(lock_of(target), of, target, wanted(target))} wheels", flush=True)
        print(f"{BUILD.name}: {write(BUILD, 'What makes our own wheel.', TARGETS[0], ['hatchling>=1.26'])} wheels")
    except AuricleError as error:
        print(f"lock: {error}", file=sys.stderr)
        return error.exit_code
    return 0


if __name__ == "__main__":
    sys.exit(main())
