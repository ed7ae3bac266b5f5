"""What the cloud part releases is what a device finds, fetches and puts on trial."""

from __future__ import annotations

from datetime import datetime, timezone
from pathlib import Path

import msgspec
import pytest
from tests.core import tiny_pack
from tests.edge.update_site import Repository as Served
from tests.edge.update_site import serving

from auricle.packs.pack import Pack, pack_bytes
from auricle_cloud.ota.candidate import read_candidate
from auricle_cloud.ota.countersigning import countersign, make_holder_key
from auricle_cloud.ota.repository import Repository
from auricle_edge.ota.pack_shelf import PackShelf
from auricle_edge.ota.pack_upgrade import PackJob, fetch_pack
from auricle_edge.ota.records import UpdateRefusedError, Wanted
from auricle_edge.settings import EdgeSettings, UpdateSettings


def test_a_pack_released_by_the_cloud_part_is_installed_and_one_that_was_removed_is_not(tmp_path: Path) -> None:
    first = tiny_pack.pack()
    second = Pack(msgspec.structs.replace(first.manifest, name="second"), first.files)
    for pack, name in ((first, "first.tar.zst"), (second, "second.tar.zst")):
        (tmp_path / name).write_bytes(pack_bytes(pack))
    folder, keys = tmp_path / "releases", tmp_path / "keys"
    repository = Repository.create(folder, keys, lambda: datetime.now(timezone.utc))
    root = repository.root_file
    path = repository.add(read_candidate(tmp_path / "second.tar.zst"), keys)
    repository.renew(keys)

    served = Served()
    with serving(served) as server:

        def publish() -> None:
            found = (file for file in folder.rglob("*") if file.is_file())
            served.files = {str(file.relative_to(folder)): file.read_bytes() for file in found}

        publish()
        updates = UpdateSettings(url=server.url, root=str(root))
        settings = EdgeSettings(
            state=str(tmp_path / "state"), pack=str(tmp_path / "first.tar.zst"), local="lite", updates=updates
        )
        wanted = Wanted(rollout="r1", path=path, identity=second.identity)
        fetch_pack(PackJob(settings=settings, wanted=wanted))
        assert PackShelf(settings.folder, settings.pack).current().identity == second.identity

        repository.remove(path, keys)
        publish()
        with pytest.raises(UpdateRefusedError, match="not among the signed targets"):
            fetch_pack(PackJob(settings=settings, wanted=wanted))


def test_a_device_that_was_away_follows_from_the_first_root_to_keys_of_two_holders(tmp_path: Path) -> None:
    first = tiny_pack.pack()
    second = Pack(msgspec.structs.replace(first.manifest, name="second"), first.files)
    for pack, name in ((first, "first.tar.zst"), (second, "second.tar.zst")):
        (tmp_path / name).write_bytes(pack_bytes(pack))
    folder, keys, holder = tmp_path / "releases", tmp_path / "keys", tmp_path / "second.key"
    repository = Repository.create(folder, keys, lambda: datetime.now(timezone.utc))
    root = tmp_path / "first-root.json"
    root.write_bytes(repository.root_file.read_bytes())

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
    path = repository.add(read_candidate(tmp_path / "second.tar.zst"), keys)

    served = Served()
    with serving(served) as server:

        def publish() -> None:
            found = (file for file in folder.rglob("*") if file.is_file())
            served.files = {str(file.relative_to(folder)): file.read_bytes() for file in found}

        updates = UpdateSettings(url=server.url, root=str(root))
        settings = EdgeSettings(
            state=str(tmp_path / "state"), pack=str(tmp_path / "first.tar.zst"), local="lite", updates=updates
        )
        job = PackJob(settings=settings, wanted=Wanted(rollout="r1", path=path, identity=second.identity))
        publish()
        with pytest.raises(UpdateRefusedError, match="not among the signed targets"):
            fetch_pack(job)
        countersigned()
        publish()
        fetch_pack(job)
    assert PackShelf(settings.folder, settings.pack).current().identity == second.identity
    assert repository.root_file.name == "5.root.json"
