"""The rounds of a run so far: each becomes a row, on disk before anybody is told of it, with who did not count."""

from __future__ import annotations

import time
from collections.abc import Mapping
from pathlib import Path

import msgspec

from auricle.wire.messages import WORSE
from auricle_cloud.settings import RoundDone
from auricle_edge.training.judge.comparison import Heard
from auricle_fleet.population.held_out import MODELS, DeviceScores, fleet_score, newest_scores
from auricle_fleet.results.metrics import Metrics
from auricle_fleet.results.parties import parties
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
        self._scores = newest_scores(row.scores for row in self.rows)
        self._personal = {name: value for row in self.rows for name, value in row.personal.items() if value is not None}

    @property
    def last(self) -> RoundRow | None:
        """The newest round."""
        return self.rows[-1] if self.rows else None

    def begin(self) -> None:
        """Start the clock of the rounds."""
        self._began = time.monotonic()

    def add(
        self,
        done: RoundDone,
        accuracy: float | None,
        accepts: Heard | None,
        up: int,
        down: int,
        turned: float | None = None,
        validated: float | None = None,
    ) -> RoundRow:
        """Enter a round; one that is repeated after a restart replaces its row.

        Parameters
        ----------
        done
            What the coordinator says of it.
        accuracy
            Of its model on the unseen speakers.
        accepts
            False accepts of its model; None where there was no sound without keywords.
        up, down
            Bytes that the devices sent and received since this process began.
        turned
            Share of the clips with a backdoor's trigger that its model takes for the backdoor's label.
        validated
            Accuracy of its model on the validation speakers.

        Raises
        ------
        StorageError
            The disk is full.
        """
        updates, earlier = done.report.get("updates", []), self._earlier
        detected, noise = done.report.get("detection") or {}, done.report.get("privacy") or {}
        clock = done.report.get("clock") or {}
        hidden = bool(noise or done.report.get("secure_sum"))
        personal = {update["device"]: update["personal_accuracy"] for update in updates}
        scores = msgspec.convert({u["device"]: u["scores"] for u in updates if u.get("scores")}, DeviceScores)
        self._scores |= scores
        self._personal |= {name: value for name, value in personal.items() if value is not None}
        seconds = time.monotonic() - self._began + (earlier.seconds_total if earlier else 0.0)
        row = RoundRow(
            round=done.number,
            rounds=done.rounds,
            state=done.state,
            plugin_accuracy_unseen=accuracy,
            plugin_accuracy_validation=validated,
            personal_accuracy=_mean(list(self._personal.values())),
            invited=done.invited,
            counted=done.counted,
            seconds=round(done.seconds, 3),
            seconds_total=round(seconds, 3),
            seconds_left=round(seconds / done.number * (done.rounds - done.number), 1),
            bytes_up=up + (earlier.bytes_up if earlier else 0),
            bytes_down=down + (earlier.bytes_down if earlier else 0),
            inference_loss=_mean([update["loss"] for update in updates if update["loss"] is not None and not hidden]),
            false_accepts=None if accepts is None else accepts.false_accepts,
            negative_seconds=None if accepts is None else round(accepts.hours * 3_600, 1),
            false_accepts_per_hour=None if accepts is None else accepts.per_hour,
            refused=tuple(refusals(done.report.get("failed", {}))),
            personal=personal,
            scores=scores,
            held_out={model: found for model in MODELS if (found := fleet_score(self._scores, model)) is not None},
            bounded=tuple(sorted({bounded["device"] for bounded in done.report.get("bounded") or ()})),
            alarm=bool(detected.get("fires")),
            harmful=tuple(sorted(detected.get("bad") or ())),
            comparison_seconds=detected.get("seconds", {}).get("comparison"),
            shapley_seconds=detected.get("seconds", {}).get("shapley"),
            epsilon=noise.get("epsilon"),
            accounting=noise.get("accounting"),
            device_epsilon=noise.get("device_epsilon"),
            left_out_by_rule=done.left_out,
            left_out=left_out(done.report),
            **parties(done.report),
            groups=(done.report.get("groups") or {}).get("of"),
            backdoor=turned,
            clock=clock.get("began"),
            available=clock.get("available"),
        )
        self._metrics.add(msgspec.to_builtins(row))
        self.rows = (*(known for known in self.rows if known.round != row.round), row)
        return row


def _mean(values: list[float]) -> float | None:
    return sum(values) / len(values) if values else None


class _Layer(msgspec.Struct):
    layer: str
    kept: frozenset[str]
    share: dict[str, float | None]


class _Report(msgspec.Struct):
    layers: tuple[_Layer, ...] = ()
    dropped: tuple[str, ...] = ()


def left_out(report: Mapping[str, object]) -> dict[str, tuple[str, ...]]:
    """Name the devices whose update did not count, by layer.

    Every rule reports `kept` and `share`, those of other packages too, so this holds for each of them. A device counts
    in a layer when the rule kept it and gave it some weight. Of a layer that the rule does not average at all, as
    FedRep's classifier, nobody is left out.

    Parameters
    ----------
    report
        What the coordinator stored of a round. A round that was aborted has no layers.

    Returns
    -------
    dict
        For each layer the ids in ascending order: those not kept, those kept with a weight of 0, and those whose
        update was not finite, which no rule gets to see.
    """
    told = msgspec.convert(report, _Report)
    counted = {layer.layer: {name for name in layer.share if _counts(layer, name)} for layer in told.layers}
    averaged = {name for name, devices in counted.items() if devices} or set(counted)
    return {
        layer.layer: tuple(
            sorted({*told.dropped, *(set(layer.share) - counted[layer.layer] if layer.layer in averaged else ())})
        )
        for layer in told.layers
    }


def _counts(layer: _Layer, name: str) -> bool:
    return name in layer.kept and layer.share[name] != 0


def refusals(failed: Mapping[str, str]) -> list[str]:
    """The devices whose judge refused a round, of those that failed or declined and what they said."""
    return sorted(name for name, reason in failed.items() if reason.startswith(WORSE))
