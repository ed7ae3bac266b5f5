"""One form of small letters for words, and which of the known words a text is that a person wrote.

Turkish has two letters i: its capital I is the small dotless one, that of other languages the small i, and Python makes
two characters of a capital I with a dot, an i and a loose dot. So a capital I may be either, and a small one is itself.
"""

from __future__ import annotations

from collections.abc import Iterable

from auricle.files import normal_form

_DOT_ABOVE = "\u0307"
_TURKISH = str.maketrans("Iİ", "ıi")
_EITHER = "\ue000"
"""Stands for a capital I; of Unicode's private use, and no word has it."""
_CAPITALS = str.maketrans("Iİ", f"{_EITHER}i")


def small_letters(text: str) -> str:
    """The text in small letters, single spaces and Unicode's form NFC, without loose dots: how words are kept."""
    return _join(text.lower())


def small_forms(text: str) -> tuple[str, ...]:
    """What a text is in small letters, the usual form first: one, or with a capital I the Turkish one, too."""
    return tuple(dict.fromkeys((small_letters(text), _join(normal_form(text).translate(_TURKISH).lower()))))


class Spelling:
    """Known words, found however a person writes their capitals, marks and dots.

    Parameters
    ----------
    known
        Words as they are kept. A text that is one of them to the letter is that one; of several that it may be, the one
        that it is in small letters, or the first.
    """

    def __init__(self, known: Iterable[str]) -> None:
        self._known = {normal_form(word): word for word in known}
        self._patterns: dict[str, list[tuple[str, str]]] = {}
        for word in self._known.values():
            pattern = _pattern(word)
            self._patterns.setdefault(_with_dots(pattern), []).append((pattern, word))

    def find(self, text: str) -> str | None:
        """The known word that a text is; None where it is none of them."""
        exact = self._known.get(normal_form(text))
        if exact is not None:
            return exact
        pattern = _pattern(text)
        alike = self._patterns.get(_with_dots(pattern), [])
        usual = _pattern(small_letters(text))
        fitting = [word for other, word in alike if _fit(pattern, other)]
        return next((word for other, word in alike if other == usual), fitting[0] if fitting else None)

    def as_known(self, text: str) -> str:
        """The known word that a text is; its small letters where it is none."""
        known = self.find(text)
        return small_letters(text) if known is None else known

    def typed(self, text: str) -> str:
        """As `find`, but a keyboard may lack the dotless letter: the one word that differs in dots alone is it, too.

        For what a person types at a command; names of files are not guessed so. The text where there is no such word.
        """
        known = self.find(text)
        alike = self._patterns.get(_with_dots(_pattern(text)), [])
        if known is None and len(alike) == 1:
            return alike[0][1]
        return normal_form(" ".join(text.split())) if known is None else known


def _join(text: str) -> str:
    return normal_form(" ".join(text.replace("i" + _DOT_ABOVE, "i").split()))


def _pattern(text: str) -> str:
    """A text without what does not count: of each capital I it is open which letter it is."""
    return _join(normal_form(text).translate(_CAPITALS).casefold())


def _with_dots(pattern: str) -> str:
    return pattern.replace("ı", "i").replace(_EITHER, "i")


def _fit(one: str, other: str) -> bool:
    """Whether two patterns of the same letters but for their dots may be one word."""
    return all(a == b or _EITHER in (a, b) for a, b in zip(one, other, strict=True))
