"""A damaged file or index is one sentence, and the rest goes on."""

from __future__ import annotations

import logging
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given
from hypothesis import settings as hypothesis_settings
from hypothesis import strategies as st
from tests.edge.clip_sounds import new, store, tone

from auricle.errors import DataError
from auricle_edge.clips.coding import AUDIO, FEATURES, decode


def _flip(path: Path) -> None:
    data = bytearray(path.read_bytes())
    data[len(data) // 2] ^= 1
    path.write_bytes(data)


DAMAGES: dict[str, Any] = {
    "a bit": _flip,
    "cut": lambda path: path.write_bytes(path.read_bytes()[:-9]),
    "missing": Path.unlink,
    "empty": lambda path: path.write_bytes(b""),
    "grown": lambda path: path.write_bytes(path.read_bytes() + b"x"),
    "endless": lambda path: path.write_bytes(bytes(5 << 20)),
}


@pytest.mark.parametrize("damage", DAMAGES)
@pytest.mark.parametrize("sealed", [False, True], ids=["plain", "sealed"])
def test_a_damaged_clip_is_left_out_and_counted_and_the_rest_goes_on(damage: str, sealed: bool, tmp_path: Path) -> None:
    kept = store(tmp_path, **({"key_file": str(tmp_path / "key")} if sealed else {}))
    clips = [kept.add(new(seed)) for seed in range(3)]
    DAMAGES[damage](tmp_path / "clips" / "files" / kept.get(clips[1]).file)

    assert len(kept.device_data().train) == 2
    with pytest.raises(DataError, match=f"The clip {clips[1]} cannot be read"):
        kept.read(clips[1])

    assert [clip.damaged for clip in kept.list()] == [clip.id == clips[1] for clip in kept.list()]
    np.testing.assert_array_equal(kept.read(clips[2]), tone(2))
    assert kept.delete([clips[1]]) == 1


@pytest.mark.parametrize("sealed", [False, True], ids=["plain", "sealed"])
@pytest.mark.parametrize("damage", ["nonsense", "holes", "missing", "empty"])
def test_a_damaged_index_is_made_again_from_the_clips(
    damage: str, sealed: bool, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    settings = {"key_file": str(tmp_path / "key")} if sealed else {}
    kept = store(tmp_path, draw=lambda: 0.0, **settings)
    clips = {kept.add(new(seed, word)): (seed, word) for seed, word in enumerate(["yes", "no", "yes", "no"])}
    relabelled = next(iter(clips))
    kept.relabel(relabelled, "no", "confirmed")
    held = {clip.id: clip.record.held_out for clip in kept.list()}
    kept.close()
    index = tmp_path / "clips" / "index.sqlite"
    if damage == "missing":
        index.unlink()
    else:
        data = bytearray(index.read_bytes())
        data[100:] = bytes(len(data) - 100) if damage == "holes" else b"nonsense " * ((len(data) - 100) // 9 + 1)
        index.write_bytes(b"" if damage == "empty" else bytes(data))

    with caplog.at_level(logging.WARNING):
        after = store(tmp_path, **settings)

    assert {clip.id: clip.record.held_out for clip in after.list()} == held
    for clip, (seed, word) in clips.items():
        assert after.get(clip).record.word == ("no" if clip == relabelled else word)
        np.testing.assert_array_equal(after.read(clip), tone(seed))
    if damage in ("nonsense", "holes"):
        assert len(caplog.messages) == 1
        assert "is damaged" in caplog.messages[0]


def test_an_index_that_breaks_while_it_is_used_is_made_again_by_whoever_notices(tmp_path: Path) -> None:
    one, other = store(tmp_path), store(tmp_path)
    clips = {one.add(new(seed)) for seed in range(3)}
    one._catalogue._index._connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    index = tmp_path / "clips" / "index.sqlite"
    with index.open("r+b") as file:
        file.write(b"nonsense" * (index.stat().st_size // 8))

    third = store(tmp_path)
    assert {clip.id for clip in third.list()} == clips
    added = other.add(new(9))
    assert {clip.id for clip in one.list()} == {clip.id for clip in third.list()} == clips | {added}


def test_files_of_others_are_left_alone_and_counted(tmp_path: Path) -> None:
    kept = store(tmp_path)
    kept.add(new())
    (tmp_path / "clips" / "files" / "notes.txt").write_text("mine")

    after = store(tmp_path)

    assert (after.unreadable, len(after.list())) == (1, 1)
    assert (tmp_path / "clips" / "files" / "notes.txt").read_text() == "mine"


def test_a_clip_in_the_place_of_another_is_not_taken_for_it(tmp_path: Path) -> None:
    kept = store(tmp_path, key_file=str(tmp_path / "key"))
    files = tmp_path / "clips" / "files"
    one, other = (files / kept.get(kept.add(new(seed))).file for seed in range(2))
    one.write_bytes(other.read_bytes())
    kept.close()
    (tmp_path / "clips" / "index.sqlite").unlink()

    after = store(tmp_path, key_file=str(tmp_path / "key"))

    assert [clip.file for clip in after.list()] == [other.name]


@given(st.binary(max_size=300), st.sampled_from([AUDIO, FEATURES]))
@hypothesis_settings(suppress_health_check=[HealthCheck.too_slow])
def test_no_bytes_crash_the_reader(data: bytes, suffix: str) -> None:
    for content in (data, b"fLaC" + data, len(data).to_bytes(8, "little") + data):
        with pytest.raises(DataError):
            decode(content, suffix)
