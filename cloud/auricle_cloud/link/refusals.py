"""What was refused of which device, kept in bounded memory until it is written down."""

from __future__ import annotations

import threading

from auricle.errors import StorageError
from auricle_cloud.storage.device_records import Devices

MOST = 1000
"""Pairs of a device and a reason kept at a time; further ones are only counted in all."""


class Refusals:
    """Counts refusals by device and reason.

    Parameters
    ----------
    devices
        Where they are written down.
    """

    def __init__(self, devices: Devices) -> None:
        self._devices = devices
        self._lock = threading.Lock()
        self._pending: dict[tuple[str, str], tuple[int, str]] = {}

    def add(self, device: str, code: str, detail: str, count: int = 1) -> None:
        """Count a refusal; `detail` is the sentence of the last one."""
        with self._lock:
            before = self._pending.get((device, code))
            if before is not None or len(self._pending) < MOST:
                self._pending[device, code] = (count + (before or (0,))[0], detail)

    def flush(self) -> None:
        """Write down what came since the last time; StorageError when it has to wait for the next time."""
        with self._lock:
            pending, self._pending = self._pending, {}
        try:
            if pending:
                self._devices.add_refusals(pending)
        except StorageError:
            for (device, code), (count, detail) in pending.items():
                self.add(device, code, detail, count)
            raise
