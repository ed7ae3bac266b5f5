"""What is registered of each rule, its options with their defaults, and what each of them refuses."""

from __future__ import annotations

import math
from typing import Annotated, Any, Literal

import pytest
from msgspec import Meta
from tests.learning.rule_cases import NEEDY

from auricle.errors import SettingsError
from auricle.wire.prior_knowledge import Tuning
from auricle_learning.aggregation.options import (
    Count,
    Options,
    Part,
    Positive,
    list_changes,
    list_fields,
    read_options,
)
from auricle_learning.methods import RULES, get_rule

LIMITED = {"clip": 0.0, "limit": "clmap"}
SHARED = {"weighting": "unifrom", **LIMITED}
PRUNED = {"prune_low": -0.1, "prune_high": 1.0}
KRUM = {"attackers": -1, **SHARED}
FIXED = {"clusters": 0, "group_mean": "median"}
MEDIAN = {"nu": 0.0, "ftol": -1e-9, "iterations": 0, **SHARED}

WRONG: dict[str, dict[str, object]] = {
    "fedavg": {"weighting": "fedvsa"},
    "fedprox": {"mu": 100.1, "weighting": "loss", "clip": 0.0, "limit": "none"},
    "lpa": PRUNED,
    "fedvsa": {**LIMITED, "inference_loss": "mae"},
    "lpa+fedvsa": {**PRUNED, **LIMITED, "inference_loss": "mae"},
    "median": {},
    "trimmed-mean": {"beta": 0.5, "cut": -1},
    "krum": KRUM,
    "multi-krum": KRUM,
    "geometric-median": MEDIAN,
    "raf": MEDIAN,
    "norm-clip": {"bound": 0.0},
    "dnc": {"attackers": -1, "c": -1e-9, "n_iters": 0, "b": 0, "seed": -1, **SHARED},
    "fedopt": {"variant": "adma", "lr": 0.0, **dict.fromkeys(("beta1", "beta2"), 1.0), "tau": 0.0, "v0": -1e-9}
    | {"bias_correction": "no", **SHARED},
    "fednova": {"momentum": 1.0, "mu": -1e-9, "lr": 0.0, "tau_eff": "step", **SHARED},
    "scaffold": {"lr": 0.0, "momentum": 1.0, **SHARED},
    "feddyn": {"alpha": 0.0, **SHARED},
    "feddc": {"mode": "papr", "alpha": 0.0, **SHARED},
    "ditto": {"lam": 100.1, "weighting": "fedvsa"},
    "fedrep": {"head_epochs": 0, "body_epochs": 0, "weighting": "fedvsa"},
    "fedkad": {"beta": -1e-9, "projection": 0, "weighting": "fedvsa"},
    "local": {},
    "feddisco": {"a": -1e-9, "b": -1e-9, "metric": "l3", "target": []},
    "zeno": {"gamma": 0.0, "rho": -1e-9, "epsilon": -1e-9, "epochs": 0, "lr": 0.0, **SHARED},
    "fedlaw": {"lr": 0.0, "epochs": -1, "step_size": 0, "decay": 0.0},
    "fedrpo": {"combine": "mean", "c": 1e-9, "lr": 0.0, "epochs": 0, "server_lr": 0.0, "weighting": "fedvsa"}
    | {"threshold": 0.0, "unlabelled": 100.1, "step": 0.0},
    "fedmlac": {"alpha": 1.1, **PRUNED, "mutual": 1, "lpa": "no"},
    "creff": {"weighting": "fedvsa", "features": 0, "match_steps": 0, "match_rate": 0.0, "epochs": 0, "rate": 0.0},
    "mupfl": {"start": "flete", "alpha": 1.1, "max_clusters": 1, **FIXED, "weighting": "fedvsa", "bavd": 1, "maps": 1}
    | {"pkcf": 1, "pkcf_features": 1001, "pkcf_epochs": 201, "pkcf_rate": 0.0},
    "acmu": {"alpha": 1.1, "max_clusters": 1, **FIXED, "weighting": "fedvsa", "bavd": 1, "maps": True}
    | {"pkcf": 1, "pkcf_features": 1001, "pkcf_epochs": 201, "pkcf_rate": 0.0},
}
CASES = [(name, option, value) for name, options in WRONG.items() for option, value in options.items()]


def test_every_option_of_every_rule_is_tried() -> None:
    assert {name: set(options) for name, options in WRONG.items()} == {
        name: set(rule.settings) for name, rule in RULES.items()
    }


@pytest.mark.parametrize(("name", "option", "value"), CASES)
def test_a_wrong_value_is_refused_by_its_name_however_options_are_made(name: str, option: str, value: object) -> None:
    with pytest.raises(SettingsError, match=rf"^{option} is "):
        get_rule(name, **{option: value})
    wrong: dict[str, Any] = {option: value}
    with pytest.raises(SettingsError, match=rf"^{option} is "):
        type(RULES[name].options)(**wrong)


@pytest.mark.parametrize("name", RULES)
def test_every_option_says_what_it_is(name: str) -> None:
    assert all(option.description for option in list_fields(type(RULES[name].options)))


class Several(Options, frozen=True):
    """An option of each kind that there is."""

    part: Part = 0.5
    even: Annotated[float, Meta(ge=-1, le=0)] = -1.0
    above: Annotated[Positive | None, Meta(description="Something.")] = None
    times: Count = 1
    few: Annotated[int, Meta(ge=1, le=9)] = 1
    on: bool = False
    word: Literal["clamp", "norm"] | None = None
    list: Annotated[tuple[Positive, ...], Meta(min_length=1)] | None = None
    name: str = ""


@pytest.mark.parametrize(
    ("option", "value", "sentence"),
    [
        *(
            ("part", value, "a number at least 0 and less than 1")
            for value in (1.0, -1e-300, True, "1", None, math.nan)
        ),
        *(("even", value, "a number from -1 to 0") for value in (1e-9, -math.inf, 10**400)),
        *(("above", value, "a number greater than 0") for value in (0, math.inf)),
        *(("times", value, "a whole number of at least 1") for value in (0, 1.0, True, None, -(10**400))),
        ("few", 10, "a whole number from 1 to 9"),
        ("on", 1, "true or false"),
        *(("list", value, "a list of numbers greater than 0") for value in ([], [0], ["a"], [math.inf], "12", 1)),
        ("name", 7, "a word"),
    ],
)
def test_what_an_option_is_not_is_said_in_one_sentence(option: str, value: object, sentence: str) -> None:
    with pytest.raises(SettingsError) as error:
        Several(**{option: value})  # type: ignore[arg-type]
    assert str(error.value) == f"{option} is {value!r}; it must be {sentence}."


def test_options_are_read_over_those_that_there_are() -> None:
    first = Several(part=0.25, list=(2.0,))

    changed = read_options(first, {"times": 3, "above": 2, "list": [1, 2], "word": "norm"}, "it")

    assert changed == Several(0.25, above=2.0, times=3, list=(1.0, 2.0), word="norm")
    assert list_changes(changed) == {"part": 0.25, "above": 2.0, "times": 3, "list": (1.0, 2.0), "word": "norm"}
    assert (type(changed.above), list_changes(Several())) == (float, {})
    with pytest.raises(SettingsError, match=r'^it has no option "tims"; did you mean "times"\?$'):
        read_options(first, {"tims": 3}, "it")
    with pytest.raises(SettingsError, match=r'^word is "norn"; did you mean "norm"\?$'):
        read_options(first, {"word": "norn"}, "it")
    with pytest.raises(SettingsError, match=r'^it has no option "a"; it has none\.$'):
        read_options(Options(), {"a": 1}, "it")


@pytest.mark.parametrize(("name", "option"), [(name, option) for name, option, _ in CASES])
@pytest.mark.parametrize("value", [[], {}, "x", ["a"], -(10**400)])
def test_a_value_of_another_kind_is_refused_in_a_sentence(name: str, option: str, value: object) -> None:
    with pytest.raises(SettingsError, match=option):
        get_rule(name, **{option: value})


@pytest.mark.parametrize(
    ("name", "option", "words"),
    [
        ("feddisco", "metric", ("kl", "l2", "l1", "cosine")),
        ("fedopt", "variant", ("adam", "yogi", "adagrad", "torch-adam")),
        ("fednova", "tau_eff", ("normalised", "steps")),
        ("feddc", "mode", ("official", "paper")),
    ],
)
def test_every_word_of_the_documentation_is_taken(name: str, option: str, words: tuple[str, ...]) -> None:
    for word in words:
        get_rule(name, **{option: word})


@pytest.mark.parametrize("value", [1, 2.5, True, "1,2"])
def test_a_target_is_a_list(value: object) -> None:
    with pytest.raises(SettingsError, match=r"^target is .*; it must be a list of numbers greater than 0\.$"):
        get_rule("feddisco", target=value)


def test_a_tau_whose_square_is_too_large_is_refused() -> None:
    with pytest.raises(SettingsError, match="v0 is inf"):
        get_rule("fedopt", tau=1e200)


def test_the_defaults_of_rules_that_need_more_are_those_of_the_documentation() -> None:
    limited = {"clip": 5.0, "limit": "clamp"}
    even = {"weighting": "uniform", **limited}
    own = dict.fromkeys(("lr", "beta1", "beta2", "tau", "v0", "bias_correction"))

    assert {name: rule.settings for name, rule in NEEDY.items()} == {
        "fedopt": {"variant": "adam", **own, "weighting": "samples", **limited},
        "fednova": {"momentum": 0.0, "mu": 0.0, "lr": None, "tau_eff": "normalised", "weighting": "samples", **limited},
        "scaffold": {"lr": 1.0, "momentum": 0.0, **even},
        "feddyn": {"alpha": 0.01, **even},
        "feddc": {"mode": "official", "alpha": 0.01, "weighting": None, **limited},
        "feddisco": {"a": 0.5, "b": 0.1, "metric": "kl", "target": None},
        "ditto": {"lam": 1.0, "weighting": "samples"},
        "fedrep": {"head_epochs": None, "body_epochs": 1, "weighting": "samples"},
        "fedkad": {"beta": 1.0, "projection": 64, "weighting": "samples"},
        "local": {},
        "zeno": {"gamma": 1.0, "rho": 1e-3, "epsilon": 0.0, "epochs": 1, "lr": None, **even},
        "fedlaw": {"lr": 0.01, "epochs": 20, "step_size": 20, "decay": 0.5},
        "fedrpo": {"c": -0.1, "lr": 0.05, "epochs": 1, "server_lr": None, "weighting": "samples", "combine": "pareto"}
        | {"threshold": 0.7, "unlabelled": 1.0, "step": None},
        "creff": {"weighting": "samples", "features": 100, "match_steps": 100, "match_rate": 0.1}
        | {"epochs": 300, "rate": 0.01},
        "mupfl": {
            "start": "fleet",
            "alpha": 0.5,
            "max_clusters": 6,
            "clusters": None,
            "group_mean": "uniform",
            "weighting": "samples",
        }
        | {"bavd": True, "maps": True, "pkcf": True, "pkcf_features": 100, "pkcf_epochs": 50, "pkcf_rate": 0.01},
        "acmu": {
            "alpha": 0.5,
            "max_clusters": 6,
            "clusters": None,
            "group_mean": "uniform",
            "weighting": "samples",
            "bavd": False,
            "maps": False,
        }
        | {"pkcf": False, "pkcf_features": 100, "pkcf_epochs": 50, "pkcf_rate": 0.01},
    }


def test_what_is_registered_of_each_rule() -> None:
    """How clients are weighed where the rule has no say, whether it is a mean, and whether it steps from the model."""
    by_samples = ("samples", False, False, False)
    registered = {
        **dict.fromkeys(("fedavg", "lpa", "krum", "multi-krum"), ("samples", True, False, False)),
        **dict.fromkeys(("feddisco", "ditto", "fedrep"), ("samples", True, False, True)),
        **dict.fromkeys(("fedkad", "local"), ("samples", False, True, True)),
        **dict.fromkeys(("geometric-median", "raf", "norm-clip", "fednova", "fedlaw", "creff"), by_samples),
        **dict.fromkeys(("median", "trimmed-mean", "zeno"), ("uniform", False, False, False)),
        **dict.fromkeys(("fedvsa", "lpa+fedvsa"), ("fedvsa", True, False, True)),
        "scaffold": ("uniform", False, True, True),
        "feddc": ("samples", False, True, True),
        **dict.fromkeys(("fedprox", "fedmlac"), ("samples", True, False, True)),
        "dnc": ("uniform", True, False, False),
        "fedopt": ("samples", False, True, False),
        "feddyn": ("uniform", False, True, True),
        "fedrpo": ("samples", False, True, True),
        **dict.fromkeys(("acmu", "mupfl"), ("samples", False, False, True)),
    }
    found = {name: (rule.weight, rule.mean, rule.step, rule.plan is not None) for name, rule in RULES.items()}
    assert found == registered
    assert [name for name, rule in RULES.items() if rule.moves] == ["fednova"]


def test_a_rule_reads_its_options_over_its_defaults() -> None:
    tuned = get_rule("acmu", pkcf=True, pkcf_epochs=7)

    assert tuned.tuning == Tuning(features=100, epochs=7, rate=0.01)
    assert (get_rule("acmu").tuning, get_rule("fedavg").tuning) == (None, None)
    rules = (get_rule("median"), get_rule("fedavg"), get_rule("fedavg", weighting="uniform"))
    assert [rule.weighed_by for rule in rules] == ["uniform", "samples", "uniform"]
