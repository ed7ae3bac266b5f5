"""The rounds of a run in a tracker: TensorBoard, MLflow or Weights & Biases, whose packages are extras."""

from __future__ import annotations

import importlib
from collections.abc import Callable, Mapping
from pathlib import Path
from types import ModuleType
from typing import Protocol

from auricle.errors import SettingsError, nearest, pip_command
from auricle_fleet.results.card import HIDDEN
from auricle_fleet.results.result import RoundRow
from auricle_fleet.settings.fleet_settings import FleetSettings

PACKAGES = {"tensorboard": "tensorboardX", "mlflow": "mlflow", "wandb": "wandb"}
"""What each tracker is imported as."""
PROJECT = "auricle"
LONGEST_CHARACTERS = 250
"""Characters of a setting that every tracker takes."""


class Tracker(Protocol):
    """Takes the rounds of one run; what else it needs it is made with."""

    def round(self, number: int, figures: Mapping[str, float]) -> None:
        """Take the figures of a round, by name."""

    def end(self) -> None:
        """No round follows."""


class TensorBoard:
    """Writes event files into the run's folder: `tensorboard --logdir runs`."""

    def __init__(self, package: ModuleType, folder: Path, settings: Mapping[str, str]) -> None:
        self._writer = package.SummaryWriter(str(folder / "tensorboard"))
        rows = "\n".join(f"    {name} = {value}" for name, value in settings.items())
        self._writer.add_text("settings", rows)

    def round(self, number: int, figures: Mapping[str, float]) -> None:
        """Take a round; it is on disk at once."""
        for name, value in figures.items():
            self._writer.add_scalar(name, value, number)
        self._writer.flush()

    def end(self) -> None:
        """Close the files."""
        self._writer.close()


class MLflow:
    """Enters a run where `MLFLOW_TRACKING_URI` says."""

    def __init__(self, package: ModuleType, folder: Path, settings: Mapping[str, str]) -> None:
        self._mlflow = package
        package.start_run(run_name=folder.name)
        package.log_params(dict(settings))

    def round(self, number: int, figures: Mapping[str, float]) -> None:
        """Take a round."""
        self._mlflow.log_metrics(dict(figures), step=number)

    def end(self) -> None:
        """End the run."""
        self._mlflow.end_run()


class WeightsAndBiases:
    """Enters a run in the project `auricle`; `WANDB_MODE=offline` keeps it on this machine."""

    def __init__(self, package: ModuleType, folder: Path, settings: Mapping[str, str]) -> None:
        self._run = package.init(project=PROJECT, name=folder.name, dir=str(folder), config=dict(settings))

    def round(self, number: int, figures: Mapping[str, float]) -> None:
        """Take a round."""
        self._run.log(dict(figures), step=number)

    def end(self) -> None:
        """End the run."""
        self._run.finish()


TRACKERS: Mapping[str, Callable[[ModuleType, Path, Mapping[str, str]], Tracker]] = {
    "tensorboard": TensorBoard,
    "mlflow": MLflow,
    "wandb": WeightsAndBiases,
}


class Tracking:
    """Hands rounds on to a tracker, which is begun with the first; one that fails is named once, and the run goes on.

    Parameters
    ----------
    kind
        One of `TRACKERS`.
    say
        Told what failed.

    Raises
    ------
    SettingsError
        There is no such tracker, or its package is not installed.
    """

    def __init__(self, kind: str, say: Callable[[str], None]) -> None:
        if kind not in TRACKERS:
            raise SettingsError(f'There is no tracker "{kind}"; {nearest(kind, TRACKERS)}')
        self._kind, self._say = kind, say
        try:
            self._package = importlib.import_module(PACKAGES[kind])
        except ImportError as error:
            raise SettingsError(f"--track {kind} needs {PACKAGES[kind]}: {pip_command(PACKAGES[kind])}.") from error
        self._tracker: Tracker | None = None
        self._failed = False
        self._begin: Callable[[], Tracker] | None = None

    def of(self, folder: Path, settings: FleetSettings) -> None:
        """Say which run it is; nothing is begun yet. The broker's address, which may hold a password, stays here."""
        told = {
            name: str(value)[:LONGEST_CHARACTERS] for name, value in settings.changed().items() if name not in HIDDEN
        }
        self._begin = lambda: TRACKERS[self._kind](self._package, folder, told)

    def round(self, row: RoundRow) -> None:
        """Hand on a round."""
        self._guard(lambda tracker: tracker.round(row.round, figures(row)))

    def end(self) -> None:
        """No round follows."""
        if self._tracker is not None:
            self._guard(lambda tracker: tracker.end())

    def _guard(self, work: Callable[[Tracker], None]) -> None:
        if self._failed or self._begin is None:
            return
        try:
            self._tracker = self._tracker or self._begin()
            work(self._tracker)
        except Exception as error:  # noqa: BLE001  # another package's: whatever it raises, the run is worth more
            self._failed = True
            self._say(f"{self._kind} does not take the rounds any more: {error}. metrics.jsonl has them all.")


def figures(row: RoundRow) -> dict[str, float]:
    """What of a round is a number, by name; of devices that were bounded, blamed or refused, how many."""
    found = {name: getattr(row, name) for name in row.__struct_fields__ if name not in {"round", "rounds"}}
    counts = {name: float(len(value)) for name, value in found.items() if isinstance(value, tuple)}
    return counts | {name: float(value) for name, value in found.items() if isinstance(value, int | float)}
