"""Locks of the `edge` extra for boards: which wheels, by SHA-256, satisfy it without a compiler or an index.

A lock is a pip requirements file with one wheel a line. It names no index: pip takes the one it is configured with.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
import subprocess
import sys
import tempfile
import zipfile
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from email.parser import BytesParser
from pathlib import Path

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name, parse_wheel_filename

from auricle.errors import AuricleError

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

CHECKOUT = Path(__file__).parents[2]
LOCKS = CHECKOUT / "edge" / "requirements"
GLIBC = (28, 27, 26, 24, 17)
"""Minor versions of glibc 2 that wheels are built for; 2.28 is older than that of any board's system in support."""
_LINE = re.compile(r"^(?P<name>[a-z0-9.-]+)==(?P<version>\S+) --hash=sha256:(?P<sha256>[0-9a-f]{64})\Z")
_OFFLINE = (
    r"NewConnectionError|connection broken|NameResolutionError|ConnectTimeoutError|ProxyError|Max retries exceeded"
)


class WheelError(AuricleError):
    """A lock or a wheelhouse that is not whole."""


class UnreachableError(WheelError):
    """The package index cannot be reached."""


@dataclass(frozen=True)
class Target:
    """A board's Python."""

    minor: int
    """Of CPython 3."""
    machine: str = "aarch64"

    @property
    def tag(self) -> str:
        """Short name, as in wheels: `cp311`."""
        return f"cp3{self.minor}"

    @property
    def lock(self) -> Path:
        """The lock of this target in the checkout."""
        return LOCKS / f"{self.machine}-{self.tag}.txt"

    @property
    def platforms(self) -> list[str]:
        """Platform tags of the wheels it takes."""
        return [*(f"manylinux_2_{minor}_{self.machine}" for minor in GLIBC), f"manylinux2014_{self.machine}"]

    @property
    def options(self) -> list[str]:
        """pip's options that make it choose for this target, wherever it runs, and wheels only."""
        chosen = ["--only-binary=:all:", "--implementation", "cp", "--python-version", f"3.{self.minor}"]
        for abi in (self.tag, "abi3", "none"):
            chosen += ["--abi", abi]
        for platform in self.platforms:
            chosen += ["--platform", platform]
        return chosen

    @property
    def markers(self) -> dict[str, str]:
        """The values of requirement markers there, which pip itself takes from the machine that it runs on."""
        return {
            "python_version": f"3.{self.minor}", "python_full_version": f"3.{self.minor}.0",
            "implementation_name": "cpython", "implementation_version": f"3.{self.minor}.0",
            "platform_python_implementation": "CPython", "os_name": "posix", "sys_platform": "linux",
            "platform_system": "Linux", "platform_machine": self.machine, "platform_release": "",
            "platform_version": "",
        }  # fmt: skip


TARGETS = (Target(11), Target(13))


@dataclass(frozen=True)
class Locked:
    """One line of a lock."""

    name: str
    version: str
    sha256: str

    def __str__(self) -> str:
        """The line."""
        return f"{self.name}=={self.version} --hash=sha256:{self.sha256}"


def read_lock(path: Path) -> dict[str, Locked]:
    """The lines of a lock by canonical name.

    Raises
    ------
    WheelError
        A line that is neither a comment nor `name==version --hash=sha256:...`, or a name twice.
    """
    found: dict[str, Locked] = {}
    for text in path.read_text().splitlines():
        if not text or text.startswith("#"):
            continue
        line = _LINE.match(text)
        if line is None or line["name"] in found:
            raise WheelError(f"{path.name} has a line that is no locked wheel, or one twice: {text}")
        found[line["name"]] = Locked(line["name"], line["version"], line["sha256"])
    return found


def extra_requirements(extra: str = "edge") -> list[Requirement]:
    """What the checkout's pyproject.toml asks for with an extra: the base and the extra itself."""
    project = tomllib.loads((CHECKOUT / "pyproject.toml").read_text())["project"]
    return [Requirement(text) for text in (*project["dependencies"], *project["optional-dependencies"][extra])]


def applies(requirement: Requirement, target: Target, extra: str = "") -> bool:
    """Whether a requirement counts on a target, for somebody who asked for `extra`."""
    return requirement.marker is None or requirement.marker.evaluate({**target.markers, "extra": extra})


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


def wheels_of(folder: Path, locked: Mapping[str, Locked]) -> dict[str, Path]:
    """The wheels in a folder that are exactly those of a lock, by name; others are passed over."""
    hashes = {line.sha256: line.name for line in locked.values()}
    found = {hashlib.sha256(path.read_bytes()).hexdigest(): path for path in sorted(folder.glob("*.whl"))}
    return {hashes[sha256]: path for sha256, path in found.items() if sha256 in hashes}


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


def pip(*arguments: str) -> str:
    """Run this Python's pip; its standard output.

    Raises
    ------
    UnreachableError
        There is no way to the index.
    WheelError
        It failed otherwise; with its last sentence.
    """
    done = subprocess.run(
        [sys.executable, "-m", "pip", *arguments], capture_output=True, text=True, check=False,
        env={**os.environ, "PIP_DISABLE_PIP_VERSION_CHECK": "1", "PYTHONPATH": ""}, cwd=tempfile.gettempdir(),
    )  # fmt: skip
    if done.returncode:
        if re.search(_OFFLINE, done.stderr):
            raise UnreachableError(
                "pip cannot reach its package index: look at the network, or at pip's configuration."
            )
        said = [line for line in done.stderr.splitlines() if line.startswith("ERROR")] or ["it did not say why."]
        raise WheelError(f"pip {arguments[0]} failed: {said[-1].removeprefix('ERROR: ')}")
    return done.stdout


def fetch(target: Target, folder: Path) -> dict[str, Path]:
    """Bring exactly the wheels of a target's lock into a folder, by hash; downloads only when one is missing.

    Parameters
    ----------
    target
        Whose lock.
    folder
        The wheelhouse; wheels of an older lock are removed from it.

    Raises
    ------
    WheelError
        The index does not have these files, or, as an `UnreachableError`, it cannot be reached.
    """
    locked = read_lock(target.lock)
    folder.mkdir(parents=True, exist_ok=True)
    wheels = wheels_of(folder, locked)
    if len(wheels) < len(locked):
        with tempfile.TemporaryDirectory(dir=folder.parent) as fresh:
            pip("download", "-q", "--no-deps", "--require-hashes", *target.options, "--find-links", str(folder),
                "--dest", fresh, "-r", str(target.lock))  # fmt: skip
            for path in Path(fresh).glob("*.whl"):
                path.replace(folder / path.name)
        wheels = wheels_of(folder, locked)
    if len(wheels) < len(locked):
        raise WheelError(f"The wheels of {', '.join(sorted(set(locked) - set(wheels)))} could not be fetched.")
    for path in set(folder.glob("*.whl")) - set(wheels.values()):
        path.unlink()
    return wheels


def resolved(target: Target, *requirements: str) -> list[Locked]:
    """What pip's newest choice of wheels for a target is, from the configured index."""
    with tempfile.TemporaryDirectory() as nowhere:
        report = Path(nowhere) / "report.json"
        pip("install", "-q", "--dry-run", "--ignore-installed", *target.options, "--target", nowhere,
            "--report", str(report), *requirements)  # fmt: skip
        return [
            Locked(
                canonicalize_name(item["metadata"]["name"]), item["metadata"]["version"],
                item["download_info"]["archive_info"]["hashes"]["sha256"],
            )
            for item in json.loads(report.read_text())["install"]
        ]  # fmt: skip
