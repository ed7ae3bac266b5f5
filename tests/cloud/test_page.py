"""The page's files: nothing from outside, nothing inline, no markup from data, and all of them are served."""

from __future__ import annotations

import re
from html.parser import HTMLParser
from pathlib import Path

import pytest
from tests.cloud.api_server import serving
from tests.cloud.filled_store import fill

from auricle_cloud.api.page_files import FOLDER, TYPES, WORDS, words

FILES = sorted(path for path in FOLDER.rglob("*") if path.is_file())
SCRIPTS = [path for path in FILES if path.suffix == ".js"]


class Tags(HTMLParser):
    """Tags with their attributes, and what stands between script and style tags."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.found: list[tuple[str, dict[str, str | None]]] = []
        self.inline = ""
        self.feed(text)

    def handle_starttag(self, tag: str, attributes: list[tuple[str, str | None]]) -> None:
        self.found.append((tag, dict(attributes)))

    def handle_data(self, data: str) -> None:
        if self.found and self.found[-1][0] in ("script", "style"):
            self.inline += data.strip()


def test_the_page_has_its_files() -> None:
    names = {path.name for path in FILES}

    assert {"index.html", "style.css", "app.js", "icon.svg"} <= names
    assert all(path.suffix in TYPES for path in FILES)
    assert sum(len(path.read_text().splitlines()) for path in FILES) < 2100


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.name)
def test_a_file_names_no_other_origin(path: Path) -> None:
    places = set(re.findall(r"""(?:https?:)?//[a-z0-9.-]+\.[a-z]{2,}[^\s"'`)]*""", path.read_text()))

    assert places <= {"http://www.w3.org/2000/svg"}


def test_the_document_has_nothing_inline_and_what_it_names_is_there() -> None:
    tags = Tags((FOLDER / "index.html").read_text())

    assert tags.inline == ""
    for tag, attributes in tags.found:
        assert not [name for name in attributes if name.startswith("on") or name == "style"], tag
        for name in ("src", "href"):
            place = attributes.get(name)
            if place and not place.startswith("#"):
                assert (FOLDER / place.lstrip("/")).is_file(), place
    assert ("html", {"lang": "en"}) in tags.found
    assert "main" in [tag for tag, _ in tags.found]


@pytest.mark.parametrize("path", SCRIPTS, ids=lambda path: path.name)
def test_a_script_makes_no_markup_or_code_from_text(path: Path) -> None:
    text = path.read_text()

    markup = ("innerHTML", "outerHTML", "insertAdjacentHTML", "document.write", "DOMParser", "srcdoc")
    for word in (*markup, "eval(", "new Function", "localStorage", "document.cookie", "javascript:"):
        assert word not in text, word


@pytest.mark.parametrize("path", SCRIPTS, ids=lambda path: path.name)
def test_a_script_imports_what_is_there_and_uses_all_of_it(path: Path) -> None:
    text = path.read_text()

    for names, place in re.findall(r"import \{([^}]*)\} from \"\./([^\"]+)\"", text):
        source = words().decode() if place == WORDS else (FOLDER / place).read_text()
        for name in filter(None, (part.strip() for part in names.split(","))):
            assert re.search(rf"export (?:async )?(?:function|const|class) {name}\b", source), f"{place}: {name}"
            assert len(re.findall(rf"\b{name}\b", text)) > 1, f"{name} is not used"


def test_every_class_that_has_a_style_is_given_to_something() -> None:
    style = re.sub(r"\{[^{}]*\}", " ", (FOLDER / "style.css").read_text())
    said = "".join(path.read_text() for path in FILES if path.suffix in (".js", ".html"))
    series = {"s1", "s2"}  # charts.js: s${i}

    classes = set(re.findall(r"\.([a-z][\w-]*)", style)) - series

    assert len(classes) > 30
    assert {name for name in classes if not re.search(rf"[\"' `]{name}[\"' `]", said)} == set()


def test_motion_and_colours_follow_what_the_reader_chose() -> None:
    style = (FOLDER / "style.css").read_text()

    assert "@media (prefers-color-scheme: dark)" in style
    for rule in re.findall(r"[^{}]*\{[^{}]*(?:transition|animation|scroll-behavior)\s*:[^{}]*\}", style):
        before = style[: style.index(rule)]
        assert before.rfind("prefers-reduced-motion: no-preference") > before.rfind("@media (max-width"), rule


def colours(style: str, dark: bool) -> dict[str, str]:
    """The palette's colours by name, of the light or the dark scheme."""
    blocks = re.findall(r":root \{(.*?)\}", style, re.DOTALL)
    return dict(re.findall(r"--([\w-]+): (#[0-9a-f]{3,6})", "".join(blocks if dark else blocks[:1])))


def luminance(colour: str) -> float:
    """Relative luminance of sRGB (WCAG 2.2)."""
    digits = colour[1:] if len(colour) == 7 else "".join(2 * digit for digit in colour[1:])
    parts = [int(digits[i : i + 2], 16) / 255 for i in (0, 2, 4)]
    linear = [part / 12.92 if part <= 0.04045 else ((part + 0.055) / 1.055) ** 2.4 for part in parts]
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]


def contrast(one: str, other: str) -> float:
    """Ratio of two colours, 1 to 21."""
    light, dark = sorted((luminance(one), luminance(other)), reverse=True)
    return (light + 0.05) / (dark + 0.05)


TEXTS = [
    *[(t, ground) for t in ("text", "muted", "accent", "good", "bad", "wait") for ground in ("surface", "ground")],
    *[(t, "raised") for t in ("text", "muted", "accent", "bad")],
    ("on-accent", "accent"),
    ("text", "near"),
    ("text", "far"),
    ("ground", "text"),
    *[("on-light", f"shade-{i}") for i in (1, 2, 3)],
    *[("on-dark", f"shade-{i}") for i in (4, 5)],
]


@pytest.mark.parametrize("dark", [False, True], ids=["light", "dark"])
def test_texts_and_marks_can_be_told_from_their_ground(dark: bool) -> None:
    palette = colours((FOLDER / "style.css").read_text(), dark)

    for text, ground in TEXTS:
        assert contrast(palette[text], palette[ground]) >= 4.5, (text, ground)
    for mark in ("control", "accent", "second", "third", "bad"):
        assert contrast(palette[mark], palette["surface"]) >= 3.0, mark


def test_every_file_is_served_with_its_type_and_a_strict_policy(tmp_path: Path) -> None:
    filled = fill(tmp_path)
    with serving(filled) as server:
        for path in FILES:
            status, content, answer = server.ask("GET", f"/{path.relative_to(FOLDER).as_posix()}", role=None)

            assert (status, content) == (200, path.read_bytes())
            assert (answer.getheader("Content-Type") or "").startswith(TYPES[path.suffix])
            policy = answer.getheader("Content-Security-Policy") or ""
            assert policy.startswith("default-src 'none'")
            assert "unsafe" not in policy
        assert server.ask("GET", "/", role=None)[1] == (FOLDER / "index.html").read_bytes()
    filled.store.close()
