"""Which wheels there are for a Mac: every package that an extra brings, by Python version and processor.

    python tools/mac_wheels.py [--extra fleet --extra export] [--python 3.13] [--packages]

pip is asked, for macOS 14 on arm64 and x86_64, for the newest wheel of each requirement of pyproject.toml; what that
wheel needs on macOS is asked for next, until nothing is new. Only the index is read, nothing is installed. A package
for which there is no wheel is named with who wants it. Requirements on one package are put together within an extra.
"""

from __future__ import annotations

import argparse
import json
import re
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from packaging.requirements import Requirement
from packaging.specifiers import SpecifierSet
from packaging.utils import canonicalize_name

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

ROOT = Path(__file__).parents[1]
PYTHONS = ("3.10", "3.11", "3.12", "3.13")
MACHINES = ("arm64", "x86_64")
LAPTOP = ("fleet", "mic", "updates", "postgres", "tensorboard", "export")
"""Extras that somebody wants on a laptop; gpio, ort-training and tflite-runtime are for boards."""
_NONE = re.compile(r"(?:No matching distribution found for|Cannot install) ([A-Za-z0-9._-]+)")
"""What pip says where a package has no wheel; the second where a constraint of this machine names it too."""


@dataclass(frozen=True)
class Mac:
    """A Python on a Mac."""

    python: str
    machine: str

    @property
    def markers(self) -> dict[str, str]:
        """The values of requirement markers there, which pip itself takes from the machine that it runs on."""
        return {
            "python_version": self.python,
            "python_full_version": f"{self.python}.0",
            "implementation_name": "cpython",
            "implementation_version": f"{self.python}.0",
            "platform_python_implementation": "CPython",
            "os_name": "posix",
            "sys_platform": "darwin",
            "platform_system": "Darwin",
            "platform_machine": self.machine,
            "platform_release": "23.0.0",
            "platform_version": "Darwin Kernel Version 23.0.0",
        }

    def applies(self, requirement: Requirement, extras: Iterable[str] = ()) -> bool:
        """Whether a requirement counts there, for who asked for these extras of the package that has it."""
        marker = requirement.marker
        return marker is None or any(marker.evaluate({**self.markers, "extra": each}) for each in (*extras, ""))


@dataclass(frozen=True)
class Found:
    """The newest wheel that fits."""

    version: str
    needs: tuple[str, ...]
    """Its Requires-Dist."""


Ask = Callable[[Mac, Sequence[str]], Mapping[str, Found]]
"""Wheels by name for requirements on a Mac; what has none is not among them."""


@dataclass
class Wanted:
    """What is asked of a package."""

    by: str
    specifier: SpecifierSet = field(default_factory=SpecifierSet)
    extras: set[str] = field(default_factory=set)
    found: Found | None = None

    def text(self, name: str) -> str:
        """As pip takes it."""
        return f"{name}{self.specifier}"


def reached(mac: Mac, requirements: Iterable[Requirement], ask: Ask) -> dict[str, Wanted]:
    """Everything that requirements lead to on a Mac; `found` is None where there is no wheel."""
    wanted: dict[str, Wanted] = {}

    def add(requirement: Requirement, by: str) -> bool:
        """Whether the package has to be asked for again."""
        name = canonicalize_name(requirement.name)
        each = wanted.setdefault(name, Wanted(by))
        new = not each.found or not requirement.specifier.contains(each.found.version, prereleases=True)
        new = new or bool(requirement.extras - each.extras)
        each.specifier &= requirement.specifier
        each.extras |= requirement.extras
        return new

    asked = {canonicalize_name(each.name) for each in requirements if mac.applies(each) and add(each, "auricle")}
    while asked:
        found = ask(mac, sorted(wanted[name].text(name) for name in asked))
        for name in asked:
            wanted[name].found = found.get(name)
        known, news = set(wanted), set()
        for name in sorted(found):
            for need in map(Requirement, found[name].needs):
                other = canonicalize_name(need.name)
                has_none = other in known and wanted[other].found is None
                if mac.applies(need, wanted[name].extras) and add(need, name) and not has_none:
                    news.add(other)
        asked = news
    return wanted


def remembering(ask: Ask) -> Ask:
    """Ask for a requirement once: extras have most of theirs in common."""
    known: dict[tuple[Mac, str], tuple[str, Found] | None] = {}

    def asked(mac: Mac, requirements: Sequence[str]) -> dict[str, Found]:
        new = [each for each in requirements if (mac, each) not in known]
        found = ask(mac, new) if new else {}
        for each in new:
            name = canonicalize_name(Requirement(each).name)
            known[mac, each] = (name, found[name]) if name in found else None
        return dict(each for text in requirements if (each := known[mac, text]) is not None)

    return asked


def without_wheel(said: str) -> str | None:
    """The package that pip names as what it found nothing for."""
    none = _NONE.search(said)
    return canonicalize_name(none[1]) if none else None


def ask_pip(mac: Mac, requirements: Sequence[str]) -> dict[str, Found]:
    """Ask the configured index; SystemExit where pip fails for another reason than a missing wheel."""
    left = list(requirements)
    with tempfile.TemporaryDirectory() as nowhere:
        report = Path(nowhere) / "report.json"
        command = [sys.executable, "-m", "pip", "install", "-q", "--dry-run", "--no-deps", "--ignore-installed"]
        command += ["--disable-pip-version-check", "--only-binary=:all:", "--target", nowhere, "--report", str(report)]
        command += ["--platform", f"macosx_14_0_{mac.machine}", "--python-version", mac.python]
        while left:
            done = subprocess.run([*command, *left], capture_output=True, text=True, check=False)
            if done.returncode == 0:
                installs = json.loads(report.read_text())["install"]
                return {
                    canonicalize_name(each["metadata"]["name"]): Found(
                        each["metadata"]["version"], tuple(each["metadata"].get("requires_dist", ()))
                    )
                    for each in installs
                }
            name = without_wheel(done.stderr)
            if name is None:
                raise SystemExit(f"mac_wheels: {done.stderr.strip()[-800:]}")
            left = [each for each in left if canonicalize_name(Requirement(each).name) != name]
    return {}


def requirements_of(extra: str) -> list[Requirement]:
    """What pyproject.toml asks for with an extra: the base, and the extras that it names."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    found, waiting = [Requirement(text) for text in project["dependencies"]], [extra]
    for each in waiting:  # grows on the way
        for requirement in map(Requirement, project["optional-dependencies"][each]):
            if requirement.name == "auricle":
                waiting += sorted(requirement.extras - set(waiting))
            else:
                found.append(requirement)
    return found


def row(wanted: Mapping[str, Wanted]) -> str:
    """`all N`, or what is missing and who wants it."""
    missing = [f"{name}{each.specifier} (for {each.by})" for name, each in sorted(wanted.items()) if not each.found]
    return f"all {len(wanted)}" if not missing else f"NO WHEEL of {len(wanted)}: {', '.join(missing)}"


def main(arguments: Sequence[str] | None = None) -> int:
    """Print the table; 1 where a wheel for arm64 is missing."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--extra", action="append", help=f"may be given more than once [{', '.join(LAPTOP)}]")
    parser.add_argument("--python", action="append", help="may be given more than once [3.10 to 3.13]")
    parser.add_argument("--packages", action="store_true", help="also print every package with its version")
    given = parser.parse_args(arguments)
    failed, ask = 0, remembering(ask_pip)
    print("| extra | Python | processor | wheels |\n|---|---|---|---|")
    for extra in given.extra or LAPTOP:
        for machine in MACHINES:
            for python in given.python or PYTHONS:
                wanted = reached(Mac(python, machine), requirements_of(extra), ask)
                failed |= machine == "arm64" and any(each.found is None for each in wanted.values())
                print(f"| {extra} | {python} | {machine} | {row(wanted)} |", flush=True)
                for name, each in sorted(wanted.items()) if given.packages else ():
                    print(f"    {name} {each.found.version if each.found else 'none'}")
    return int(failed)


if __name__ == "__main__":
    raise SystemExit(main())
