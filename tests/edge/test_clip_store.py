"""Clips are kept bit by bit, with labels, private, and seen by every process that uses the store."""

from __future__ import annotations

import stat
import threading
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tests.edge.clip_sounds import FRONTEND, LENGTH, START, Hands, new, store, tone

from auricle.errors import DataError, SettingsError, StorageError
from auricle_edge.clips import NewClip
from auricle_edge.clips.store import NoRoomError

KINDS: dict[str, dict[str, Any]] = {
    "plain": {},
    "sealed": {"key_file": "KEY"},
    "features": {"keep": "features"},
    "sealed features": {"keep": "features", "key_file": "KEY"},
}


def _settings(kind: str, folder: Path) -> dict[str, Any]:
    settings = dict(KINDS[kind])
    if "key_file" in settings:
        settings["key_file"] = str(folder / "key")
    return settings


@pytest.mark.parametrize("kind", KINDS)
def test_what_was_added_is_read_by_the_next_process(kind: str, tmp_path: Path) -> None:
    settings = _settings(kind, tmp_path)
    clip = store(tmp_path, **settings).add(new(7, "no", "missed", weight=0.8, score=0.25, model="plugin"))

    after = store(tmp_path, **settings)
    (found,) = after.list()

    assert found.id == clip
    record = found.record
    assert (record.word, record.source, record.weight, record.score, record.model, record.created) == (
        "no",
        "missed",
        0.8,
        0.25,
        "plugin",
        START,
    )
    expected = FRONTEND.energies(tone(7)[np.newaxis])[0]
    content = after.content(found)
    if settings.get("keep") == "features":
        assert content.energies is not None
        np.testing.assert_array_equal(content.energies, expected)
        with pytest.raises(DataError, match="only features are kept"):
            after.read(clip)
    else:
        np.testing.assert_array_equal(after.read(clip), tone(7))
    np.testing.assert_array_equal(after.device_data().train.energies[0], expected)


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
    kept = store(tmp_path, **_settings(kind, tmp_path))
    kept.add(new())

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


def test_a_word_that_the_pack_does_not_know_is_refused_with_the_nearest(tmp_path: Path) -> None:
    kept = store(tmp_path)
    with pytest.raises(SettingsError, match='did you mean "yes"'):
        kept.add(new(word="yess"))
    with pytest.raises(SettingsError, match="unlabelled"):
        kept.add(new(word=None))
    clip = kept.add(new())
    with pytest.raises(SettingsError, match='"maybe"'):
        kept.relabel(clip, "maybe", "confirmed")
    assert [c.record.word for c in kept.list()] == ["yes"]


def test_the_generation_grows_with_every_change_of_any_process(tmp_path: Path) -> None:
    one, other = store(tmp_path), store(tmp_path)
    seen = [other.generation]
    clip = one.add(new())
    seen.append(other.generation)
    one.relabel(clip, "no", "confirmed")
    seen.append(other.generation)
    one.delete([clip])
    seen.append(other.generation)
    one.wipe()
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
    path = tmp_path / "clips" / "files" / kept.get(clip).file
    same = tmp_path / "link"
    same.hardlink_to(path)
    before = same.read_bytes()

    assert kept.delete([clip]) == 1
    assert kept.delete([clip]) == 0

    assert kept.list() == ()
    assert not path.exists()
    after = same.read_bytes()
    assert len(after) == len(before)
    assert sum(a == b for a, b in zip(after, before, strict=True)) < len(before) / 50


def test_a_clip_is_found_by_the_beginning_of_its_id(tmp_path: Path) -> None:
    kept = store(tmp_path)
    clip = kept.add(new())

    assert kept.get(clip[:6]).id == clip
    for wrong in ("zz", "", clip + "0"):
        with pytest.raises(DataError, match="There is no clip"):
            kept.get(wrong)


def test_a_full_label_gives_up_its_oldest_least_valuable_clip_and_refuses_one_worth_less(tmp_path: Path) -> None:
    clock = Hands()
    kept = store(tmp_path, clips_per_label=10, clock=clock)
    ids = []
    for i in range(10):
        clock.now += 1
        ids.append(kept.add(new(i, source="pseudo" if i in (4, 7) else "enrolled")))

    clock.now += 1
    kept.add(new(10, source="confirmed"))
    assert {clip.id for clip in kept.list()} & set(ids) == set(ids) - {ids[4]}
    clock.now += 1
    kept.add(new(11, source="confirmed"))
    with pytest.raises(NoRoomError, match="full"):
        kept.add(new(12, source="ambient"))

    assert set(ids) - {clip.id for clip in kept.list()} == {ids[4], ids[7]}
    assert len(list((tmp_path / "clips" / "files").iterdir())) == 10


def test_clips_past_their_age_go_and_a_jump_of_the_clock_takes_none(tmp_path: Path) -> None:
    clock = Hands()
    kept = store(tmp_path, days=10.0, clock=clock)
    old = kept.add(new(1))
    day = 86_400.0
    assert kept.prune() == 0

    clock.now += 400 * day
    assert kept.prune() == 0, "the clock has just jumped"
    clock.now -= 400 * day
    assert kept.prune() == 0
    for _ in range(9):
        clock.now += day
        assert kept.prune() == 0
    young = kept.add(new(2))
    clock.now += day
    kept.prune()
    clock.now += 3700
    assert kept.prune() == 1

    assert [clip.id for clip in kept.list()] == [young]
    assert old not in {clip.id for clip in kept.list()}


def test_a_clip_dated_before_the_clock_was_set_gets_a_date(tmp_path: Path) -> None:
    clock = Hands(1000.0)
    kept = store(tmp_path, days=10.0, clock=clock)
    kept.add(new())
    clock.now = START
    kept.prune()
    clock.now += 3700
    assert kept.prune() == 0

    assert kept.list()[0].record.created == clock.now


def test_an_unlabelled_clip_waits_only_so_long(tmp_path: Path) -> None:
    clock = Hands()
    kept = store(tmp_path, unlabelled_days=1.0, clock=clock)
    kept.add(new(1, None, "unlabelled", weight=0.0, score=0.6, guess="yes"))
    kept.add(new(2))
    kept.prune()
    for _ in range(30):
        clock.now += 3600
        kept.prune()

    assert [clip.record.source for clip in kept.list()] == ["enrolled"]


@pytest.mark.parametrize("case", ["other", "missing", "unnamed", "late", "open", "short"])
def test_a_key_that_does_not_fit_is_named_and_nothing_is_lost(case: str, tmp_path: Path) -> None:
    key = tmp_path / "key"
    settings = {} if case == "late" else {"key_file": str(key)}
    clip = store(tmp_path, **settings).add(new(3))
    kept_key = key.read_bytes() if key.exists() else b""
    wrong: dict[str, Any] = {"key_file": str(key)}
    said = {
        "other": "is not the key of the clips",
        "missing": "is missing",
        "unnamed": "are encrypted",
        "late": "without encryption",
        "open": "chmod 600",
        "short": "not a key of 32 bytes",
    }[case]
    if case == "other":
        key.write_bytes(bytes(32))
    elif case == "missing":
        key.unlink()
    elif case == "unnamed":
        wrong = {}
    elif case == "open":
        key.chmod(0o644)
    elif case == "short":
        key.write_bytes(bytes(31))

    with pytest.raises(SettingsError, match=said):
        store(tmp_path, **wrong)

    if kept_key:
        key.write_bytes(kept_key)
        key.chmod(0o600)
    np.testing.assert_array_equal(store(tmp_path, **settings).read(clip), tone(3))


def test_threads_and_two_stores_write_at_the_same_time_and_lose_nothing(tmp_path: Path) -> None:
    stores = [store(tmp_path, patience=60), store(tmp_path, patience=60)]
    kept: list[str] = []

    def add(which: int) -> None:
        kept.extend(stores[which % 2].add(new(which * 10 + i)) for i in range(4))

    threads = [threading.Thread(target=add, args=(which,)) for which in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()

    assert len(kept) == 16
    for each in stores:
        assert {clip.id for clip in each.list()} == set(kept)


def test_a_store_of_a_newer_version_and_a_folder_that_is_a_file_are_refused(tmp_path: Path) -> None:
    import sqlite3

    store(tmp_path).close()
    with sqlite3.connect(tmp_path / "clips" / "index.sqlite") as database:
        database.execute("PRAGMA user_version=99")
    with pytest.raises(StorageError, match="newer version"):
        store(tmp_path)
    (tmp_path / "else").mkdir()
    (tmp_path / "else" / "clips").write_text("")
    with pytest.raises(StorageError, match="cannot be written"):
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
