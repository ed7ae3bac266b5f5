"""The coordinator's figures for Prometheus."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram

from auricle_cloud.observing.hearing_watch import HearingFigures
from auricle_cloud.states.outcome import OUTCOMES, Outcome
from auricle_cloud.states.rollout import DEVICE_STATES
from auricle_cloud.states.verdict import CODES, OTHER
from auricle_cloud.storage.rows import ModelRow, Standing

MOST_ROLLOUTS = 20
"""Rollouts that have figures of their own: the newest."""


class Metrics:
    """Counters and gauges of one coordinator, in a registry of their own."""

    def __init__(self) -> None:
        self.registry = CollectorRegistry()
        own: Any = {"registry": self.registry}
        self._updates = Counter("auricle_updates", "Updates by verdict.", ["verdict"], **own)
        self._refused = Counter("auricle_refused_frames", "Frames refused, by reason.", ["reason"], **own)
        self._handled = Histogram(
            "auricle_update_seconds", "Seconds from the last part of an update to its acknowledgement.", **own
        )
        self._rounds = Counter("auricle_rounds", "Finished rounds by state.", ["state"], **own)
        self._outcomes = Counter(
            "auricle_device_outcomes", "What became of devices, as each round ended.", ["outcome"], **own
        )
        self._round_seconds = Histogram(
            "auricle_round_seconds", "Seconds a round took.", buckets=(1, 3, 10, 30, 60, 180, 600, 1800, 7200), **own
        )
        self._devices = Gauge("auricle_devices", "Devices by standing and presence.", ["standing", "online"], **own)
        self._rolled = Gauge(
            "auricle_rollout_devices",
            "Devices of rollouts by state: of those under way and the last that ended.",
            ["rollout", "state"],
            **own,
        )
        self._paused = Gauge("auricle_rollout_paused", "1 while a rollout is paused.", ["rollout"], **own)
        self._shown: set[str] = set()
        self.hearing = HearingFigures(self.registry)
        self._alarms = Counter("auricle_alarms", "Alarms of two-phase rounds.", **own)
        self._version = Gauge("auricle_model_version", "Version of the current model.", **own)
        self._accuracy = Gauge("auricle_model_accuracy", "Its accuracy on the validation set.", **own)
        self._connected = Gauge("auricle_broker_connected", "1 while the broker is connected.", **own)
        self._waiting = Gauge("auricle_messages_in_hand", "Messages taken in and not yet answered.", **own)
        self._assembled = Gauge("auricle_unfinished_bytes", "Bytes of updates that are not whole yet.", **own)
        # From 0 on: Prometheus sees no increase in a counter that begins at 1, and no alert would know of the first.
        for reason in (*CODES, OTHER):
            self._refused.labels(reason)
        for state in ("published", "aborted"):
            self._rounds.labels(state)
        for outcome in OUTCOMES:
            self._outcomes.labels(outcome)

    def update(self, verdict: str, seconds: float) -> None:
        """An update was answered."""
        self._updates.labels(verdict.split(":")[0]).inc()
        self._handled.observe(seconds)

    def count_of_workers(self, updates: int) -> None:
        """Add updates that other processes have accepted, whose seconds are not known here."""
        self._updates.labels("accepted").inc(updates)

    def refusal(self, code: str) -> None:
        """A frame was refused."""
        self._refused.labels(code if code in CODES else OTHER).inc()

    def round(self, state: str, seconds: float, outcomes: Mapping[Outcome, int]) -> None:
        """A round has ended with so many devices of each outcome."""
        self._rounds.labels(state).inc()
        for outcome, devices in outcomes.items():
            self._outcomes.labels(outcome).inc(devices)
        self._round_seconds.observe(seconds)

    def alarm(self) -> None:
        """The alarm fired."""
        self._alarms.inc()

    def look(
        self,
        devices: Mapping[tuple[Standing, bool], int],
        model: ModelRow,
        *,
        connected: bool,
        waiting: int,
        unfinished: int,
        rollouts: Mapping[str, tuple[str, Mapping[str, int]]],
    ) -> None:
        """Set what is looked at every few seconds; see `Devices.tally`, `Rollouts.watched`."""
        self._devices.clear()
        for (standing, online), count in devices.items():
            self._devices.labels(standing, "yes" if online else "no").set(count)
        self._version.set(model.version)
        if model.accuracy is not None:
            self._accuracy.set(model.accuracy)
        self._connected.set(connected)
        self._waiting.set(waiting)
        self._assembled.set(unfinished)
        self._show_rollouts(rollouts)

    def _show_rollouts(self, rollouts: Mapping[str, tuple[str, Mapping[str, int]]]) -> None:
        """All states of each, also 0; one line named "none" without rollouts: no line at all looks like a fault."""
        shown = rollouts or {"none": ("", {})}
        for name, (state, tally) in shown.items():
            self._paused.labels(name).set(state == "paused")
            for each in DEVICE_STATES:
                self._rolled.labels(name, each).set(tally.get(each, 0))
        for gone in self._shown - shown.keys():
            self._paused.remove(gone)
            for each in DEVICE_STATES:
                self._rolled.remove(gone, each)
        self._shown = set(shown)
