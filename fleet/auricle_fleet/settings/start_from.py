"""What the word of `--start` names: the pack's trained weights, seeded noise, or the model of another run."""

from __future__ import annotations

from pathlib import Path

from auricle.errors import SettingsError
from auricle.packs.first_weights import STARTS, check_start

MODEL = "model.safetensors"
"""The shared plug-in in a run's folder."""
CENTRAL = "central.safetensors"
"""The plug-in of its central training."""


def model_file(start: str) -> Path | None:
    """The file of the model that a run starts from, of a run's folder its shared plug-in; None for `pack`, `scratch`.

    Whether it is there is not looked at.
    """
    if start in STARTS:
        return None
    path = Path(start)
    return path if path.suffix == Path(MODEL).suffix else path / MODEL


def check_start_from(start: str) -> None:
    """SettingsError for a word that is neither a start nor a path."""
    if "/" not in start and not Path(start).exists():
        check_start(start)


def require_model(start: str) -> None:
    """SettingsError where the model of another run that `start` names is not there."""
    path = model_file(start)
    if path is not None and not path.is_file():
        raise SettingsError(
            f"--start {start} has no model: there is no {path}. Name the folder of a run that has made a round, its "
            f"{CENTRAL} of a run with --central, scratch or pack."
        )
