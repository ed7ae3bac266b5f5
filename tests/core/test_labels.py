"""The form of labels, over all of Unicode: what has it names a folder, and is shown as itself and as nothing else."""

from __future__ import annotations

import random
import sys
from pathlib import Path
from unicodedata import category, is_normalized, normalize

import pytest

from auricle.errors import PackError
from auricle.packs.manifest import (
    JOINERS,
    LONGEST_LABEL,
    LONGEST_LABEL_BYTES,
    SPECIAL_LABELS,
    is_label,
    refuse_label,
)

GOOD = (
    *(
        "yes",
        "für",
        "hey jarvis",
        "hey_jarvis",
        "ja-nein",
        "l’eau",
        "don't",
        "7",
        "日本語",
        "कंप्यूटर",
        "می\u200cخواهم",
        "한국",
    ),
    *sorted(SPECIAL_LABELS),
)
BAD = (
    *("", " ", "a ", " a", "a  b", "a\tb", "a\nb", "-a", "a-", "_a", "a_", "__unknown__", "_other_"),
    *(".", "..", "a.b", "a/b", "a\\b", "../../pwn", "<b>", "a&b", 'a"b', "a|b", "a`b", "a,b"),
    *("a\0b", "a\x1b[2J", "\u202eon", "a\u2066b", "a\ufeffb", "a\u00adb", "\u0301a", "\u200ca", "a\u200d"),
    *("a\u034fb", "\u3164", "a\u115fb", "\uffa0", "a\ufe0f", "a\U000e0101", "a\u180bb"),
    *(normalize("NFD", "für"), "\U0001f600", "\ud800", "\ue000", "\U000e0041"),
    *("x" * (LONGEST_LABEL + 1), "𞤀" * 49),
)


@pytest.mark.parametrize("label", GOOD)
def test_words_of_any_script_are_labels(label: str) -> None:
    refuse_label(label, "a pack")


@pytest.mark.parametrize("label", BAD, ids=ascii)
def test_what_is_no_word_is_refused_in_one_line_that_can_be_shown(label: str) -> None:
    with pytest.raises(PackError, match="is not a valid label") as refused:
        refuse_label(label, "a pack")
    assert str(refused.value).isprintable()
    assert len(str(refused.value)) < 300


def test_every_letter_of_a_label_can_be_seen_or_joins_two() -> None:
    for number in range(sys.maxunicode + 1):
        letter = chr(number)
        if is_label(f"a{letter}b"):
            assert letter in f"{JOINERS} -_'’" or (letter.isprintable() and category(letter)[0] in "LMN"), hex(number)


@pytest.mark.parametrize("seed", range(5))
def test_a_label_names_a_folder_and_is_one_line_of_any_page(tmp_path: Path, seed: int) -> None:
    draw = random.Random(seed)
    letters = [letter for label in (*GOOD, *BAD) for letter in label] + list("abc ")
    labels = {"".join(draw.choice(letters) for _ in range(draw.randint(1, 8))) for _ in range(3_000)}
    found = sorted(filter(is_label, labels))
    assert len(found) > 20
    for label in found:
        (tmp_path / label).mkdir()
        assert is_normalized("NFC", label)
        assert len(label.encode()) <= LONGEST_LABEL_BYTES
        assert not set('/\\<>&|`*[]"\n\r\t\0') & set(label)
    assert sorted(path.name for path in tmp_path.iterdir()) == found
