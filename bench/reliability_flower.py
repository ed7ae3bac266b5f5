"""Flower's fleet of the comparison, with what its documentation offers against faults."""

from __future__ import annotations

import json
from pathlib import Path

from bench.flower_peer import Flower
from bench.reliability_fleets import Made, Watched
from bench.step_environments import FLWR

DELIVERED = "Sent successfully"


class FlowerWatched(Watched, Flower):
    """SuperLink with a database, SuperNodes, and an app with a timeout that saves its model after each round."""

    title = f"Flower {FLWR.partition('==')[2]}"
    rules = ("FedAvg", "FedTrimmedAvg")
    again = "`flwr run` again, by hand; the app reads the model that it saved"
    files = ("reliability_flower_app.py", "reliability_task.py")

    def __init__(self, folder: Path, python: Path, devices: int) -> None:
        super().__init__(folder, python, devices)
        self._rule, self._before = self.rules[0], 0

    @property
    def config(self) -> str:  # type: ignore[override]
        """The app's settings beside rounds and log."""
        return f"rule='{self._rule}' folder='{self.folder}'"

    async def choose(self, rule: str) -> None:
        """A run has its rule."""
        self._rule = rule

    def models(self) -> list[Made]:
        text = self._log.read_text() if self._log.exists() else ""
        lines = [json.loads(line) for line in text.splitlines() if line.endswith("}")]
        return [Made(line["at"] if i else 0.0, tuple(line["quarters"])) for i, line in enumerate(lines)]

    def forget(self) -> None:
        self.path("saved.npy").unlink(missing_ok=True)

    async def said(self, since: int) -> str:
        return self.warned(since)

    async def begin(self, rounds: int) -> None:
        """Ask for rounds; `taken` counts from here."""
        self._before = self._sent()
        await super().begin(rounds)

    def _sent(self) -> int:
        return sum(self.path(f"device-{i}.log").read_text().count(DELIVERED) for i in range(self.devices))

    def taken(self) -> int:
        """What the SuperNodes say to have sent successfully, less what has come into models."""
        return self._sent() - self._before - sum(each.counted for each in self.closed())
