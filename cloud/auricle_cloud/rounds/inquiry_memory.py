"""What detection remembers from round to round, and what it looks into after an alarm (FedVSA, 6.2-6.4).

`Judgement` fills it from a coordinator's rows for each look; the virtual engine keeps it with its checkpoint.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace

from auricle.errors import StorageError
from auricle.process.clock import Clock
from auricle.wire.tensors import Flat
from auricle_cloud.rounds.blame import barred_for, is_barred
from auricle_cloud.rounds.inquiry import Before, Found, Judge, Progress, compared, last_good, leave_model, not_judged
from auricle_cloud.states.report import Document
from auricle_learning.aggregation.cohort import Cohort
from auricle_learning.aggregation.server_optimizer import OptimizerSettings


@dataclass(frozen=True, eq=False)
class DetectionMemory:
    """What detection knows of the rounds so far."""

    reference: float | None = None
    """The largest loss of the last clean cohort; None: there was none yet."""
    previous: int | None = None
    """Losses in that cohort."""
    harmful: Mapping[str, int] = field(default_factory=dict)
    """Verdicts against devices, by name; devices without any are left out."""

    @classmethod
    def from_rounds(cls, detections: Iterable[Document | None]) -> DetectionMemory:
        """What the newest of these rounds left that was looked at.

        Parameters
        ----------
        detections
            What rounds say of detection, newest first; None: it was not looked at.
        """
        known = (each for each in detections if each is not None and "next_reference" in each)
        newest = next(known, None)
        return cls() if newest is None else cls(*_reference_after(newest))

    def compare(self, losses: Mapping[str, float | None]) -> Document:
        """Compare the losses of a round's model with the reference (eq. 12).

        Parameters
        ----------
        losses
            By device; None: not a finite number.
        """
        return compared(losses, self.reference, self.previous)

    def after(self, detection: Document) -> DetectionMemory:
        """What is known after a round of which detection said this."""
        bad = detection.get("bad", ()) if detection["fires"] else ()
        harmful = {**self.harmful, **{name: self.harmful.get(name, 0) + 1 for name in bad}}
        return DetectionMemory(*_reference_after(detection), harmful)

    def barred(self, limit: int) -> frozenset[str]:
        """Devices that take no more part.

        Parameters
        ----------
        limit
            Verdicts after which a device is quarantined; 0: never.
        """
        return frozenset(name for name, count in self.harmful.items() if is_barred(count, limit))

    def passed_over(self, limit: int) -> dict[str, str]:
        """Why devices cannot be invited, for a round's report."""
        return {name: f"is quarantined: {barred_for(self.harmful[name])}" for name in sorted(self.barred(limit))}


def _reference_after(detection: Document) -> tuple[float | None, int | None]:
    return detection["next_reference"], len(detection["losses"]) - len(detection.get("set_aside", ())) or None


@dataclass(frozen=True, eq=False)
class Suspect:
    """The model that a round begins with, and how it was made."""

    weights: Callable[[], Flat]
    """Reads it (P,); StorageError where it is not kept any more."""
    origin: str
    """What made it: a round, a repair, an operator, ..."""
    number: int = 0
    """Of the round that made it."""
    before: Before | None = None
    """The model that this round began with."""
    cohort: Callable[[], Cohort] | None = None
    """Reads the updates that it counted; StorageError, or None, where they are not kept any more."""
    server: OptimizerSettings = field(default_factory=OptimizerSettings)
    """The server optimizer's settings in it."""


def inquire(
    judge: Judge | None, number: int, suspect: Suspect, clock: Clock, progress: Progress = lambda *_: None
) -> Found:
    """Find who poisoned a model, and make one without them; where nobody can be named, the one before it.

    Parameters
    ----------
    judge
        Of the run; None: there is no validation set.
    number
        Of the round that begins with the model.
    clock
        Says how long it took.
    progress
        Told how far it is.
    """
    began = clock.monotonic()
    found = _find(judge, number, suspect, progress)
    return replace(found, seconds=clock.monotonic() - began)


def _find(judge: Judge | None, number: int, suspect: Suspect, progress: Progress) -> Found:
    if suspect.origin != "round" or suspect.before is None:
        return not_judged(number, suspect.origin)
    if judge is None:
        return last_good(suspect.number, suspect.before, "There is no validation set to judge devices by")
    if not judge.settings.shapley:
        return last_good(suspect.number, suspect.before, f"Nobody in round {suspect.number} is singled out")
    gone = f"The updates of round {suspect.number} are not kept any more"
    lost = last_good(suspect.number, suspect.before, gone) if judge.settings.losses else leave_model(gone)
    if suspect.cohort is None:
        return lost
    try:
        cohort, weights = suspect.cohort(), suspect.weights()
    except StorageError:  # an operator went back to a model whose updates retention has given up
        return lost
    return judge.find(cohort, suspect.number, suspect.before, weights, suspect.server, progress)
