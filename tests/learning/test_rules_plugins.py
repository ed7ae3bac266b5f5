"""Rules of other packages: real distributions in a folder of their own on the path."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import pytest
from tests.learning.rule_cases import in_one_layer

from auricle.errors import SettingsError
from auricle.wire.plan import Plan
from auricle_learning.aggregation.bounded import BoundedRule
from auricle_learning.aggregation.cohort import Aggregate, Cohort
from auricle_learning.aggregation.rules import Rule
from auricle_learning.aggregation.rules.declaration import check_declaration, check_mean
from auricle_learning.methods import METHODS, RULES, get_method, get_rule, rule_names
from auricle_learning.methods.feddc import FedDcOptions
from auricle_learning.methods.feddyn import FedDynOptions
from auricle_learning.methods.plugins import RuleError
from auricle_learning.training.device_half import DeviceHalf

GOOD = """
import numpy as np
from auricle.errors import SettingsError
from auricle_learning.aggregation.cohort import Aggregate
from auricle_learning.aggregation.options import Options
from auricle_learning.aggregation.rules import Rule

class Place(Options, frozen=True):
    place: int = 0

    def __post_init__(self):
        super().__post_init__()
        if self.place < 0:
            raise SettingsError("place is negative; count from 0.")
        1 / (self.place - 7)

def first(cohort, options):
    kept = np.zeros((len(cohort.ids), len(cohort.layers)), bool)
    kept[options.place] = True
    return Aggregate(cohort.weights[options.place].copy(), cohort.ids, cohort.names, kept, kept.astype(float))

rule = Rule("whatever it says", first, Place())
no_rule = first
wrong = Rule("wrong", lambda cohort: cohort.weights[0])
short = Rule("short", lambda cohort: Aggregate(
    cohort.weights[0, :1], cohort.ids, cohort.names, np.ones((2, 1), bool), np.ones((2, 1))))
raising = Rule("raising", lambda cohort: 1 / 0)

def warns(cohort, text):
    table = np.ones((len(cohort.ids), len(cohort.layers)), bool)
    return Aggregate(cohort.start, cohort.ids, cohort.names, table, table * 0.5, warnings=("b is alone", text))

warning = Rule("warning", lambda cohort: warns(cohort, "a is odd"))
numbers = Rule("numbers", lambda cohort: warns(cohort, 7))
"""

Install = Callable[..., None]


@pytest.fixture
def install(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Install]:
    """Write distributions as an installer leaves them."""
    monkeypatch.syspath_prepend(str(tmp_path))
    before = set(sys.modules)

    def installed(package: str, rules: str, code: str = GOOD) -> None:
        module = package.replace("-", "_")
        (tmp_path / f"{module}.py").write_text(code)
        info = tmp_path / f"{module}-1.0.dist-info"
        info.mkdir()
        (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {package}\nVersion: 1.0\n")
        (info / "entry_points.txt").write_text(f"[auricle.rules]\n{rules}\n")

    yield installed
    for name in set(sys.modules) - before:
        del sys.modules[name]


def two_clients() -> Cohort:
    return in_one_layer(np.array([[3, 4], [1, 2]], np.float32), ids=["b", "a"])


def test_a_rule_of_another_package_is_found_by_its_name_and_takes_options(install: Install) -> None:
    install("acme-rules", "first = acme_rules:rule")

    rule = get_rule("first", place=1)

    assert rule.name == "first"
    assert rule.settings == {"place": 1}
    assert rule(two_clients()).weights.tolist() == [3, 4]
    with pytest.raises(SettingsError, match="plase"):
        get_rule("first", plase=1)
    with pytest.raises(SettingsError, match="place is negative"):
        get_rule("first", place=-1)
    with pytest.raises(SettingsError, match=r'the method "first" failed \(division by zero\)'):
        get_rule("first", place=7)


def test_the_rule_of_the_documentation_works(install: Install) -> None:
    page = (Path(__file__).parents[2] / "docs" / "rules.md").read_text(encoding="utf-8")
    install("acme-rules", "nearest-half = acme_rules:rule", page.split("```python")[1].split("```")[0])

    result = get_rule("nearest-half", part=0.5)(two_clients())

    assert result.weights.tolist() == [1, 2]
    assert result.explain()[0]["score_of"] == "norm of the update"


METHOD = """
from auricle_learning.methods.method import JobChanges, Method, Needs, Vector

def before(received, kept):
    return JobChanges(terms=("drift",), vectors={"linear": received.vector("h")})

method = Method(rule, Needs(down=(Vector("h"),)), before=before, since="2.0")
"""


def test_a_method_of_another_package_has_both_its_halves(install: Install) -> None:
    install("acme-rules", "both = acme_rules:method", GOOD + METHOD)

    method = get_method("both", place=1)
    plan = method.rule_for_rounds.plan_for(Plan())

    assert method.rule(two_clients()).weights.tolist() == [3, 4]
    assert (plan.method, plan.options, plan.since) == ("both", {"place": 1}, "2.0")
    half = DeviceHalf(plan, np.zeros(2, np.float32), {"h": np.ones(2, np.float32)}, {})
    assert half.before().vectors["linear"].tolist() == [1, 1]


def test_nothing_is_imported_until_a_rule_is_asked_for(install: Install) -> None:
    install("acme-rules", "first = acme_rules:rule")

    assert "first" in rule_names()
    get_rule("lpa")
    with pytest.raises(SettingsError, match='did you mean "first"'):
        get_rule("firts")
    assert "acme_rules" not in sys.modules


def test_our_rules_cannot_be_replaced(install: Install) -> None:
    install("acme-rules", "lpa = acme_rules:rule")

    assert get_rule("lpa").function is RULES["lpa"].function
    assert "acme_rules" not in sys.modules


@pytest.mark.parametrize(
    ("target", "code", "sentence"),
    [
        ("acme_rules:rule", "import no_such_module_anywhere", "No module"),
        ("acme_rules:rule", "raise RuntimeError('out of\\norder')", "cannot be loaded .out of."),
        ("acme_rules:rule", f"raise RuntimeError('{'x' * 300}')", r"\(x{200}\);"),
        ("acme_rules:rule", "this is no Python", "loaded"),
        ("acme_rules:none", GOOD, "loaded"),
        ("acme_rules:no_rule", GOOD, "a function"),
        ("acme_rules:odd", GOOD + '\nodd = Rule("odd", first, Place(place=7))\n', "division by zero"),
    ],
)
def test_a_broken_package_is_one_sentence(install: Install, target: str, code: str, sentence: str) -> None:
    install("acme-rules", f"first = {target}", code)

    with pytest.raises(SettingsError, match=sentence) as caught:
        get_rule("first")

    assert 'the method "first" of acme-rules' in str(caught.value)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("target", "sentence"),
    [
        ("wrong", "gave no finite model"),
        ("short", "of 2 values"),
        ("raising", "failed .division by zero"),
        ("numbers", "gave no finite model"),
    ],
)
def test_a_rule_that_does_not_do_what_a_rule_does_is_named(install: Install, target: str, sentence: str) -> None:
    install("acme-rules", f"first = acme_rules:{target}")

    with pytest.raises(RuleError, match=sentence):
        get_rule("first")(two_clients())


MEAN = """
class Weighed(Options, frozen=True):
    weighting: str = "samples"

class Limited(Options, frozen=True):
    clip: float | None = 5.0
    limit: str = "clamp"

def shares(value):
    def rule(cohort):
        table = np.full((len(cohort.ids), len(cohort.layers)), value(len(cohort.ids)))
        return Aggregate(cohort.start.copy(), cohort.ids, cohort.names, table > 0, table)
    return rule

def nobody(cohort, options):
    return first(cohort, Place())
"""


@pytest.mark.parametrize(
    ("declared", "sentence"),
    [
        ('first, Place(), weight="fedvsa"', r'weighs by "fedvsa" and has no option "clip": give it clip and limit'),
        ('first, Place(), weight="sample"', r'weighs by "sample"; did you mean "samples"'),
        ('nobody, Weighed(weighting="loss")', r'weighs by "loss"; '),
        ('nobody, Limited(clip=None), weight="fedvsa"', r"clip is None; it must be"),
        ("shares(lambda k: 0.5 / k), mean=True", r'shares in the layer "front" sum to 0.5: report shares'),
        ("shares(lambda k: 1.0), mean=True", r'shares in the layer "front" sum to 5: report shares'),
    ],
)
def test_what_a_rule_says_of_itself_is_checked_when_it_is_loaded(
    install: Install, declared: str, sentence: str
) -> None:
    install("acme-rules", "first = acme_rules:odd", GOOD + MEAN + f'\nodd = Rule("odd", {declared})\n')

    with pytest.raises(SettingsError, match=sentence) as refused:
        get_rule("first")

    assert "\n" not in str(refused.value)


def test_a_rule_that_says_of_itself_what_it_does_is_taken(install: Install) -> None:
    code = [
        'one = Rule("odd", nobody, Limited(), weight="fedvsa")',
        'two = Rule("odd", shares(lambda k: 1 / k), mean=True)',
        'three = Rule("odd", shares(lambda k: 0.0), mean=True)',
        'four = Rule("odd", nobody, Weighed())',
        'late = Rule("odd", shares(lambda k: 1 / k if k == 5 else 0.25), mean=True)',
    ]
    names = ["one", "two", "three", "four", "late"]
    install("acme-rules", "\n".join(f"{n} = acme_rules:{n}" for n in names), "\n".join([GOOD, MEAN, *code]))

    for name in names[:-1]:
        get_rule(name)(two_clients())
    with pytest.raises(RuleError, match=r'shares in the layer "all" sum to 0.5; choose another rule'):
        get_rule("late")(two_clients())
    with pytest.raises(SettingsError, match='weighs by "fedvsa" and has no option "clip"'):
        get_rule("four", weighting="fedvsa")


@pytest.mark.parametrize("name", METHODS)
def test_our_own_say_of_themselves_what_they_do(name: str) -> None:
    check_declaration(METHODS[name].rule)
    check_mean(METHODS[name].rule, name)


def test_a_bound_refuses_a_rule_that_it_could_not_go_by() -> None:
    with pytest.raises(SettingsError, match='the rule "a" weighs by "fedvsa"'):
        BoundedRule(Rule("a", lambda cohort: cohort, weight="fedvsa"))


def test_a_rules_warnings_are_texts(install: Install) -> None:
    install("acme-rules", "first = acme_rules:warning")

    assert get_rule("first")(two_clients()).warnings == ("b is alone", "a is odd")


def test_two_packages_with_one_name_are_told_apart_by_the_operator(install: Install) -> None:
    install("acme-rules", "first = acme_rules:rule")
    install("other-rules", "first = other_rules:rule")

    with pytest.raises(SettingsError, match="acme-rules and other-rules"):
        get_rule("first")


def test_a_rule_says_what_clients_are_weighed_by() -> None:
    """By its option `weighting`, or else what the rule itself says."""

    def plain(cohort: Cohort, *_: object) -> Aggregate:
        raise NotImplementedError

    assert Rule("a", plain, FedDynOptions(weighting="fedvsa")).weighed_by == "fedvsa"
    assert Rule("a", plain, FedDynOptions()).weighed_by == "uniform"
    assert Rule("a", plain, FedDcOptions(), weight="uniform").weighed_by == "uniform"
    assert Rule("a", plain).weighed_by == "samples"
    assert Rule("a", plain, weight="fedvsa").weighed_by == "fedvsa"
    assert not Rule("a", plain).mean


ODD = """
odd = Rule("odd", first, {})
"""


@pytest.mark.parametrize(
    ("declared", "sentence"),
    [
        ('Place(), needs=("moon",)', 'needs "moon", which no coordinator has; there is: device-half, labelled-clips, '),
        ('Place(), needs="steps"', "needs='steps', which is no tuple of words: there is: device-half"),
        ("Place(), needs=None", "needs=None, which is no tuple of words"),
        ("Place(), needs=(7,)", "needs 7, which no coordinator has"),
        ("7", "has options=7; give it a struct that is made of Options"),
        ("Place", "give it a struct that is made of Options"),
        ('Place(), mean="yes"', "mean='yes'; it must be True or False"),
        ("Place(), plan=7", "plan=7, which is no function"),
        ("Place(), tunes=7", "tunes=7, which is no function"),
        ('Place(), weight="moons"', 'weighs by "moons"; there is: fedvsa, samples, uniform.'),
    ],
)
def test_what_a_rule_says_of_itself_is_refused_with_what_there_is(
    install: Install, declared: str, sentence: str
) -> None:
    install("acme-rules", "odd = acme_rules:odd", GOOD + ODD.format(declared))
    with pytest.raises(SettingsError) as refusal:
        get_rule("odd")
    assert str(refusal.value).startswith('the method "odd" of acme-rules ')
    assert sentence in str(refusal.value)


@pytest.mark.parametrize(
    ("made", "sentence"),
    [
        ("Rule('x', lambda: 0)", "has a function that is not called with a cohort alone"),
        ("Rule('x', lambda cohort, *, a: 0)", "has a function that is not called with a cohort alone"),
        ("Rule('x', lambda cohort: 0, Place())", "has a function that is not called with a cohort and its options"),
        ("Rule('x', 7)", "has function=7, which is no function"),
    ],
)
def test_functions_that_could_not_be_called_are_refused(install: Install, made: str, sentence: str) -> None:
    install("acme-rules", "odd = acme_rules:odd", f"{GOOD}\nodd = {made}\n")
    with pytest.raises(SettingsError, match='the method "odd" of acme-rules') as refusal:
        get_rule("odd")
    assert sentence in str(refusal.value)


VECTORS = """
from auricle_learning.methods.method import Method, Needs, Vector
odd = Method(rule, {})
"""


@pytest.mark.parametrize(
    ("made", "sentence"),
    [
        ('Needs(up=(Vector("Big One", 3),))', "has a vector 'Big One'; a name has up to 32 small letters"),
        ('Needs(up=Vector("h", 3))', "has vectors up that are no tuple of Vector"),
        ('Needs(down=("h",))', "has vectors down that are no tuple of Vector"),
        ('Needs(down=(Vector("a"), Vector("b"), Vector("c")))', "has 3 vectors down; there may be 2"),
        ('Needs(up=(Vector("a"), Vector("a")))', "has 2 vectors up; there may be 4, each of a name"),
        ('Needs(up=(Vector("a", -1),))', "size=-1; it must be a number of at least 0"),
        ('Needs(up=(Vector("a", "many"),))', "size='many'; it must be a number of at least 0"),
        ('Needs(up=(Vector("a", 3, check=7),))', 'has a vector "a" whose check is no function'),
        ("before=7", "has before=7, which is no function"),
        ("travels=None", "has travels=None, which is no function"),
    ],
)
def test_vectors_and_halves_that_could_not_travel_are_refused(install: Install, made: str, sentence: str) -> None:
    install("acme-rules", "odd = acme_rules:odd", GOOD + VECTORS.format(made))
    with pytest.raises(SettingsError, match='the method "odd" of acme-rules') as refusal:
        get_rule("odd")
    assert sentence in str(refusal.value)


def test_options_that_a_package_sets_are_its_rules_defaults(install: Install) -> None:
    install("acme-rules", "odd = acme_rules:odd", GOOD + ODD.format("Place(place=1)"))

    assert get_rule("odd")(two_clients()).weights.tolist() == [3, 4]
    assert get_rule("odd", place=0)(two_clients()).weights.tolist() == [1, 2]
