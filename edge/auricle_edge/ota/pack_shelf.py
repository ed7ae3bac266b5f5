"""The packs of a device: the one that runs and the one before, switched in one step."""

from __future__ import annotations

from collections.abc import Collection
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec
import numpy as np

from auricle.errors import REFUSED_CODE, AuricleError, PackError, because
from auricle.files import read_kept, write_durably
from auricle.packs.archive import read_file
from auricle.packs.pack import Pack, load_pack, pack_bytes
from auricle.packs.signature import read_trusted_key
from auricle.wire.kinds import UNDECODABLE, Sha256
from auricle_edge.runtimes import choose_runtime
from auricle_edge.training.own_model import own_model
from auricle_learning.runtimes import Runtime

if TYPE_CHECKING:
    from auricle_edge.settings import EdgeSettings

SWITCH = "current.json"


class NoEarlierPackError(PackError):
    """There is no pack to go back to."""

    exit_code = REFUSED_CODE


class Switch(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Which pack runs; the whole state of the shelf is this one file."""

    current: Sha256 | None = None
    """None: the one of the settings."""
    previous: Sha256 | None = None


class PackShelf:
    """Keeps packs in a device's state folder.

    Parameters
    ----------
    folder
        The device's state folder.
    configured
        The pack of the settings: what runs until another was installed.
    trusted
        Public keys of which one must have signed a pack; None: a pack without a signature will do.
    """

    def __init__(self, folder: Path, configured: str, trusted: Collection[bytes] | None = None) -> None:
        self._folder, self._configured, self._trusted = folder / "packs", configured, trusted

    @property
    def switch(self) -> Switch:
        """What runs and what ran before; PackError when the file that says so is damaged."""
        path = self._folder / SWITCH
        try:
            return msgspec.json.decode(read_kept(path), type=Switch)
        except FileNotFoundError:
            return Switch()
        except (OSError, *UNDECODABLE) as error:
            if isinstance(error, OSError):
                raise PackError(f"{path} cannot be read: {because(error)}.") from error
            raise PackError(f"{path} is damaged: remove it to run the pack of the settings.") from error

    def current(self) -> Pack:
        """The pack that runs; PackError when it is not sound any more."""
        return self._load(self.switch.current)

    def install(self, source: str) -> Pack:
        """Make a pack the one that runs, once it has proved that it can; the running one is kept as the previous.

        Raises
        ------
        PackError
            It is not sound, nobody trusted signed it, it is the one that runs, or its models do not run here.
        StorageError
            The disk cannot take it; the old one goes on.
        """
        pack = load_pack(source, self._trusted)
        switch, running = self.switch, self.current()
        if pack.identity == running.identity:
            raise PackError(f"The pack {pack.manifest.name} ({pack.identity[:12]}) is the one that runs.")
        prove(pack)
        archive = Path(source)  # as it came: packing it again takes 100 MB
        write_durably(self._path(pack.identity), read_file(archive) if archive.is_file() else pack_bytes(pack))
        self._turn(Switch(pack.identity, switch.current))
        return pack

    def roll_back(self) -> Pack:
        """Go back to the pack before; PackError when it is missing, or it is not sound any more."""
        switch = self.switch
        if switch.current is None:
            raise NoEarlierPackError("There is no pack to go back to: the one of the settings runs.")
        pack = self._load(switch.previous)
        self._turn(Switch(switch.previous, switch.current if switch.previous is not None else None))
        return pack

    def _load(self, identity: str | None) -> Pack:
        return load_pack(self._configured if identity is None else str(self._path(identity)), self._trusted)

    def _path(self, identity: str) -> Path:
        return self._folder / f"{identity}.tar.zst"

    def _turn(self, switch: Switch) -> None:
        write_durably(self._folder / SWITCH, msgspec.json.encode(switch))
        kept = {SWITCH, *(self._path(i).name for i in (switch.current, switch.previous) if i is not None)}
        for path in self._folder.iterdir():
            if path.name not in kept:
                path.unlink(missing_ok=True)


def running_pack(settings: EdgeSettings) -> Pack:
    """The pack that a device runs; PackError when it is not sound, or has not the local model that is set."""
    pack = PackShelf(settings.folder, settings.pack, read_trusted_key(settings.pack_key)).current()
    own_model(pack, settings.local, settings.start)
    return pack


def prove(pack: Pack) -> None:
    """See that every model of a pack runs here, its vote too; PackError otherwise."""
    _prove(pack, choose_runtime("auto", pack).runtime)
    if pack.voter is not None:
        _prove(pack.voter, choose_runtime("auto", pack.voter, training=False).runtime)


def _prove(pack: Pack, runtime: Runtime) -> None:
    task = pack.manifest.task
    silence = np.zeros((1, *task.input_shape), np.float32)
    for name, table in pack.tables.items():
        try:
            answer = runtime.logits(name, table.initial(0), silence)
        except AuricleError as error:
            raise PackError(f"The pack {pack.manifest.name} does not run here: {error}") from error
        if answer.shape != (1, len(pack.labels)) or not np.isfinite(answer).all():
            raise PackError(f"The model {name} of the pack {pack.manifest.name} does not give what a model has to.")
