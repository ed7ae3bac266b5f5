"""Nobody is in two parts, whoever asks."""

from __future__ import annotations

import hashlib
from pathlib import Path

import pytest

from auricle.errors import DataError
from auricle.hearing.splits import (
    PARTS,
    clips_of,
    noise_part,
    noises_of,
    part_of,
    reader_of,
    readings_of,
    share_of,
    twin_groups,
)
from auricle.speech.clip_folder import ClipFile


def test_the_part_is_the_first_bytes_of_the_hash() -> None:
    """The same on every machine and in every version: these are fixed."""
    first = int(hashlib.sha256(b"0132a06d").hexdigest()[:16], 16) / 2**64
    assert share_of("0132a06d") == first
    assert [part_of(name) for name in ("speaker-0", "speaker-1", "speaker-2")] == ["test", "test", "train"]
    assert {part_of(f"speaker-{n}") for n in range(60)} == set(PARTS)


def test_the_shares_are_what_they_are_said_to_be() -> None:
    names = [f"person-{number}" for number in range(20_000)]
    people = [part_of(name) for name in names]
    noises = [noise_part(name) for name in names]
    assert [people.count(part) / 20_000 for part in PARTS] == pytest.approx([0.8, 0.1, 0.1], abs=0.01)
    assert [noises.count(part) / 20_000 for part in PARTS] == pytest.approx([0.6, 0.15, 0.25], abs=0.01)


def test_all_clips_of_a_speaker_are_in_one_part_and_those_of_another_folder_left_out(tmp_path: Path) -> None:
    clips = [
        ClipFile(tmp_path / word / f"{n}_nohash_0.wav", word, f"{n}") for n in range(100) for word in ("yes", "no")
    ]
    parts = [clips_of(clips, part, leave_out={"7"}) for part in PARTS]
    speakers = [{clip.speaker for clip in part} for part in parts]
    assert sum(map(len, parts)) == 198 and len(set.union(*speakers)) == 99
    assert not speakers[0] & speakers[1] | speakers[0] & speakers[2] | speakers[1] & speakers[2]
    assert clips_of(clips) == clips
    assert clips_of(clips, "validation", "test") == [c for c in clips if part_of(c.speaker) != "train"]


def test_twins_go_by_the_recording(tmp_path: Path) -> None:
    root = tmp_path / "wakewords"
    clips = [ClipFile(root / "computer" / f"{n}_nohash_0.flac", "computer", f"{n}") for n in range(40)]
    root.mkdir()
    lines = [f"wakewords/computer/{c.path.name},computer-{n // 2:03}" for n, c in enumerate(clips)]
    (root / "twins.csv").write_text("\n".join(["path,recording", *lines]) + "\n")
    groups = twin_groups(root)
    assert groups[clips[3].path] == "computer-001" and len(groups) == 40
    for part in PARTS:
        kept = {int(clip.speaker) for clip in clips_of(clips, part, groups=groups)}
        assert kept == {n ^ 1 for n in kept}
    assert twin_groups(tmp_path) == {}


def test_a_damaged_list_of_twins_is_refused(tmp_path: Path) -> None:
    (tmp_path / "twins.csv").write_text("file,group\na,b\n")
    with pytest.raises(DataError, match="takes the columns path and recording"):
        twin_groups(tmp_path)


def test_readers_and_noises_have_parts_too() -> None:
    readings = [Path(f"speech/{n}-1-0000.flac") for n in range(50)]
    assert reader_of(readings[12]) == "12"
    assert reader_of(Path("0a1b_nohash_7f.flac")) == "0a1b"  # as `auricle export import-speech --running` names it
    assert [p for part in PARTS for p in readings_of(readings, part)] != readings
    assert sorted(p for part in PARTS for p in readings_of(readings, part)) == sorted(readings)
    noises = [Path(f"noise-{n}.wav") for n in range(50)]
    assert noises_of(noises, "test") == [p for p in noises if noise_part(p.name) == "test"]
    assert noises_of(noises) == noises
