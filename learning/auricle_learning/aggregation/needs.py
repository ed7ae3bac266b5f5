"""What a rule needs beyond the updates of a round, and the one sentence with which a run refuses what it has not."""

from __future__ import annotations

from collections.abc import Collection
from typing import TYPE_CHECKING, Literal

from auricle.errors import SettingsError

if TYPE_CHECKING:
    from auricle_learning.aggregation.rules.rule import Rule

Need = Literal[
    "steps",
    "server-state",
    "labelled-clips",
    "device-half",
    "personal-models",
]

WHAT: dict[Need, str] = {
    "steps": "the number of steps that each device took, which comes with the updates of synchronous rounds",
    "server-state": "a state that the coordinator keeps with the model",
    "labelled-clips": "labelled clips at the coordinator: name a folder of them with --labelled",
    "device-half": "a half of it on each device, which goes from round to round",
    "personal-models": "a model of its own for each device, which coordinators keep for synchronous rounds",
}
"""What is missing where a need is not met, as the end of a sentence."""

BY_COHORT: frozenset[Need] = frozenset(WHAT) - {"server-state", "labelled-clips"}
"""Needs that speak of one round's cohort, which a buffer of several rounds' updates is not."""

GIVEN: frozenset[Need] = frozenset({"steps", "server-state", "device-half", "personal-models"})
"""What every coordinator has, with its devices."""


def given_with(*, labelled: bool) -> frozenset[Need]:
    """What a coordinator has, with an operator's labelled clips or without."""
    return GIVEN | {"labelled-clips"} if labelled else GIVEN


def check_needs(rule: Rule, *, given: Collection[Need] = GIVEN, mode: str = "sync", detection: bool = False) -> None:
    """Refuse a rule that needs what a run does not have.

    Parameters
    ----------
    rule
        The rule that a run is told to use.
    given
        What the run has.
    mode
        "sync" or "async".
    detection
        Whether the run looks for those who poison, which aggregates parts of a round again.

    Raises
    ------
    SettingsError
        A need is not met; one sentence says which and what to do.
    """
    for need in rule.needs:
        if need not in given:
            raise SettingsError(f'The method "{rule.name}" needs {WHAT[need]}; or choose another method.')
        if mode == "async" and need in BY_COHORT:
            raise SettingsError(
                f'The method "{rule.name}" needs synchronous rounds: choose mode sync or another method.'
            )
    if detection and rule.needs:
        raise SettingsError(
            f'Detection aggregates parts of a round again, which "{rule.name}" cannot: leave out detection, or choose '
            "a method that needs nothing but updates."
        )
