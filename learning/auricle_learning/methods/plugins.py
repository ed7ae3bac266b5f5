"""Rules and methods of other packages, found by the entry point group `auricle.rules`, loaded when one is asked for."""

from __future__ import annotations

import functools
from collections.abc import Callable
from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from auricle.errors import AuricleError, SettingsError
from auricle.process import plugins
from auricle_learning.aggregation.cohort import Aggregate, Cohort
from auricle_learning.aggregation.rules.declaration import check_declaration, check_mean, not_a_mean
from auricle_learning.aggregation.rules.rule import Rule
from auricle_learning.methods.method import Method

if TYPE_CHECKING:
    from importlib.metadata import EntryPoint

GROUP = "auricle.rules"


class RuleError(AuricleError):
    """A rule of another package that does not do what a rule does."""


def load(name: str, entries: list[EntryPoint]) -> Method:
    """Import a rule or method of another package.

    Raises
    ------
    SettingsError
        Two packages offer it, it cannot be imported, it is neither a `Rule` nor a `Method`, or what it says of itself
        is not valid (`check_declaration`, `check_mean`).
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
    checked: Callable[..., None] = plugins.guarded(rule.check, "method", where, SettingsError)
    is_mean = rule.mean or rule.by_distance
    guarded = replace(
        rule,
        name=name,
        function=_answering(plugins.guarded(rule.function, "method", where, RuleError), where, mean=is_mean),
        check=checked,
    )
    check_declaration(guarded, where)
    check_mean(replace(guarded, function=plugins.guarded(rule.function, "method", where, RuleError)), where)
    return replace(method, rule=guarded)


def _answering(function: Callable[..., Aggregate], where: str, *, mean: bool) -> Callable[..., Aggregate]:
    """Refuse an answer that is not an aggregate of the cohort."""

    @functools.wraps(function)
    def answering(cohort: Cohort, **options: object) -> Aggregate:
        answer = function(cohort, **options)
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
