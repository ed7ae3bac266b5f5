"""Attacks on the signed metadata, over HTTP, against metadata as the TUF specification has it."""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from securesystemslib.signer import CryptoSigner  # type: ignore[attr-defined]
from tests.edge.update_site import DAY, NOW, Answer, Repository, Server, altered, at, endless, refresh, serving, whole
from tests.recorder import Record

from auricle.errors import AuricleError
from auricle_edge.ota.records import UpdateLaterError, UpdateRefusedError
from auricle_edge.ota.signed_targets import alone
from auricle_edge.ota.update_server import Patience

PATH, CONTENT = "bundle/pi5/bookworm/abc.tar", b"a bundle"
CUSTOM = {"kind": "bundle", "identity": "1" * 64, "version": "1.2.0", "board": "pi5", "os": "bookworm", "fleet": "home"}


@pytest.fixture
def repository() -> Repository:
    made = Repository()
    made.add(PATH, CONTENT, CUSTOM)
    return made


@pytest.fixture
def server(repository: Repository) -> Iterator[Server]:
    with serving(repository) as running:
        yield running


def state(folder: Path) -> dict[str, str]:
    """What the device believes: names and hashes of its metadata."""
    files = (path for path in folder.glob("*.json") if path.is_file() and not path.is_symlink())
    return {path.name: hashlib.sha256(path.read_bytes()).hexdigest() for path in files}


def tell_believed(before: dict[str, str], folder: Path, record: Record) -> None:
    """How many parts of metadata are not what they were before an attack."""
    now = state(folder)
    record("parts tried", len(now))
    record("accepted", sum(now.get(name) != value for name, value in before.items()))


def test_a_target_is_found_with_its_length_hash_and_description(tmp_path: Path, server: Server) -> None:
    found = refresh(tmp_path, server, server.repository.root).find(PATH)
    assert (found.length, found.sha256) == (len(CONTENT), hashlib.sha256(CONTENT).hexdigest())
    assert (found.description.version, found.description.board) == ("1.2.0", "pi5")
    assert found.url == f"{server.url}/targets/bundle/pi5/bookworm/{found.sha256}.abc.tar"


def test_what_is_not_among_the_targets_or_not_described_is_refused(tmp_path: Path, server: Server) -> None:
    server.repository.add("bundle/bare", b"x", None)
    server.repository.add("bundle/odd", b"x", {**CUSTOM, "identity": "not a hash"})
    targets = refresh(tmp_path, server, server.repository.root)
    for path, says in (("bundle/other.tar", "not among"), ("bundle/bare", "without"), ("bundle/odd", "without")):
        with pytest.raises(UpdateRefusedError, match=says):
            targets.find(path)
    assert [target.path for target in targets.all()] == [PATH]


def test_of_new_roots_64_are_read_at_a_time(tmp_path: Path, server: Server) -> None:
    for _ in range(70):
        server.repository.publish_root()
    refresh(tmp_path, server, server.repository.root)
    asked = [path for path, _ in server.asked if path.endswith(".root.json")]
    assert asked == [f"metadata/{version}.root.json" for version in range(2, 2 + 64)]


STAMP = "metadata/timestamp.json"


def forged(repository: Repository, role: str, name: str) -> None:
    repository.publish()
    stranger = CryptoSigner.generate_ed25519()
    repository.files[name.format(repository.parts[role].version)] = repository.sign(role, [stranger])


ATTACKS: dict[str, tuple[Callable[[Repository], None], str]] = {
    "timestamp-by-a-stranger": (lambda r: forged(r, "timestamp", STAMP), "timestamp was signed by 0/1"),
    "targets-by-a-stranger": (lambda r: forged(r, "targets", "metadata/{}.targets.json"), "targets was signed by 0/1"),
    "content-changed-after-signing": (
        lambda r: r.files.update({STAMP: altered(r.files[STAMP], version=99)}),
        "timestamp was signed by 0/1",
    ),
    "not-json": (lambda r: r.files.update({STAMP: b"<html>sign in</html>"}), "order"),
    "deep-json": (lambda r: r.files.update({STAMP: b"[" * 9000}), "order"),
}


@pytest.mark.reliability("C7", load="update metadata: wrong keys")
@pytest.mark.parametrize(("attack", "says"), ATTACKS.values(), ids=ATTACKS.keys())
def test_metadata_that_its_keys_did_not_sign_is_refused_and_believed_never(
    attack: Callable[[Repository], None], says: str, tmp_path: Path, server: Server, record_property: Record
) -> None:
    refresh(tmp_path, server, server.repository.root)
    before = state(tmp_path)
    attack(server.repository)
    with pytest.raises(UpdateRefusedError, match=says):
        refresh(tmp_path, server, server.repository.root)
    targets = {"targets.json": before["targets.json"]}  # others may be newer, and as their keys signed them
    tell_believed(targets, tmp_path, record_property)
    assert state(tmp_path)["targets.json"] == before["targets.json"]
    server.repository.publish()
    assert refresh(tmp_path, server, server.repository.root).find(PATH).length == len(CONTENT)


@pytest.mark.reliability("C7", load="freeze")
def test_a_frozen_repository_is_refused_once_its_timestamp_has_run_out(
    tmp_path: Path, server: Server, record_property: Record
) -> None:
    server.repository.parts["timestamp"].expires = NOW + DAY
    server.repository.publish()
    refresh(tmp_path, server, server.repository.root)
    before = state(tmp_path)
    with pytest.raises(UpdateRefusedError, match=r"timestamp\.json is expired"):
        refresh(tmp_path, server, server.repository.root, at(NOW + 2 * DAY))
    tell_believed(before, tmp_path, record_property)


@pytest.mark.parametrize("role", ["root", "targets", "snapshot"])
def test_every_role_expires(role: str, tmp_path: Path, server: Server) -> None:
    repository = server.repository
    repository.parts[role].expires = NOW - DAY
    if role == "root":
        repository.publish_root()
    repository.publish()
    with pytest.raises(UpdateRefusedError, match=f"{role}(.json)? is expired"):
        refresh(tmp_path, server, repository.root)


@pytest.mark.reliability("C7", load="rollback")
@pytest.mark.parametrize("role", ["timestamp", "snapshot", "targets"])
def test_an_older_version_of_a_role_is_refused(
    role: str, tmp_path: Path, server: Server, record_property: Record
) -> None:
    repository = server.repository
    repository.publish()
    refresh(tmp_path, server, repository.root)
    before = {f"{role}.json": state(tmp_path)[f"{role}.json"]}
    for name in ("targets", "snapshot", "timestamp"):
        repository.parts[name].version += -2 if name == role else 5
    targets, snapshot, timestamp = (repository.parts[name] for name in ("targets", "snapshot", "timestamp"))
    snapshot.meta["targets.json"].version = targets.version
    timestamp.snapshot_meta.version = snapshot.version
    for name in ("targets", "snapshot"):
        repository.files[f"metadata/{repository.parts[name].version}.{name}.json"] = repository.sign(name)
    repository.files["metadata/timestamp.json"] = repository.sign("timestamp")
    with pytest.raises(UpdateRefusedError, match="version"):
        refresh(tmp_path, server, repository.root)
    tell_believed(before, tmp_path, record_property)


@pytest.mark.reliability("C7", load="mix-and-match")
def test_parts_of_two_repositories_states_do_not_mix(tmp_path: Path, server: Server, record_property: Record) -> None:
    repository = server.repository
    twin = repository.copied()
    twin.add(PATH, b"another bundle", CUSTOM)
    repository.publish()
    repository.publish()
    number = repository.parts["snapshot"].version
    repository.files[f"metadata/{number}.snapshot.json"] = twin.files[f"metadata/{number - 1}.snapshot.json"]
    with pytest.raises(UpdateRefusedError, match="Expected snapshot version"):
        refresh(tmp_path, server, repository.root)
    record_property("accepted", int("snapshot.json" in state(tmp_path)))


def test_a_role_with_a_threshold_of_two_needs_two(tmp_path: Path) -> None:
    signers = {role: [CryptoSigner.generate_ed25519()] for role in ("root", "snapshot", "timestamp")}
    pair = [CryptoSigner.generate_ed25519(), CryptoSigner.generate_ed25519()]
    repository = Repository({**signers, "targets": pair})
    repository.add(PATH, CONTENT, CUSTOM)
    with serving(repository) as server:
        assert refresh(tmp_path / "two", server, repository.root).find(PATH)
        version = repository.parts["targets"].version
        repository.files[f"metadata/{version}.targets.json"] = repository.sign("targets", [pair[0], pair[0]])
        with pytest.raises(UpdateRefusedError, match="targets was signed by 1/2 keys"):
            refresh(tmp_path / "one", server, repository.root)


@pytest.mark.parametrize("role", ["root", "targets", "snapshot", "timestamp"])
def test_a_new_root_brings_new_keys_and_the_old_are_worth_nothing(role: str, tmp_path: Path, server: Server) -> None:
    repository = server.repository
    refresh(tmp_path, server, repository.root)
    stolen = repository.signers[role]
    repository.rotate(role)
    assert refresh(tmp_path, server, repository.root).find(PATH)
    repository.signers[role] = stolen
    if role == "root":
        repository.publish_root()
    else:
        repository.publish()
    with pytest.raises(UpdateRefusedError, match=f"{role} was signed by 0/1 keys"):
        refresh(tmp_path, server, repository.root)


def test_a_device_that_slept_for_many_roots_walks_through_all_of_them(tmp_path: Path, server: Server) -> None:
    for _ in range(5):
        server.repository.rotate("root")
    assert refresh(tmp_path, server, server.repository.root).find(PATH)
    for number in range(2, 7):  # a server that forgets them does not matter to who has them
        del server.repository.files[f"metadata/{number}.root.json"]
    assert refresh(tmp_path, server, server.repository.root).find(PATH)


def test_another_first_root_is_no_root_of_ours(tmp_path: Path, server: Server) -> None:
    for root, says in ((Repository().root, "signed by 0/1"), (b"{}", "order")):
        with pytest.raises(UpdateRefusedError, match=says):
            refresh(tmp_path / says[:3], server, root)


@pytest.mark.reliability("C7", load="endless data")
def test_endless_metadata_is_cut_off(tmp_path: Path, server: Server, record_property: Record) -> None:
    server.instead[STAMP] = endless()
    with pytest.raises(UpdateRefusedError, match="more"):
        refresh(tmp_path, server, server.repository.root)
    record_property("accepted", int("timestamp.json" in state(tmp_path)))


def test_targets_may_be_as_large_as_the_limit_and_no_larger(tmp_path: Path, server: Server) -> None:
    name = f"metadata/{server.repository.parts['targets'].version}.targets.json"
    server.repository.files[name] = server.repository.files[name].ljust(2 << 20)
    assert refresh(tmp_path / "at", server, server.repository.root).find(PATH)
    server.repository.files[name] += b" "
    with pytest.raises(UpdateRefusedError, match="more"):
        refresh(tmp_path / "above", server, server.repository.root)


@pytest.mark.parametrize(
    ("answer", "error", "says"),
    [
        (endless(b" ", 0.01), UpdateLaterError, "bytes a second"),
        (lambda request: request.send_error(503), UpdateLaterError, "503"),
        (lambda request: request.send_error(404), UpdateLaterError, "timestamp"),
        (whole(b""), UpdateRefusedError, None),
    ],
    ids=["drips", "fails", "has none", "is empty"],
)
def test_a_server_that_drips_or_fails_is_asked_again_later(
    answer: Answer, error: type[Exception], says: str | None, tmp_path: Path, server: Server
) -> None:
    server.instead[STAMP] = answer
    with pytest.raises(error, match=says):
        refresh(tmp_path, server, server.repository.root, patience=Patience(window=0.2))


def test_nobody_there_is_no_refusal(tmp_path: Path, server: Server) -> None:
    server.http.server_close()
    with pytest.raises(UpdateLaterError, match="answer"):
        refresh(tmp_path, server, server.repository.root)


def test_one_update_at_a_time_holds_the_folder_and_lets_it_go(tmp_path: Path) -> None:
    folder = tmp_path / "state" / "tuf"
    with alone(folder), pytest.raises(UpdateLaterError, match="under way"), alone(folder):
        pass
    with alone(folder):
        assert folder.stat().st_mode & 0o777 == 0o700


# -- killed


def started(folder: Path, server: Server, root: Path, *options: str) -> subprocess.CompletedProcess[str]:
    """A look at what is on offer, in a process that strace can kill."""
    program = (
        "import sys; from pathlib import Path\n"
        "from tests.edge.update_site import at\n"
        "from auricle_edge.ota.signed_targets import SignedTargets\n"
        "from auricle_edge.ota.update_server import UpdateServer\n"
        "url, folder, root = sys.argv[1:]\n"
        "SignedTargets(Path(folder), UpdateServer(url), Path(root).read_bytes(), at())\n"
    )
    command = [sys.executable, "-c", program, server.url, str(folder), str(root)]
    return subprocess.run([*options, *command], capture_output=True, text=True, env={**os.environ}, check=False)


CALLS = ("fsync", "rename", "symlink", "unlink", "openat")


@pytest.mark.slow
@pytest.mark.timeout(900)
@pytest.mark.nightly
def test_a_kill_at_every_call_that_changes_the_folder_leaves_it_usable(tmp_path: Path, server: Server) -> None:
    strace = shutil.which("strace")
    if strace is None:
        pytest.skip("strace is not installed")
    repository = server.repository
    root = tmp_path / "root.json"
    root.write_bytes(repository.root)
    before = tmp_path / "before"
    refresh(before, server, repository.root)
    known = state(before)
    repository.rotate("targets")
    newest = repository.parts["timestamp"].version

    kills = dict.fromkeys(CALLS, 0)
    points = [(call, number) for call in CALLS for number in range(1, 100)]
    for call, number in points:
        if kills[call] < number - 1:
            continue
        folder = tmp_path / "killed"
        shutil.copytree(before, folder, symlinks=True)
        inject = f"inject={call}:signal=KILL:when={number}"
        only = ("-P", str(folder), "-P", str(folder / "root_history")) if call == "openat" else ()
        done = started(
            folder, server, root, strace, "-o", str(tmp_path / "log"), *only, "-e", f"trace={call}", "-e", inject
        )
        if "ptrace" in done.stderr:
            pytest.skip("processes may not be traced here")
        if done.returncode == 0:
            shutil.rmtree(folder)
            continue
        kills[call] += 1
        for name in known:
            assert json.loads((folder / name).read_bytes())["signed"]["version"] <= newest
        again = refresh(folder, server, repository.root)
        assert again.find(PATH).length == len(CONTENT)
        assert not list(folder.rglob(".*.tmp"))
        stolen = repository.copied()
        stolen.parts["timestamp"].version = 1
        repository_now, server.repository = server.repository, stolen
        stolen.files["metadata/timestamp.json"] = stolen.sign("timestamp")
        with pytest.raises(AuricleError, match="version"):
            refresh(folder, server, repository.root)
        server.repository = repository_now
        shutil.rmtree(folder)
    assert min(kills["fsync"], kills["rename"]) >= 5
    print(f"killed at {kills}")
