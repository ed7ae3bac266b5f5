"""What holds the shape of the house: circles at every level, and counts that may only fall."""

from __future__ import annotations

from pathlib import Path

import pytest
from tools import rooms, size


def package(root: Path, files: dict[str, str]) -> None:
    """Write the files of a part `toy`, with an `__init__` in each folder."""
    for name, text in files.items():
        path = root / "toy" / "auricle_toy" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        (path.parent / "__init__.py").touch()
        (path.parents[1] / "__init__.py").touch()
        path.write_text(text)


@pytest.mark.parametrize(
    ("files", "circle"),
    [
        ({"a/x.py": "", "a/y.py": "from auricle_toy.a import x"}, None),
        (
            {
                "a/x.py": "if TYPE_CHECKING:\n    from auricle_toy.a.y import Y",
                "a/y.py": "def run():\n    import auricle_toy.a.x",
            },
            "auricle_toy.a: x, y import each other.",
        ),
        (
            {"a/b/x.py": "import auricle_toy.a.c.y", "a/c/y.py": "", "a/c/z.py": "from auricle_toy.a.b import w"},
            "auricle_toy.a: b, c import each other.",
        ),
    ],
)
def test_a_circle_is_seen_at_every_level(
    files: dict[str, str], circle: str | None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    package(tmp_path, files)
    monkeypatch.setattr(rooms, "ROOT", tmp_path)
    measured, circles = rooms.house("toy", "auricle_toy")
    assert circles == ([] if circle is None else [circle])
    assert measured.up == 2 * len(circles)


LONG = "def _asked_for(self, a, b, c, d, e, f, g, h):\n" + "    a = 1\n" * 50
COUNTED = {
    "core": "class Row:\n    def told(self): return 1\n\n"
    "LONGEST = 50\nLARGEST: float = 0.5\nTIMEOUT_SECONDS = 3\nKINDS = (1, 2)\n",
    "edge": f"class Row: ...\nclass _Row: ...\n\n{LONG}\ndef seed(): ...\n",
}


@pytest.fixture
def counted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A house of two files."""
    for part, text in COUNTED.items():
        (tmp_path / part).mkdir()
        (tmp_path / part / "x.py").write_text(text)
    (tmp_path / "tools").mkdir()
    monkeypatch.setattr(size, "ROOT", tmp_path)
    return tmp_path


def test_each_count_is_by_its_rule(counted: Path) -> None:
    counts, found = size.count(counted)
    core, edge = counts["core"], counts["edge"]
    assert (core["lines"], core["statements"], core["numbers"], core["participles"], core["told"]) == (7, 7, 2, 1, 1)
    assert (edge["long_functions"], edge["wide_functions"], edge["participles"], edge["numbers"]) == (1, 1, 1, 0)
    assert core["classes_twice"] == edge["classes_twice"] == counts["all"]["classes_twice"] == 1
    assert ("edge", (51, "long_functions", "edge/x.py:4 _asked_for")) in found


def test_a_count_may_fall_and_not_rise(counted: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert size.main(["--update", "--check"]) == 0
    (counted / "core" / "x.py").write_text("LONGEST = 50\n")
    assert size.main(["--update", "--check", "--base", "HEAD"]) == 0
    assert "there is no commit HEAD here" in capsys.readouterr().out
    (counted / "core" / "x.py").write_text(COUNTED["core"])
    assert size.main(["--update", "--check"]) == 1
    assert "core has 2 numbers, 1 are allowed: python tools/size.py --list numbers" in capsys.readouterr().err


def test_what_a_change_adds_is_in_brackets(counted: Path) -> None:
    counts, _ = size.count(counted)
    (counted / "edge" / "x.py").write_text("")
    after, _ = size.count(counted)
    assert f"{after['all']['lines']} (-{counts['edge']['lines']})" in size.table(after, counts)[-1]
