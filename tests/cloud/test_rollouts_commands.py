"""`auricle cloud releases` and `rollouts`: from keys to a device that is explained, here and through the API."""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.cloud.api_server import serving
from tests.cloud.filled_store import Filled
from tests.cloud.release_files import make_bundle
from tests.cloud.rolling import NEW, NEWER, OTHER, Rolling
from tests.cloud.test_cloud_commands import auricle, here, there, told

from auricle.packs.pack import load_pack
from auricle.wire.identity import Identity
from auricle_cloud.commands.rollouts_commands import sentence, waited_for
from auricle_cloud.operations.operations import Operations
from auricle_cloud.states.rollout_plan import spell
from auricle_cloud.storage.blobs import Blobs
from auricle_cloud.storage.store import FILE, Store

KEY = Identity(b"k" * 32)


@pytest.fixture
def filled(tmp_path: Path, migrated_file: Path) -> Iterator[Filled]:
    folder = tmp_path / "state"
    folder.mkdir()
    store = Store(shutil.copy(migrated_file, folder / FILE))
    yield Filled(folder, store, Blobs(folder / "blobs"), load_pack("digits"))
    store.close()


@pytest.fixture
def rolling(filled: Filled) -> Rolling:
    return Rolling(filled.store, 4)


def test_a_root_that_cannot_be_copied_is_not_lost(filled: Filled, tmp_path: Path) -> None:
    given = {**here(filled), "AURICLE_RELEASE_KEYS": str(tmp_path / "keys")}
    (tmp_path / "file").write_text("no folder")

    done = auricle("releases", "init", "--root", tmp_path / "file/root.json", **given)

    assert (done.returncode, done.stderr.count("\n")) == (2, 1)
    named = Path(done.stderr.partition("Copy ")[2].partition(" yourself")[0])
    assert json.loads(named.read_bytes())["signed"]["_type"] == "root"


def test_a_bundle_is_released_shown_and_removed(filled: Filled, tmp_path: Path) -> None:
    given = {**here(filled), "AURICLE_RELEASE_KEYS": str(tmp_path / "keys")}
    bundle, root = make_bundle(tmp_path / "b.tar", KEY), tmp_path / "root.json"

    assert "update_root" in auricle("releases", "init", "--root", root, **given).stdout
    assert json.loads(root.read_bytes())["signed"]["_type"] == "root"
    added = told(auricle("releases", "add", bundle, "--key", KEY.public.hex(), "--json", **given))
    assert told(auricle("releases", "add", bundle, "--json", **given)) == added
    lower = make_bundle(tmp_path / "c.tar", version="0.9")
    (tmp_path / "bundle.key").write_bytes(b"\xad" * 32)
    assert "key's file" in auricle("releases", "add", bundle, "--key", tmp_path / "bundle.key", **given).stderr
    assert "is released for pi5, trixie" in auricle("releases", "add", lower, **given).stderr
    assert "not signed" in auricle("releases", "add", lower, "--key", KEY.public.hex(), "--force", **given).stderr
    assert told(auricle("releases", "add", lower, "--force", "--json", **given))["version"] == "0.9"

    assert told(auricle("releases", "show", added["identity"][:8], "--json", **given)) == added
    with serving(filled) as server:
        for look in (("releases", "list"), ("releases", "show", added["path"])):
            assert told(auricle(*look, "--json", **there(server))) == told(auricle(*look, "--json", **given))
    assert "pi5" in auricle("releases", "list", **given).stdout

    asked = auricle("releases", "remove", added["path"], **given)
    assert (asked.returncode, "add --yes" in asked.stderr) == (2, True)
    started = told(auricle("rollouts", "start", added["identity"], "--json", **given))
    refused = auricle("releases", "remove", added["path"], "--yes", **given)
    assert f"is what {started['rollout']} installs" in refused.stderr
    told(auricle("rollouts", "abort", started["rollout"], "--yes", "--json", **given))
    told(auricle("releases", "remove", added["path"], "--yes", "--json", **given))
    assert [row["version"] for row in told(auricle("releases", "list", "--json", **given))["releases"]] == ["0.9"]


def test_metadata_is_renewed_and_the_doctor_says_until_when(filled: Filled, tmp_path: Path) -> None:
    given = {**here(filled), "AURICLE_RELEASE_KEYS": str(tmp_path / "keys")}
    assert "releases init" in auricle("releases", "renew", **given).stderr
    told(auricle("releases", "init", "--root", tmp_path / "root.json", "--json", **given))

    assert "root and targets" in auricle("releases", "renew", **given).stdout
    assert "the online key" in auricle("releases", "renew", "--new-online-key", "--yes", **given).stdout
    for role in ("targets", "root"):
        done = told(auricle("releases", "rotate", role, "--yes", "--json", **given))
        assert done["done"].startswith(f"The key of {role} is replaced: ")
    refused = auricle("releases", "rotate", "online", "--yes", **given)
    assert 'ROLE takes root or targets, not "online".' in refused.stderr
    assert "root and targets" in auricle("releases", "renew", **given).stdout
    found = json.loads(auricle("doctor", "--json", **given).stdout)["findings"]
    (updates,) = [finding for finding in found if finding["check"] == "updates"]
    assert updates["verdict"] == "good"
    assert "timestamp is good until" in updates["sentence"]

    (filled.folder / "releases" / "metadata" / "timestamp.json").write_text("{")
    found = json.loads(auricle("doctor", "--json", **given).stdout)["findings"]
    assert [finding["verdict"] for finding in found if finding["check"] == "updates"] == ["bad"]


@pytest.mark.slow
def test_a_rollout_is_started_steered_and_watched(filled: Filled, rolling: Rolling) -> None:
    given = here(filled)
    options = ("--stages", "50,100", "--errors", "0.25", "--soak", "0m", "--deadline", "2h", "--label", "")
    row = told(auricle("rollouts", "start", NEW[:8], OTHER[:8], *options, "--json", **given))
    name = row["rollout"]
    assert (row["state"], row["stage"], row["stages"], row["deadline"]) == ("running", 1, [50, 100], 7200)
    assert len(row["targets"]) == 2
    rolling.steps(name)
    first, second = rolling.asked()
    rolling.says(first, bundle=NEW, rollout=name)
    rolling.says(second, rollout=name, state="failed", reason="no \x1b[2J sound")
    rolling.steps(name)

    watched = auricle("rollouts", "watch", name, "--json", **given)
    assert (watched.returncode, json.loads(watched.stdout)["state"]) == (3, "paused")
    seen = auricle("rollouts", "show", name, **given).stdout
    assert "1 of 2 devices" in seen and f"{first} is updated" in seen and f"{second} failed" in seen
    assert "\x1b" not in seen
    only = told(auricle("rollouts", "show", name, "--only", "failed", "--json", **given))["devices"]
    assert [device["device"] for device in only] == [second]

    assert told(auricle("rollouts", "resume", name, "--json", **given))["state"] == "running"
    assert told(auricle("rollouts", "pause", name, "--reason", "night", "--json", **given))["reason"] == "night"
    assert auricle("rollouts", "abort", name, **given).returncode == 2
    assert told(auricle("rollouts", "abort", name, "--yes", "--json", **given))["state"] == "aborted"
    assert auricle("rollouts", "watch", name, **given).returncode == 4
    with serving(filled) as server:
        for look in (("rollouts", "list"), ("rollouts", "show", name), ("rollouts", "show", name, first)):
            assert told(auricle(*look, "--json", **there(server))) == told(auricle(*look, "--json", **given))
        unheard = auricle("rollouts", "start", NEW[:8], "--label", "kitchn", **there(server))
        assert "5 % of 0 devices" in unheard.stderr
        told(auricle("rollouts", "abort", unheard.stdout.split("\n")[1].split()[0], "--yes", "--json", **there(server)))
        other = told(auricle("rollouts", "start", NEW[:8], "--json", **there(server)))
        assert server.woken
        assert "is running for some" in auricle("rollouts", "start", NEW[:8], **there(server, "operator")).stderr
        assert (
            "needs the role operator"
            in auricle("rollouts", "pause", other["rollout"], **there(server, "viewer")).stderr
        )


def test_who_starts_and_watches_a_rollout_reads_what_it_waits_for(filled: Filled, rolling: Rolling) -> None:
    given = here(filled)
    started = auricle("rollouts", "start", NEW[:8], "--stages", "25,100", "--soak", "10m", **given)
    assert "25 % of 4 devices" in started.stderr and "4 devices match" in started.stderr
    do = Operations(filled.store, filled.blobs, "t")
    name = do.list_rollouts(1).rollouts[0].rollout
    rolling.steps(name)
    (asked,) = rolling.asked()
    assert "1 is in." in auricle("rollouts", "show", name, **given).stdout
    (waits,) = waited_for(do, do.list_rollouts(5).rollouts)
    assert waits.startswith(f"{name}: Stage 2") and asked in waits
    assert "bundle 000000000000, version 1.0.0" in told(auricle("devices", "show", asked, "--json", **given))["runs"]

    other = do.start_rollout([NEWER], replace=True).rollout
    first = do.list_rollouts(5).rollouts[-1]
    assert sentence(first).endswith(f"0 errors. By {other}.")
    assert [said.partition(":")[0] for said in waited_for(do, do.list_rollouts(5).rollouts)] == [other]


def test_durations_are_round() -> None:
    spelled = [spell(seconds) for seconds in (90, 389, 600, 933, 3600, 9000, 86400)]
    assert spelled == ["90 s", "6.5 min", "10 min", "16 min", "1 h", "2.5 h", "1 d"]


def test_every_device_is_told_why_it_is_where_it_is(filled: Filled, rolling: Rolling) -> None:
    rolling.add("pi4-1", board="pi4")
    rolling.add("wait-1", "pending")
    rolling.store.devices.set_standing(["dev-03"], "quarantined", who="ana", reason="loud")
    name, (asked,) = rolling.begun(stages=[10.0, 100.0])
    free = next(device for device in rolling.names if device not in (asked, "dev-03"))

    def why(device: str) -> str:
        seen = told(auricle("rollouts", "show", name, device, "--json", **here(filled)))
        return " ".join(seen["devices"][0]["sentences"])

    assert "not answered yet" in why(asked)
    rolling.says(asked, rollout=name, state="trial", confirmed=False)
    said = {asked: "on trial", free: "not in yet", "pi4-1": "pi4, trixie", "dev-03": "quarantined", "wait-1": "pending"}
    assert [device for device, noun in said.items() if noun not in why(device)] == []
    assert "bundle 000000000000, version 1.0.0" in why(free)
    lost = auricle("rollouts", "show", name, "nobody-1", **here(filled))
    assert (lost.returncode, 'no device "nobody-1"' in lost.stderr) == (5, True)


MISTAKES = [
    (("start", "ffff"), 'no release "ffff"'),
    (("start", "zzz"), '"zzz"'),
    (("start", "3.0.0"), "did you mean "),
    (("start", NEW, "--stages", "half"), "not percentages"),
    (("start", NEW, "--stages", "0,100"), "stages"),
    (("start", NEW, "--errors", "2"), "errors"),
    (("start", NEW, "--soak", "soon"), "is not a time"),
    (("start", NEW, NEW[:20], "2" * 64), "are for the same devices"),
    (("start", NEW, "d" * 64), "of one pack"),
    (("show", "r1-aaaa"), "none yet"),
    (("pause", "r1-aaaa"), "none yet"),
]


def test_mistakes_are_one_sentence(filled: Filled, rolling: Rolling) -> None:
    for arguments, says in MISTAKES:
        done = auricle("rollouts", *arguments, **here(filled))

        assert says in done.stderr, arguments
        assert done.returncode == (5 if arguments[-1] in ("ffff", "3.0.0", "r1-aaaa") else done.returncode)
        assert done.returncode in (2, 5, 7)
        assert done.stderr.count("\n") == 1
    assert rolling.rollouts.listed(limit=1) == []
