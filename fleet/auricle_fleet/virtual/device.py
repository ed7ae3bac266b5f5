"""A device without a link as its coordinator sees it: when it can be invited, and when it answers."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from auricle.packs.manifest import SPECIAL_LABELS
from auricle.packs.pack import Pack
from auricle.wire.plan import Plan
from auricle_fleet.population.behaviour import late_by
from auricle_fleet.population.traces import Timeline
from auricle_fleet.settings.groups import Group
from auricle_learning.methods.passes import graph_kind, graph_optimizer
from auricle_learning.training.carried import carried_to_train
from auricle_learning.training.learn_settings import LearnSettings
from auricle_learning.training.speech_data import DeviceData
from auricle_learning.training.step_count import counted, epochs_of, steps_of


def unknown_clips(_: int) -> DeviceData:
    """Of a device whose training takes no time: nobody asks for them."""
    raise ValueError("Nobody said which clips this device has.")


class VirtualDevice:
    """One device of a run.

    Parameters
    ----------
    name, place
        Who it is.
    registered
        Clips that it registers with.
    seed
        Of everything that it draws.
    group
        Whose habits it has; None: it answers at once.
    timeline
        When it can take part; None: always.
    clips_in
        Gives its clips in a round.
    """

    __slots__ = ("_clips_in", "_group", "_seed", "_timeline", "device", "place", "registered", "selected")

    def __init__(
        self,
        name: str,
        place: int,
        registered: int,
        seed: int = 0,
        group: Group | None = None,
        timeline: Timeline | None = None,
        clips_in: Callable[[int], DeviceData] = unknown_clips,
    ) -> None:
        self.device, self.place, self.registered = name, place, registered
        self.selected = 0
        """Rounds it was invited to."""
        self._seed, self._group, self._timeline, self._clips_in = seed, group, timeline, clips_in

    def comes(self, at: float) -> float:
        """The first time from `at` on, in seconds of the run's clock, at which it can be invited; infinity: never."""
        return at if self._timeline is None else self._timeline.comes(at)

    def arrival(self, number: int, began: float, sent: int, received: int, work: Work | None = None) -> float | None:
        """Seconds after the invitation at which it answers a round; None: never.

        Who cannot take part any more before it has answered never does.

        Parameters
        ----------
        number
            Of the round.
        began
            When it was invited, seconds of the run's clock.
        sent, received
            Bytes of an update and of the model.
        work
            What the round asks of devices; None: training takes no time.
        """
        late, compute = 0.0, 1.0
        if self._group is not None:
            silent = late_by(self._group, self._seed, number)
            if silent is None:
                return None
            late, compute = silent, self._group.compute
        trains = 0.0 if work is None else work.seconds(self._clips_in(number), compute)
        return self._comes_back(began, late + trains, sent + received)

    def says_loss(self, began: float, received: int) -> float | None:
        """Seconds after the question at which it says the loss of a model; None: never.

        Parameters
        ----------
        began
            When it was asked, seconds of the run's clock.
        received
            Bytes of the model.
        """
        return self._comes_back(began, 0.0, received)

    def _comes_back(self, began: float, busy: float, travels: int) -> float | None:
        """Seconds after `began` at which an answer arrives that took so many and so many bytes; None: never."""
        if self._group is None:
            return busy
        network, timeline = self._group.network, self._timeline
        kilobits = (None if timeline is None else timeline.kilobits(began)) or network.kilobits
        answer = busy + 2 * network.latency + (0.0 if kilobits is None else 8e-3 * travels / kilobits)
        return None if timeline is not None and began + answer > timeline.leaves(began) else answer


@dataclass(frozen=True)
class Work:
    """What a round of a run asks of its devices."""

    step_seconds: float
    """Of a device with a `compute` of 1."""
    plan: Plan
    learn: LearnSettings
    epochs: int
    """Of all passes."""
    batch: int
    share: float
    """Of a batch that is the pack's negatives, for who has none of its own."""
    negative: tuple[int, ...]
    """Labels of what is no keyword."""

    def seconds(self, data: DeviceData, compute: float) -> float:
        """How long a device trains on these clips whose steps take `compute` times as long."""
        count = counted(self.plan, self.learn, data)
        own = int(np.isin(data.train.targets, self.negative).sum()) if self.share else 0
        return compute * self.step_seconds * steps_of(count, self.epochs, self.batch, self.share, own)


def work_of(pack: Pack, plan: Plan, learn: LearnSettings, step_seconds: float) -> Work | None:
    """The work of a run's rounds; None where no step takes time.

    Parameters
    ----------
    pack, plan, learn
        What is trained, and how.
    step_seconds
        Of a device with a `compute` of 1.
    """
    if not step_seconds:
        return None
    steps = [graph for graph in pack.manifest.graphs if graph.batch is not None]
    own = (graph.batch for graph in steps if (graph.kind, graph.optimizer) == (graph_kind(plan), graph_optimizer(plan)))
    batch = next(own, None) or next((graph.batch for graph in steps), None) or 1
    share = learn.carried if carried_to_train(pack, learn.carried, 0) is not None else 0.0
    negative = tuple(place for place, label in enumerate(pack.labels) if label in SPECIAL_LABELS)
    return Work(step_seconds, plan, learn, epochs_of(pack, plan), batch, share, negative)
