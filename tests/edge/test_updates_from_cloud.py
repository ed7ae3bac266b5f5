"""What the cloud part releases is what a device finds, fetches and puts on trial."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime, timezone
from pathlib import Path

import msgspec
import pytest
from tests.core import tiny_pack
from tests.edge.update_site import Server, serving

from auricle.packs.pack import Pack, pack_bytes
from auricle_cloud.ota.candidate import read_candidate
from auricle_cloud.ota.countersigning import countersign, make_holder_key
from auricle_cloud.ota.repository import Repository
from auricle_edge.ota.pack_shelf import PackShelf
from auricle_edge.ota.pack_upgrade import PackJob, fetch_pack
from auricle_edge.ota.records import UpdateRefusedError, Wanted
from auricle_edge.settings import EdgeSettings, UpdateSettings

FIRST = tiny_pack.pack()
SECOND = Pack(msgspec.structs.replace(FIRST.manifest, name="second"), FIRST.files)


class Release:
    """A repository of the cloud part, what a server shows of it, and a device that is told of its second pack."""

    def __init__(self, folder: Path, server: Server) -> None:
        for pack, name in ((FIRST, "first.tar.zst"), (SECOND, "second.tar.zst")):
            (folder / name).write_bytes(pack_bytes(pack))
        self.folder, self.keys, self.server = folder, folder / "keys", server
        self.repository = Repository.create(folder / "releases", self.keys, lambda: datetime.now(timezone.utc))
        (folder / "root.json").write_bytes(self.repository.root_file.read_bytes())
        updates = UpdateSettings(url=server.url, root=str(folder / "root.json"))
        state, pack = str(folder / "state"), str(folder / "first.tar.zst")
        self.settings = EdgeSettings(state=state, pack=pack, local="lite", updates=updates)

    def add(self) -> str:
        """Release the second pack; its path."""
        return self.repository.add(read_candidate(self.folder / "second.tar.zst"), self.keys)

    def publish(self) -> None:
        """Bring what there is to the server."""
        files = [file for file in (self.folder / "releases").rglob("*") if file.is_file()]
        shown = {str(file.relative_to(self.folder / "releases")): file.read_bytes() for file in files}
        self.server.repository.files = shown

    def fetch(self, path: str) -> str:
        """What the device runs after it was told of a pack."""
        fetch_pack(PackJob(settings=self.settings, wanted=Wanted(rollout="r1", path=path, identity=SECOND.identity)))
        return PackShelf(self.settings.folder, self.settings.pack).current().identity


@pytest.fixture
def release(tmp_path: Path) -> Iterator[Release]:
    with serving() as server:
        yield Release(tmp_path, server)


def test_a_pack_released_by_the_cloud_part_is_installed_and_one_that_was_removed_is_not(release: Release) -> None:
    path = release.add()
    release.repository.renew(release.keys)
    release.publish()
    assert release.fetch(path) == SECOND.identity
    release.repository.remove(path, release.keys)
    release.publish()
    with pytest.raises(UpdateRefusedError, match="not among"):
        release.fetch(path)


def test_a_device_that_was_away_follows_from_the_first_root_to_keys_of_two_holders(
    tmp_path: Path, release: Release
) -> None:
    repository, keys, holder = release.repository, release.keys, tmp_path / "second.key"

    def countersigned() -> None:
        for waiting in [row for row in repository.waiting() if row.missing]:
            countersign(waiting.file, holder, tmp_path / "signed.json")
            repository.publish((tmp_path / "signed.json").read_bytes())

    public = bytes.fromhex(make_holder_key(holder))
    for role in ("root", "targets"):
        repository.set_threshold(role, 2, keys, add=[public])
        countersigned()
        assert repository.replace_key(role, keys) is False
        countersigned()
        assert repository.replace_key(role, keys) is True
    path = release.add()
    release.publish()
    with pytest.raises(UpdateRefusedError, match="not among"):
        release.fetch(path)
    countersigned()
    release.publish()
    assert release.fetch(path) == SECOND.identity
    assert repository.root_file.name == "5.root.json"
