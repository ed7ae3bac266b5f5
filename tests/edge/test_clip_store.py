"""Clips are kept bit by bit, with labels, private, and seen by every process that uses the store."""

from __future__ import annotations

import logging
import stat
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given
from hypothesis import settings as hypothesis_settings
from hypothesis import strategies as st
from tests.edge.clip_sounds import FRONTEND, LENGTH, START, Hands, new, store, tone

from auricle.errors import DataError, SettingsError, StorageError
from auricle_edge.clips import NewClip, Source
from auricle_edge.clips.coding import AUDIO, FEATURES, decode
from auricle_edge.clips.store import NoRoomError

KINDS: dict[str, dict[str, Any]] = {
    "plain": {},
    "sealed": {"key_file": "KEY"},
    "features": {"keep": "features"},
    "sealed features": {"keep": "features", "key_file": "KEY"},
}


def _settings(kind: str, folder: Path) -> dict[str, Any]:
    return {name: str(folder / "key") if name == "key_file" else value for name, value in KINDS[kind].items()}


@pytest.mark.parametrize("kind", KINDS)
def test_what_was_added_is_read_by_the_next_process(kind: str, tmp_path: Path) -> None:
    settings = _settings(kind, tmp_path)
    told = {"weight": 0.8, "score": 0.25, "model": "plugin"}
    clip = store(tmp_path, **settings).add(new(7, "no", "missed", **told))
    after = store(tmp_path, **settings)
    (found,) = after.list()
    assert found.id == clip
    expected = {"word": "no", "source": "missed", "created": START, **told}
    assert {name: getattr(found.record, name) for name in expected} == expected
    energies = FRONTEND.energies(tone(7)[np.newaxis])[0]
    if settings.get("keep") == "features":
        np.testing.assert_array_equal(after.content(found).energies, energies)
        with pytest.raises(DataError, match="features"):
            after.read(clip)
    else:
        np.testing.assert_array_equal(after.read(clip), tone(7))
    np.testing.assert_array_equal(after.device_data().train.energies[0], energies)


@pytest.mark.parametrize("kind", ["sealed", "sealed features"])
def test_neither_sound_nor_label_can_be_read_without_the_key(kind: str, tmp_path: Path) -> None:
    kept = store(tmp_path, **_settings(kind, tmp_path))
    for seed in range(3):
        kept.add(new(seed, "yes", score=0.5, model="plugin"))
    for path in (tmp_path / "clips").rglob("*"):
        if path.is_file():
            data = path.read_bytes()
            for secret in (b"yes", b"enrolled", b"plugin", b"fLaC", b"energies"):
                assert secret not in data, (path, secret)


@pytest.mark.parametrize("kind", KINDS)
def test_only_the_owner_can_read_anything(kind: str, tmp_path: Path) -> None:
    store(tmp_path, **_settings(kind, tmp_path)).add(new())
    for path in [tmp_path / "clips", *tmp_path.rglob("*")]:
        mode = stat.S_IMODE(path.stat().st_mode)
        assert mode == (0o700 if path.is_dir() else 0o600), (path, oct(mode))


def test_a_clip_is_brought_to_the_length_of_the_task(tmp_path: Path) -> None:
    kept = store(tmp_path)
    long = tone(1, length=LENGTH + 1001)
    read = [kept.read(kept.add(NewClip(s, "yes", "enrolled", 1.0))) for s in (long, long[:100])]
    np.testing.assert_array_equal(read[0], long[500 : 500 + LENGTH])
    np.testing.assert_array_equal(read[1][LENGTH // 2 - 50 : LENGTH // 2 + 50], long[:100])
    assert not read[1][: LENGTH // 2 - 50].any()


def test_a_word_that_the_pack_does_not_know_is_refused(tmp_path: Path) -> None:
    kept = store(tmp_path)
    clip = kept.add(new())
    for wrong, said in (("yess", "yes"), (None, "unlabelled")):
        with pytest.raises(SettingsError, match=said):
            kept.add(new(word=wrong))
    with pytest.raises(SettingsError, match="maybe"):
        kept.relabel(clip, "maybe", "confirmed")
    assert [c.record.word for c in kept.list()] == ["yes"]


def test_the_generation_grows_with_every_change_of_any_process(tmp_path: Path) -> None:
    one, other = store(tmp_path), store(tmp_path)
    seen = [other.generation]
    clip = one.add(new())
    for change in (lambda: None, lambda: one.relabel(clip, "no", "confirmed"), lambda: one.delete([clip]), one.wipe):
        change()
        seen.append(other.generation)
    assert seen == sorted(set(seen))
    assert other.generation == one.generation
    assert other.prune() == 0
    assert one.generation == seen[-1]


def test_a_relabelled_clip_keeps_its_sound_and_its_part(tmp_path: Path) -> None:
    kept = store(tmp_path, draw=lambda: 0.0)
    kept.add(new(1))
    clip = kept.add(new(2))
    assert kept.get(clip).record.held_out
    kept.relabel(clip, "no", "confirmed")
    for after in (kept, store(tmp_path)):
        record = after.get(clip).record
        assert (record.word, record.source, record.weight, record.held_out) == ("no", "confirmed", 1.0, True)
        np.testing.assert_array_equal(after.read(clip), tone(2))
    with pytest.raises(DataError, match="held out to judge"):
        kept.relabel(clip, "no", "pseudo")
    assert len(list((tmp_path / "clips" / "files").iterdir())) == 2


def test_a_deleted_clip_is_overwritten_where_it_lay(tmp_path: Path) -> None:
    kept = store(tmp_path)
    clip = kept.add(new())
    path, same = tmp_path / "clips" / "files" / kept.get(clip).file, tmp_path / "link"
    same.hardlink_to(path)
    before = same.read_bytes()
    assert [kept.delete([clip]), kept.delete([clip])] == [1, 0]
    assert (kept.list(), path.exists()) == ((), False)
    after = same.read_bytes()
    assert len(after) == len(before)
    assert sum(a == b for a, b in zip(after, before, strict=True)) < len(before) / 50


def test_a_full_label_gives_up_its_oldest_least_valuable_clip_and_refuses_one_worth_less(tmp_path: Path) -> None:
    clock = Hands()
    kept = store(tmp_path, clips_per_label=10, clock=clock)

    def add(number: int, source: Source) -> str:
        clock.now += 1
        return kept.add(new(number, source=source))

    ids = [add(i, "pseudo" if i in (4, 7) else "enrolled") for i in range(10)]
    add(10, "confirmed")
    assert {clip.id for clip in kept.list()} & set(ids) == set(ids) - {ids[4]}
    add(11, "confirmed")
    with pytest.raises(NoRoomError, match="full"):
        add(12, "ambient")
    assert set(ids) - {clip.id for clip in kept.list()} == {ids[4], ids[7]}
    assert len(list((tmp_path / "clips" / "files").iterdir())) == 10


def test_clips_past_their_age_go_and_a_jump_of_the_clock_takes_none(tmp_path: Path) -> None:
    clock, day = Hands(), 86_400.0
    kept = store(tmp_path, days=10.0, clock=clock)
    kept.add(new(1))
    for days in (0, 400, -400, *[1] * 9):
        clock.now += days * day
        assert kept.prune() == 0
    young = kept.add(new(2))
    clock.now += day
    kept.prune()
    clock.now += 3700
    assert kept.prune() == 1
    assert [clip.id for clip in kept.list()] == [young]


def test_a_clip_dated_before_the_clock_was_set_gets_a_date(tmp_path: Path) -> None:
    clock = Hands(1000.0)
    kept = store(tmp_path, days=10.0, clock=clock)
    kept.add(new())
    clock.now = START
    kept.prune()
    clock.now += 3700
    assert kept.prune() == 0
    assert kept.list()[0].record.created == clock.now


BAD_KEYS: dict[str, tuple[str, Callable[[Path], object]]] = {
    "other": ("key of the clips", lambda key: key.write_bytes(bytes(32))),
    "missing": ("missing", Path.unlink),
    "unnamed": ("encrypted", lambda key: None),
    "late": ("encryption", lambda key: None),
    "open": ("chmod", lambda key: key.chmod(0o644)),
    "short": ("32 bytes", lambda key: key.write_bytes(bytes(31))),
}


@pytest.mark.parametrize("case", BAD_KEYS)
def test_a_key_that_does_not_fit_is_named_and_nothing_is_lost(case: str, tmp_path: Path) -> None:
    key, (said, spoil) = tmp_path / "key", BAD_KEYS[case]
    settings: dict[str, Any] = {} if case == "late" else {"key_file": str(key)}
    clip = store(tmp_path, **settings).add(new(3))
    kept_key = key.read_bytes() if key.exists() else b""
    spoil(key)
    with pytest.raises(SettingsError, match=said):
        store(tmp_path, **({} if case == "unnamed" else {"key_file": str(key)}))
    if kept_key:
        key.write_bytes(kept_key)
        key.chmod(0o600)
    np.testing.assert_array_equal(store(tmp_path, **settings).read(clip), tone(3))


def test_threads_and_two_stores_write_at_the_same_time_and_lose_nothing(tmp_path: Path) -> None:
    stores = [store(tmp_path, patience=60), store(tmp_path, patience=60)]
    with ThreadPoolExecutor(4) as threads:
        added = threads.map(lambda which: [stores[which % 2].add(new(which * 10 + i)) for i in range(4)], range(4))
        kept = {clip for clips in added for clip in clips}
    assert len(kept) == 16
    for each in stores:
        assert {clip.id for clip in each.list()} == kept


def test_a_store_of_a_newer_version_and_a_folder_that_is_a_file_are_refused(tmp_path: Path) -> None:
    import sqlite3

    closed = store(tmp_path)
    closed.close()
    with pytest.raises(StorageError, match="closed"):
        closed.list()
    with sqlite3.connect(tmp_path / "clips" / "index.sqlite") as database:
        database.execute("PRAGMA user_version=99")
    with pytest.raises(StorageError, match="newer"):
        store(tmp_path)
    (tmp_path / "else").mkdir()
    (tmp_path / "else" / "clips").write_text("")
    with pytest.raises(StorageError, match="written"):
        store(tmp_path / "else")


def test_sound_is_coded_without_callbacks(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """For them arm64 needs memory that may be written and run, which the service's unit denies."""
    import soundfile

    def denied(*_: object) -> None:
        raise MemoryError("Cannot allocate write+execute memory for ffi.callback().")

    monkeypatch.setattr(soundfile.SoundFile, "_init_virtual_io", denied)
    kept = store(tmp_path)
    kept.add(new(7, "no", "missed"))
    samples = kept.content(kept.list()[0]).samples
    assert samples is not None
    assert np.array_equal(samples, tone(7))


# -- a damaged file or index


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
    store(tmp_path).add(new())
    notes = tmp_path / "clips" / "files" / "notes.txt"
    notes.write_text("mine")
    after = store(tmp_path)
    assert (after.unreadable, len(after.list()), notes.read_text()) == (1, 1, "mine")


def test_a_clip_in_the_place_of_another_is_not_taken_for_it(tmp_path: Path) -> None:
    settings, files = {"key_file": str(tmp_path / "key")}, tmp_path / "clips" / "files"
    kept = store(tmp_path, **settings)
    one, other = (files / kept.get(kept.add(new(seed))).file for seed in range(2))
    one.write_bytes(other.read_bytes())
    kept.close()
    (tmp_path / "clips" / "index.sqlite").unlink()
    assert [clip.file for clip in store(tmp_path, **settings).list()] == [other.name]


@given(st.binary(max_size=300), st.sampled_from([AUDIO, FEATURES]))
@hypothesis_settings(suppress_health_check=[HealthCheck.too_slow])
def test_no_bytes_crash_the_reader(data: bytes, suffix: str) -> None:
    for content in (data, b"fLaC" + data, len(data).to_bytes(8, "little") + data):
        with pytest.raises(DataError):
            decode(content, suffix)
