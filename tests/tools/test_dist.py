"""What is published: that files which are missing are seen, and that a build is whole, repeatable and usable."""

from __future__ import annotations

import importlib.metadata
import os
import re
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest
from tests.edge.cached_environment import linked_packages

from auricle.process.cli import PARTS

sys.path.insert(0, str(Path(__file__).parents[2] / "tools"))

import dist
import dist_environments

TARGETS = dist.tomllib.loads((dist.ROOT / "pyproject.toml").read_text())["tool"]["hatch"]["build"]["targets"]


def test_every_pack_page_and_lock_is_wanted_in_the_wheel_by_its_name_there() -> None:
    packed = ["core/auricle/packs/home.tar.zst", "edge/requirements/x86_64-cp311.txt", "firmware-configs/pi5.toml"]
    tracked = [*packed, "tests/test_imports.py", "README.md"]
    wheel = dist.wanted_files(tracked, "wheel", TARGETS)
    sdist = dist.wanted_files(tracked, "sdist", TARGETS)
    flash = "auricle_export/flash"
    assert wheel == {"auricle/packs/home.tar.zst", f"{flash}/locks/x86_64-cp311.txt", f"{flash}/profiles/pi5.toml"}
    assert sdist == set(tracked)


def test_a_wheel_that_lacks_a_file_or_has_one_too_many_is_not_published(tmp_path: Path) -> None:
    if subprocess.run(["git", "rev-parse", "HEAD"], cwd=dist.ROOT, capture_output=True, check=False).returncode:
        pytest.skip("this is not a clone: there is no commit to compare with")
    tracked = dist.run(["git", "ls-tree", "-r", "--name-only", "-z", "HEAD"], dist.ROOT).split("\0")
    names = sorted(dist.wanted_files(tracked, "wheel", TARGETS) | dist.COMPILED)
    path = tmp_path / "auricle-1-py3-none-any.whl"

    def made_of(chosen: list[str]) -> dict[str, Path]:
        with zipfile.ZipFile(path, "w") as archive:
            for name in (*chosen, "auricle-1.dist-info/METADATA"):
                archive.writestr(name, b"")
        return {"wheel": path}

    dist.check_files(made_of(names), "HEAD")
    with pytest.raises(SystemExit, match=r"packs/home\.tar\.zst"):
        dist.check_files(made_of([name for name in names if name != "auricle/packs/home.tar.zst"]), "HEAD")
    with pytest.raises(SystemExit, match=r"secret\.key"):
        dist.check_files(made_of([*names, "auricle/secret.key"]), "HEAD")


def test_a_tag_of_another_version_publishes_nothing(tmp_path: Path) -> None:
    path = tmp_path / "auricle-1.2-py3-none-any.whl"
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("auricle-1.2.dist-info/METADATA", "Metadata-Version: 2.4\nName: auricle\nVersion: 1.2\n")
    dist.check_tag("v1.2", path)
    dist.check_tag(None, path)
    with pytest.raises(SystemExit, match=r"v1\.3"):
        dist.check_tag("v1.3", path)


def test_every_extra_for_users_is_tried_with_what_it_is_for() -> None:
    """A new extra has to say which parts run with it, or which module it brings."""
    offered = set(dist.tomllib.loads((dist.ROOT / "pyproject.toml").read_text())["project"]["optional-dependencies"])
    known = set(dist_environments.PARTS) | set(dist_environments.MODULES)

    mine = ".".join(map(str, sys.version_info[:2]))
    assert dist_environments.interpreters([mine, "2.99"]) == ([Path(sys.executable)], ["2.99"])
    # Those of libraries that have no wheel for every Python: installed where there is one.
    assert offered - dist_environments.NOT_FOR_USERS - known == {"cloud-base", "ort-training", "tflite-runtime"}
    assert known <= offered


def test_every_part_of_the_wheel_is_tried_and_every_command_asked() -> None:
    """What a part is and which commands it has follows from the tree: `learning` is a part, and no command."""
    packages = {Path(place).name for place in TARGETS["wheel"]["only-include"] if "/auricle" in place}
    parts = {part for of_extra in dist_environments.PARTS.values() for part in of_extra}
    assert parts == packages - {"auricle"}

    asked = {extra: dist_environments.commands_of(of_extra) for extra, of_extra in dist_environments.PARTS.items()}
    assert {name for names in asked.values() for name in names} == set(PARTS)
    assert asked["edge"] == ["edge"] and asked["export"] == ["export", "flash"]


@pytest.mark.slow
@pytest.mark.several
def test_every_part_of_the_wheel_answers_without_the_checkout(tmp_path: Path) -> None:
    """The last commit's wheel, without the C library, where our packages are and our sources are not."""
    pytest.importorskip("hatchling")
    source = dist.check_out("HEAD", tmp_path / "source")
    build = [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", tmp_path]
    dist.run(build, source, {**os.environ, "HATCH_BUILD_NO_HOOKS": "true"})
    (wheel,) = tmp_path.glob("*.whl")
    inside = dist_environments.environment(tmp_path / "environment", Path(sys.executable))
    packages = linked_packages(tmp_path / "site-packages", "auricle", "_auricle")
    (own,) = (tmp_path / "environment").glob("lib/python*/site-packages")
    (own / "others.pth").write_text(f"{packages}\n")
    dist_environments.install(inside, "--no-deps", wheel)
    for extra in ("fleet", "export"):  # all parts
        dist_environments.try_parts(inside, extra)


@pytest.mark.slow
@pytest.mark.timeout(1500)
@pytest.mark.nightly
def test_a_build_is_repeatable_and_its_wheel_runs_a_fleet_without_the_checkout(tmp_path: Path) -> None:
    pytest.importorskip("hatchling")
    pytest.importorskip("twine", reason="twine is not installed")
    command = [sys.executable, str(dist.ROOT / "tools" / "dist.py"), "--quick", "--out", str(tmp_path)]

    done = subprocess.run(command, capture_output=True, text=True, check=False)

    assert done.returncode == 0, done.stdout + done.stderr
    assert "Two builds and one of the sdist have the same bytes." in done.stdout
    version = importlib.metadata.version("auricle")
    assert f"auricle: auricle {version}" in done.stdout
    assert re.search(r"auricle\[fleet\]: imports, help and a round of two devices; \d+ MB", done.stdout)
    kinds = sorted(path.name.removeprefix(f"auricle-{version}") for path in tmp_path.iterdir())
    assert kinds == ["-py3-none-any.whl", ".tar.gz"]
