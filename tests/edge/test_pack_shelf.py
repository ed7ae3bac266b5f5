"""Updates of packs: proved before they run, switched in one step, taken back by one command."""

from __future__ import annotations

from pathlib import Path
from unittest.mock import Mock

import msgspec
import pytest
from tests.core import tiny_pack

from auricle.errors import PackError, StorageError
from auricle.packs.pack import Pack, load_pack, pack_bytes
from auricle.packs.signature import sign_manifest
from auricle.wire.identity import Identity
from auricle_edge.ota.pack_shelf import SWITCH, PackShelf, prove

CONFIGURED = tiny_pack.pack()


def renamed(name: str) -> Pack:
    """The same pack under another name, so with another identity."""
    return Pack(msgspec.structs.replace(CONFIGURED.manifest, name=name), CONFIGURED.files)


@pytest.fixture
def shelf(tmp_path: Path) -> PackShelf:
    (tmp_path / "configured.tar.zst").write_bytes(pack_bytes(CONFIGURED))
    return PackShelf(tmp_path / "state", str(tmp_path / "configured.tar.zst"))


def on_disk(folder: Path, pack: Pack) -> str:
    path = folder / f"{pack.manifest.name}.tar.zst"
    path.write_bytes(pack_bytes(pack))
    return str(path)


def test_an_update_runs_and_a_roll_back_brings_the_old_one(tmp_path: Path, shelf: PackShelf) -> None:
    first, second = renamed("first"), renamed("second")
    assert shelf.current().identity == CONFIGURED.identity
    shelf.install(on_disk(tmp_path, first))
    shelf.install(on_disk(tmp_path, second))
    assert shelf.current().identity == second.identity
    assert shelf.roll_back().identity == first.identity
    assert shelf.roll_back().identity == second.identity
    assert shelf.current().identity == second.identity


def test_the_pack_of_the_settings_is_what_the_first_update_goes_back_to(tmp_path: Path, shelf: PackShelf) -> None:
    with pytest.raises(PackError, match="no pack"):
        shelf.roll_back()
    shelf.install(on_disk(tmp_path, renamed("first")))
    assert shelf.roll_back().identity == shelf.current().identity == CONFIGURED.identity


def test_old_packs_do_not_pile_up(tmp_path: Path, shelf: PackShelf) -> None:
    for name in ("one", "two", "three"):
        shelf.install(on_disk(tmp_path, renamed(name)))
    assert len(list((tmp_path / "state" / "packs").iterdir())) == 3  # the switch and two packs


def test_the_pack_that_runs_or_an_unsound_one_changes_nothing(tmp_path: Path, shelf: PackShelf) -> None:
    (tmp_path / "cut.tar.zst").write_bytes(pack_bytes(renamed("cut"))[:-50])
    for pack in (on_disk(tmp_path, CONFIGURED), str(tmp_path / "cut.tar.zst")):
        with pytest.raises(PackError):
            shelf.install(pack)
        assert shelf.current().identity == CONFIGURED.identity


def test_a_device_with_a_trusted_key_takes_only_what_it_signed(tmp_path: Path) -> None:
    ours, theirs = Identity.load_or_create(tmp_path / "ours"), Identity.load_or_create(tmp_path / "theirs")
    base = CONFIGURED.signed(sign_manifest(ours, CONFIGURED.manifest_bytes))
    shelf = PackShelf(tmp_path / "state", on_disk(tmp_path, base), [ours.public])
    stranger, friend = renamed("stranger"), renamed("friend")
    for refused in (stranger, stranger.signed(sign_manifest(theirs, stranger.manifest_bytes))):
        with pytest.raises(PackError, match="trusted"):
            shelf.install(on_disk(tmp_path, refused))
    shelf.install(on_disk(tmp_path, friend.signed(sign_manifest(ours, friend.manifest_bytes))))
    assert shelf.current().identity == friend.identity


def test_a_damaged_switch_says_what_to_do(tmp_path: Path, shelf: PackShelf) -> None:
    (tmp_path / "state" / "packs").mkdir(parents=True)
    (tmp_path / "state" / "packs" / SWITCH).write_text("{")
    with pytest.raises(PackError, match="remove"):
        shelf.current()


def test_a_power_cut_leaves_the_old_pack(tmp_path: Path, shelf: PackShelf, monkeypatch: pytest.MonkeyPatch) -> None:
    first = on_disk(tmp_path, renamed("first"))
    with monkeypatch.context() as patch, pytest.raises(StorageError):
        patch.setattr(PackShelf, "_turn", Mock(side_effect=StorageError("the power is gone")))
        shelf.install(first)
    assert shelf.current().identity == CONFIGURED.identity
    shelf.install(first)
    assert shelf.current().manifest.name == "first"


def test_shipped_packs_prove_themselves() -> None:
    prove(load_pack("digits"))
