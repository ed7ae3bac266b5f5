"""The chosen method with its options, as one value."""

from __future__ import annotations

import pytest

from auricle.errors import SettingsError
from auricle_learning.methods import MethodSettings


def test_it_gives_the_method_and_its_rule_with_the_options() -> None:
    method = MethodSettings("scaffold", {"lr": 0.5})

    assert method.get_method().rule.settings["lr"] == method.get_rule().settings["lr"] == 0.5
    assert "device-half" in method.get_rule().needs and method.get_method().name == "scaffold"


@pytest.mark.parametrize("method", [MethodSettings("lap"), MethodSettings("lpa", {"prune_hihg": 0.2})])
def test_what_does_not_exist_is_refused_where_it_is_asked_for(method: MethodSettings) -> None:
    with pytest.raises(SettingsError, match="lpa"):
        method.get_rule()


@pytest.mark.parametrize(
    ("name", "options", "expected"),
    [
        (None, {}, MethodSettings("lpa", {"prune_low": 0.0})),
        ("lpa", {"prune_high": 0.3}, MethodSettings("lpa", {"prune_low": 0.0, "prune_high": 0.3})),
        (None, {"prune_low": 0.2}, MethodSettings("lpa", {"prune_low": 0.2})),
        ("krum", {"attackers": 1}, MethodSettings("krum", {"attackers": 1})),
    ],
)
def test_another_method_takes_no_options_of_the_one_before(
    name: str | None, options: dict[str, object], expected: MethodSettings
) -> None:
    assert MethodSettings("lpa", {"prune_low": 0.0}).override(name, options) == expected
