"""Whether the locks in `edge/requirements` hold together, by what the wheels say, and what a new one would be."""

from __future__ import annotations

import json
import re
import sys
import tempfile
import zipfile
from collections.abc import Iterator, Mapping, Sequence
from email.parser import BytesParser
from pathlib import Path

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name, parse_wheel_filename

from auricle_export.flash.bundle.locks import EXTRAS, LOCKS, Locked, Target, WheelError, read_lock  # noqa: F401
from auricle_export.flash.bundle.wheelhouse import UnreachableError, fetch, pip, wheelhouse, wheels_of  # noqa: F401

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

CHECKOUT = Path(__file__).parents[2]
TARGETS = tuple(Target(minor, machine) for machine in ("aarch64", "x86_64") for minor in (10, 11, 12, 13))


def markers(target: Target) -> dict[str, str]:
    """The values of requirement markers on a target, which pip itself takes from the machine that it runs on."""
    return {
        "python_version": f"3.{target.minor}",
        "python_full_version": f"3.{target.minor}.0",
        "implementation_name": "cpython",
        "implementation_version": f"3.{target.minor}.0",
        "platform_python_implementation": "CPython",
        "os_name": "posix",
        "sys_platform": "linux",
        "platform_system": "Linux",
        "platform_machine": target.machine,
        "platform_release": "",
        "platform_version": "",
    }


def extra_requirements(*extras: str) -> list[Requirement]:
    """What the checkout's pyproject.toml asks for with extras: the base, the extras, and those that they name."""
    project = tomllib.loads((CHECKOUT / "pyproject.toml").read_text())["project"]
    wanted, waiting = [Requirement(text) for text in project["dependencies"]], list(extras or EXTRAS)
    for extra in waiting:  # grows on the way
        for requirement in map(Requirement, project["optional-dependencies"][extra]):
            if requirement.name != "auricle":
                wanted.append(requirement)
            else:
                waiting += sorted(requirement.extras - set(waiting))
    return wanted


def applies(requirement: Requirement, target: Target, extra: str = "") -> bool:
    """Whether a requirement counts on a target, for somebody who asked for `extra`."""
    return requirement.marker is None or requirement.marker.evaluate({**markers(target), "extra": extra})


def unmet(wanted: Sequence[Requirement], locked: Mapping[str, Locked], target: Target) -> list[str]:
    """Those requirements that count on a target and that a lock does not satisfy, each as a sentence."""
    missing = []
    for requirement in wanted:
        if not applies(requirement, target):
            continue
        line = locked.get(canonicalize_name(requirement.name))
        if line is None:
            missing.append(f"{requirement} is not locked")
        elif not requirement.specifier.contains(line.version, prereleases=True):
            missing.append(f"{requirement} is locked at {line.version}")
    return missing


def metadata_requirements(wheel: Path) -> Iterator[Requirement]:
    """What a wheel says it needs."""
    with zipfile.ZipFile(wheel) as archive:
        name = next(n for n in archive.namelist() if re.fullmatch(r"[^/]+\.dist-info/METADATA", n))
        headers = BytesParser().parsebytes(archive.read(name), headersonly=True)
    for text in headers.get_all("Requires-Dist", []):
        yield Requirement(text)


def closure_gaps(wheels: Mapping[str, Path], locked: Mapping[str, Locked], target: Target) -> list[str]:
    """What the wheels of a lock need on a target that the lock lacks, from the wheels' own metadata."""
    return [
        f"{name}: {gap}"
        for name, path in sorted(wheels.items())
        for gap in unmet(list(metadata_requirements(path)), locked, target)
    ]


def wrong_tags(wheels: Mapping[str, Path], target: Target) -> list[str]:
    """Wheels whose tags do not fit the target."""
    platforms, abis = {"any", *target.platforms}, {"none", "abi3", target.tag}
    return [
        path.name
        for path in wheels.values()
        if not any(t.platform in platforms and t.abi in abis for t in parse_wheel_filename(path.name)[3])
    ]


def reached(target: Target, wheels: Mapping[str, Path]) -> set[str]:
    """Names of the wheels that are needed on a target, from the extras on."""
    found: set[str] = set()
    waiting = extra_requirements()
    while waiting:
        requirement = waiting.pop()
        name = canonicalize_name(requirement.name)
        if applies(requirement, target) and name not in found:
            found.add(name)
            waiting += metadata_requirements(wheels[name])
    return found


def resolved(target: Target, *requirements: str) -> list[Locked]:
    """What pip's newest choice of wheels for a target is, from the configured index."""
    with tempfile.TemporaryDirectory() as nowhere:
        report = Path(nowhere) / "report.json"
        pip(
            "install",
            "-q",
            "--dry-run",
            "--ignore-installed",
            *target.options,
            "--target",
            nowhere,
            "--report",
            str(report),
            *requirements,
        )
        return [
            Locked(
                canonicalize_name(item["metadata"]["name"]),
                item["metadata"]["version"],
                item["download_info"]["archive_info"]["hashes"]["sha256"],
            )
            for item in json.loads(report.read_text())["install"]
        ]
