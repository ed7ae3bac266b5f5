"""The newest joint model on disk, and what the round that made it made of each region's updates."""

from __future__ import annotations

from pathlib import Path

import msgspec

from auricle.errors import AuricleError, DataError, SettingsError, StorageError
from auricle.files import describe, read_bytes, write_durably
from auricle.packs.pack import Pack
from auricle.wire.kinds import Count, Sha256, Token
from auricle.wire.tensors import Flat, decode, encode
from auricle_cloud.link.region_messages import RegionPart, read_message
from auricle_learning.aggregation.server_state import ServerState

KEPT = "joint.msgpack"
LARGEST_BYTES = 4 << 30


class JointState(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """What the place where regions meet goes on from."""

    number: Count
    """Joint rounds so far."""
    pack: Sha256
    base: str
    """SHA-256 of the model before it; empty for the first."""
    weights: bytes
    server: bytes | None = None
    """The server's half of a round, see `ServerState`."""
    devices: dict[Token, tuple[str, ...]] = {}
    """Whose updates are in it, by region."""
    parts: dict[Token, RegionPart] = {}

    def write(self, path: Path) -> None:
        """Replace what is kept, so that it outlives a power cut; StorageError."""
        try:
            write_durably(path, msgspec.msgpack.encode(self), mode=0o600)
        except OSError as error:
            raise StorageError(describe(error, path)) from error


def read_joint_state(path: Path, pack: Pack, start: Flat) -> JointState:
    """What is kept in a file; without one, the first model (P,), `start`.

    Raises
    ------
    DataError
        It cannot be read.
    SettingsError
        It is of another pack.
    """
    if not path.exists():
        return JointState(0, pack.identity, "", encode(start))
    data, size = read_bytes(path, most=LARGEST_BYTES, refusal=DataError), pack.plugin_table.size
    try:
        kept = read_message(data, JointState)
        decode(kept.weights, size)
        ServerState.from_bytes(kept.server, size)
    except AuricleError as error:
        raise DataError(
            f"The joint model in {path} cannot be read, restore it or begin in another folder: {error}"
        ) from error
    if kept.pack != pack.identity:
        raise SettingsError(f"The joint model in {path} is of another pack, {kept.pack[:12]}: name another folder.")
    return kept
