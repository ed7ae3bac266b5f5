"""Whether the wheels of a bundle are for the system that it is made for: its Python, processor and C library."""

from __future__ import annotations

import re
import zipfile
from collections.abc import Iterator
from pathlib import Path

import pytest
from packaging.tags import Tag, compatible_tags, cpython_tags
from packaging.utils import parse_wheel_filename

from auricle_export.flash.board import RELEASES, System
from auricle_export.flash.bundle.locks import Target
from auricle_export.flash.bundle.wheelhouse import UnreachableError, fetch, wheelhouse
from tests.boards.systems import Candidate

pytestmark = [pytest.mark.boards, pytest.mark.timeout(600)]


def tags(system: System, machine: str) -> set[Tag]:
    """Of the wheels that pip takes on a system."""
    release = RELEASES[system.base]
    interpreter = "cp{}{}".format(*release.python)
    platforms = [f"manylinux_2_{minor}_{machine}" for minor in range(release.glibc, 16, -1)] + [
        f"manylinux2014_{machine}"
    ]
    return {
        *cpython_tags(release.python, [interpreter], platforms),
        *compatible_tags(release.python, interpreter, platforms),
    }


def glibc_versions(wheel: Path) -> Iterator[int]:
    """Minor versions of glibc 2 whose symbols the libraries in a wheel ask for."""
    with zipfile.ZipFile(wheel) as archive:
        for name in archive.namelist():
            if re.search(r"\.so(\.\d+)*\Z", name):
                yield from map(int, re.findall(rb"\0GLIBC_2\.(\d{1,2})(?=[.\0])", archive.read(name)))


def test_a_system_takes_every_wheel_of_its_bundle_and_has_the_library_they_need(candidate: Candidate) -> None:
    target = Target.of(candidate.system)
    try:
        wheels = fetch(target, wheelhouse(target))
    except UnreachableError as error:
        pytest.skip(str(error))
    taken = tags(candidate.system, candidate.board.architecture)
    needed = {name: max(glibc_versions(path), default=0) for name, path in wheels.items()}

    assert [path.name for path in wheels.values() if not parse_wheel_filename(path.name)[3] & taken] == []
    assert 17 <= needed["onnxruntime"] <= 28
    assert max(needed.values()) <= RELEASES[candidate.system.base].glibc
