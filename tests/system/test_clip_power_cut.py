"""The clip store under SIGKILL at every step and every system call, on a full disk, and used by several processes."""

from __future__ import annotations

import json
import shutil
import sqlite3
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from auricle.errors import StorageError
from auricle_edge.clips.store import ClipStore
from tests.edge.clip_sounds import new, store, tone
from tests.system.clip_child import NOT_TRACED
from tests.system.full_disk import SmallDisk

CHILD = [sys.executable, "-m", "tests.system.clip_child"]


def _verify(folder: Path) -> None:
    """What the killed process was told is true; what it was not told is true or not, but nothing between."""
    words: dict[str, str] = {}
    seeds: dict[str, int] = {}
    under_way: dict[str, object] = {}
    lines = (folder / "acks").read_bytes().splitlines() if (folder / "acks").exists() else []
    for line in lines:
        said = json.loads(line)
        under_way = said if "begin" in said else {}
        if said.get("done") == "add":
            words[said["clip"]], seeds[said["clip"]] = "yes", said["seed"]
        elif said.get("done") == "relabel":
            words[said["clip"]] = "no"
        elif said.get("done") == "delete":
            del words[said["clip"]]
        elif said.get("done") == "wipe":
            words.clear()
    kept = store(folder)
    found = {clip.id: clip for clip in kept.list()}
    for clip, word in words.items():
        if clip not in found:
            assert under_way in ({"begin": "delete", "clip": clip}, {"begin": "wipe"})
            continue
        now = found.pop(clip).record.word
        assert now == word or (under_way == {"begin": "relabel", "clip": clip} and now == "no")
        np.testing.assert_array_equal(kept.read(clip), tone(seeds[clip]))
    for clip in found:
        assert under_way.get("begin") == "add"
        np.testing.assert_array_equal(kept.read(clip), tone(int(str(under_way["seed"]))))
    assert {path.name for path in (folder / "clips" / "files").glob("[!.]*")} == {c.file for c in kept.list()}
    assert not list((folder / "clips" / "files").glob(".*"))
    kept.add(new(50))
    kept.close()
    with sqlite3.connect(folder / "clips" / "index.sqlite") as index:
        assert index.execute("PRAGMA integrity_check").fetchone() == ("ok",)


@pytest.mark.slow
@pytest.mark.timeout(1200)
@pytest.mark.parametrize("where", ["steps", "calls"])
@pytest.mark.nightly
def test_a_kill_at_every_step_and_system_call_that_writes_loses_nothing_that_was_acknowledged(
    where: str, tmp_path: Path
) -> None:
    if where == "calls" and shutil.which("strace") is None:
        pytest.skip("strace is not installed")
    done = subprocess.run([*CHILD, where, str(tmp_path)], capture_output=True, text=True, check=False)
    if done.returncode == NOT_TRACED:
        pytest.skip("processes may not be traced here")
    assert done.returncode == 0, done.stderr
    count = int(done.stdout)
    for at in range(count):
        _verify(tmp_path / str(at))
    print(f"killed at each of {count} {where}")


def _filled(kept: ClipStore, disk: SmallDisk) -> None:
    """Fill the disk, and then what SQLite's log has left of room."""
    disk.fill()
    with pytest.raises(StorageError, match="full"):
        for seed in range(200):
            kept.add(new(1000 + seed))


@pytest.mark.parametrize("sealed", [False, True], ids=["plain", "sealed"])
def test_a_full_disk_is_a_sentence_and_costs_nothing_that_was_acknowledged(
    sealed: bool, tmp_path: Path, small_disk: SmallDisk
) -> None:
    settings = {"key_file": str(tmp_path / "key")} if sealed else {}
    kept = store(small_disk.folder, **settings)
    clips = {kept.add(new(seed)): seed for seed in range(5)}
    _filled(kept, small_disk)
    files = small_disk.folder / "clips" / "files"
    for each in (kept, store(small_disk.folder, **settings)):
        assert set(clips) <= {clip.id for clip in each.list()}
        for clip, seed in clips.items():
            np.testing.assert_array_equal(each.read(clip), tone(seed))
        assert {path.name for path in files.iterdir()} == {clip.file for clip in each.list()}
    small_disk.free()
    kept.add(new(9))
    assert kept.delete(list(clips)[:2]) == 2
    kept.close()
    with sqlite3.connect(small_disk.folder / "clips" / "index.sqlite") as index:
        assert index.execute("PRAGMA integrity_check").fetchone() == ("ok",)


def test_a_full_disk_can_be_wiped(small_disk: SmallDisk) -> None:
    kept = store(small_disk.folder)
    for seed in range(5):
        kept.add(new(seed))
    _filled(kept, small_disk)
    kept.wipe()
    assert kept.list() == ()
    kept.add(new(9))


@pytest.mark.slow
def test_several_processes_add_at_the_same_time_and_lose_nothing(tmp_path: Path) -> None:
    here = store(tmp_path, patience=60.0)
    others = [
        subprocess.Popen([*CHILD, "fill", str(tmp_path), str(100 * i), "20"], stdout=subprocess.PIPE, text=True)
        for i in range(3)
    ]
    own = {here.add(new(900 + i)) for i in range(20)}
    told = own | {line for other in others for line in other.communicate()[0].split()}
    assert all(other.returncode == 0 for other in others)
    assert len(told) == 80
    assert {clip.id for clip in here.list()} == told
    for clip in told:
        here.read(clip)


@pytest.mark.parametrize("sealed", [False, True], ids=["plain", "sealed"])
def test_a_wipe_by_another_process_leaves_only_what_came_after_it(sealed: bool, tmp_path: Path) -> None:
    settings = {"key_file": str(tmp_path / "key")} if sealed else {}
    service, command = store(tmp_path, **settings), store(tmp_path, **settings)
    for seed in range(3):
        service.add(new(seed))
    command.wipe()
    clip = service.add(new(7))
    for each in (service, command, store(tmp_path, **settings)):
        assert [found.id for found in each.list()] == [clip]
        np.testing.assert_array_equal(each.read(clip), tone(7))
