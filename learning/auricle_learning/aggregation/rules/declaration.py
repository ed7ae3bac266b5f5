"""What a rule says of itself, held against what it has and does: a coordinator bounds devices by it."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np

from auricle.errors import AuricleError, SettingsError, nearest
from auricle.process.plugins import takes
from auricle_learning.aggregation.cohort import Aggregate, Cohort, Layer
from auricle_learning.aggregation.extras import Extras
from auricle_learning.aggregation.options import Options, read_options
from auricle_learning.aggregation.rules.fedvsa import LossOptions
from auricle_learning.aggregation.rules.rule import WHAT, Rule
from auricle_learning.aggregation.rules.weighting import WEIGHTINGS

SLACK = 1e-6
"""By how much the shares of a layer may sum to something else than 1."""


def check_declaration(rule: Rule, where: str | None = None) -> None:
    """Refuse a rule whose declaration a bound on its devices could not go by.

    Parameters
    ----------
    rule
        With its options.
    where
        What it is called in a sentence; None for its name.

    Raises
    ------
    SettingsError
        A part of it is of another kind, it needs something that does not exist, weighs by something that does not
        exist, or by losses without options `clip` and `limit` that limit them.
    """
    where = where or f'the rule "{rule.name}"'
    _check_kinds(rule, where)
    check_named_needs(rule.needs, where)
    settings = rule.settings
    if rule.weighed_by not in WEIGHTINGS:
        raise SettingsError(f'{where} weighs by "{rule.weighed_by}"; {nearest(rule.weighed_by, WEIGHTINGS)}')
    if rule.weighed_by == "fedvsa":
        for option in ("clip", "limit"):
            if option not in settings:
                raise SettingsError(
                    f'{where} weighs by "fedvsa" and has no option "{option}": give it clip and limit, or another '
                    "weight."
                )
        read_options(LossOptions(), {name: settings[name] for name in ("clip", "limit")}, where)


def check_named_needs(needs: object, where: str) -> None:
    """Refuse needs that are not some of those that there are.

    Raises
    ------
    SettingsError
        They are no tuple of words, or a word is none of `WHAT`.
    """
    if isinstance(needs, str) or not isinstance(needs, tuple | list | frozenset | set):
        raise SettingsError(f"{where} has needs={needs!r}, which is no tuple of words: {_listed(WHAT)}")
    for need in needs:
        if not isinstance(need, str) or need not in WHAT:
            said = f'"{need}"' if isinstance(need, str) else repr(need)
            raise SettingsError(f"{where} needs {said}, which no coordinator has; {_listed(WHAT)}")


def _listed(known: Iterable[str]) -> str:
    return f"there is: {', '.join(sorted(known))}."


def _check_kinds(rule: Rule, where: str) -> None:
    """Refuse parts of a rule that are of another kind than `Rule` says, and a function that it could not call."""
    for part in ("function", "plan", "tunes"):
        value = getattr(rule, part)
        if not callable(value) and not (value is None and part in ("plan", "tunes")):
            raise SettingsError(f"{where} has {part}={value!r}, which is no function; give it one.")
    for part in ("mean", "moves", "by_distance", "by_losses", "by_value", "composes", "step"):
        value = getattr(rule, part)
        if not isinstance(value, bool):
            raise SettingsError(f"{where} has {part}={value!r}; it must be True or False.")
    if not isinstance(rule.options, Options):
        raise SettingsError(f"{where} has options={rule.options!r}; give it a struct that is made of Options.")
    given, what = (2, "a cohort and its options") if rule.options.__struct_fields__ else (1, "a cohort alone")
    if not takes(rule.function, given):
        raise SettingsError(f"{where} has a function that is not called with {what}.")


def check_mean(rule: Rule, where: str) -> None:
    """Refuse a rule that says it is a mean and reports shares that do not sum to 1, tried on a small round.

    Raises
    ------
    SettingsError
        The shares of a layer in which somebody counts sum to something else.
    """
    if not (rule.mean or rule.by_distance):
        return
    try:
        made = rule(_small_round())
    except AuricleError:  # it needs more than this round has, or fails: that is said when it is called
        return
    said, name = not_a_mean(made), "mean" if rule.mean else "by_distance"
    if said:
        raise SettingsError(f"{where} {said}: report shares that sum to 1, or leave out {name}=True.")


def not_a_mean(made: Aggregate) -> str | None:
    """What of an answer contradicts that it is a mean; None where the shares of each layer sum to 1, or all are 0."""
    sums = made.share.sum(axis=0)
    wrong = np.flatnonzero((np.abs(sums - 1.0) > SLACK) & (made.share != 0).any(axis=0))
    if not wrong.size and (made.share >= 0).all():
        return None
    if not wrong.size:
        return "says that it is a mean, but some share is negative"
    column = int(wrong[0])
    return f'says that it is a mean, but its shares in the layer "{made.layers[column]}" sum to {sums[column]:g}'


def _small_round() -> Cohort:
    """Five clients in two layers, with what a coordinator knows of every round."""
    start = np.array([0.5, -0.25, 0.125, 1.0], np.float32)
    steps = np.arange(1.0, 6.0)
    return Cohort.build(
        ids=[f"client-{k}" for k in range(5)],
        weights=(start + np.outer(steps, [1.0, -1.0, 0.5, 0.25]) / 8).astype(np.float32),
        samples=[10, 20, 30, 40, 50],
        losses=[0.5, 0.25, 1.0, 0.75, 0.125],
        start=start,
        layers=(Layer("front", (slice(0, 3),)), Layer("head", (slice(3, 4),))),
        extras=Extras(steps=steps, rate=0.125, clients=5),
    )
