"""Blobs on a real S3 server: whole rounds, backups, and a server that refuses, or is killed under a coordinator."""

from __future__ import annotations

import asyncio
import logging
import subprocess
import sys
from pathlib import Path

import pytest
from tests.cloud.coordinator_site import DEVICES, LPA, TASK, Site, keep_updates, recomputed, run
from tests.cloud.filled_store import fill
from tests.cloud.object_store import BUCKET, ObjectStore
from tests.cloud.object_store import object_store as object_store
from tests.cloud.site_runs import on_a_site, played
from tests.cloud.site_runs import runtime as runtime
from tests.system.checker import DeviceLog
from tests.system.child import until

from auricle.errors import StorageError
from auricle.wire.tensors import digest, encode
from auricle_cloud.storage.backup import write_backup
from auricle_cloud.storage.blobs import open_blobs
from auricle_cloud.storage.remote_blobs import RemoteBlobs
from auricle_cloud.storage.restore import restore_backup
from auricle_cloud.storage.store import FILE, Store
from auricle_learning.runtimes import StepRuntime

SENTENCE = r"^The object store at [a-z/]+ failed \([^\n]*{}[^\n]*\)[^\n]+$"


# -- what a server may refuse


@pytest.mark.parametrize(
    ("url", "environment", "says"),
    [
        ("s3://elsewhere/x", {}, "bucket does not exist"),
        (f"s3://{BUCKET}/x", {"AWS_SECRET_ACCESS_KEY": "wrong"}, "Forbidden|signature"),
        (f"s3://{BUCKET}/x", {"AWS_ACCESS_KEY_ID": "nobody"}, "Forbidden|Access Key"),
    ],
    ids=["bucket", "secret", "key"],
)
def test_who_names_another_bucket_or_key_is_told_so_and_nothing_is_kept(
    url: str, environment: dict[str, str], says: str, object_store: ObjectStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, value in environment.items():
        monkeypatch.setenv(name, value)
    blobs = open_blobs(url)

    whole = (lambda: blobs.put_all([b"a", b"b"]), lambda: list(blobs.names()))
    for attempt in (lambda: blobs.put(b"abc"), lambda: blobs.get("0" * 64), *whole):
        with pytest.raises(StorageError, match=SENTENCE.format(f"({says})")):
            attempt()
    assert object_store.keys("x") == []


def test_what_one_writes_another_sees_at_once(object_store: ObjectStore) -> None:
    one, other = (open_blobs(f"s3://{BUCKET}/seen") for _ in range(2))
    before = list(other.names())

    name = one.put(b"abc")
    there = (list(other.names()), other.get(name))
    one.remove(name)

    assert (before, there, list(other.names())) == ([], ([name], b"abc"), [])
    with pytest.raises(StorageError):
        other.get(name)


@pytest.mark.slow
@pytest.mark.parametrize("wrong", ["bucket", "credentials", "server"])
@pytest.mark.nightly
def test_a_coordinator_that_cannot_keep_blobs_says_so_in_a_sentence_and_does_not_start(
    wrong: str, object_store: ObjectStore, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    url = "s3://elsewhere/x" if wrong == "bucket" else f"s3://{BUCKET}/x"
    if wrong == "credentials":
        monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "wrong")
    if wrong == "server":
        monkeypatch.setenv("AWS_ENDPOINT_URL", "http://127.0.0.1:1")

    command = [sys.executable, "-m", "auricle", "cloud", "serve", "--broker", "mqtt://coordinator:x@127.0.0.1:1"]
    command += ["--fleet", "f", "--pack", "digits", "--state", str(tmp_path), "--blobs", url, "--listen", "none"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=100, check=False)

    assert done.returncode == 2
    assert done.stderr.count("\n") == 1 and "object store" in done.stderr, done.stderr


# -- a coordinator


@pytest.mark.slow
@on_a_site
async def test_rounds_with_all_blobs_in_a_bucket_and_what_is_not_needed_goes(
    site: Site, object_store: ObjectStore
) -> None:
    url = f"s3://{BUCKET}/rounds"
    stray = open_blobs(url).put(b"of a round that a killed coordinator never counted")
    await played(site, 3, LPA, blobs=url, keep_models=2)

    store = site.store()
    used = store.models.in_use(TASK)
    current = store.models.current(TASK)
    store.close()
    assert [(done.state, done.counted + done.left_out) for done in site.done] == [("published", 3)] * 3
    assert digest(open_blobs(url).get(current.blob)) == digest(encode(site.done[-1].model))
    kept = object_store.keys("rounds")
    assert set(kept) <= used and current.blob in kept and stray not in kept
    assert not (site.state / "blobs").exists()


def test_a_backup_of_a_bucket_holds_what_was_restored_to_it(object_store: ObjectStore, tmp_path: Path) -> None:
    (tmp_path / "state").mkdir()
    filled = fill(tmp_path / "state")
    filled.store.devices.forget_presence()
    bucket = open_blobs(f"s3://{BUCKET}/restored")
    first = write_backup(filled.store.database, filled.blobs, filled.folder, tmp_path / "first")

    restore_backup(tmp_path / "first", tmp_path / "other", bucket)
    store = Store(tmp_path / "other" / FILE)
    second = write_backup(store.database, bucket, tmp_path / "other", tmp_path / "second")

    kept = {entry.path.removeprefix("blobs/") for entry in first.files if entry.path.startswith("blobs/")}
    assert set(object_store.keys("restored")) == kept == set(filled.blobs.names())
    ours, theirs = ([e for e in made.files if e.path != "tables/meta.jsonl"] for made in (first, second))
    assert ours == theirs
    store.close()
    filled.store.close()


@pytest.mark.slow
def test_a_server_killed_under_a_coordinator_costs_time_and_no_update(
    object_store: ObjectStore,
    runtime: StepRuntime,
    tmp_path: Path,
    caplog: pytest.LogCaptureFixture,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("AWS_MAX_ATTEMPTS", "2")
    caplog.set_level(logging.WARNING, "auricle.cloud")
    heard, rounds = DeviceLog(), 4
    edge = logging.getLogger("auricle.edge")

    def complaints() -> int:
        return sum("The object store at" in record.getMessage() for record in caplog.records)

    async def case(site: Site) -> None:
        coordinator = site.coordinator(rounds, LPA, blobs=f"s3://{BUCKET}/killed", quorum=1.0, deadline=600.0)
        assert isinstance(coordinator.blobs, RemoteBlobs)
        keep_updates(coordinator)
        site.start_agents(coordinator)
        running = asyncio.create_task(coordinator.run())
        await site.rounds(2)
        object_store.kill()
        await until(complaints, "a complaint")
        before = len(heard.acknowledged)
        complained = complaints()
        await until(lambda: complaints() > complained, "a second complaint")
        assert len(heard.acknowledged) == before, "acknowledged without its body"
        object_store.start()
        await running

        store = site.store()
        rows = [row for number in range(1, rounds + 1) for row in store.updates.counted(TASK, number)]
        models = recomputed(coordinator, rows, rounds)
        current = store.models.current(TASK)
        store.close()
        each = [(number, name) for number in range(1, rounds + 1) for name in DEVICES[:3]]
        assert sorted((row.round, row.device) for row in rows) == each
        accepted = {tuple(said[:3]) for said in heard.acknowledged if said[4] == "accepted"}
        assert accepted <= {(row.device, row.round, row.body) for row in rows}
        assert (current.version, current.blob) == (rounds, digest(models[-1]))

    edge.addHandler(heard)
    level = edge.level
    edge.setLevel(logging.INFO)
    try:
        run(case, runtime, tmp_path)
    finally:
        edge.removeHandler(heard)
        edge.setLevel(level)


@pytest.mark.slow
@on_a_site
async def test_a_round_is_told_although_the_server_went_away_while_it_closed(
    site: Site, object_store: ObjectStore, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("AWS_MAX_ATTEMPTS", "1")
    caplog.set_level(logging.WARNING, "auricle.cloud")
    killed: list[str] = []

    def probe(where: str) -> None:
        if where == "after aggregated -> published" and not killed:
            object_store.kill()
            killed.append(where)

    coordinator = site.coordinator(2, LPA, blobs=f"s3://{BUCKET}/closing")
    coordinator.store.database.probe = probe
    site.start_agents(coordinator)
    running = asyncio.create_task(coordinator.run())
    await until(lambda: "round 1 has ended and waits to be announced" in caplog.text, "a complaint")
    store = site.store()
    assert store.rounds.get(TASK, 1).state == "published"
    store.close()
    assert site.done == []
    object_store.start()
    await running
    came = [(done.number, done.state, done.counted + done.left_out) for done in site.done]
    assert came == [(n, "published", 3) for n in (1, 2)]
