"""The rules by which a coordinator turns a cohort's updates into the next model, by name."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace

from auricle.errors import SettingsError, nearest
from auricle_cloud.cohort import Aggregate, Cohort
from auricle_cloud.rules.fedavg import check_fedavg, fedavg
from auricle_cloud.rules.fedvsa import check_limit, fedvsa
from auricle_cloud.rules.lpa import check_pruning, lpa
from auricle_cloud.rules.lpa_fedvsa import check_lpa_fedvsa, lpa_fedvsa

__all__ = ["RULES", "Rule", "get_rule"]


@dataclass(frozen=True)
class Rule:
    """A rule with its options: call it with a cohort."""

    name: str
    function: Callable[..., Aggregate]
    """(cohort, *, options) -> Aggregate, a pure function."""
    check: Callable[..., None]
    """(*, options) -> None, raises SettingsError for a value that is not allowed."""
    options: Mapping[str, object] = field(default_factory=dict)
    """What differs from the defaults."""

    def __call__(self, cohort: Cohort) -> Aggregate:
        """Aggregate one round."""
        return self.function(cohort, **self.options)

    @property
    def defaults(self) -> dict[str, object]:
        """Every option the rule knows, with its default."""
        parameters = inspect.signature(self.function).parameters.values()
        return {option.name: option.default for option in parameters if option.kind is option.KEYWORD_ONLY}


RULES: dict[str, Rule] = {
    rule.name: rule
    for rule in (
        Rule("fedavg", fedavg, check_fedavg),
        Rule("lpa", lpa, check_pruning),
        Rule("fedvsa", fedvsa, check_limit),
        Rule("lpa+fedvsa", lpa_fedvsa, check_lpa_fedvsa),
    )
}


def get_rule(name: str, /, **options: object) -> Rule:
    """Find a rule and set its options, refusing at configuration what would fail in a round.

    Parameters
    ----------
    name
        One of `RULES`.
    options
        Keyword options of that rule; those not given keep their defaults.

    Raises
    ------
    SettingsError
        The rule or an option does not exist, or a value is not allowed.
    """
    if name not in RULES:
        raise SettingsError(f'there is no rule "{name}"; {nearest(name, RULES)}')
    rule = RULES[name]
    defaults = rule.defaults
    for option in options:
        if option not in defaults:
            raise SettingsError(f'the rule "{name}" has no option "{option}"; {nearest(option, defaults)}')
    rule.check(**{**defaults, **options})
    return replace(rule, options=dict(options))
