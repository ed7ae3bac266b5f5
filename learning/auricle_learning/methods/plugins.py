"""Rules and methods of other packages, found by the entry point group `auricle.rules`, loaded when one is asked for."""

from __future__ import annotations

import functools
from collections.abc import Callable
from dataclasses import replace
from typing import TYPE_CHECKING

import msgspec
import numpy as np

from auricle.errors import AuricleError, SettingsError
from auricle.process import plugins
from auricle.wire.kinds import Name
from auricle_learning.aggregation.cohort import Aggregate, Cohort
from auricle_learning.aggregation.rules.declaration import check_declaration, check_mean, not_a_mean
from auricle_learning.aggregation.rules.rule import Rule
from auricle_learning.methods.method import Method, Vector

if TYPE_CHECKING:
    from importlib.metadata import EntryPoint

GROUP = "auricle.rules"
MOST_UP, MOST_DOWN = 4, 2
"""Vectors that messages have room for, `Vectors` and `LentVectors`."""


class RuleError(AuricleError):
    """A rule of another package that does not do what a rule does."""


def load(name: str, entries: list[EntryPoint]) -> Method:
    """Import a rule or method of another package.

    Raises
    ------
    SettingsError
        Two packages offer it, it cannot be imported, it is neither a `Rule` nor a `Method`, or what it says of itself
        is not valid (`check_declaration`, `check_halves`, `check_mean`).
    """
    loaded, package = plugins.load("method", name, entries)
    method = Method(loaded) if isinstance(loaded, Rule) else loaded
    if not isinstance(method, Method):
        raise SettingsError(
            f'the method "{name}" of {package} is no auricle_learning.methods.Method or Rule but a '
            f"{type(loaded).__name__}; update or uninstall the package."
        )
    rule = method.rule
    where = f'the method "{name}" of {package}'
    check_declaration(rule, where)
    check_halves(method, where)
    is_mean = rule.mean or rule.by_distance
    guarded = replace(
        rule,
        name=name,
        function=_answering(plugins.guard(rule.function, "method", where, RuleError), where, mean=is_mean),
    )
    check_mean(replace(guarded, function=plugins.guard(rule.function, "method", where, RuleError)), where)
    return replace(method, rule=guarded)


def check_halves(method: Method, where: str) -> None:
    """Refuse a method whose device's half or vectors are not what `Method` says.

    Raises
    ------
    SettingsError
        A half is no function, or a vector has a name that cannot travel, comes twice, or has no size.
    """
    for part in ("before", "after", "travels"):
        if not callable(getattr(method, part)):
            raise SettingsError(f"{where} has {part}={getattr(method, part)!r}, which is no function; give it one.")
    for direction, vectors, most in (("down", method.needs.down, MOST_DOWN), ("up", method.needs.up, MOST_UP)):
        if not isinstance(vectors, tuple) or not all(isinstance(each, Vector) for each in vectors):
            raise SettingsError(f"{where} has vectors {direction} that are no tuple of Vector; make them one.")
        names = [vector.name for vector in vectors]
        if len(names) > most or len({*names}) < len(names):
            raise SettingsError(f"{where} has {len(names)} vectors {direction}; there may be {most}, each of a name.")
        for vector in vectors:
            _check_vector(vector, where)


def _check_vector(vector: Vector, where: str) -> None:
    try:
        msgspec.convert(vector.name, Name)
    except msgspec.ValidationError as error:
        raise SettingsError(
            f"{where} has a vector {vector.name!r}; a name has up to 32 small letters, digits, dots, dashes and "
            "underscores."
        ) from error
    sized = callable(vector.size) or (isinstance(vector.size, int) and not isinstance(vector.size, bool))
    if not sized or (isinstance(vector.size, int) and vector.size < 0):
        raise SettingsError(
            f'{where} has a vector "{vector.name}" with size={vector.size!r}; it must be a number of at least 0, or a '
            "function of pack and plan."
        )
    if vector.check is not None and not callable(vector.check):
        raise SettingsError(f'{where} has a vector "{vector.name}" whose check is no function; give it one.')


def _answering(function: Callable[..., Aggregate], where: str, *, mean: bool) -> Callable[..., Aggregate]:
    """Refuse an answer that is not an aggregate of the cohort."""

    @functools.wraps(function)
    def answering(cohort: Cohort, *options: object) -> Aggregate:
        answer = function(cohort, *options)
        if not isinstance(answer, Aggregate) or not _fits(answer, cohort):
            raise RuleError(
                f"{where} gave no finite model of {cohort.start.size} values with its tables; choose another method or "
                "update the package."
            )
        said = not_a_mean(answer) if mean else None
        if said:
            raise RuleError(f"{where} {said}; choose another rule or update the package.")
        return answer

    return answering


def _fits(answer: Aggregate, cohort: Cohort) -> bool:
    table = (len(cohort.ids), len(cohort.layers))
    return (
        answer.ids == cohort.ids
        and answer.layers == cohort.names
        and answer.kept.shape == answer.share.shape == table
        and answer.weights.shape == cohort.start.shape
        and answer.weights.dtype == cohort.start.dtype
        and bool(np.isfinite(answer.weights).all())
        and (answer.evaluated is None or _finite(answer.evaluated, cohort.start.shape))
        and isinstance(answer.flag, str | None)
        and isinstance(answer.score_of, str | None)
        and all(isinstance(text, str) for text in answer.warnings)
    )


def _finite(weights: object, shape: tuple[int, ...]) -> bool:
    return isinstance(weights, np.ndarray) and weights.shape == shape and bool(np.isfinite(weights).all())
