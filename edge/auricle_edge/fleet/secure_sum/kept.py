"""What a device has to know of its secure sum until the end, on disk: a device that starts again goes on with it."""

from __future__ import annotations

from pathlib import Path

import msgspec

from auricle.errors import StorageError
from auricle.files import read_kept, remove_file, write_whole
from auricle.wire.kinds import UNDECODABLE
from auricle.wire.secure_sum.device import DeviceSum, Keys, Secrets
from auricle.wire.secure_sum.kinds import sum_name
from auricle.wire.secure_sum.messages import RevealSum, SumNeighbours, SumReveal

FILE = "secure.sum"


class Kept(msgspec.Struct, frozen=True, kw_only=True):
    """One sum as a device knows it. What it has once said it says again in the same bytes, and nothing else."""

    task: str
    round: int
    sum: str
    secrets: Secrets | None
    """None once it has revealed: then they are of no more use to it."""
    told: SumNeighbours | None = None
    shares: tuple[bytes, ...] = ()
    """What it sealed to its neighbours: sealed once, for each key seals one message."""
    boxes: dict[int, bytes] = {}
    """What they sealed to it, by seat."""
    masked: bool = False
    """An update was masked: a second one under the same masks would give away how the two differ."""
    asked: RevealSum | None = None
    revealed: SumReveal | None = None

    def name(self, seat: int) -> str:
        """A device's name inside this sum."""
        return sum_name(self.sum, seat)

    def device_sum(self, told: SumNeighbours) -> DeviceSum:
        """The device in its sum; WireError where its neighbours are too few for the threshold."""
        return DeviceSum(self.name(told.seat), [self.name(seat) for seat in told.seats], told.threshold, self.secrets)

    def keys(self, told: SumNeighbours) -> dict[str, Keys]:
        """Its neighbours' keys by name."""
        return {self.name(s): Keys(b, m) for s, b, m in zip(told.seats, told.boxes, told.masks, strict=True)}


class KeptSum:
    """The newest sum; an older one is forgotten with it.

    Parameters
    ----------
    folder
        Where `secure.sum` lies.
    durable
        What it keeps survives a power cut.
    """

    def __init__(self, folder: Path, *, durable: bool = True) -> None:
        self._path, self._durable = folder / FILE, durable

    def put(self, kept: Kept) -> None:
        """Keep it, for the device alone; only then may be said what it says. StorageError: the disk refuses."""
        write_whole(self._path, msgspec.msgpack.encode(kept), durable=self._durable, mode=0o600)

    def read(self) -> Kept | None:
        """The newest sum; None without one, or where what lies there is not whole."""
        try:
            kept = msgspec.msgpack.decode(read_kept(self._path), type=Kept)
            told = kept.told
            return kept if told is None or len(told.seats) == len(told.boxes) == len(told.masks) else None
        except (FileNotFoundError, *UNDECODABLE):
            return None
        except OSError as error:
            raise StorageError(f"{self._path} cannot be read ({error.strerror}).") from error

    def forget(self) -> None:
        """Remove it; StorageError: the disk refuses."""
        remove_file(self._path, durable=self._durable)
