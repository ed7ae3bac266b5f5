"""What a program keeps for itself is read without waiting: a pipe in the place of a file is an error at once."""

from __future__ import annotations

import ast
import os
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from auricle.errors import AuricleError
from auricle.files import NotAFileError, open_kept, open_lock, read_kept
from auricle.packs.archive import read_file
from auricle.packs.pack import load_pack
from auricle.wire.broker_passwords import read_login
from auricle.wire.identity import Identity
from auricle_cloud.identity.authority import Authority
from auricle_edge.board.trusted_time import _last_date
from auricle_edge.clips.key import read_key
from auricle_edge.control.server import device_token
from auricle_edge.fleet.agent_context import read_fleet_record
from auricle_edge.fleet.identity_claim.claim import read_claim
from auricle_edge.fleet.sent_updates import SentLedger
from auricle_edge.fleet.update_delivery import Outbox
from auricle_edge.training.local_store import LocalStore
from auricle_learning.training.learn_settings import LearnSettings

ROOT = Path(__file__).parents[2]
PARTS = ("core/auricle", "learning/auricle_learning", "edge/auricle_edge", "cloud/auricle_cloud", "fleet/auricle_fleet")
SYSTEM = (
    "accelerator",
    "sensors",
    "memory",
    "lasting",
    "mute_switch",
    "child_process",
    "first_use",
    "checkup",
    "machine",
    "ray_processes",
)
"""Modules that read files of the kernel."""
OWN = ("library", "voices", "systemd", "page_files", "diagnosis")
"""Those that read what is installed with them, or with another program."""
ALONE = "edge/auricle_edge/ota/slots/"
"""Runs without this package, on what root alone may write."""


def test_a_regular_file_is_read_and_what_is_none_is_refused_at_once(tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(b"kept")
    assert read_kept(tmp_path / "file") == b"kept"
    with open_kept(tmp_path / "file", buffering=0) as file:
        assert file.read(2) == b"ke"
    os.mkfifo(tmp_path / "pipe")
    for refused in (read_kept, open_kept, open_lock):
        with pytest.raises(NotAFileError, match="it is a pipe, not a file"):
            refused(tmp_path / "pipe")
    with pytest.raises(NotAFileError, match="it is a device, not a file"):
        read_kept(Path("/dev/null"))
    with pytest.raises(NotAFileError, match="it is a folder, not a file"):
        read_kept(tmp_path)
    with pytest.raises(FileNotFoundError):
        read_kept(tmp_path / "nothing")
    with open_lock(tmp_path / "lock"):
        assert (tmp_path / "lock").exists()


READERS: dict[str, Callable[[Path], object]] = {
    "identity.key": lambda at: Identity.load_or_create(at / "identity.key"),
    "pending.update": lambda at: Outbox(at).read(),
    "clips.key": lambda at: read_key(at / "clips.key"),
    "sent.json": lambda at: SentLedger(at, LearnSettings()).status,
    "password": lambda at: read_login(at / "password"),
    "pack.tar.zst": lambda at: read_file(at / "pack.tar.zst"),
    "root.pem": lambda at: Authority(at),
}
"""Refuse what is no file, in a sentence or as the system does."""
REPLACED: dict[str, Callable[[Path], object]] = {
    "local.safetensors": lambda at: LocalStore(at, "0" * 64, load_pack("digits").table("crnn-lite")).read(),
    "identity/fleet.json": lambda at: read_fleet_record(at),
    "identity/claim.json": lambda at: read_claim(at),
    "time": lambda at: _last_date(at) or None,
}
"""Do without it, as without a file."""


@pytest.fixture
def pipe(request: pytest.FixtureRequest, tmp_path: Path) -> Path:
    path = tmp_path / request.param
    path.parent.mkdir(exist_ok=True)
    os.mkfifo(path)
    return tmp_path


@pytest.mark.parametrize(("pipe", "read"), READERS.items(), indirect=["pipe"], ids=READERS)
def test_a_pipe_in_the_place_of_a_file_of_state_is_refused(pipe: Path, read: Callable[[Path], object]) -> None:
    with pytest.raises((AuricleError, OSError)):
        read(pipe)


@pytest.mark.parametrize(("pipe", "read"), REPLACED.items(), indirect=["pipe"], ids=REPLACED)
def test_a_pipe_in_the_place_of_what_can_be_done_without_is_passed_over(
    pipe: Path, read: Callable[[Path], object]
) -> None:
    assert read(pipe) is None


def test_a_token_is_made_again_over_a_pipe(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "control.token")
    assert len(device_token(tmp_path)) >= 32
    assert read_kept(tmp_path / "control.token")


def waiting_calls(source: str) -> Iterator[int]:
    """Lines on which a path is read in a way that waits at a pipe."""
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute):
            mode = node.args[0].value if node.args and isinstance(node.args[0], ast.Constant) else None
            text = ast.unparse(node.func.value)
            if any(own in text for own in ("resources", "proc", "_FOLDER", "Distribution")):
                continue
            if node.func.attr in ("read_bytes", "read_text") or (node.func.attr == "open" and mode == "rb"):
                yield node.lineno


def test_no_module_reads_a_file_in_a_way_that_waits_at_a_pipe() -> None:
    """As `auricle.files` does it, but where the file is the kernel's or the package's own."""
    assert list(waiting_calls("path.read_bytes()\npath.open('rb')\nread_kept(path)")) == [1, 2]
    found = [
        f"{path.relative_to(ROOT)}:{line}"
        for part in PARTS
        for path in sorted((ROOT / part).rglob("*.py"))
        if path.stem not in (*SYSTEM, *OWN) and not str(path.relative_to(ROOT)).startswith(ALONE)
        for line in waiting_calls(path.read_text("utf-8"))
    ]
    assert found == []
