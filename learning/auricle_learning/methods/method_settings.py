"""The chosen method: its name and options as one value, from command and file to the rounds."""

from __future__ import annotations

from collections.abc import Mapping

import msgspec

from auricle_learning.aggregation.rules.rule import Rule
from auricle_learning.methods.method import Method
from auricle_learning.methods.registry import get_method


class MethodSettings(msgspec.Struct, frozen=True):
    """A method of federated learning, by name, with the options that are given; the others keep their defaults.

    Nothing is looked up or refused until the method is asked for.
    """

    name: str
    """One of `rule_names()`."""
    options: Mapping[str, object] = {}
    """By the names of the method's own options."""

    def get_method(self) -> Method:
        """Return both halves, with these options.

        Raises
        ------
        SettingsError
            The method or an option does not exist, or a value is not allowed.
        """
        return get_method(self.name, **self.options)

    def get_rule(self) -> Rule:
        """Return the coordinator's half, with these options; SettingsError as of `get_method`."""
        return self.get_method().rule_for_rounds

    def with_options(self, options: Mapping[str, object]) -> MethodSettings:
        """Return the same method with these options over those that it has."""
        return MethodSettings(self.name, {**self.options, **options})

    def override(self, name: str | None, options: Mapping[str, object]) -> MethodSettings:
        """Return another choice over this one.

        Parameters
        ----------
        name
            Of another method, which takes none of this one's options; None or this one's name: they stay.
        options
            Over those that stay.
        """
        if name is None or name == self.name:
            return self.with_options(options)
        return MethodSettings(name, dict(options))
