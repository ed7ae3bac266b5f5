"""How soon a run reaches a target: the first round, the seconds up to it, and those of so many devices' own models."""

from __future__ import annotations

from collections.abc import Mapping

from auricle_fleet.results.result import RoundRow
from auricle_fleet.suite.figures import Figure, get_figure
from auricle_fleet.suite.measures import Rows

ROUNDS = "rounds"
"""The figure that a suite has beside those that it names, where it has a target; of a second one `rounds-2`."""
SECONDS = "seconds"
"""The same in seconds, where the suite asks for it: `seconds`, `seconds-2`, and of 15 devices `seconds-of-15`."""


class TargetFigure(Figure, frozen=True, kw_only=True):
    """How soon a figure reaches a target."""

    target: float
    reached_by: str
    """The figure, which has a value in each round."""
    devices: int | None = None
    """So many devices' own models have to be there, each with its newest accuracy; None: `reached_by` itself."""

    def first_at(self, rows: Rows) -> int | None:
        """The first round in which the target is reached; None if it never is."""
        newest: dict[str, float] = {}
        return next((row.round for row in rows if self._is_reached(row, newest)), None)

    def _is_reached(self, row: RoundRow, newest: dict[str, float]) -> bool:
        """Whether it is in this round; `newest` is what the devices have had so far, and takes what the round has."""
        if self.devices is not None:
            newest |= {name: value for name, value in row.personal.items() if value is not None}
            return sum(value >= self.target for value in newest.values()) >= self.devices
        read = get_figure(self.reached_by).by_round
        assert read is not None  # `Suite` refuses others
        return (read(row) or 0.0) >= self.target

    def seconds(self, rows: Rows) -> float | None:
        """Seconds of this machine that the rounds up to the first at the target took; None where it never is."""
        first = self.first_at(rows)
        return None if first is None else sum(row.seconds for row in rows if row.round <= first)


def rounds_to(target: float, reached_by: str = "unseen", place: int = 1) -> TargetFigure:
    """The first round in which a figure is at or above a target; one that is never counts as one after the last.

    Parameters
    ----------
    target
        0 to 1.
    reached_by
        The figure's name; it has a value in each round.
    place
        Of the target among the suite's, from 1.
    """
    figure = TargetFigure(
        name=_name(ROUNDS, place),
        title=f"Rounds until {100 * target:g} %: {get_figure(reached_by).title}",
        of=lambda summary, rows: float(figure.first_at(rows) or summary.rounds_planned + 1),
        unit="rounds",
        higher_is_better=False,
        model=get_figure(reached_by).model,
        target=target,
        reached_by=reached_by,
    )
    return figure


def seconds_to(target: float, reached_by: str = "unseen", place: int = 1, devices: int | None = None) -> TargetFigure:
    """The seconds that rounds took on this machine until a target is reached; None of a run that never is there.

    Those of a round are of training on all devices that took part, their own scores included, and of the coordinator's
    part; judging on unseen speakers is not among them. A run that is never there has no number: unlike its rounds, its
    seconds are not more than those of another that is.

    Parameters
    ----------
    target, reached_by, place
        As of `rounds_to`.
    devices
        So many devices' own models have to be at the target, in place of the figure (MuPFL, figure 8 (a)).
    """
    who = get_figure(reached_by).title if devices is None else f"own models of {devices} devices"
    figure = TargetFigure(
        name=_name(SECONDS, place) if devices is None else f"{SECONDS}-of-{devices}",
        title=f"Seconds of this machine's rounds until {100 * target:g} %: {who}",
        of=lambda _, rows: figure.seconds(rows),
        unit="seconds",
        higher_is_better=False,
        model=get_figure(reached_by).model if devices is None else "own",
        target=target,
        reached_by=reached_by,
        devices=devices,
    )
    return figure


def _name(of: str, place: int) -> str:
    return of if place == 1 else f"{of}-{place}"


def is_to_target(name: str) -> bool:
    """Whether a figure of this name is of the way to a target, in rounds or in seconds."""
    return any(name == of or name.startswith(f"{of}-") for of in (ROUNDS, SECONDS))


def kind_of(name: str) -> Figure:
    """A figure by its name: of the way to a target one that has the unit and the sense of it, for any target."""
    kinds: Mapping[str, Figure] = {ROUNDS: rounds_to(1.0), SECONDS: seconds_to(1.0)}
    return kinds[name.partition("-")[0]] if is_to_target(name) else get_figure(name)
