"""A device without a link as its coordinator sees it: when it can be invited, and when it answers."""

from __future__ import annotations

from auricle_fleet.emulation.behaviour import late_by
from auricle_fleet.emulation.traces import Timeline
from auricle_fleet.groups import Group


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
    """

    __slots__ = ("_group", "_seed", "_timeline", "device", "place", "registered", "selected")

    def __init__(
        self,
        name: str,
        place: int,
        registered: int,
        seed: int = 0,
        group: Group | None = None,
        timeline: Timeline | None = None,
    ) -> None:
        self.device, self.place, self.registered = name, place, registered
        self.selected = 0
        """Rounds it was invited to."""
        self._seed, self._group, self._timeline = seed, group, timeline

    def comes(self, at: float) -> float:
        """The first time from `at` on, in seconds of the run's clock, at which it can be invited; infinity: never."""
        return at if self._timeline is None else self._timeline.comes(at)

    def arrival(self, number: int, began: float, sent: int, received: int) -> float | None:
        """Seconds after the invitation at which it answers a round; None: never.

        Training takes no time on this clock: what its group says of delays, networks and traces does. Who cannot take
        part any more before it has answered never does.

        Parameters
        ----------
        number
            Of the round.
        began
            When it was invited, seconds of the run's clock.
        sent, received
            Bytes of an update and of the model.
        """
        late = 0.0 if self._group is None else late_by(self._group, self._seed, number)
        return None if late is None else self._comes_back(began, late, sent + received)

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
