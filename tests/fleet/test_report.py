"""`report.html`: well-formed, self-contained, and safe whatever devices and words are called."""

from __future__ import annotations

import re
from html.parser import HTMLParser
from itertools import pairwise
from pathlib import Path
from typing import Any

import msgspec
import pytest

from auricle_fleet.results.report import chart, render, ticks, write_report
from auricle_fleet.results.result import RoundRow, Summary

VOID = {"meta", "line", "circle", "polyline", "br"}
HOSTILE = "<script>alert('x')</script>&\"dev"


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
        self.tags.append(tag)
        self.attributes += attrs
        if tag not in VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        self.attributes += attrs

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        self.text += data


def summary(**changes: Any) -> Summary:
    told = {
        **dict.fromkeys(Summary.__struct_fields__),
        "start": "pack",
        "judge": False,
        "judged_seconds": 0.0,
        "refused_rounds": 0,
        "refusing_devices": 0,
        "skipped_files": 0,
        "rates": {},
        "pack": "",
        "version": "",
        "plugin_accuracy_unseen": 0.71,
        "personal_accuracy": 0.64,
        "central_accuracy_unseen": 0.83,
        "devices": 3,
        "rounds": 2,
        "rounds_planned": 2,
        "interrupted": False,
        "heard_before": False,
        "seconds": 61.0,
        "bytes_up": 1000,
        "bytes_down": 2000,
        "words": ["yes", "no"],
        "training_clips": 30,
        "unseen_clips": 10,
        "unseen_speakers": 2,
        "rule": "lpa",
        "preset": "practical",
        "seed": 0,
        **changes,
    }
    return msgspec.convert(told, Summary)


def line(number: int, **changes: Any) -> RoundRow:
    told = {
        "round": number,
        "rounds": 2,
        "state": "published",
        "plugin_accuracy_unseen": 0.3 * number,
        "personal_accuracy": 0.2 * number,
        "inference_loss": 2.5 / number,
        "invited": 3,
        "counted": 3,
        "seconds": 1.5,
        "bytes_up": 500 * number,
        "bytes_down": 900 * number,
        "seconds_total": 3.0,
        "seconds_left": 0.0,
        "left_out": {"conv": ["dev-a"], "head": []},
        **changes,
    }
    return msgspec.convert(told, RoundRow)


def check(text: str) -> Page:
    page = Page(text)
    assert text.startswith("<!doctype html>")
    assert not re.search(r"https?:|//[a-z]|url\(|@import|src=|href=", text)
    assert not re.search(r"\b(nan|inf)\b", text, re.IGNORECASE)
    assert set(page.tags) <= {
        "html",
        "head",
        "meta",
        "title",
        "style",
        "body",
        "h1",
        "h2",
        "p",
        "div",
        "b",
        "span",
        "i",
        "svg",
        "line",
        "text",
        "polyline",
        "circle",
        "table",
        "tr",
        "th",
        "td",
    }
    assert not [name for name, _ in page.attributes if name.startswith("on")]
    return page


def test_a_run_with_a_ceiling(tmp_path: Path) -> None:
    path = write_report(tmp_path, summary(), [line(1), line(2)])

    page = check(path.read_text())

    assert path == tmp_path / "report.html"
    assert page.tags.count("svg") == 2
    assert "central 83.0 %" in page.text
    assert "71.0 %" in page.text
    assert page.tags.count("tr") == 2 + 3
    assert "Interrupted" not in page.text


def test_a_run_without_a_ceiling_draws_none() -> None:
    page = check(render(summary(central_accuracy_unseen=None, interrupted=True), [line(1), line(2)]))

    assert "central" not in page.text
    assert "Interrupted." in page.text


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

    page = check(render(summary(words=[HOSTILE, "no"], rule=HOSTILE, preset=HOSTILE), rounds))

    assert "script" not in page.tags
    assert page.text.count(HOSTILE) == 5


def test_who_was_left_out_is_counted_by_layer() -> None:
    rounds = [
        line(1, left_out={"conv": ["dev-a"], "head": ["dev-b"]}),
        line(2, left_out={"conv": ["dev-a"], "head": []}),
    ]

    text = render(summary(), rounds)

    assert "<tr><td>dev-a</td><td>2</td><td>0</td></tr><tr><td>dev-b</td><td>0</td><td>1</td></tr>" in text
    assert "The rule left nobody out." in render(summary(), [line(1, left_out={"conv": []})])


def test_rounds_of_an_earlier_version_do_not_say_who_was_left_out() -> None:
    earlier = line(1, left_out=None)

    both = render(summary(), [earlier, line(2)])
    only = render(summary(), [earlier])

    assert "<tr><td>dev-a</td><td>1</td></tr>" in both
    assert "Not known of 1 round of an earlier version." in both
    assert "Not known of 1 round of an earlier version." in only
    assert "left nobody out" not in only


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


def test_a_run_on_voices_that_its_pack_has_heard_says_so() -> None:
    assert "These voices may have been heard before" in render(summary(heard_before=True), [line(1)])
    assert "heard before" not in render(summary(), [line(1)])
