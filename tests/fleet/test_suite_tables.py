"""Tables and curves of a suite: each figure by hand, and every form of it."""

from __future__ import annotations

import csv
import json
from dataclasses import replace
from pathlib import Path
from xml.etree import ElementTree as ET

import msgspec
import pytest
from tests.fleet.ended_run import SUMMARY, line

from auricle_fleet.population.judging import RECALLS
from auricle_fleet.settings.fleet_settings import FleetSettings
from auricle_fleet.suite.curves import bars_to_target, curves, pictures, precision_curves
from auricle_fleet.suite.folder import Ended
from auricle_fleet.suite.page import Shown, write_shown
from auricle_fleet.suite.paired import interval, sign_flip, student
from auricle_fleet.suite.parts import Condition, Method
from auricle_fleet.suite.plan import Cell, Suite
from auricle_fleet.suite.record import Tuned
from auricle_fleet.suite.tables import EVERY, FIGURES, results
from auricle_fleet.suite.written import Table, latex, markdown, tables

SUITE = Suite(
    about="One & <all>",
    seeds=(0, 1, 2),
    methods=(Method(name="mean"), Method(name="A & B")),
    conditions=(Condition(name="clean"), Condition(name="noise_5")),
    target=0.6,
)
UNSEEN = {
    ("mean", "clean"): (0.5, 0.6, 0.7),
    ("A & B", "clean"): (0.6, 0.6, 0.9),
    ("mean", "noise_5"): (0.4, 0.5, 0.3),
    ("A & B", "noise_5"): (0.5, 0.7, None),
}


def ended() -> list[Ended]:
    return [
        Ended(
            Cell(method, condition, seed, FleetSettings(seed=seed)),
            msgspec.structs.replace(SUMMARY, plugin_accuracy_unseen=value, personal_accuracy=None),
            tuple(
                line(n, plugin_accuracy_unseen=unseen, personal_accuracy=None)
                for n, unseen in ((1, value / 2), (2, value))
            ),
        )
        for (method, condition), values in UNSEEN.items()
        for seed, value in enumerate(values)
        if value is not None
    ]


def test_means_spreads_differences_and_rounds_are_those_by_hand() -> None:
    found = results(SUITE, ended())
    clean = found.entry("unseen", "A & B", "clean")
    assert clean.mean == pytest.approx(0.7) and clean.deviation == pytest.approx(0.03**0.5)
    assert found.entry("unseen", "A & B", "noise_5").values == (0.5, 0.7, None)
    assert found.entry("personal", "mean", "clean").mean is None
    beside = {each.condition: each for each in found.beside if each.figure == "unseen"}
    assert set(beside) == {"clean", "noise_5", EVERY} and {each.method for each in found.beside} == {"A & B"}
    assert beside["clean"].differences == pytest.approx((0.1, 0.0, 0.2)) and beside["clean"].better == 2
    assert beside["noise_5"].differences == pytest.approx((0.1, 0.2))
    assert beside[EVERY].differences == pytest.approx((0.1, 0.1))  # the third seed has not run in noise
    assert beside["clean"].mean == pytest.approx(0.1)  # 4.3027 * 0.1 / sqrt(3) to each side
    assert beside["clean"].interval == pytest.approx((0.1 - 0.248414, 0.1 + 0.248414), abs=1e-5)
    reached = {(each.method, each.condition): (each.rounds, each.runs) for each in found.reached}
    assert reached["A & B", "clean"] == ((2, 2, 2), 3)
    assert reached["mean", "noise_5"] == ((), 3)
    assert found.entry("rounds", "mean", "clean").values == (3, 2, 2)  # never: one more than there are
    rounds = {each.condition: each for each in found.beside if each.figure == "rounds"}
    assert rounds["clean"].differences == (-1, 0, 0) and rounds["clean"].better == 1  # fewer are better


def test_the_sign_flip_test_counts_the_choices_of_signs_at_least_as_far_from_nothing() -> None:
    assert sign_flip([0.1, 0.2, 0.3]) == 2 / 8
    assert sign_flip([0.1, -0.1]) == 1.0
    assert sign_flip([0.1, 0.2, -0.3, 0.4]) == 10 / 16  # by hand: sums of at least 0.4, either way
    assert sign_flip([0.0]) == 1.0
    assert sign_flip([0.1] * 40) < 0.001
    assert sign_flip([0.1, -0.1] * 20) == 1.0


def test_the_interval_is_that_of_students_t() -> None:
    assert interval([0.1]) is None
    assert interval([0.0, 2.0]) == pytest.approx((1 - 12.706205, 1 + 12.706205))  # s = sqrt(2), n = 2
    assert interval([0.5] * 5) == (0.5, 0.5)
    tables_of_t = {1: 12.7062, 2: 4.3027, 4: 2.7764, 9: 2.2622, 30: 2.0423, 999: 1.9623}
    assert {n: round(student(0.95, n), 4) for n in tables_of_t} == tables_of_t


def test_tables_are_written_in_every_form(tmp_path: Path) -> None:
    found = results(SUITE, ended())
    tuned = [Tuned(method="mean", tried=(("0.05", 0.5), ("0.1", 0.25)), kept="0.05")]
    shown = Shown("mine", SUITE, ended(), found, {"mean-clean-s9": "the disk <is> full"}, tuned, "x <y>")
    page = write_shown(tmp_path, shown).read_text()
    assert "One &amp; &lt;all&gt;" in page and "the disk &lt;is&gt; full" in page and "A &amp; B" in page
    assert "11 of 12 runs" in page
    assert "<td>70.0 ± 17.3</td>" in page and "<td>60.0 ± 14.1 (of 2)</td>" in page
    assert "0.05: 50.0 %, 0.1: 25.0 %" in page and "x &lt;y&gt;" in page and "numpy" in page
    drawn = {path.stem for path in (tmp_path / "figures").glob("*.svg")}
    assert drawn == {
        *("unseen-clean", "unseen-noise-5", "loss-clean", "loss-noise-5", "rounds-to-target"),
        *("confusion-mean-clean", "confusion-A-B-clean", "confusion-mean-noise-5", "confusion-A-B-noise-5"),
    }  # no run tells the devices' own models, or the precision
    assert page.count("<svg") == len(drawn)
    text = (tmp_path / "tables.md").read_text()
    assert "| A & B | 70.0 ± 17.3 | 60.0 ± 14.1 (of 2) |" in text and "0.05: 50.0 %, 0.1: 25.0 %" in text
    assert r"A \& B & 70.0 $\pm$ 17.3" in (tmp_path / "tables.tex").read_text()
    assert r"noise\_5" in (tmp_path / "tables.tex").read_text()
    with (tmp_path / "tables.csv").open() as file:
        records = list(csv.DictReader(file))
    assert len(records) == 22  # the accuracy, and the rounds to the target
    assert records[0] == {"figure": "unseen", "method": "mean", "condition": "clean", "seed": "0", "value": "0.5"}


def test_differences_have_a_sign_and_rounds_that_nobody_reached_are_not_compared() -> None:
    unlike = {"mean": (0.50004, 0.5), "A & B": (0.5, 0.5)}
    runs = [
        replace(each, summary=msgspec.structs.replace(each.summary, plugin_accuracy_unseen=unlike[each.cell.method][s]))
        for each in ended()
        if (s := each.cell.seed) < 2
    ]
    made = {table.title: table for table in tables(SUITE, results(SUITE, runs))}
    beside = made["Shared plug-in on speakers that no device has: beside mean"]
    assert {row[2] for row in beside.rows} == {"+0.0"}
    assert any("beside" in title and "Rounds" in title for title in made)
    far = msgspec.structs.replace(SUITE, target=0.99)
    titles = [table.title for table in tables(far, results(far, runs))]
    assert any(title.endswith(", of the runs that reached it") for title in titles)
    assert not any("beside" in title and "Rounds" in title for title in titles)


def test_a_method_that_never_reaches_the_target_has_no_bar() -> None:
    drawn = bars_to_target(SUITE, results(SUITE, ended()), SUITE.target_figures[0])
    assert drawn is not None
    picture = ET.fromstring(drawn)  # made above
    name = "{http://www.w3.org/2000/svg}"
    shown = [text.text for text in picture.iter(f"{name}text")]
    assert shown[2:6] == ["mean", "at least 2.3, reached by 2 of 3", "A & B", "2.0, reached by 3 of 3"]
    assert shown[7:] == ["mean", "never in 2 rounds, 3 runs", "A & B", "at least 2.5, reached by 1 of 2"]
    assert len(list(picture.iter(f"{name}rect"))) == 1 + 3  # the paper, and the bars


def test_seconds_to_a_target_are_in_tables_and_pictures_without_runs_that_are_never_there() -> None:
    suite = msgspec.structs.replace(SUITE, target_seconds=True, target_devices=(1,))
    assert [figure.name for figure in suite.target_figures] == ["rounds", "seconds", "seconds-of-1"]
    found = results(suite, ended())
    assert found.entry("seconds", "mean", "clean").values == (None, 3.0, 3.0)  # two rounds of 1.5 seconds
    beside = {each.condition: each.differences for each in found.beside if each.figure == "seconds"}
    assert beside == {"clean": (0.0, 0.0)}  # of noise the reference is never there
    made = {table.title: table for table in tables(suite, found)}
    (title,) = (t for t in made if t.startswith("Seconds") and "speakers" in t and t.endswith("that reached it"))
    assert made[title].head[2] == "seconds to 60 %"
    assert [row[2:] for row in made[title].rows] == [
        *(["3.0 (3.0 to 3.0)", "2 of 3"], ["-", "0 of 3"], ["3.0 (3.0 to 3.0)", "3 of 3"]),
        ["3.0 (3.0 to 3.0)", "1 of 2"],
    ]
    drawn = bars_to_target(suite, found, suite.target_figures[1])
    assert drawn is not None
    shown = [text.text for text in ET.fromstring(drawn).iter("{http://www.w3.org/2000/svg}text")]  # made above
    assert shown[2:6] == ["mean", "3.0, reached by 2 of 3", "A & B", "3.0, reached by 3 of 3"]
    assert shown[7:] == ["mean", "never, 3 runs", "A & B", "3.0, reached by 1 of 2"]


def test_a_table_keeps_bars_and_signs_of_its_form() -> None:
    assert markdown(Table("t", ["a|b"], [["c"]])).splitlines()[2] == "| a\\|b |"
    shown = markdown(Table("a\nb", ["<b>\x1b"], [["&"]])).splitlines()
    assert shown == ["**a?b**", "", "| &lt;b>? |", "|---|", "| & |"]
    assert r"\textbackslash{}\{50\%\}" in latex(Table("t", ["x"], [["\\{50%}"]]))


def test_curves_are_a_picture_of_their_own_with_every_method_in_the_key() -> None:
    drawn = curves(SUITE, ended(), "clean", FIGURES[0])
    assert drawn is not None
    picture = ET.fromstring(drawn)  # made above
    name = "{http://www.w3.org/2000/svg}"
    assert {"mean", "A & B"} <= {text.text for text in picture.iter(f"{name}text")}
    first, second = (line.get("points", "").split() for line in picture.iter(f"{name}polyline"))
    assert len(first) == len(second) == 2
    heights = [float(point.split(",")[1]) for point in (first[1], second[1])]
    assert heights[1] < heights[0]  # the better one is higher up
    assert curves(SUITE, ended(), "clean", FIGURES[1]) is None
    assert len(tables(SUITE, results(SUITE, []))) == 0
    of_one = curves(SUITE, [replace(each, rounds=each.rounds[:1]) for each in ended()], "clean", FIGURES[0])
    assert of_one is not None and len(list(ET.fromstring(of_one).iter(f"{name}circle"))) == len(SUITE.methods)


def test_losses_of_another_kind_have_a_picture_and_a_unit_of_their_own() -> None:
    options = {"A & B": {"inference_loss": "mse"}, "mean": {}}
    runs = [
        replace(each, cell=replace(each.cell, settings=FleetSettings(method_options=options[each.cell.method])))
        for each in ended()
    ]
    drawn = {each.name: each.svg for each in pictures(SUITE, runs, results(SUITE, runs)) if "loss" in each.name}
    assert drawn.keys() == {"loss-clean", "loss-noise-5", "loss-mse-clean", "loss-mse-noise-5"}
    assert ">nats<" in drawn["loss-clean"] and ">nats<" not in drawn["loss-mse-clean"]
    assert ">Σ (p - y)²<" in drawn["loss-mse-clean"]


def test_precision_by_recall_is_the_mean_of_the_seeds_as_far_as_all_of_them_reach() -> None:
    nothing = (None,) * (len(RECALLS) - 2)
    told = {0: (1.0, 0.8, *nothing), 1: (0.5, None, *nothing), 2: None}
    runs = [
        replace(each, summary=msgspec.structs.replace(each.summary, keyword_precision=told[each.cell.seed]))
        for each in ended()
    ]
    found = results(SUITE, runs)
    (of_mean,) = (p for p in found.precision if (p.method, p.condition) == ("mean", "clean"))
    assert of_mean.runs == 2 and of_mean.precision == (0.75, None, *nothing)
    drawn = precision_curves(SUITE, found, "clean")
    assert drawn is not None and drawn.count("<circle") == 2  # a point of each method
    assert precision_curves(SUITE, results(SUITE, ended()), "clean") is None


def test_confusion_is_added_up_over_the_seeds_of_the_reference_and_of_the_best_of_the_others() -> None:
    suite = msgspec.structs.replace(SUITE, methods=(*SUITE.methods, Method(name="worse")), reference="A & B")
    worse = [
        replace(each, cell=replace(each.cell, method="worse"), summary=msgspec.structs.replace(each.summary, **low))
        for each in ended()
        if each.cell.method == "mean"
        for low in ({"plugin_accuracy_unseen": 0.1},)
    ]
    found = results(suite, [*ended(), *worse])
    assert [(c.method, c.condition) for c in found.confusions] == [
        *(("A & B", "clean"), ("mean", "clean"), ("A & B", "noise_5"), ("mean", "noise_5"))
    ]
    assert found.confusions[0].counts == ((135, 45), (15, 45))  # of three seeds
    assert found.confusions[2].counts == ((90, 30), (10, 30)) and found.confusions[0].words == ("yes", "no")


def test_results_json_says_what_the_suite_was_and_came_to(tmp_path: Path) -> None:
    suite = msgspec.structs.replace(SUITE, figures=("macro", "unseen"), target=None)
    found = results(suite, ended())
    shown = Shown("mine", suite, ended(), found, {}, (), "auricle fleet suite mine.toml", size="full")
    write_shown(tmp_path, shown)
    told = json.loads((tmp_path / "results.json").read_bytes())
    assert told["name"] == "mine" and told["size"] == "full" and told["command"] == "auricle fleet suite mine.toml"
    assert told["methods"] == ["mean", "A & B"] and told["conditions"] == ["clean", "noise_5"]
    assert told["reference"] == "mean" and told["target"] is None and told["tuned"] == [] and told["failed"] == {}
    assert told["machine"]["cores"] >= 1 and {"auricle", "python", "numpy"} <= told["versions"].keys()
    assert {entry["figure"] for entry in told["tables"]["entries"]} == {"macro", "unseen"}
    (clean,) = (b for b in told["tables"]["beside"] if (b["figure"], b["condition"]) == ("unseen", "clean"))
    assert clean["mean"] == pytest.approx(0.1) and clean["better"] == 2 and len(clean["interval"]) == 2


def test_pictures_of_before_do_not_stay(tmp_path: Path) -> None:
    (tmp_path / "figures").mkdir()
    for name in ("confusion-old-clean.svg", "confusion-old-clean.png", "notes.txt"):
        (tmp_path / "figures" / name).write_text("old")
    write_shown(tmp_path, Shown("mine", SUITE, ended(), results(SUITE, ended()), {}, (), "x"))
    names = {path.name for path in (tmp_path / "figures").iterdir()}
    assert "notes.txt" in names and "unseen-clean.svg" in names and not any("old" in name for name in names)
