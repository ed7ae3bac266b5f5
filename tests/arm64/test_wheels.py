"""The wheel matrix: the agent's extras install from wheels only, locked by hash, for each machine and Python."""

from __future__ import annotations

import hashlib
import json
import os
import re
import sys
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from auricle_export.flash.bundle.auricle_wheel import auricle_wheel
from tests.arm64.wheels import (
    EXTRAS,
    LOCKS,
    TARGETS,
    Locked,
    Target,
    UnreachableError,
    WheelError,
    closure_gaps,
    extra_requirements,
    fetch,
    pip,
    reached,
    read_lock,
    unmet,
    wheelhouse,
    wrong_tags,
)

each_target = pytest.mark.parametrize("target", TARGETS, ids=lambda target: target.name)
SHA256 = "ab" * 32


@each_target
def test_a_lock_names_every_dependency_at_a_version_that_pyproject_allows(target: Target) -> None:
    assert unmet(extra_requirements(), read_lock(target.lock), target) == []


def test_there_is_a_lock_for_each_target_and_none_names_a_host() -> None:
    assert {path.name for path in LOCKS.iterdir()} == {target.lock.name for target in TARGETS}
    for path in LOCKS.iterdir():
        assert not re.search(r"://|--(extra-)?index|--find-links|@", path.read_text())


def test_what_a_lock_lacks_or_has_in_another_version_is_named() -> None:
    locked = {"numpy": Locked("numpy", "1.25.0", SHA256), "msgspec": Locked("msgspec", "0.20.0", SHA256)}
    wanted = [
        Requirement(text)
        for text in (
            *("numpy>=1.26", "msgspec>=0.18", "Rich_Table>=1", "tomli>=2; python_version < '3.11'"),
            *("pywin32; sys_platform == 'win32'", "extra-only; extra == 'mic'"),
        )
    ]

    assert unmet(wanted, locked, Target(11)) == ["numpy>=1.26 is locked at 1.25.0", "Rich_Table>=1 is not locked"]
    assert unmet(wanted, locked, Target(10))[-1] == 'tomli>=2; python_version < "3.11" is not locked'


@pytest.mark.parametrize("text", ["numpy>=1.26", f"numpy==2.0 --hash=md5:{SHA256}", "--index-url x", "numpy==2.0"])
def test_a_line_that_is_no_locked_wheel_is_named(text: str, tmp_path: Path) -> None:
    path = tmp_path / "lock.txt"
    path.write_text(f"# a comment\nrich==15.0 --hash=sha256:{SHA256}\n{text}\n")

    with pytest.raises(WheelError, match=f"lock.txt has a line that is not a locked wheel.*{re.escape(text)}"):
        read_lock(path)


@pytest.fixture(params=TARGETS, ids=lambda target: target.name)
def target(request: pytest.FixtureRequest) -> Target:
    found: Target = request.param
    return found


@pytest.fixture
def wheels(target: Target) -> dict[str, Path]:
    """The locked wheels, fetched once."""
    try:
        return fetch(target, wheelhouse(target))
    except UnreachableError as error:
        pytest.skip(f"no wheels: {error}")


@pytest.mark.arm64
@pytest.mark.timeout(900)
def test_the_locked_wheels_are_for_their_machine_and_need_nothing_else(target: Target, wheels: dict[str, Path]) -> None:
    locked = read_lock(target.lock)

    assert set(wheels) == set(locked)
    assert wrong_tags(wheels, target) == []
    assert closure_gaps(wheels, locked, target) == []
    assert not (set(locked) - reached(target, wheels)), "the lock holds wheels that nothing needs"


@pytest.mark.arm64
@pytest.mark.timeout(900)
@pytest.mark.skipif(
    sys.version_info < (3, 11), reason="pip takes markers from the Python it runs on: this one needs tomli"
)
def test_pip_resolves_the_extras_from_exactly_these(target: Target, wheels: dict[str, Path], tmp_path: Path) -> None:
    name, content = auricle_wheel()
    own = tmp_path / name
    own.write_bytes(content)
    asked, report = tmp_path / "asked.txt", tmp_path / "report.json"
    sha256 = hashlib.sha256(content).hexdigest()
    asked.write_text(f"auricle[{','.join(EXTRAS)}] @ {own.as_uri()} --hash=sha256:{sha256}\n{target.lock.read_text()}")

    pip(
        *("install", "-q", "--dry-run", "--ignore-installed", "--no-index", "--find-links", str(wheelhouse(target))),
        "--require-hashes",
        *target.options,
        *("--target", str(tmp_path / "to"), "--report", str(report), "-r", str(asked)),
    )

    chosen = {
        canonicalize_name(item["metadata"]["name"]): item["download_info"]["archive_info"]["hashes"]["sha256"]
        for item in json.loads(report.read_text())["install"]
    }
    assert chosen == {"auricle": sha256, **{name: line.sha256 for name, line in read_lock(target.lock).items()}}


@pytest.mark.arm64
def test_another_wheel_than_the_locked_is_not_taken(target: Target, wheels: dict[str, Path], tmp_path: Path) -> None:
    forged = tmp_path / wheels["mdurl"].name
    forged.write_bytes(wheels["mdurl"].read_bytes() + b" ")
    line = str(read_lock(target.lock)["mdurl"])
    (tmp_path / "lock.txt").write_text(line)

    with pytest.raises(WheelError, match=r"pip download failed: \S"):
        pip(
            *("download", "-q", "--no-deps", "--no-index", "--find-links", str(tmp_path), "--require-hashes"),
            *target.options,
            "--dest",
            str(tmp_path / "to"),
            "-r",
            str(tmp_path / "lock.txt"),
        )


@pytest.mark.arm64
def test_an_index_that_cannot_be_reached_is_said(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in {
        "PIP_CONFIG_FILE": os.devnull,
        "PIP_INDEX_URL": "http://127.0.0.1:9/",
        "PIP_RETRIES": "1",
    }.items():
        monkeypatch.setenv(name, value)
    monkeypatch.delenv("PIP_FIND_LINKS", raising=False)

    with pytest.raises(UnreachableError, match="look at the network"):
        fetch(TARGETS[0], tmp_path / "wheels")
