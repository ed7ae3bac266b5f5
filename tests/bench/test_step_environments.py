"""Environments of peers: made once, brought up to date, gone when they fail. Nothing is fetched here."""

from __future__ import annotations

import sys
import zipfile
from pathlib import Path
from typing import Any

import pytest
from bench import step_environments
from bench.step_environments import NoEnvironment, Recipe, environment, install_bytes

HERE = (f"{sys.version_info.major}.{sys.version_info.minor}",)


@pytest.fixture(autouse=True)
def _own_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    environment.cache_clear()


def _use(monkeypatch: pytest.MonkeyPatch, recipe: Recipe) -> None:
    monkeypatch.setitem(step_environments.ENVIRONMENTS, "toy", recipe)


def _package(folder: Path, size: int) -> str:
    """A distribution without a build: a wheel of one file."""
    wheel = folder / "toypeer-1.0-py3-none-any.whl"
    with zipfile.ZipFile(wheel, "w") as archive:
        archive.writestr("toypeer_data.bin", b"0" * size)
        archive.writestr("toypeer-1.0.dist-info/METADATA", "Metadata-Version: 2.1\nName: toypeer\nVersion: 1.0\n")
        archive.writestr("toypeer-1.0.dist-info/WHEEL", "Wheel-Version: 1.0\nTag: py3-none-any\n")
        archive.writestr("toypeer-1.0.dist-info/RECORD", "toypeer_data.bin,,\n")
    return str(wheel)


@pytest.mark.slow
def test_it_is_made_once_and_its_size_is_that_of_its_files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    _use(monkeypatch, Recipe((_package(tmp_path, 123_456),), HERE))
    said: list[str] = []

    python = environment("toy", said.append)
    environment.cache_clear()
    again = environment("toy", said.append)

    assert python == again == tmp_path / "auricle" / "bench" / "toy" / "bin" / "python"
    assert len(said) == 1
    assert 123_456 <= install_bytes(python, "toypeer") < 125_000


@pytest.mark.slow
def test_nothing_is_left_of_one_that_cannot_be_made(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    _use(monkeypatch, Recipe((str(tmp_path / "missing-1.0-py3-none-any.whl"),), HERE))
    with pytest.raises(NoEnvironment, match="installed"):
        environment("toy")
    assert not (tmp_path / "auricle" / "bench" / "toy").exists()


@pytest.mark.parametrize(("recipe", "noun"), [((HERE, ("m68k",)), "wheel"), ((("2.0",),), r"Python 2\.0")])
def test_a_peer_without_a_wheel_or_its_python_is_named(recipe: Any, noun: str, monkeypatch: pytest.MonkeyPatch) -> None:
    _use(monkeypatch, Recipe(("toypeer",), *recipe))
    with pytest.raises(NoEnvironment, match=noun):
        environment("toy")
