"""Tuning: each method has the same number of tries, with a seed that nothing is judged by."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from auricle_fleet.settings.fleet_settings import FleetSettings
from auricle_fleet.suite.figures import get_figure
from auricle_fleet.suite.folder import Ended
from auricle_fleet.suite.parts import Constant, Method, Tried, Values
from auricle_fleet.suite.plan import Cell, Suite, cell_of, require_apart
from auricle_fleet.suite.record import Tuned


@dataclass(frozen=True)
class Try:
    """One try of a method: what it is told, and the run that shows what comes of it."""

    method: str
    value: Tried
    """Of the setting that all methods tune."""
    constant: Tried | None
    """Of the method's own constant; None of a method without."""
    over: Values
    """Both, as settings of a run."""
    cell: Cell

    @property
    def label(self) -> str:
        """The values, for people."""
        return self.cell.tried or ""


def first_tries(suite: Suite, where: str) -> list[Try]:
    """The tries of the setting that all methods have, each with the first value of the method's own constant.

    Raises
    ------
    SettingsError
        As of `cells`.
    """
    if suite.tuning is None:
        return []
    found = [
        _try(suite, method, value, None if method.constant is None else method.constant.values[0], where)
        for method in suite.methods
        for value in suite.tuning.first_values(method)
    ]
    require_apart((each.cell for each in found), where)
    return found


def second_tries(suite: Suite, where: str, best: Mapping[str, Try]) -> list[Try]:
    """The tries of the methods' own constants, each with the best of the values before.

    Parameters
    ----------
    best
        By method the best of the first tries; a method of which none ended has no second ones.
    """
    return [
        _try(suite, method, best[method.name].value, constant, where)
        for method in suite.methods
        if method.constant is not None and method.name in best
        for constant in method.constant.values[1:]
    ]


def every_try(suite: Suite, where: str) -> list[Try]:
    """All that may be tried: also the second tries with values that will not be the best; errors as of `cells`."""
    first = first_tries(suite, where)
    found = [*first, *(second for one in first for second in second_tries(suite, where, {one.method: one}))]
    require_apart((each.cell for each in found), where)
    return found


def best_tries(suite: Suite, tries: Iterable[Try], ended: Mapping[str, Ended]) -> dict[str, Try]:
    """By method the try that is best by the figure of `[tuning]`, of two alike the earlier one.

    Parameters
    ----------
    ended
        By its name each run that has ended; a run that has not, or has no such figure, is not among the best.
    """
    best: dict[str, tuple[float, Try]] = {}
    for each in tries:
        share = reached(suite, each, ended)
        if share is not None and (each.method not in best or share > best[each.method][0]):
            best[each.method] = (share, each)
    return {method: each for method, (_, each) in best.items()}


def reached(suite: Suite, each: Try, ended: Mapping[str, Ended]) -> float | None:
    """What a try reached, 0 to 1, by the figure of `[tuning]`; None where it did not end."""
    result = ended.get(each.cell.name)
    if result is None:
        return None
    if suite.tuning is None or suite.tuning.figure is None:
        return result.summary.plugin_accuracy_validation
    return get_figure(suite.tuning.figure).of(result.summary, result.rounds)


def by_what(suite: Suite) -> str:
    """What tries are compared by, for people."""
    figure = None if suite.tuning is None else suite.tuning.figure
    return "on validation speakers" if figure is None else f"by {figure}"


def told(suite: Suite, tries: Sequence[Try], best: Mapping[str, Try], ended: Mapping[str, Ended]) -> list[Tuned]:
    """What was tried and kept, by method."""
    found = []
    for method, kept in best.items():
        of_method = [(each.label, reached(suite, each, ended)) for each in tries if each.method == method]
        tried = tuple((label, share) for label, share in of_method if share is not None)
        found.append(Tuned(method=method, tried=tried, kept=kept.label))
    return found


def _try(suite: Suite, method: Method, value: Tried, constant: Tried | None, where: str) -> Try:
    tuning = suite.tuning
    assert tuning is not None
    over: Values = {tuning.setting: value, **_constant(method.constant, constant)}
    rounds = {} if tuning.rounds is None else {"rounds": tuning.rounds}
    label = f"{value}" if constant is None or method.constant is None else f"{value}, {method.constant.name} {constant}"
    cell = cell_of(suite, method, suite.conditions[0], tuning.seed, {**over, **rounds}, where, label)
    return Try(method.name, value, constant, over, cell)


def _constant(constant: Constant | None, value: Tried | None) -> Values:
    """A value of a method's constant as settings of a run."""
    if constant is None:
        return {}
    if constant.name in FleetSettings.__struct_fields__:
        return {constant.name: value}
    return {"method_options": {constant.name: value}}
