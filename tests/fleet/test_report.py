"""`report.html` and `card.md`: well-formed, self-contained, and safe whatever devices and words are called."""

from __future__ import annotations

import re
from html.parser import HTMLParser
from itertools import pairwise
from pathlib import Path
from typing import Any

import msgspec
import pytest
from tests.fleet.ended_run import PACK, SUMMARY, line, summary

from auricle.speech.sound_faults import FindingCount
from auricle.wire.kinds import plain
from auricle_fleet.results.card import card
from auricle_fleet.results.report import chart, render, ticks, write_report
from auricle_fleet.results.report_tables import by_device, by_finding, by_group, by_round, by_word, told
from auricle_fleet.results.result import DeviceRow, prolonged
from auricle_fleet.settings.groups import Group, Network
from auricle_fleet.settings.partition import Partition

VOID = {"meta", "line", "circle", "polyline", "br"}
TAGS = "html head meta title style body h1 h2 p div b span i svg line text polyline circle table tr th td"
HOSTILE = "<script>alert('x')</script>&\"dev\x1b\u202e"


class Page(HTMLParser):
    """Checks that every element is closed in order, and gathers text, tags and attributes."""

    def __init__(self, text: str) -> None:
        super().__init__(convert_charrefs=True)
        self.open: list[str] = []
        self.tags: list[str] = []
        self.attributes: list[tuple[str, str | None]] = []
        self.text = ""
        self.feed(text)
        self.close()
        assert self.open == []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.handle_startendtag(tag, attrs)
        if tag not in VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        self.attributes += attrs

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        self.text += data


def check(text: str) -> Page:
    page = Page(text)
    assert text.startswith("<!doctype html>")
    assert not re.search(r"https?:|//[a-z]|url\(|@import|src=|href=", text)
    assert not re.search(r"\b(nan|inf)\b", text, re.IGNORECASE)
    assert set(page.tags) <= set(TAGS.split())
    assert not [name for name, _ in page.attributes if name.startswith("on")]
    return page


def test_a_run_with_a_ceiling(tmp_path: Path) -> None:
    path = write_report(tmp_path, summary(), [line(1), line(2)])
    page = check(path.read_text())
    assert path == tmp_path / "report.html"
    assert page.tags.count("svg") == 2
    assert "central 83.0 %" in page.text and "71.0 %" in page.text and "Interrupted" not in page.text
    assert page.tags.count("tr") == 2 + 3
    bare = check(render(summary(central_accuracy_unseen=None, interrupted=True), [line(1), line(2)]))
    assert "central" not in bare.text and "Interrupted." in bare.text


@pytest.mark.parametrize("central", [None, 0.5])
def test_one_round_none_and_one_without_numbers(central: float | None) -> None:
    unknown = line(1, plugin_accuracy_unseen=None, personal_accuracy=None, inference_loss=None, counted=0, left_out={})
    empty = summary(central_accuracy_unseen=central, rounds=0, plugin_accuracy_unseen=None, personal_accuracy=None)
    for rounds in ([], [line(1)], [unknown], [unknown, line(2)]):
        page = check(render(empty, rounds))
        assert page.tags.count("svg") == 2
        assert page.tags.count("polyline") == 3


@pytest.mark.parametrize("loss", [0.0, 1e-12, 1e6, 1e300])
def test_any_loss_can_be_drawn(loss: float) -> None:
    page = check(render(summary(), [line(1, inference_loss=loss), line(2, inference_loss=loss)]))
    assert page.tags.count("circle") == 6


def test_many_rounds_get_fewticks() -> None:
    rounds = [line(n, plugin_accuracy_unseen=0.5) for n in range(1, 5001)]
    text = render(summary(), rounds)
    assert text.count('text-anchor="middle"') < 20
    assert ticks(0, 1) == pytest.approx([0, 0.2, 0.4, 0.6, 0.8, 1.0])


def test_names_of_devices_words_and_layers_are_only_text() -> None:
    rounds = [line(1, left_out={HOSTILE: [HOSTILE], "conv": ["dev-a"]})]
    page = check(render(summary(words=[HOSTILE, "no"], method=HOSTILE, preset=HOSTILE), rounds))
    assert "script" not in page.tags
    assert page.text.count(plain(HOSTILE)) == 5


def test_who_was_left_out_is_counted_by_layer() -> None:
    rounds = [line(1, left_out={"conv": ["dev-a"], "head": ["dev-b"]}), line(2)]
    text = render(summary(), rounds)
    assert "<tr><td>dev-a</td><td>2</td><td>0</td></tr><tr><td>dev-b</td><td>0</td><td>1</td></tr>" in text
    assert "left nobody out" in render(summary(), [line(1, left_out={"conv": []})])
    for earlier in ([line(1, left_out=None), line(2)], [line(1, left_out=None)]):
        page = render(summary(heard_before=True), earlier)
        assert ("<tr><td>dev-a</td><td>1</td></tr>" in page) == (len(earlier) == 2)
        assert "1 round of an earlier version" in page and "left nobody out" not in page
        assert "heard before" in page and "heard before" not in text


@pytest.mark.parametrize("high", [1e-12, 0.7, 1.0, 2.483, 9.99, 10.0, 1e6])
def test_every_point_lies_below_a_line_with_a_number(high: float) -> None:
    drawn = chart("t", [("a", "red", [(1, 0.0), (2, high)])], high, "")
    lines = [float(y) for y in re.findall(r'<line class="grid"[^>]* y1="([\d.]+)"', drawn)]
    points = [float(y) for y in re.findall(r'cy="([\d.]+)"', drawn)]
    assert min(lines) <= min(points) + 0.05 and min(lines) >= 0
    assert len(lines) == len(re.findall(r'text-anchor="end"', drawn))


@pytest.mark.parametrize("last", [1, 2, 5, 11, 20, 150, 5000])
def test_numbers_of_rounds_stand_clear_of_each_other(last: int) -> None:
    drawn = chart("t", [("a", "red", [(1, 0.5), (last, 0.5)])], 1.0, "%")
    first = re.search(r'<text x="(\d+)"[^>]*>round 1<', drawn)
    numbers = [float(x) for x in re.findall(r'<text x="([\d.]+)"[^>]*"middle"', drawn)]
    assert first is not None
    assert all(b - a > 90 for a, b in pairwise([float(first.group(1)), *numbers]))


def device(name: str, accuracy: float | None, group: str | None = None, rounds: int = 2) -> DeviceRow:
    counts = {"training_clips": 3, "held_out_clips": 1, "left_out": 1, "refused": 0, "harmful": 1}
    return DeviceRow(device=name, speaker="s", model="m", rounds=rounds, accuracy=accuracy, group=group, **counts)


def test_a_word_is_said_with_what_it_is_taken_for_most() -> None:
    page = by_word(("yes", "<no>", "up"), ((3, 1, 0), (2, 2, 0), (0, 0, 0)))
    assert "<td>yes</td><td>4</td><td>75.0 %</td><td>&lt;no&gt; 1</td>" in page
    assert "<td>&lt;no&gt;</td><td>4</td><td>50.0 %</td><td>yes 2</td>" in page
    assert "<td>up</td><td>0</td><td>-</td><td>-</td>" in page
    assert "var(--a) 52%" in page and "var(--b) 35%" in page
    assert by_word(("yes",), None) == ""


def test_devices_are_quantiles_and_the_worst_by_name() -> None:
    page = by_device([device(f"dev-{i}", i / 10) for i in range(11)] + [device("deaf", None)])
    assert "<td>0.0 %</td><td>10.0 %</td><td>25.0 %</td><td>50.0 %</td>" in page
    assert "dev-4" in page and "dev-5" not in page and "deaf" not in page
    assert by_device([device("deaf", None)]) == ""
    half = by_device([device(f"dev-{i}", i / 5) for i in range(6)])  # at most half of them are the worst
    assert "dev-2" in half and "dev-3" not in half


def test_groups_are_means_over_their_devices() -> None:
    page = by_group([device("a", 0.5, "slow", 0), device("b", None, "slow", 1), device("c", 0.9)], 2)
    assert "<td>slow</td><td>2</td><td>0.5 of 2</td><td>1.0</td><td>1.0</td><td>50.0 %</td>" in page
    assert page.index("slow") < page.index("all others")
    assert by_group([device("c", 0.9)], 2) == ""


def test_settings_are_those_that_were_changed() -> None:
    assert "<td>method</td><td>krum</td>" in told({"method": "krum"}) and "--config THIS_FOLDER/settings.json" in told(
        {}
    )
    assert "are the defaults" in told({}) and told(None) == ""


def test_groups_stand_as_they_were_told() -> None:
    group = msgspec.to_builtins(Group(name="far", count=2, noise_db=5.0, network=Network(latency=0.1)))
    plain = msgspec.to_builtins(Group(name="plain"))
    hostile = msgspec.to_builtins(Group(name="bad", attack="replace", attack_rounds=(10, 25)))
    dealt = msgspec.to_builtins(Partition(imbalance=10.0))
    page = told({"groups": [group, plain, hostile], "central": True, "method_options": {"b": 1}, "partition": dealt})
    assert "far: count 2, noise_db 5.0, network latency 0.1; plain; bad: attack replace, attack_rounds 10 25<" in page
    assert "imbalance 10.0, tail fleet<" in page
    assert "<td>central</td><td>true</td>" in page and "<td>method_options</td><td>b 1</td>" in page
    assert "null" not in page and "{" not in page


def test_a_round_has_columns_for_what_only_some_runs_have() -> None:
    plain = by_round([line(1), line(2)])
    assert "<th>seconds</th></tr>" in plain and plain.count("<table>") == 1
    added = {"backdoor": 0.25, "clock": 86400.0, "available": 3, "groups": {"a": 0, "b": 1}, "epsilon": 1.5}
    page = by_round([line(1), line(2, bounded=["b"], alarm=True, harmful=["<b>"], **added)])
    assert "<tr><th>round</th><th>backdoor works</th><th>clock, s</th><th>could be invited</th>" in page
    assert "<td>1</td>" + 7 * "<td>-</td>" + "</tr>" in page
    assert (
        "<td>2</td><td>25.0 %</td><td>86,400</td><td>3</td><td>2</td><td>1</td><td>&lt;b&gt;</td><td>1.5</td></tr>"
        in page
    )


@pytest.mark.parametrize(("count", "seen"), [(20, [*range(1, 21)]), (80, [*range(1, 6), *range(76, 81)])])
def test_of_a_long_run_the_first_and_last_rounds_are_seen_and_all_unfold(count: int, seen: list[int]) -> None:
    open_part, _, folded = by_round([line(n) for n in range(1, count + 1)]).partition("<details>")
    rows = re.compile(r"<tr><td>(\d+)</td>")
    assert [int(n) for n in rows.findall(open_part)] == seen
    assert [int(n) for n in rows.findall(folded)] == ([] if count == 20 else [*range(1, 81)])
    assert ("<summary>All 80 rounds</summary>" in folded) == (count == 80)


def card_of(settings: dict[str, object] | None = None, **changes: Any) -> str:
    return card(msgspec.structs.replace(SUMMARY, **changes), PACK, (), settings)


def test_it_says_what_the_model_is_learnt_from_and_how_good_it_is() -> None:
    text = card_of({"seed": 3, "words": "yes,no"})
    assert text.startswith("# Keyword model: yes, no\n")
    assert f"{PACK.plugin_table.size:,} parameters" in text and "Made by Auricle 0.1.0." in text
    assert "Synthetic speech" in text and "1,280 clips on 4 emulated devices" in text
    assert "| method | lpa |" in text and "| seed | 3 |" in text and "| rates | plugin=0.05, server=adam |" in text
    assert "| accuracy, 80 clips of 1 speaker that no device has | 75.0 % |" in text
    assert "| false accepts, sound without keywords | 3 in 4 min |" in text
    assert "| yes | 60 | 75.0 % | 90.0 % |" in text  # 45 of 60 said, 45 of 50 heard
    assert "| no | 20 | 75.0 % | 50.0 % |" in text
    assert "\n    auricle fleet run --seed 3 --words yes,no\n" in text
    assert "heard before" not in text
    assert "fewer than 50 clips: no." in text and "Judged on 1 speaker:" in text


def test_limits_are_those_of_the_run() -> None:
    text = card_of(
        {"data": "/home/ana/kitchen", "groups": [{"name": "slow"}]},
        rounds=1,
        words=("yes", "_unknown_"),
        unseen_speakers=60,
        false_accepts_per_hour=None,
        confusion=None,
        heard_before=True,
    )
    assert "- These voices may have been heard before" in text
    assert "folder `kitchen`" in text and "Synthetic" not in text and "no label for other words" not in text
    assert "ended after 1 of 2 rounds" in text and "were not measured" in text and "hostile" in text
    assert "Judged on" not in text and "By word" not in text
    assert "| groups | slow |" in text and "auricle fleet run --config settings.json" in text


def test_no_password_no_markup_and_the_worst_device() -> None:
    counts = {"training_clips": 1, "held_out_clips": 1, "rounds": 1, "left_out": 0, "refused": 0}
    worst = DeviceRow(device="a", speaker="ana", model="crnn-base", accuracy=0.25, **counts)
    told: dict[str, object] = {"broker": "mqtt://u:secret@h", "central": True}
    words = ("<b>|x`&lt;", "a\nb")
    text = card(msgspec.structs.replace(SUMMARY, words=words), PACK, (worst,), told)
    assert "secret" not in text and "auricle fleet run --central\n" in text
    assert "<" not in text and "&lt;b&gt;\\|x\\`&amp;lt;" in text and "| a?b |" in text
    assert "the worst device | 25.0 % |" in text


def test_a_prolonged_run_does_not_promise_the_same_weights() -> None:
    said = prolonged([line(1, rounds=2), line(2, rounds=2), line(3, rounds=3)])
    text = card(SUMMARY, PACK, otherwise=said)
    assert "prolonged from 2 to 3 rounds" in text and "gives the same weights" not in text
    assert prolonged([line(1), line(2)]) == "" and "gives the same weights" in card_of({})


def test_what_was_found_in_files_is_in_the_report() -> None:
    nobody = FindingCount("nothing says who speaks: a speaker each", 6, is_used=True, example=f"{HOSTILE} says nobody.")
    silent = FindingCount("silent", 2, is_used=False, example="a.wav is silent.")
    page = Page(by_finding([silent, nobody]))
    assert "not used: silent" in page.text
    assert f"{6}nothing says who speaks: a speaker each<script>" in page.text
    assert by_finding([]) == ""
