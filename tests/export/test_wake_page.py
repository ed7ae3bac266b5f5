"""The page of an own wake word: every figure is on it, every text escaped, nothing is loaded, and a phone shows it."""

from __future__ import annotations

import json
import os
import re
import shutil
from collections.abc import Iterator
from dataclasses import replace
from html.parser import HTMLParser
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest

from auricle.hearing.intervals import Interval, rate_interval, share_interval
from auricle.packs.manifest import HeardAt, Hearing
from auricle_export.wakeword.page import CONFUSIONS, NEAR_WORDS, wake_page
from auricle_export.wakeword.people import people_record
from auricle_export.wakeword.report import (
    Confusion,
    Judges,
    Latency,
    Negative,
    Threshold,
    TrainingSound,
    WakeReport,
)

SPOKEN = {"noise": 240, "over speech": 230, "after words": 220}
HITS = {
    0.5: (0.9375, 0.8043, 0.8318),
    1.0: (0.9500, 0.8304, 0.8591),
    2.0: (0.9625, 0.8609, 0.8818),
    5.0: (0.9750, 0.8913, 0.9091),
    10.0: (0.9833, 0.9217, 0.9318),
    20.0: (0.9875, 0.9435, 0.9500),
}
HOSTILE = """<script>alert("it's & mine")</script>"""


def at(rate: float, hits: tuple[float, ...]) -> HeardAt:
    return HeardAt(false_accepts_per_hour=rate, hits=dict(zip(SPOKEN, hits, strict=True)))


REPORT = WakeReport(
    phrases=("hey robot", "guten morgen"),
    pack="hey robot.tar.zst",
    size=412_345,
    seconds=1_543.0,
    language="en",
    rate=0.5,
    thresholds=(
        Threshold("hey robot", 0.8725, hits=431, spoken=481, false_accepts=2),
        Threshold("guten morgen", 0.9015, hits=187, spoken=209, false_accepts=1),
        Threshold("stop", 0.55, is_wake=False),
    ),
    hearing=Hearing(
        data="voices and readers that were left out of training",
        words=690,
        hours=6.25,
        curve=tuple(at(rate, hits) for rate, hits in HITS.items()),
    ),
    spoken=SPOKEN,
    chosen=at(0.48, (0.9333, 0.8000, 0.8273)),
    false_accepts=3,
    training=TrainingSound(
        voices=137,
        takes=4_211,
        people=3,
        recordings=31,
        near_words=tuple(f"hay rubit {number}" for number in range(60)),
        negatives=(
            Negative("running speech", 11.37, "people"),
            Negative("near words", 2.89, "synthetic"),
            Negative("noise", 0.76, "recorded"),
        ),
    ),
    judges=Judges(voices=29, people=2),
    confusions=tuple(Confusion(f"hey rabbit {i}", "near words", 0.991 - i / 100, "hey robot") for i in range(14)),
    latency=Latency(median=0.31, slowest=0.74),
    seed=7,
    attribution=("Speech Commands 0.02, Google and contributors, CC BY 4.0",),
)


class Document(HTMLParser):
    """A page's tags with their attributes, and its text without style."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.text = ""
        self.feed(page)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))

    def handle_data(self, data: str) -> None:
        if self.tags and self.tags[-1][0] != "style":
            self.text += f"{data} "


def pictures(page: str) -> list[ElementTree.Element]:
    return [ElementTree.fromstring(svg) for svg in re.findall(r"<svg.*?</svg>", page, re.DOTALL)]


def percent(interval: Interval) -> str:
    return f"{100 * interval.low:.0f}-{100 * interval.high:.0f}"


def test_every_figure_of_the_report_is_on_the_page() -> None:
    text = Document(wake_page(REPORT)).text

    for rate, hits in HITS.items():
        assert f"{rate:g} " in text
        for share, count in zip(hits, SPOKEN.values(), strict=True):
            interval = share_interval(round(share * count), count)
            assert f"{100 * share:.1f}% ({percent(interval)})" in text
    rates = rate_interval(3, 6.25)
    assert f"3 in 6.25 hours, {rates.low:.2f} to {rates.high:.2f}; asked for: 0.5" in text
    for threshold in REPORT.thresholds:
        assert f"{threshold.threshold:.4f}" in text
        if threshold.interval is not None:
            assert f"{threshold.hits} " in text and f"{threshold.spoken} " in text
            assert percent(threshold.interval) in text
    for figure in ("412 kB", "412,345", "26 min", "4,211 takes", "137 synthetic voices", "31 recordings", "3 people"):
        assert figure in text
    for figure in ("29 synthetic voices", "2 people", "690", "240 in noise", "0.31 s", "0.74 s", "0.48", "Seed 7"):
        assert figure in text
    for hours in ("11.37", "2.89", "0.76", "15.02"):
        assert hours in text
    assert REPORT.hearing.data in text and REPORT.attribution[0] in text


def test_lists_end_where_nobody_reads_on_and_say_how_many_there_are() -> None:
    text = Document(wake_page(REPORT)).text

    assert text.count("hay rubit") == NEAR_WORDS
    assert "(60, the first 24)" in text
    assert text.count("hey rabbit") == CONFUSIONS
    assert "0.991" in text and f"{0.991 - 0.13:.3f}" not in text


def test_the_page_loads_nothing_and_runs_nothing() -> None:
    page = wake_page(REPORT)
    document = Document(page)

    assert not re.search(r"(?:https?:)?//(?!USER)[\w.-]+\.\w", re.sub(r"mqtts://USER:PASSWORD@[\w.]+", "", page))
    assert not re.search(r"url\(|@import|@font-face", page)
    assert {tag for tag, _ in document.tags}.isdisjoint({"script", "img", "link", "iframe", "object", "a", "base"})
    for _, attributes in document.tags:
        assert not [name for name in attributes if name.startswith("on") or name in ("src", "href", "style")]


def test_every_text_of_the_report_is_escaped() -> None:
    point = HeardAt(false_accepts_per_hour=1, hits={HOSTILE: 1.0})
    hostile = replace(
        REPORT,
        phrases=(HOSTILE,),
        pack=HOSTILE,
        language=HOSTILE,
        thresholds=(Threshold(HOSTILE, 0.5),),
        hearing=Hearing(data=HOSTILE, words=1, hours=1.0, curve=(point,)),
        spoken={HOSTILE: 1},
        chosen=point,
        training=TrainingSound(1, 1, near_words=(HOSTILE,), negatives=(Negative(HOSTILE, 1.0, "people"),)),
        confusions=(Confusion(HOSTILE, HOSTILE, 0.5, HOSTILE),),
        attribution=(HOSTILE,),
    )
    page = wake_page(hostile)

    assert "<script" not in page
    assert {tag for tag, _ in Document(page).tags} == {tag for tag, _ in Document(wake_page(REPORT)).tags}
    assert Document(page).text.count("alert(") >= 13
    assert pictures(page)


def test_the_pictures_are_xml_with_a_line_a_band_and_a_dot_for_each_kind_of_scene() -> None:
    chart = pictures(wake_page(REPORT))[0]
    lines, bands, dots = (chart.findall(tag) for tag in ("polyline", "polygon", "circle"))

    assert len(lines) == len(bands) == len(dots) == len(SPOKEN)
    assert len(pictures(wake_page(REPORT))) == 1 + len(SPOKEN)
    for line, band in zip(lines, bands, strict=True):
        assert len(line.attrib["points"].split()) == len(HITS)
        assert len(band.attrib["points"].split()) == 2 * len(HITS)


def test_equal_steps_of_the_logarithm_are_equally_wide_and_nothing_is_drawn_outside() -> None:
    rates, one = (0.01, 0.1, 1.0, 10.0, 20.0, 400.0), {"noise": 10}
    curve = tuple(HeardAt(false_accepts_per_hour=rate, hits={"noise": 0.5}) for rate in rates)
    report = replace(REPORT, hearing=Hearing(data="x", words=10, hours=1.0, curve=curve), spoken=one, chosen=curve[0])
    line = pictures(wake_page(report))[0].findall("polyline")[0]
    places = [tuple(map(float, point.split(","))) for point in line.attrib["points"].split()]

    across = [x for x, _ in places]
    assert across[0] == across[1] == 40 and across[4] == across[5] == 380 - 12
    assert across[2] - across[1] == pytest.approx(across[3] - across[2], abs=0.11)
    assert {y for _, y in places} == {(24 + 286 - 42) / 2}


def test_a_report_with_nothing_to_say_has_no_empty_part() -> None:
    bare = replace(REPORT, confusions=(), latency=None, attribution=(), training=TrainingSound(100, 900))
    text = Document(wake_page(bare)).text

    assert "mistaken" not in text and "Recordings by" not in text and "sound like it" not in text
    assert "no recording of people" in text


def test_commands_name_the_pack_as_a_shell_and_toml_read_it() -> None:
    text = Document(wake_page(REPORT)).text

    assert "--pack 'hey robot.tar.zst'" in text
    assert 'pack = "hey robot.tar.zst"' in text
    assert "auricle edge record 'hey robot' --takes 10" in text
    assert "auricle export wakeword 'hey robot' 'guten morgen' --out 'hey robot.tar.zst' --voices takes" in text


def test_facts_are_json_and_hold_what_was_measured() -> None:
    facts = json.loads(json.dumps(REPORT.facts()))

    assert facts["phrases"] == ["hey robot", "guten morgen"]
    assert [point["false_accepts_per_hour"] for point in facts["curve"]] == list(HITS)
    assert facts["curve"][0]["hits"]["noise"] == {"share": 0.9375, "low": 0.899, "high": 0.9646}
    assert facts["chosen"]["false_accepts"] == 3
    assert (facts["chosen"]["low"], facts["chosen"]["high"]) == (0.099, 1.4028)
    assert facts["thresholds"][2] == {
        "word": "stop",
        "threshold": 0.55,
        "is_wake": False,
        "hits": None,
        "spoken": 0,
        "false_accepts": None,
    }
    assert facts["trained_on"]["negatives"][1] == {"kind": "near words", "hours": 2.89, "speaker": "synthetic"}


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    program = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)
    if program is None:
        pytest.skip("Chromium is not installed")
    playwright = pytest.importorskip("playwright.sync_api", reason="playwright is not installed")
    with playwright.sync_playwright() as running:
        started = running.chromium.launch(executable_path=program, args=["--no-sandbox"] if os.geteuid() == 0 else [])
        yield started
        started.close()


@pytest.mark.slow
@pytest.mark.parametrize(("scheme", "width"), [("light", 360), ("dark", 360), ("light", 1280), ("dark", 1280)])
def test_a_phone_shows_it_without_scrolling_to_the_side(browser: Any, tmp_path: Path, scheme: str, width: int) -> None:
    place = tmp_path / "wake.html"
    place.write_text(wake_page(REPORT), encoding="utf-8")
    page = browser.new_page(viewport={"width": width, "height": 740}, color_scheme=scheme)
    asked: list[str] = []
    page.on("request", lambda request: asked.append(request.url))
    page.goto(place.as_uri())
    shots = Path(os.environ.get("AURICLE_SCREENSHOTS") or tmp_path)
    page.screenshot(path=shots / f"wake-{scheme}-{width}.png", full_page=True)

    assert page.evaluate("document.documentElement.scrollWidth") <= width
    assert page.evaluate("getComputedStyle(document.body).backgroundColor") == (
        "rgb(20, 24, 29)" if scheme == "dark" else "rgb(255, 255, 255)"
    )
    assert asked == [place.as_uri()]
    page.close()


def test_where_no_person_judged_the_page_says_so_above_its_figures_and_what_people_may_expect() -> None:
    nobody = replace(REPORT, judges=Judges(voices=29), training=replace(REPORT.training, people=0, recordings=0))
    page = wake_page(nobody)
    text = Document(page).text

    assert page.index("29 synthetic voices") < page.index('class="tiles"')
    assert all(row.sentence in text for row in nobody.people)
    assert text.index(nobody.people[-1].sentence) < text.index("Heard in noise")
    assert "Add takes of people with --voices" in text
    assert text.count("by synthetic voices, ") == len(SPOKEN)
    assert [row["phrase"] for row in json.loads(json.dumps(nobody.facts()))["people"]] == ["computer", "computer"]


def test_where_people_judged_nothing_is_said_of_others() -> None:
    page = wake_page(REPORT)
    assert 'class="banner"' not in page and "by synthetic voices, " not in Document(page).text
    assert REPORT.facts()["people"] == []


def test_takes_of_people_in_training_alone_do_not_hide_that_voices_judged() -> None:
    text = Document(wake_page(replace(REPORT, judges=Judges(voices=29)))).text
    assert "These figures are of 29 synthetic voices" in text and "Add takes" not in text


def test_what_people_may_expect_is_what_the_page_of_wake_words_has() -> None:
    told = (Path(__file__).parents[2] / "docs/wake-word.md").read_text()
    alone, again, jarvis, computer, taught = people_record()

    assert f"at thresholds by an earlier rule {100 * alone.heard:.0f} and {100 * again.heard:.0f} %" in told
    assert f'"jarvis", {jarvis.takes} takes | "computer", {computer.takes} takes' in told
    assert f"| {100 * jarvis.heard:.0f} %; none in {jarvis.hours} h" in told and not jarvis.false_accepts
    assert f"| {100 * computer.heard:.0f} %; two in {computer.hours} h" in told and computer.false_accepts == 2
    assert {(row.voices, row.vote) for row in (jarvis, computer, taught)} == {(("kokoro",), "embedding")}
    assert f'| "{taught.phrase}", {taught.takes} takes of people; noise' in told and taught.trained_on == 10
    assert f"at the pack's own threshold | {100 * taught.heard:.0f} %, none" in told and not taught.false_accepts
    low, high = taught.interval.low, taught.interval.high
    assert (low, high) == (share_interval(212, 238).low, share_interval(212, 238).high)
    assert f"heard {100 * taught.heard:.0f} % ({100 * low:.0f} to {100 * high:.0f} %)" in taught.sentence
