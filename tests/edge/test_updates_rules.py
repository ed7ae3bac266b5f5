"""The rules of updates: what fits a device, which version is newer, what time it is, whether the device is well."""

from __future__ import annotations

import datetime
import hashlib
import io
import itertools
import json
import os
import tarfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec
import pytest
from tests.edge.update_site import DAY, NOW, Repository, at, refresh, serving
from tests.recorder import Record

from auricle.errors import SettingsError, StorageError
from auricle.wire.bundle import DOMAIN
from auricle.wire.identity import Identity
from auricle_edge.board import trusted_time
from auricle_edge.board.trusted_time import TrustedTime, is_synchronised, judge_time, time_here
from auricle_edge.ota.bundle_upgrade import require_bundle_file
from auricle_edge.ota.fitness import Description, require_bundle, require_named, require_pack, version_order
from auricle_edge.ota.health import Health
from auricle_edge.ota.installation import BundleFacts
from auricle_edge.ota.records import PackKept, UpdateLaterError, UpdateRefusedError, Wanted, read_record, short
from auricle_edge.ota.update_server import UpdateServer, server_of

RUNS = BundleFacts(version="1.2.0", board="pi5", os="bookworm", fleet="home")
FITS: dict[str, Any] = {"kind": "bundle", "identity": "1" * 64, "version": "1.3.0"}
FITS |= {"board": "pi5", "os": "bookworm", "fleet": "home"}


def described(**changes: Any) -> Description:
    """What the metadata says of a bundle that fits, but for what is changed."""
    return msgspec.convert({**FITS, **changes}, Description)


def test_a_newer_bundle_for_this_device_fits() -> None:
    require_named(described(), "bundle", "1" * 64)
    require_bundle(described(), RUNS, "2" * 64)


@pytest.mark.parametrize(
    ("changes", "says"),
    [
        ({"board": "pi4"}, "board pi4"),
        ({"os": "trixie"}, "system trixie"),
        ({"fleet": "office"}, "fleet office"),
        ({"fleet": None}, "none"),
        *(({"version": version}, "above") for version in ("1.1.9", "1.2.0", "1.2.0rc9", None)),
        ({"version": "new"}, "version"),
        ({"identity": "2" * 64}, "runs"),
    ],
    ids=str,
)
def test_other_bundles_are_refused(changes: dict[str, Any], says: str) -> None:
    with pytest.raises(UpdateRefusedError, match=says):
        require_bundle(described(**changes), RUNS, "2" * 64)


@pytest.mark.parametrize(("kind", "identity", "says"), [("pack", None, "sent as a pack"), ("bundle", "3" * 64, "3333")])
def test_what_was_named_is_what_was_signed(kind: Any, identity: str | None, says: str) -> None:
    with pytest.raises(UpdateRefusedError, match=says):
        require_named(described(), kind, identity)


def test_a_pack_fits_everyone_it_does_not_leave_out() -> None:
    require_pack(described(kind="pack", board="", os="", fleet="", version=None), "home", None, None)
    require_pack(described(kind="pack"), "home", RUNS, None)
    for fleet, runs, says in (("office", RUNS, "fleet home"), ("home", None, "board pi5")):
        with pytest.raises(UpdateRefusedError, match=says):
            require_pack(described(kind="pack"), fleet, runs, None)


def test_a_pack_is_not_older_than_one_that_was_kept() -> None:
    kept = PackKept(identity="5" * 64, version="10")
    for version in ("11", "10"):
        require_pack(described(kind="pack", version=version), "home", RUNS, kept)
    for version in ("9", None):
        with pytest.raises(UpdateRefusedError, match="below the 10"):
            require_pack(described(kind="pack", version=version), "home", RUNS, kept)


def test_versions_are_in_the_order_of_pep_440() -> None:
    order = ["0.9", "1.0.dev3", "1.0a1", "1.0b2", "1.0rc1.dev1", "1.0rc1", "1.0", "1.0.post1", "1.0.1", "1.2", "1.10"]
    for low, high in itertools.pairwise(order):
        assert version_order(low) < version_order(high)
    assert version_order("1.0") == version_order("1.0.0") == version_order("1.0+local.1")
    for wrong in ("", "1.", "v1", "1.0-1", "1.0\n", "1" * 20, "1.0+"):
        with pytest.raises(UpdateRefusedError):
            version_order(wrong)


# -- time

CASES = [
    # clock, kept right, floors, judged by
    (1000.0, True, [5000.0], 1000.0),
    (1000.0, False, [5000.0], 5000.0),
    (1000.0, None, [5000.0, 7000.0], 7000.0),
    (9000.0, False, [5000.0], 9000.0),
]


@pytest.mark.parametrize(("clock", "kept", "floors", "judged"), CASES, ids=["ntp", "past", "unknown", "future"])
def test_time_is_never_before_what_has_passed_unless_kept_right(
    clock: float, kept: bool | None, floors: list[float], judged: float
) -> None:
    assert judge_time(clock, kept, floors).seconds == judged


@pytest.mark.reliability("S6", load="a forged NTP")
def test_a_forged_clock_does_not_go_back_before_what_was_signed(tmp_path: Path, record_property: Record) -> None:
    """NTP of a hostile network says that it is last year, so that metadata that ran out look fresh."""
    assert judge_time(1000.0, True, [9000.0], 5000.0) == TrustedTime(5000.0, False)
    assert judge_time(6000.0, True, [9000.0], 5000.0) == TrustedTime(6000.0, True)
    assert judge_time(1000.0, None, [4000.0], 5000.0) == TrustedTime(5000.0, None)
    (tmp_path / "time").write_text(str(int(time.time()) + 1000))
    ahead = time_here(tmp_path, None).seconds - time.time()
    record_property("s ahead of a forged clock", round(ahead))
    assert ahead > 900, "whatever says that the clock is kept right"


def test_the_time_here_is_of_the_clock_the_installation_and_what_was_in_order(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    installed = tmp_path / "installed"
    installed.touch()
    os.utime(installed, (5e9, 5e9))
    monkeypatch.setattr(trusted_time.time, "time", lambda: 4e9)
    for kept, seconds in ((None, 5e9), (False, 5e9), (True, 4e9)):
        monkeypatch.setattr(trusted_time, "is_synchronised", lambda kept=kept: kept)
        assert time_here(tmp_path, installed) == TrustedTime(seconds, kept)
    trusted_time.remember(tmp_path, TrustedTime(4.5e9, True))
    assert time_here(tmp_path, installed) == TrustedTime(4.5e9, False)


def test_a_forged_clock_does_not_bring_metadata_back_that_have_run_out(tmp_path: Path) -> None:
    repository = Repository()
    repository.parts["timestamp"].expires = NOW + DAY
    repository.publish()
    with serving(repository) as server:
        refresh(tmp_path, server, repository.root, at(NOW))
        repository.parts["timestamp"].expires = NOW - DAY
        repository.publish()
        forged = (NOW - 30 * DAY).timestamp()
        with pytest.raises(UpdateLaterError, match="expired"):
            remembered = float((tmp_path / "time").read_text())
            refresh(tmp_path, server, repository.root, judge_time(forged, True, [], remembered))


@pytest.mark.reliability("S6", load="a board in 1970")
def test_a_board_that_believes_it_is_1970_does_not_take_metadata_that_has_run_out(
    tmp_path: Path, record_property: Record
) -> None:
    repository = Repository()
    repository.parts["timestamp"].expires = NOW + DAY
    repository.publish()
    with serving(repository) as server:
        refresh(tmp_path, server, repository.root, at(NOW))
        floor = float((tmp_path / "time").read_text())
        assert floor == NOW.timestamp()
        repository.parts["timestamp"].expires = NOW - DAY
        repository.publish()
        with pytest.raises(UpdateRefusedError, match="expired"):
            refresh(tmp_path, server, repository.root, judge_time(0.0, None, [floor]))
        record_property("s that time went back", NOW.timestamp() - float((tmp_path / "time").read_text()))


def test_a_clock_that_ran_ahead_is_no_refusal_and_leaves_no_trace(tmp_path: Path) -> None:
    repository = Repository()
    with serving(repository) as server:
        with pytest.raises(UpdateLaterError, match="clock"):
            refresh(tmp_path, server, repository.root, at(NOW + 3650 * DAY, kept=False))
        refresh(tmp_path, server, repository.root, at(NOW))
    assert float((tmp_path / "time").read_text()) == NOW.timestamp()


def test_the_installation_and_the_interpreter_are_in_the_past(tmp_path: Path) -> None:
    installed = tmp_path / "bundle.json"
    installed.touch()
    future = datetime.datetime(2100, 1, 1, tzinfo=datetime.timezone.utc).timestamp()
    os.utime(installed, (future, future))
    here = time_here(tmp_path, installed)
    assert here.kept or here.seconds == future
    (tmp_path / "time").write_text("damaged")
    assert time_here(tmp_path, None).seconds > 1e9


@pytest.mark.parametrize(("seconds", "year"), [(253_402_300_799, 9999), (0, None), (253_402_300_800, None), (-1, None)])
def test_a_remembered_time_is_one_that_has_a_date(seconds: int, year: int | None, tmp_path: Path) -> None:
    (tmp_path / "time").write_text(str(seconds))
    assert time_here(tmp_path, None).moment.year == (year or datetime.datetime.now(datetime.timezone.utc).year)


@pytest.mark.parametrize(("answer", "kept"), [("yes", True), ("no", False), ("", None)])
def test_systemd_says_whether_the_clock_is_kept_right(
    answer: str, kept: bool | None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    assert is_synchronised() is None
    asked = '[ "$LC_ALL: $*" = "C: show --property=NTPSynchronized --value" ]'
    program = tmp_path / "timedatectl"
    program.write_text(f"#!/bin/sh\n{asked} && echo {answer}\n")
    program.chmod(0o700)
    assert is_synchronised() is kept


# -- servers


URLS = ["ftp://x", "hub.lan", "https://", "http://hub.lan:1", "https://u@h", "https://h:x", "https://h/?a=1"]


@pytest.mark.parametrize("url", URLS)
def test_urls_that_are_none_or_in_the_clear_are_refused(url: str) -> None:
    with pytest.raises(SettingsError):
        UpdateServer(url)


def test_without_a_claim_and_a_url_there_is_no_server(tmp_path: Path) -> None:
    with pytest.raises(UpdateRefusedError, match="server"):
        server_of(None, tmp_path)


# -- records


def test_a_record_by_somebody_else_is_read_as_one(tmp_path: Path) -> None:
    secret, wanted = tmp_path / "secret", tmp_path / "wanted.json"
    secret.write_text('{"rollout":"r"}')
    assert read_record(wanted, Wanted) is None
    kinds: list[Callable[[], None]] = [lambda: wanted.symlink_to(secret), lambda: os.mkfifo(wanted), wanted.mkdir]
    for make in kinds:
        make()
        with pytest.raises(StorageError):
            read_record(wanted, Wanted)
        wanted.rmdir() if wanted.is_dir() else wanted.unlink()
    for text in ("", "[" * 60000, "x" * 70000, '{"path":"../../etc/shadow"}', '{"path":"/etc/shadow"}', '{"format":2}'):
        wanted.write_text(text)
        with pytest.raises(StorageError, match="remove it"):
            read_record(wanted, Wanted)


def test_a_reason_is_short_and_harmless() -> None:
    assert short("a\x1b[31m  b\n" + "x" * 300) == "a [31m b " + "x" * 191


# -- bundles


def bundle(folder: Path, key: Identity | None = None, **changes: str) -> tuple[Path, Description]:
    """A bundle with nothing in it, and what the metadata would say of it."""
    facts = {"version": "1.3.0", "board": "pi5", "os": "bookworm", "fleet": "home", **changes}
    manifest = json.dumps(facts).encode()
    path = folder / "bundle.tar"
    with tarfile.open(path, "w") as tar:
        signature = b"" if key is None else json.dumps({"signature": key.sign(DOMAIN + manifest).hex()}).encode()
        for name, data in (("bundle.json", manifest), ("bundle.sig", signature)):
            info = tarfile.TarInfo(name)
            info.size = len(data)
            tar.addfile(info, io.BytesIO(data))
    return path, described(identity=hashlib.sha256(manifest).hexdigest())


def test_a_bundle_is_what_the_metadata_says_and_signed_where_a_key_is_set(tmp_path: Path) -> None:
    ours, theirs = Identity.create(), Identity.create()
    archive, signed = bundle(tmp_path, ours)
    require_bundle_file(archive, signed, None)
    require_bundle_file(archive, signed, ours.public)
    for said, key, says in ((signed, theirs.public, "key"), (described(identity="2" * 64), None, "bundle 222")):
        with pytest.raises(UpdateRefusedError, match=says):
            require_bundle_file(archive, said, key)
    archive, signed = bundle(tmp_path, None, board="pi4")
    with pytest.raises(UpdateRefusedError, match="another version"):
        require_bundle_file(archive, signed, None)
    for damaged in (b"", b"no tar" * 200, archive.read_bytes()[:700]):
        archive.write_bytes(damaged)
        with pytest.raises(UpdateRefusedError):
            require_bundle_file(archive, signed, None)


# -- health


def test_a_device_is_healthy_when_all_was_well_for_long_enough(tmp_path: Path) -> None:
    health = Health("1" * 64, "boot", 60.0, {"RUNTIME_DIRECTORY": str(tmp_path)})
    health.write(0.0)

    def said() -> tuple[bool, float]:
        record = json.loads((tmp_path / "health.json").read_bytes())
        assert (record["format"], record["identity"], record["boot"]) == (1, "1" * 64, "boot")
        return record["healthy"], record["since"]

    for well, now in ((True, 10.0), (False, 50.0), (True, 60.0), (True, 119.0)):
        assert said() == (False, 0.0)
        assert not health.look(well, now)
    assert said() == (False, 0.0)
    assert health.look(True, 120.0)
    assert said() == (True, 60.0)
    assert not health.look(False, 130.0)
    assert said() == (False, 130.0)
