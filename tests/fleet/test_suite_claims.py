"""Verdicts of a paper's claims, from invented results: intervals by hand, and the sense of every kind of figure."""

from __future__ import annotations

import msgspec
import pytest

from auricle_fleet.suite.claims import claim_rows, methods_alike, printed_numbers, verdict
from auricle_fleet.suite.figures import get_figure
from auricle_fleet.suite.parts import Claim, Condition, Method
from auricle_fleet.suite.plan import Suite
from auricle_fleet.suite.prints import PaperItem, PrintedTable
from auricle_fleet.suite.record import Tuned
from auricle_fleet.suite.tables import Entry, Results
from auricle_fleet.suite.written import printed_table, tables

CONDITIONS = ("clean", "noise")


def entry(figure: str, method: str, *values: float | None, condition: str = "clean") -> Entry:
    return Entry(figure=figure, method=method, condition=condition, values=values)


def found(*entries: Entry) -> Results:
    return Results(entries=entries, beside=(), reached=())


def claim(figure: str = "unseen", worse: str = "mean", condition: str = "clean", bound: float = 0.0) -> Claim:
    return Claim(text="It is so.", figure=figure, better="lpa", worse=worse, condition=condition, bound=bound)


@pytest.mark.parametrize(
    ("better", "worse", "said"),
    [
        ((0.6, 0.7, 0.8), (0.5, 0.61, 0.69), "shown"),
        ((0.5, 0.61, 0.69), (0.6, 0.7, 0.8), "refuted"),
        ((0.6, 0.5, 0.8), (0.5, 0.6, 0.7), "undecided"),
        ((0.6, None, None), (0.5, 0.5, 0.5), "undecided"),  # one pair has no spread
        ((None, None, None), (0.5, 0.5, 0.5), "undecided"),
        ((0.5, 0.5, 0.5), (0.5, 0.5, 0.5), "undecided"),
    ],
)
def test_a_claim_is_shown_or_refuted_where_the_whole_interval_lies_on_one_side(
    better: tuple[float | None, ...], worse: tuple[float | None, ...], said: str
) -> None:
    assert verdict(claim(), found(entry("unseen", "lpa", *better), entry("unseen", "mean", *worse))).verdict == said


def test_pairs_mean_interval_and_p_are_those_by_hand() -> None:
    judged = verdict(claim(), found(entry("unseen", "lpa", 0.6, None, 0.9), entry("unseen", "mean", 0.5, 0.1, 0.6)))
    assert judged.values == pytest.approx((0.1, 0.3)) and judged.mean == pytest.approx(0.2)
    assert judged.interval == pytest.approx((0.2 - 12.706 * 0.1, 0.2 + 12.706 * 0.1), abs=1e-4)
    assert judged.p == 0.5 and judged.verdict == "undecided"


def test_of_figures_of_which_less_is_better_the_difference_is_turned_round() -> None:
    backdoor = found(entry("backdoor", "lpa", 0.1, 0.1, 0.1), entry("backdoor", "mean", 0.8, 0.9, 0.8))
    judged = verdict(claim("backdoor"), backdoor)
    assert judged.mean == pytest.approx(0.7333, abs=1e-4) and judged.verdict == "shown"
    rounds = found(entry("rounds", "lpa", 4.0, 5.0, 21.0), entry("rounds", "mean", 9.0, 11.0, None))
    judged = verdict(claim("rounds"), rounds)
    assert judged.values == (5, 6) and judged.verdict == "undecided"
    assert judged.interval == pytest.approx((5.5 - 12.706 * 0.5, 5.5 + 12.706 * 0.5), abs=1e-3)


def test_a_bound_says_by_how_much_and_one_below_nothing_by_how_much_it_may_be_worse() -> None:
    told = found(entry("unseen", "lpa", 0.58, 0.58, 0.57), entry("unseen", "mean", 0.6, 0.59, 0.59))
    assert verdict(claim(), told).verdict == "refuted"
    assert verdict(claim(bound=-0.1), told).verdict == "shown"
    assert verdict(claim(bound=0.05), told).verdict == "refuted"
    assert verdict(claim(bound=-0.1), told).p == 0.25


def test_without_another_method_the_figure_itself_is_beside_the_bound() -> None:
    told = found(
        entry("recall-of-detection", "lpa", 1.0, 0.98, 1.0),
        entry("false-names", "lpa", 0.0, 0.0, 1.0),
    )
    recall = verdict(claim("recall-of-detection", worse="", bound=0.9), told)
    assert recall.values == (1.0, 0.98, 1.0) and recall.verdict == "shown"
    assert verdict(claim("false-names", worse="", bound=3.0), told).verdict == "shown"
    assert verdict(claim("false-names", worse="", bound=0.0), told).verdict == "undecided"
    assert verdict(claim("recall-of-detection", worse="", bound=1.1), told).verdict == "refuted"


def test_without_a_condition_it_is_the_mean_of_all_where_a_seed_has_run_in_each() -> None:
    told = found(
        entry("unseen", "lpa", 0.6, 0.7, 0.6),
        entry("unseen", "lpa", 0.4, 0.5, None, condition="noise"),
        entry("unseen", "mean", 0.5, 0.5, 0.5),
        entry("unseen", "mean", 0.3, 0.3, 0.3, condition="noise"),
    )
    assert verdict(claim(condition=""), told).values == pytest.approx((0.1, 0.2))
    backdoor = found(
        *(entry("backdoor", method, *values) for method, values in (("lpa", (0.1, 0.2)), ("mean", (0.6, 0.8)))),
        *(entry("backdoor", method, None, None, condition="noise") for method in ("lpa", "mean")),
    )
    assert verdict(claim("backdoor", condition=""), backdoor).values == pytest.approx((0.5, 0.6)), (
        "noise has no attacker"
    )


def test_the_suites_table_has_a_claim_a_row_in_points_or_counts() -> None:
    suite = Suite(
        methods=(Method(name="lpa"), Method(name="mean")),
        conditions=tuple(Condition(name=name) for name in CONDITIONS),
        figures=("unseen", "false-names"),
        claims=(
            claim(),
            claim("false-names", worse="", bound=1),
            claim(bound=-0.02),
            claim("unseen", condition="noise"),
        ),
    )
    told = found(
        entry("unseen", "lpa", 0.6, 0.7, 0.8),
        entry("unseen", "mean", 0.5, 0.6, 0.7),
        entry("false-names", "lpa", 2.0, 2.0, 2.0),
        entry("unseen", "lpa", None, None, None, condition="noise"),
        entry("unseen", "mean", None, None, None, condition="noise"),
    )
    head, rows = claim_rows(suite, told)
    assert head == ["claim", "the print", "verdict", "better by (95 % interval)", "could show", "p", "seeds"]
    assert rows == [
        ["It is so. (unseen, clean)", "-", "shown", "+10.0 points (+10.0 to +10.0)", "0.0", "0.250", "3"],
        ["It is so. (false-names, clean, below 1)", "-", "refuted", "2.0 devices (2.0 to 2.0)", "0.0", "0.250", "3"],
        [
            "It is so. (unseen, clean, not worse by 2)",
            "-",
            "shown",
            "+10.0 points (+10.0 to +10.0)",
            "0.0",
            "0.250",
            "3",
        ],
        ["It is so. (unseen, noise)", "-", "undecided", "-", "-", "-", "0"],
    ]
    nothing = found(
        *(
            entry(figure, method, None, condition=condition)
            for figure in ("unseen", "false-names")
            for method in ("lpa", "mean")
            for condition in CONDITIONS
        )
    )
    (only,) = tables(suite, nothing)
    assert (only.title, only.head, len(only.rows)) == ("Claims of the print", head, 4)


def test_the_column_of_the_print_has_its_numbers_and_nothing_else() -> None:
    printed = PrintedTable(
        figure="unseen", condition="clean", of="digits", unit="%", values={"lpa": 84.59, "mean": 80.0}
    )
    item = PaperItem(item="table 1", holds="x", suite="s", conditions=("clean",), printed=(printed,))
    assert printed_numbers(claim(), item) == "84.59 against 80"
    assert printed_numbers(claim(condition=""), item) == "84.59 against 80"
    assert printed_numbers(claim(condition="noise"), item) == "-"
    above = msgspec.structs.replace(printed, unit="points")
    assert printed_numbers(claim(), msgspec.structs.replace(item, printed=(above,))) == "-"
    suite = Suite(methods=(Method(name="mean"), Method(name="lpa")), conditions=(Condition(name="clean"),))
    (table,) = printed_table(suite, get_figure("unseen"), item)
    assert (table.head, table.rows) == (["method", "clean"], [["mean", "80"], ["lpa", "84.59"]])
    assert not printed_table(suite, get_figure("personal"), item)


def test_a_claim_of_a_method_that_has_learnt_nothing_is_not_judged() -> None:
    told = msgspec.structs.replace(
        found(entry("unseen", "lpa", 0.6, 0.7, 0.6), entry("unseen", "mean", 0.27, 0.27, 0.26)), chance=0.2
    )
    judged = verdict(claim(), told)
    assert (judged.verdict, judged.nothing_learnt) == ("not judged", ("mean",))  # 0.28 is a tenth of the way to all
    assert verdict(claim(), msgspec.structs.replace(told, chance=0.1)).verdict == "shown"
    assert verdict(claim(), msgspec.structs.replace(told, chance=0.1), {"lpa"}).nothing_learnt == ("lpa",)
    attacked = msgspec.structs.replace(told, attacked=("clean",))
    assert verdict(claim(), attacked).verdict == "shown"  # who falls under an attack may have learnt much
    alike = Tuned(method="a", tried=(("0.1", 0.5), ("0.2", 0.5)), kept="0.1")
    other = Tuned(method="b", tried=(("0.1", 0.5), ("0.2", 0.6)), kept="0.2")
    assert methods_alike([alike, other]) == {"a"}
