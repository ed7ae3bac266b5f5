"""Lines, bars and heat maps: where things lie, and that nothing lies over another."""

from __future__ import annotations

import struct
import sys
from xml.etree import ElementTree as ET

import pytest

from auricle_fleet.results.drawing import (
    COLOURS,
    Axis,
    Bar,
    Series,
    bar_chart,
    heat_map,
    line_chart,
    style,
    text_width,
    ticks,
)
from auricle_fleet.results.png import ZOOM, png_of, why_not

SVG = "{http://www.w3.org/2000/svg}"
SHARES = Axis("accuracy", 0.0, 1.0, is_share=True)


def read(svg: str) -> ET.Element:
    return ET.fromstring(svg)  # made here


def texts(picture: ET.Element) -> list[ET.Element]:
    return list(picture.iter(f"{SVG}text"))


def boxes(picture: ET.Element) -> list[tuple[str, float, float, float, float]]:
    """Text, left, right, top and bottom of each, by its estimated width."""
    found = []
    for each in texts(picture):
        size = float(each.get("style", "").partition("font-size:")[2].partition("px")[0])
        wide, x, y = text_width(each.text or "", size), float(each.get("x", 0)), float(each.get("y", 0))
        left = x - {"start": 0.0, "middle": 0.5, "end": 1.0}[each.get("text-anchor", "start")] * wide
        if "rotate" in each.get("transform", ""):
            up = {"middle": wide / 2, "end": 0.0}[each.get("text-anchor", "")]
            found.append((each.text or "", x - size, x, y - up, y - up + wide))
        else:
            found.append((each.text or "", left, left + wide, y - 0.75 * size, y + 0.1 * size))
    return found


def require_apart(picture: ET.Element) -> None:
    """No text lies over another, or outside."""
    _, _, width, height = map(float, picture.get("viewBox", "").split())
    known = boxes(picture)
    for i, (name, left, right, top, bottom) in enumerate(known):
        assert left >= 0 and right <= width + 1 and top >= 0 and bottom <= height, name
        for other, left2, right2, top2, bottom2 in known[:i]:
            assert right <= left2 or right2 <= left or bottom <= top2 or bottom2 <= top, f"{name} lies over {other}"


def test_lines_lie_where_their_axes_say() -> None:
    series = [
        Series("a & b", [(1, 0.0, 0.5, 1.0), (11, 0.5, 1.0, 1.0)]),
        Series("dot", [(6, 0, 0, 0)]),
        Series("-", []),
    ]
    picture = read(line_chart("Title", "condition", series, Axis("round", 1, 11), SHARES))
    (line,) = picture.iter(f"{SVG}polyline")
    (left, middle), (right, top) = (tuple(map(float, p.split(","))) for p in line.get("points", "").split())
    (dot,) = picture.iter(f"{SVG}circle")
    assert (left, right) == (56, 696) and float(dot.get("cx", 0)) == (left + right) / 2
    assert float(dot.get("cy", 0)) - middle == pytest.approx(middle - top)
    (band,) = picture.iter(f"{SVG}polygon")
    assert len(band.get("points", "").split()) == 4
    assert {"Title", "condition", "accuracy", "round", "a & b", "dot", "-", "100 %", "1", "10"} <= {
        each.text for each in texts(picture)
    }


@pytest.mark.parametrize("count", [1, 5, 12])
def test_names_of_any_length_do_not_lie_over_each_other(count: int) -> None:
    names = [f"{'a long name of a method ' * 2}"[: 8 + 3 * i].strip() + str(i) for i in range(count)]
    lines = [Series(name, [(1, 0, 0.1, 0.2), (100, 0, 0.1, 0.2)]) for name in names]
    require_apart(read(line_chart("Title", "condition", lines, Axis("round", 1, 100), SHARES)))
    require_apart(read(line_chart("Title", "condition", lines, Axis("recall", 0, 1, is_share=True), SHARES)))
    bars = [Bar(name, i, f"{i}.0, reached by 3 of 5") for i, name in enumerate(names)]
    require_apart(read(bar_chart("Rounds", [("clean", bars), ("noise", bars)], count - 1.0)))


@pytest.mark.parametrize("count", [2, 12, 35])
def test_a_heat_map_has_a_cell_for_each_pair_and_shares_of_rows_where_they_fit(count: int) -> None:
    words = [f"word{i}" for i in range(count)]
    counts = [[3 if i == j else 1 if j == 0 else 0 for j in range(count)] for i in range(count)]
    picture = read(heat_map("Title", "condition", words, counts))
    require_apart(picture)
    cells = list(picture.iter(f"{SVG}rect"))[1:]
    assert len(cells) == count**2
    assert cells[0].get("fill") == "#005590" and cells[1].get("fill") == "#f1f4f8"
    said = [each.text for each in texts(picture)]
    assert said.count("75") == (count - 1 if count < 35 else 0) and said.count(words[-1]) == 2


def test_a_row_without_clips_is_empty() -> None:
    said = [each.text for each in texts(read(heat_map("T", "", ["yes", "no"], [[0, 0], [0, 4]])))]
    assert said.count("100") == 1 and "0" not in said


def test_each_of_many_lines_has_a_style_of_its_own() -> None:
    assert len({style(i) for i in range(4 * len(COLOURS))}) == 4 * len(COLOURS)


def test_ticks_are_round_numbers() -> None:
    assert ticks(0, 1) == pytest.approx([0, 0.2, 0.4, 0.6, 0.8, 1])
    assert ticks(1, 60) == [20, 40, 60]
    assert ticks(3, 3)[0] == 3


def test_a_png_is_drawn_from_the_svg_with_its_text() -> None:
    pytest.importorskip("resvg_py")
    if why_not():
        pytest.skip(why_not())
    picture = png_of(heat_map("A title that is wide", "", ["yes"], [[1]]))
    assert picture[:8] == b"\x89PNG\r\n\x1a\n"
    svg = read(heat_map("A title that is wide", "", ["yes"], [[1]]))
    assert struct.unpack(">II", picture[16:24]) == tuple(ZOOM * int(svg.get(name, "")) for name in ("width", "height"))
    assert picture != png_of(heat_map("Another title here", "", ["yes"], [[1]]))


def test_without_the_extra_it_is_said_how_to_get_png(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "resvg_py", None)  # as if it were not installed
    assert "[png]" in why_not()
    with pytest.raises(ImportError, match="pip install"):
        png_of("<svg/>")
