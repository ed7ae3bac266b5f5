"""What holds the shape of the house: circles at every level."""

from __future__ import annotations

from pathlib import Path

import pytest
from tools import rooms


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
