"""The rounds of a run so far: each becomes a row, on disk before anybody is told of it."""

from __future__ import annotations

import time
from pathlib import Path

import msgspec

from auricle_cloud.settings import RoundDone
from auricle_fleet.results.left_out import left_out, refusals
from auricle_fleet.results.metrics import Metrics
from auricle_fleet.results.result import RoundRow, round_rows


class Record:
    """The rounds of a run, those before an interruption included.

    Parameters
    ----------
    folder
        The run's folder.

    Raises
    ------
    StorageError
        A line of its `metrics.jsonl` is not a round.
    """

    def __init__(self, folder: Path) -> None:
        self._metrics = Metrics(folder)
        self.rows = round_rows(self._metrics.rounds, folder / "metrics.jsonl")
        self._earlier, self._began = self.last, time.monotonic()
        self._personal = {name: value for row in self.rows for name, value in row.personal.items() if value is not None}

    @property
    def last(self) -> RoundRow | None:
        """The newest round."""
        return self.rows[-1] if self.rows else None

    def begin(self) -> None:
        """Start the clock of the rounds."""
        self._began = time.monotonic()

    def add(self, done: RoundDone, accuracy: float | None, accepts: float | None, up: int, down: int) -> RoundRow:
        """Enter a round; one that is repeated after a restart replaces its row.

        Parameters
        ----------
        done
            What the coordinator says of it.
        accuracy
            Of its model on the unseen speakers.
        accepts
            False accepts of its model an hour.
        up, down
            Bytes that the devices sent and received since this process began.

        Raises
        ------
        StorageError
            The disk is full.
        """
        updates, earlier = done.report.get("updates", []), self._earlier
        found = done.report.get("detection") or {}
        personal = {update["device"]: update["personal_accuracy"] for update in updates}
        self._personal |= {name: value for name, value in personal.items() if value is not None}
        seconds = time.monotonic() - self._began + (earlier.seconds_total if earlier else 0.0)
        row = RoundRow(
            round=done.number,
            rounds=done.rounds,
            state=done.state,
            plugin_accuracy_unseen=accuracy,
            personal_accuracy=_mean(list(self._personal.values())),
            invited=done.invited,
            counted=done.counted,
            seconds=round(done.seconds, 3),
            seconds_total=round(seconds, 3),
            seconds_left=round(seconds / done.number * (done.rounds - done.number), 1),
            bytes_up=up + (earlier.bytes_up if earlier else 0),
            bytes_down=down + (earlier.bytes_down if earlier else 0),
            inference_loss=_mean([update["loss"] for update in updates if update["loss"] is not None]),
            false_accepts_per_hour=accepts,
            refused=tuple(refusals(done.report.get("failed", {}))),
            personal=personal,
            bounded=tuple(sorted({bounded["device"] for bounded in done.report.get("bounded") or ()})),
            alarm=bool(found.get("fires")),
            harmful=tuple(sorted(found.get("bad") or ())),
            left_out=left_out(done.report),
        )
        self._metrics.add(msgspec.to_builtins(row))
        self.rows = (*(known for known in self.rows if known.round != row.round), row)
        return row


def _mean(values: list[float]) -> float | None:
    return sum(values) / len(values) if values else None
