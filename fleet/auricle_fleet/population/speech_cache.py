"""Speech of runs that follow one another in a process, read once for all that hear the same."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable

import msgspec

from auricle.speech.row_store import Spill
from auricle_fleet.population.data import FleetData, Progress, load_data
from auricle_fleet.settings.fleet_settings import FleetSettings

LoadData = Callable[[FleetSettings, Progress, Spill | None], FleetData]
"""From settings to speech, as `load_data`."""
KEPT = 2
"""Sets of clips that are kept: a suite goes through its conditions before its seeds."""
IRRELEVANT = frozenset(
    {
        *("rounds", "participation", "quorum", "deadline", "engine", "processes", "ray", "round_every", "step_seconds"),
        *(
            "mode",
            "over_selection",
            "method",
            "method_options",
            "detect",
            "learning",
            "preset",
            "rate",
            "epochs",
            "augment",
        ),
        *("server_optimizer", "server_rate"),
        *(
            "start",
            "pretrain",
            "carried",
            "judge",
            "judge_minutes",
            "judge_share",
            "runtime",
            "codec",
            "central",
            "central_epochs",
        ),
        *("pictures", "port", "broker", "durable", "buffer", "detection", "limits", "privacy", "secure_sum"),
    }
)
"""Settings that do not decide who has which clips; any other one does, those of later versions included."""


class SpeechCache:
    """Loads the speech of runs, and keeps what it loaded last.

    What is loaded is never changed, so that runs can share it.

    Parameters
    ----------
    load
        Reads what is not kept.
    """

    def __init__(self, load: LoadData = load_data) -> None:
        self._load = load
        self._kept: OrderedDict[bytes, FleetData] = OrderedDict()

    def __call__(
        self, settings: FleetSettings, progress: Progress = lambda *_: None, spill: Spill | None = None
    ) -> FleetData:
        """The speech of a run, as `load_data` gives it, with what that raises."""
        key = key_of(settings)
        if key in self._kept:
            self._kept.move_to_end(key)
            return self._kept[key]
        while len(self._kept) >= KEPT:  # before loading: together they may be too large for the memory
            self._kept.popitem(last=False)
        data = self._load(settings, progress, spill)
        self._kept[key] = data
        return data


def key_of(settings: FleetSettings) -> bytes:
    """What decides the speech of a run, as bytes."""
    values = msgspec.to_builtins(settings).items()
    return msgspec.msgpack.encode({name: value for name, value in values if name not in IRRELEVANT})
