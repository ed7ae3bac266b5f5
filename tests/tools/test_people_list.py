"""The list of people that papers' suites hear: once each recording, people with enough clips of the words."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

TOOL = Path(__file__).parents[2] / "tools" / "people_list.py"
FILES = {
    "a/yes/ann_nohash_0.wav": b"1",
    "a/no/ann_nohash_0.wav": b"2",
    "a/bird/bob_nohash_0.wav": b"3",
    "a/_background_noise_/hum_nohash_0.wav": b"4",
    "b/yes/ann_nohash_1.wav": b"1",
    "b/bird/ann_nohash_0.wav": b"5",
    "b/yes/bob_nohash_0.wav": b"6",
}


def run(folder: Path, *more: str) -> subprocess.CompletedProcess[str]:
    folders = ["--folder", "a", "--folder", "b", "--words", "yes,no"]
    command = [sys.executable, str(TOOL), str(folder / "people.csv"), *folders, *more]
    return subprocess.run(command, capture_output=True, text=True, check=False)


def test_people_with_enough_clips_are_listed_with_all_of_theirs(tmp_path: Path) -> None:
    for name, content in FILES.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_bytes(content)
    assert run(tmp_path, "--least", "2").returncode == 0
    assert (tmp_path / "people.csv").read_text().split() == [
        "path,word,speaker",
        "a/no/ann_nohash_0.wav,no,ann",
        "a/yes/ann_nohash_0.wav,yes,ann",
        "b/bird/ann_nohash_0.wav,bird,ann",
    ]
    ended = run(tmp_path, "--least", "3")
    assert (ended.returncode, ended.stderr) == (1, "No speaker in a, b has 3 clips of yes,no.\n")
