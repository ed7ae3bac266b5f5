"""The limit of open files, also on a system that cannot lift another process's and allows less than it says."""

from __future__ import annotations

import resource
import sys

import pytest

from auricle.process import open_files


@pytest.mark.parametrize(
    ("soft", "hard", "allowed", "lifted"),
    [
        (256, resource.RLIM_INFINITY, 100_000, open_files.WANTED),
        (256, resource.RLIM_INFINITY, 10_240, 10_240),
        (256, resource.RLIM_INFINITY, 200, 256),
        (256, 4096, 100_000, 4096),
        (20_000, resource.RLIM_INFINITY, 20_000, 20_000),
    ],
    ids=["as wanted", "as macOS allows", "not at all", "as far as the hard limit", "never less"],
)
def test_outside_of_linux_ours_goes_as_far_as_the_system_lets_it(
    soft: int, hard: int, allowed: int, lifted: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    limits = [(soft, hard)]

    def setrlimit(_: int, wanted: tuple[int, int]) -> None:
        if wanted[0] > allowed:
            raise ValueError("current limit exceeds maximum limit")
        limits.append(wanted)

    monkeypatch.setattr(sys, "platform", "darwin")
    monkeypatch.setattr(resource, "getrlimit", lambda _: limits[-1])
    monkeypatch.setattr(resource, "setrlimit", setrlimit)
    monkeypatch.delattr(resource, "prlimit", raising=False)

    assert open_files.raise_open_files(4711) == soft  # another process keeps what it has
    assert open_files.raise_open_files() == lifted
    assert limits[-1] == (lifted, hard)
