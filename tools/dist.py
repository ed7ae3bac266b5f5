"""Build what is published, the wheel and the sdist, and check both: bytes, metadata, files, clean environments.

    python tools/dist.py [--quick] [--python 3.10 --python 3.13] [--extra NAME ...] [--resolve NAME ...]
    python tools/dist.py --wheel FILE       # that one is installed and tried, nothing is built

What the last commit holds is built, nothing else. It is built twice, with two folders, time zones and umasks, and a
third time from the sdist: the bytes must be the same on any machine (SOURCE_DATE_EPOCH is the commit's time, hatchling
the one of deploy/requirements/build.txt, and zig, which compiles the C library for every machine in `WHEELS`, that of
deploy/requirements/native-*.txt). Then `dist_environments` installs the wheel as a user does.

`--quick` leaves the clean environments at two, of the Python that runs: bare, and with the extra `fleet`.
"""

from __future__ import annotations

import argparse
import hashlib
import os
import platform
import subprocess
import sys
import tarfile
import tempfile
import zipfile
from collections.abc import Sequence
from pathlib import Path

import dist_environments

from auricle_learning.native.compiling import WHEELS, shipped

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

ROOT = Path(__file__).parents[1]
BUILD_LOCKS = ("deploy/requirements/build.txt", f"deploy/requirements/native-{platform.machine()}.txt")
COMPILED = {f"auricle_learning/native/{shipped(machine).name}" for machine in WHEELS}
"""What a wheel has that the commit has not: the C library."""
OF_HATCHLING = {"PKG-INFO", ".gitignore"}
"""What an sdist has that the build adds by itself."""


class DistError(SystemExit):
    """What is wrong with the distribution, in a sentence."""

    def __init__(self, sentence: str) -> None:
        super().__init__(f"dist: {sentence}")


def run(command: Sequence[str | Path], cwd: Path, env: dict[str, str] | None = None, umask: int = -1) -> str:
    """Run a command to its end; DistError, with the end of what it said, where it fails."""
    done = subprocess.run(
        list(map(str, command)), cwd=cwd, env=env, umask=umask, capture_output=True, text=True, check=False
    )
    if done.returncode != 0:
        raise DistError(f"{' '.join(map(str, command))[:200]}: {(done.stderr + done.stdout).strip()[-1500:]}")
    return done.stdout


def check_out(commit: str, folder: Path, root: Path = ROOT) -> Path:
    """Write the files of a commit into a new folder; what is not committed is not among them."""
    folder.mkdir()
    archive = folder.with_suffix(".tar")
    run(["git", "archive", "--format=tar", f"--output={archive}", commit], root)
    with tarfile.open(archive) as files:
        files.extractall(folder, filter="data")
    archive.unlink()
    return folder


def build_python(folder: Path, quick: bool) -> Path:
    """A Python with the locked hatchling; the one that runs, with its own, where it has to be quick."""
    if quick:
        return Path(sys.executable)
    python = dist_environments.environment(folder, Path(sys.executable))
    for lock in BUILD_LOCKS:
        dist_environments.install(python, "--require-hashes", "--only-binary=:all:", "-r", ROOT / lock)
    return python


def build(python: Path, source: Path, out: Path, epoch: str, *, other: bool = False) -> dict[str, Path]:
    """Build both in a folder with the sources; the paths by kind, `wheel` and `sdist`.

    Parameters
    ----------
    epoch
        SOURCE_DATE_EPOCH: seconds, the commit's time.
    other
        As on another machine: another umask, time zone, locale and order of hashes.
    """
    env = {name: value for name, value in os.environ.items() if name not in ("PYTHONPATH", "HATCH_BUILD_HOOKS_ENABLE")}
    env |= {"SOURCE_DATE_EPOCH": epoch, "PYTHONHASHSEED": "1", "TZ": "UTC"}
    if other:
        env |= {"PYTHONHASHSEED": "2", "TZ": "Pacific/Auckland", "LC_ALL": "C"}
    run([python, "-m", "hatchling", "build", "-d", out], source, env, 0o077 if other else 0o022)
    (wheel,), (sdist,) = out.glob("*.whl"), out.glob("*.tar.gz")
    return {"wheel": wheel, "sdist": sdist}


def digest(path: Path) -> str:
    """SHA-256 of a file."""
    return hashlib.sha256(path.read_bytes()).hexdigest()


def build_twice(python: Path, commit: str, work: Path, out: Path) -> dict[str, Path]:
    """Build, build again as another would, and again from the sdist; DistError where a byte differs."""
    epoch = run(["git", "log", "-1", "--format=%ct", commit], ROOT).strip()
    for old in (*out.glob("auricle-*.whl"), *out.glob("auricle-*.tar.gz")):
        old.unlink()
    first = build(python, check_out(commit, work / "one"), out, epoch)
    again = build(python, check_out(commit, work / "another"), work / "again", epoch, other=True)
    with tarfile.open(first["sdist"]) as files:
        files.extractall(work / "unpacked", filter="data")
    (unpacked,) = (work / "unpacked").iterdir()
    of_sdist = build(python, unpacked, work / "of-sdist", epoch)
    for how, made in (("a second build", again), ("a build of the sdist", of_sdist)):
        for kind, path in made.items():
            if digest(path) != digest(first[kind]):
                raise DistError(f"{how} gives another {kind}: compare {first[kind]} with one built with --keep.")
    return first


def files_of(path: Path) -> set[str]:
    """The files in a wheel, without those of its dist-info, or in an sdist, without its top folder."""
    if path.suffix == ".whl":
        with zipfile.ZipFile(path) as archive:
            return {name for name in archive.namelist() if ".dist-info/" not in name}
    with tarfile.open(path) as archive:
        return {member.name.partition("/")[2] for member in archive if member.isfile()} - OF_HATCHLING


def wanted_files(tracked: Sequence[str], kind: str, targets: dict[str, dict[str, object]]) -> set[str]:
    """What has to be in a distribution: every file of the commit that pyproject.toml takes, by its name there."""
    settings = targets[kind]
    chosen: list[str] = list(settings["only-include"])  # type: ignore[call-overload]
    places: dict[str, str] = dict(settings.get("sources", {}))  # type: ignore[call-overload]
    always = ["README.md", "LICENSE", "pyproject.toml"] if kind == "sdist" else []
    found = set()
    for name in tracked:
        folder = next((each for each in (*chosen, *always) if name == each or name.startswith(f"{each}/")), None)
        if folder is not None:
            found.add(places.get(folder, folder) + name.removeprefix(folder))
    return found


def check_files(made: dict[str, Path], commit: str) -> None:
    """DistError where a file of the commit is missing in the distributions, or one is in them that it has not."""
    tracked = run(["git", "ls-tree", "-r", "--name-only", "-z", commit], ROOT).split("\0")
    settings = tomllib.loads(run(["git", "show", f"{commit}:pyproject.toml"], ROOT))
    for kind, path in made.items():
        wanted = wanted_files(tracked, kind, settings["tool"]["hatch"]["build"]["targets"])
        wanted |= COMPILED if kind == "wheel" else set()
        found = files_of(path)
        for names, what in ((wanted - found, "lacks"), (found - wanted, "has, and the commit has not,")):
            if names:
                raise DistError(f"{path.name} {what} {len(names)} files: {', '.join(sorted(names)[:5])}.")
        print(f"{path.name}: {len(found)} files, {path.stat().st_size:,} bytes, sha256 {digest(path)}", flush=True)


def check_tag(tag: str | None, wheel: Path) -> None:
    """DistError where a tag is given that is not the wheel's version."""
    version = dist_environments.metadata(wheel)["Version"]
    if tag is not None and tag != f"v{version}":
        raise DistError(f"the tag is {tag}, and the version in core/auricle/__init__.py {version}: tag v{version}.")


def try_wheel(wheel: Path, given: argparse.Namespace) -> int:
    """Install and use the wheel in clean environments; 1 where one failed or a Python is missing."""
    if given.quick:
        pythons, missing, extras = [Path(sys.executable)], [], ["fleet"]
    else:
        pythons, missing = dist_environments.interpreters(given.python or ["3.10", "3.13"])
        extras = given.extra
    for version in missing:
        print(f"Python {version} is not on this machine: NOT CHECKED (`uv python install {version}`).", flush=True)
    with tempfile.TemporaryDirectory(prefix="auricle-dist-") as folder:
        failed = dist_environments.check(wheel, Path(folder), pythons, extras, given.resolve)
    return 1 if missing else failed


def main(arguments: Sequence[str] | None = None) -> int:
    """Build and check; 0 where all is in order."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, default=ROOT / "dist", help="folder of wheel and sdist [dist]")
    parser.add_argument("--commit", default="HEAD", help="what is built [HEAD]")
    tag = os.environ.get("AURICLE_TAG")
    parser.add_argument("--tag", default=tag, help="fail unless it is v<version> [the variable AURICLE_TAG]")
    parser.add_argument("--wheel", type=Path, help="build nothing, try this one")
    parser.add_argument("--quick", action="store_true", help="this Python alone: bare, and with the extra fleet")
    parser.add_argument("--python", action="append", help="such as 3.12, may be given more than once [3.10, 3.13]")
    parser.add_argument("--extra", action="append", help="only these; may be given more than once [all]")
    parser.add_argument("--resolve", action="append", default=[], help="find the packages of this extra, install none")
    given = parser.parse_args(arguments)
    if given.wheel is not None:
        return try_wheel(given.wheel.resolve(), given)
    commit = run(["git", "rev-parse", "--verify", f"{given.commit}^{{commit}}"], ROOT).strip()
    if run(["git", "status", "--porcelain", "--untracked-files=no"], ROOT):
        print(f"Changes that are not committed are left out: this is {commit[:12]}.", flush=True)
    given.out.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix="auricle-dist-") as folder:
        work = Path(folder)
        made = build_twice(build_python(work / "build", given.quick), commit, work, given.out.resolve())
    print("Two builds and one of the sdist have the same bytes.", flush=True)
    check_tag(given.tag, made["wheel"])
    check_files(made, commit)
    print(run([sys.executable, "-m", "twine", "check", "--strict", *made.values()], ROOT).strip(), flush=True)
    return try_wheel(made["wheel"], given)


if __name__ == "__main__":
    raise SystemExit(main())
