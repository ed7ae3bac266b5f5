"""Wiping leaves nothing to read: not in files, index, log or key, not for other processes."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.edge.clip_sounds import new, store

from auricle.errors import DataError
from auricle_edge.clips import ClipSettings
from auricle_edge.clips.disk import Disk
from auricle_edge.clips.opening import wipe_store

SECRETS = (b"enrolled", b"a-model-name", b"fLaC", b"yes")


def _linked(folder: Path, links: Path) -> None:
    """Hard links to every file: what is overwritten in place is overwritten under them too."""
    links.mkdir()
    for number, path in enumerate(sorted(folder.rglob("*"))):
        if path.is_file():
            (links / f"{number}-{path.name}").hardlink_to(path)


def _holds(folder: Path) -> set[tuple[str, bytes]]:
    files = [path for path in folder.rglob("*") if path.is_file()]
    return {(path.name, secret) for path in files for secret in SECRETS if secret in path.read_bytes()}


def test_a_wipe_overwrites_every_file_the_index_and_its_log_where_they_lie(tmp_path: Path) -> None:
    kept = store(tmp_path)
    for seed in range(5):
        kept.add(new(seed, model="a-model-name"))
    _linked(tmp_path / "clips", tmp_path / "links")
    assert {secret for _, secret in _holds(tmp_path / "links")} == set(SECRETS)
    wiped = kept.wipe()
    assert (wiped.clips, wiped.files, wiped.key) == (5, 5, False)
    assert "flash" in wiped.note
    assert _holds(tmp_path / "links") == set()
    assert _holds(tmp_path / "clips") == set()
    assert list((tmp_path / "clips").glob("files/*")) == []


class Witness(Disk):
    """Keeps what each step of a disk's changes left behind."""

    def __init__(self) -> None:
        self.seen: list[tuple[str, Path, bytes]] = []

    def step(self, name: str, path: Path, old: Path | None = None) -> None:
        self.seen.append((name, path, path.read_bytes() if path.is_file() else b""))


def test_the_log_is_overwritten_before_it_is_cut(tmp_path: Path) -> None:
    witness = Witness()
    kept = store(tmp_path, disk=witness)
    for seed in range(5):
        kept.add(new(seed, model="a-model-name"))
    kept.wipe()
    seen = [(name, content) for name, path, content in witness.seen if path.name.endswith("-wal")]
    assert b"a-model-name" in seen[0][1]
    assert [name for name, _ in seen[-2:]] == ["before fsync", "after fsync"]
    assert len(seen[-1][1]) == len(seen[0][1])
    assert b"a-model-name" not in seen[-1][1]


def test_a_wipe_destroys_the_key_first_and_draws_another(tmp_path: Path) -> None:
    key, witness = tmp_path / "key", Witness()
    kept = store(tmp_path, key_file=str(key), disk=witness)
    kept.add(new())
    before = key.read_bytes()
    link = tmp_path / "link"
    link.hardlink_to(key)
    wiped = kept.wipe()
    assert wiped.key
    assert next(path.name for name, path, _ in witness.seen if name == "after overwrite") == ".key.gone"
    assert link.read_bytes() != before
    assert key.read_bytes() not in (before, link.read_bytes())
    kept.add(new(2))
    assert len(store(tmp_path, key_file=str(key)).list()) == 1


@pytest.mark.parametrize("case", ["no key", "another key", "damaged index", "nothing"])
def test_what_cannot_be_read_can_be_wiped(case: str, tmp_path: Path) -> None:
    key = tmp_path / "key"
    settings = ClipSettings(key_file=str(key))
    if case != "nothing":
        kept = store(tmp_path, key_file=str(key))
        kept.add(new())
        kept.close()
    if case == "no key":
        key.unlink()
    elif case == "another key":
        key.write_bytes(bytes(range(32)))
    elif case == "damaged index":
        (tmp_path / "clips" / "index.sqlite").write_bytes(b"nonsense" * 1000)

    wiped = wipe_store(tmp_path / "clips", settings, Disk())

    assert wiped.files == (0 if case == "nothing" else 1)
    assert (key.read_bytes() == bytes(range(32))) == (case == "another key"), "a key that is not the clips' is kept"
    assert store(tmp_path, key_file=str(key)).list() == ()


def test_a_key_that_cannot_be_removed_is_said_and_the_clips_go_all_the_same(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    class Credential(Disk):
        def move(self, old: Path, new: Path) -> None:
            if old.name == "key":
                raise PermissionError(1, "Operation not permitted")
            super().move(old, new)

    key = tmp_path / "key"
    kept = store(tmp_path, key_file=str(key), disk=Credential())
    kept.add(new())
    before = key.read_bytes()

    wiped = kept.wipe()

    assert (wiped.clips, wiped.key, key.read_bytes()) == (1, False, before)
    assert "The key is not destroyed" in caplog.text
    kept.add(new(2))
    assert len(store(tmp_path, key_file=str(key)).list()) == 1


def test_another_process_that_reads_meanwhile_loses_its_clip_and_no_more(tmp_path: Path) -> None:
    kept, reader = store(tmp_path), store(tmp_path)
    kept.add(new())
    (clip,) = reader.list()
    kept.wipe()
    with pytest.raises(DataError, match="its file is missing"):
        reader.content(clip)
    assert reader.list() == ()
    assert len(reader.device_data().train) == 0
