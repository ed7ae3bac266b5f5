"""Files that people bring: nothing that reads them ends in a traceback or waits, in this process or as a command."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import soundfile

from tests.fuzz.targets.user_files import read_by_all
from tests.fuzz.user_files import KINDS, UserFile, make_user_file

FILES = 2_000
"""Of all kinds together, in a slow run."""


@pytest.mark.parametrize("kind", range(len(KINDS)))
def test_a_file_is_taken_or_refused_in_a_sentence(tmp_path: Path, kind: int) -> None:
    answers = {read_by_all(make_user_file(kind + 4 * seed, tmp_path / "in", pipes=False)) for seed in range(12)}
    assert len(answers) > 1


def test_a_seed_makes_the_same_file(tmp_path: Path) -> None:
    for seed in range(40):
        made = [make_user_file(seed, tmp_path / name) for name in "ab"]
        assert made[0].what == made[1].what
        if made[0].path.is_file() and made[0].kind != "sound":  # encoders write the time
            assert made[0].path.read_bytes() == made[1].path.read_bytes()


@pytest.mark.slow
@pytest.mark.parametrize("kind", range(len(KINDS)))
def test_two_thousand_files_are_taken_or_refused(tmp_path: Path, kind: int) -> None:
    seeds = range(10_000 + kind, 10_000 + FILES, 4)
    answers = [read_by_all(make_user_file(seed, tmp_path / "in", pipes=False)) for seed in seeds]
    assert len(answers) == FILES // 4
    assert any("taken" in answer for answer in answers)


def _command(file: UserFile, folder: Path, number: int) -> list[str]:
    """What somebody types with such a file."""
    path = str(file.path)
    if file.kind == "manifest":
        return ["export", "import-speech", path, "--out", str(folder / "out")]
    if file.kind == "settings":
        board = ["flash", "boards", "validate", path]
        return [["fleet", "plan", path], ["edge", "run", "--config", path], board][number % 3]
    sound, labels = folder / "room.wav", folder / "room.txt"
    soundfile.write(sound, np.random.default_rng(1).normal(0, 0.1, 40_000).astype(np.float32), 16_000)
    labels.write_text("0.5\t1\tyes\n")
    told = {"sound": [path, str(labels)], "labels": [str(sound), path]}[file.kind]
    return ["edge", "evaluate", "--pack", "gsc12", "--recording", told[0], "--labels", told[1]]


def _ends_in_a_sentence(folder: Path, seed: int) -> None:
    file = make_user_file(seed, folder / "in", pipes=False)
    command = [sys.executable, "-m", "auricle", *_command(file, folder, seed // 4)]
    own = {**os.environ, "HOME": str(folder), "XDG_CACHE_HOME": str(folder / "cache")}
    done = subprocess.run(command, capture_output=True, cwd=folder, env=own, timeout=240, check=False)
    said = done.stderr.decode("utf-8", "replace")
    assert "Traceback" not in said, f"{file}\n{said}"
    assert done.returncode in (0, 1, 2, 3, 4, 5, 6, 7, 8, 75), f"{file}\n{done.returncode} {said}"


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(20_000, 20_004))
def test_a_command_takes_a_file_or_refuses_it(tmp_path: Path, seed: int) -> None:
    _ends_in_a_sentence(tmp_path, seed)


@pytest.mark.slow
@pytest.mark.nightly
@pytest.mark.parametrize("seed", range(20_004, 20_040))
def test_a_few_dozen_commands_take_files_or_refuse_them(tmp_path: Path, seed: int) -> None:
    _ends_in_a_sentence(tmp_path, seed)
