"""Write the locks of coordinator and `make fleet` again: `python -m tests.deploy.lock`, with network."""

from __future__ import annotations

import sys
from pathlib import Path

from auricle.errors import AuricleError
from tests.arm64.wheels import CHECKOUT, Target, applies, extra_requirements, resolved

FOLDER = CHECKOUT / "deploy" / "requirements"
EXTRAS, FLEET_EXTRAS = ("cloud", "postgres"), ("fleet",)
MACHINES = ("x86_64", "aarch64")
TARGETS = tuple(Target(minor, machine) for minor in (13, 12, 11) for machine in MACHINES)
"""The coordinator's image (3.13), which chooses by `uname -m`, and systems that run it with systemd; the agent's image
and boards take the locks in edge/requirements."""
FLEET_TARGETS = tuple(Target(minor, machine) for minor in (11, 12, 13) for machine in MACHINES)
"""`make fleet`."""
BUILD = FOLDER / "build.txt"
COMPILER = "ziglang>=0.13"
"""Compiles the library of the runtime native for our own wheel."""


def lock_of(target: Target) -> Path:
    """The coordinator's lock on this machine."""
    return FOLDER / f"coordinator-{target.machine}{'' if target.minor == 13 else f'-{target.tag}'}.txt"


def fleet_lock_of(target: Target) -> Path:
    """The lock of `make fleet` on this machine."""
    return CHECKOUT / "fleet" / "requirements" / f"{target.machine}-{target.tag}.txt"


def compiler_lock_of(target: Target) -> Path:
    """The lock of the compiler on this machine."""
    return FOLDER / f"native-{target.machine}.txt"


def wanted(target: Target, *extras: str) -> list[str]:
    """What pyproject.toml asks for there."""
    return sorted({str(each).split(";")[0].strip() for each in extra_requirements(*extras) if applies(each, target)})


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
            of = f"The coordinator: CPython 3.{target.minor} on {target.machine}, wheels only."
            count = write(lock_of(target), of, target, wanted(target, *EXTRAS))
            print(f"{lock_of(target).name}: {count} wheels", flush=True)
        for target in FLEET_TARGETS:
            of = f"A fleet on one machine: CPython 3.{target.minor} on {target.machine}, wheels only."
            count = write(fleet_lock_of(target), of, target, wanted(target, *FLEET_EXTRAS))
            print(f"{fleet_lock_of(target).name}: {count} wheels", flush=True)
        for target in TARGETS[:2]:
            header = f"What compiles the C library in our own wheel, on {target.machine}."
            count = write(compiler_lock_of(target), header, target, [COMPILER])
            print(f"{compiler_lock_of(target).name}: {count} wheels", flush=True)
        print(f"{BUILD.name}: {write(BUILD, 'What makes our own wheel.', TARGETS[0], ['hatchling>=1.26'])} wheels")
    except AuricleError as error:
        print(f"lock: {error}", file=sys.stderr)
        return error.exit_code
    return 0


if __name__ == "__main__":
    sys.exit(main())
