"""The folder of a suite: a folder for each run, named by what decides its result, so that none is made twice."""

from __future__ import annotations

import hashlib
import shutil
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

import msgspec

from auricle import __version__
from auricle.errors import StorageError
from auricle.files import describe, read_kept, write_durably
from auricle.speech.corpora import folder_of
from auricle.wire.kinds import UNDECODABLE
from auricle_fleet.results.metrics import Metrics
from auricle_fleet.results.result import RoundRow, Summary, round_rows
from auricle_fleet.results.run_folder import RunFolder
from auricle_fleet.suite.fingerprint import fingerprint
from auricle_fleet.suite.plan import Cell


@dataclass(frozen=True)
class Ended:
    """What a run of a suite came to."""

    cell: Cell
    summary: Summary
    rounds: tuple[RoundRow, ...]
    pictures: Mapping[str, str] = field(default_factory=dict)
    """Of its models, as SVG by name; empty where the run was asked for none."""


class SuiteFolder:
    """Where the runs of one suite lie, or of several: they share what they have in common.

    Parameters
    ----------
    folder
        It is made where it is missing.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._places: dict[str, Path] = {}
        self.runs = folder / "runs"
        try:
            self.runs.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise StorageError(describe(error, folder)) from error

    def place(self, cell: Cell) -> Path:
        """The folder of a run: other settings, other data or another version have another one."""
        if cell.name not in self._places:  # once a run: what it reads is listed for it
            try:
                print_of = fingerprint(cell.settings, __version__)
            except OSError as error:
                raise StorageError(describe(error, folder_of(cell.settings.data))) from error
            self._places[cell.name] = self.runs / f"{cell.name}-{hashlib.sha256(print_of).hexdigest()[:10]}"
        return self._places[cell.name]

    def told(self, cell: Cell) -> Path:
        """Write the settings of a run beside its folder, for `auricle fleet run --config`, and return the file."""
        path = self._beside(cell, ".json")
        write_durably(path, msgspec.json.format(msgspec.json.encode(cell.settings), indent=2) + b"\n", mode=0o600)
        return path

    def log(self, cell: Cell) -> Path:
        """What a run says on standard error."""
        return self._beside(cell, ".log")

    def _beside(self, cell: Cell, ending: str) -> Path:
        """A file named as the folder of a run, whose name may have full stops in it."""
        place = self.place(cell)
        return place.with_name(place.name + ending)

    def tidy(self, ended: Ended) -> None:
        """Keep of a run that has ended what tables are made of: none goes on, and all with one pack share it.

        Raises
        ------
        StorageError
            The folder cannot be changed.
        """
        place = RunFolder(self.place(ended.cell))
        try:
            shutil.rmtree(place.state, ignore_errors=True)
            if place.pack.exists():
                place.pack.replace(self.runs / f"{ended.summary.pack}.tar.zst")
        except OSError as error:
            raise StorageError(describe(error, place.folder)) from error

    def is_begun(self, cell: Cell) -> bool:
        """Whether there is a run to go on with."""
        return RunFolder(self.place(cell)).settings.exists()

    def ended(self, cell: Cell) -> Ended | None:
        """What a run came to; None where it has not ended. StorageError where what it left cannot be read."""
        place = RunFolder(self.place(cell))
        try:
            summary = msgspec.json.decode(read_kept(place.summary), type=Summary)
        except FileNotFoundError:
            return None
        except OSError as error:
            raise StorageError(describe(error, place.summary)) from error
        except UNDECODABLE as error:
            raise StorageError(f"{place.summary} is damaged: remove {place.folder} and start again.") from error
        if summary.interrupted or summary.rounds < summary.rounds_planned:
            return None
        drawn = {path.stem: read_kept(path).decode() for path in sorted(place.pictures.glob("*.svg"))}
        return Ended(cell, summary, round_rows(Metrics(place.folder).rounds, place.metrics), drawn)
