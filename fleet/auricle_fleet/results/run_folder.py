"""The folder of a run: what lies where in it, and whether it can be begun or gone on with."""

from __future__ import annotations

import contextlib
import shutil
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from auricle.errors import StorageError
from auricle.files import describe
from auricle_fleet.settings.fleet_settings import NoRunError
from auricle_fleet.settings.start_from import CENTRAL, MODEL

NEEDED_BYTES = 64 << 20
"""Free space a run asks for besides what its devices keep."""


@dataclass(frozen=True)
class RunFolder:
    """Where a run leaves what it made."""

    folder: Path

    @property
    def settings(self) -> Path:
        """What the run was told, for the one who goes on with it."""
        return self.folder / "settings.json"

    @property
    def metrics(self) -> Path:
        """A line of JSON a round."""
        return self.folder / "metrics.jsonl"

    @property
    def rounds(self) -> Path:
        """A row of CSV a round, without what is by device; written when the run ends."""
        return self.folder / "metrics.csv"

    @property
    def summary(self) -> Path:
        """What the whole run came to."""
        return self.folder / "summary.json"

    @property
    def report(self) -> Path:
        """Curves and tables, one page that opens without a network."""
        return self.folder / "report.html"

    @property
    def model(self) -> Path:
        """The shared plug-in after the newest round, by tensor; missing where no round ended."""
        return self.folder / MODEL

    @property
    def first(self) -> Path:
        """The shared plug-in before the first round, of a run that starts from another one."""
        return self.folder / "first.safetensors"

    @property
    def central(self) -> Path:
        """The plug-in of the central training."""
        return self.folder / CENTRAL

    @property
    def card(self) -> Path:
        """What the model is, in Markdown, for those who use it."""
        return self.folder / "card.md"

    @property
    def pack(self) -> Path:
        """The pack that the run trained with."""
        return self.folder / "pack.tar.zst"

    @property
    def pictures(self) -> Path:
        """Pictures of its models and the numbers behind them, of a run that was asked for them."""
        return self.folder / "pictures"

    @property
    def state(self) -> Path:
        """State folders of coordinator and devices."""
        return self.folder / "state"


def newest_run(runs: Path) -> Path:
    """The folder of the run that began last; NoRunError where there is no run."""
    found = [path.parent for path in runs.glob("*/settings.json")] if runs.is_dir() else []
    if not found:
        raise NoRunError(f"There is no run in {runs.absolute()}: name its folder with --out.")
    return max(found, key=lambda folder: (RunFolder(folder).settings.stat().st_mtime, folder.name))


def missing_folders(out: Path) -> list[Path]:
    """The folders of a path that are not there yet, the innermost first; StorageError where none may look."""
    try:
        return [folder for folder in (out, *out.parents) if not folder.exists()]
    except OSError as error:
        raise StorageError(describe(error, out)) from error


def remove_folders(out: Path, made: Sequence[Path]) -> None:
    """Take back the folder of a run that could not begin, and those that were made for it and hold nothing else."""
    shutil.rmtree(out, ignore_errors=True)
    for folder in made[1:]:
        with contextlib.suppress(OSError):
            folder.rmdir()


def prepare_folder(out: Path, *, resume: bool) -> None:
    """Make a run's folder, or accept the one to go on with.

    Raises
    ------
    StorageError
        It holds another run or anything else, cannot be written, or its disk is nearly full.
    """
    if not resume and RunFolder(out).settings.exists():
        raise StorageError(f"{out} already holds a run: add --resume to go on with it, or choose another --out.")
    try:
        if not resume and out.is_dir() and any(out.iterdir()):
            raise StorageError(f"{out} is not empty and holds no run: a run would mix with it, choose another --out.")
        out.mkdir(parents=True, exist_ok=True)
        free = shutil.disk_usage(out).free
    except OSError as error:
        raise StorageError(describe(error, out)) from error
    if free < NEEDED_BYTES:
        raise StorageError(
            f"The disk that holds {out} has {free >> 20} MiB free and a run needs {NEEDED_BYTES >> 20}: "
            "free some space or choose another --out."
        )
