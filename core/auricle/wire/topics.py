"""The topics of one fleet, `auricle/1/{fleet}/...`."""

from __future__ import annotations

from dataclasses import dataclass

UP = ("reg", "get", "loss", "upd", "st", "rel", "hear")
"""What a device says: the last level of its topics; brokers grant these and no others."""


@dataclass(frozen=True)
class Topics:
    """Names of all topics of a fleet (PROTOCOL section 4)."""

    fleet: str

    @property
    def prefix(self) -> str:
        """Everything of this fleet lies below."""
        return f"auricle/1/{self.fleet}"

    @property
    def coordinator_state(self) -> str:
        """Retained: the coordinator's presence."""
        return f"{self.prefix}/c/state"

    @property
    def model(self) -> str:
        """Retained: the current model's signed manifest."""
        return f"{self.prefix}/c/model"

    def blob(self, sha256: str, part: int | None = None) -> str:
        """Part `part` of a content-addressed blob; all parts without."""
        return f"{self.prefix}/b/{sha256}/{'+' if part is None else part}"

    def device_state(self, device: str) -> str:
        """Retained: a device's presence."""
        return f"{self.prefix}/d/{device}/state"

    def up(self, device: str, kind: str) -> str:
        """From a device: a kind of `UP`."""
        return f"{self.prefix}/d/{device}/up/{kind}"

    def down(self, device: str, kind: str) -> str:
        """To a device: inv, ack or cmd."""
        return f"{self.prefix}/d/{device}/dn/{kind}"
