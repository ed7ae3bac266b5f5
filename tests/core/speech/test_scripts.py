"""A phrase that voices would spell out is refused, and the language that the sentence names reads it."""

from __future__ import annotations

import re

import pytest

from auricle.errors import SettingsError
from auricle.speech.espeak import SWITCH, phonemes_of
from auricle.speech.near_words import near_words
from auricle.speech.scripts import SCRIPTS, refuse_unread
from auricle.speech.voices import accents_of

READ = {
    "am": "ሰላም",
    "ar": "مرحبا",
    "bg": "здравей",
    "bn": "নমস্কার",
    "cmn": "你好",
    "el": "γεια σου",
    "fa": "سلام",
    "gu": "નમસ્તે",
    "he": "שלום",
    "hi": "नमस्ते",
    "hy": "բարեւ",
    "ja": "こんにちは",
    "ka": "გამარჯობა",
    "kk": "сәлем",
    "kn": "ನಮಸ್ಕಾರ",
    "ko": "안녕",
    "ml": "നമസ്കാരം",
    "my": "မင်္ဂလာပါ",
    "or": "ନମସ୍କାର",
    "pa": "ਸਤ ਸ੍ਰੀ",
    "ru": "слушай",
    "si": "ආයුබෝවන්",
    "ta": "வணக்கம்",
    "te": "నమస్తే",
    "th": "สวัสดี",
    "ti": "ሰላም",
    "uk": "привіт",
    "ur": "سلام",
    "vi": "xin chào việt",
    "yue": "你好",
}


@pytest.mark.parametrize(
    "language",
    [
        pytest.param(language, marks=[] if language in ("el", "ko") else [pytest.mark.slow, pytest.mark.nightly])
        for language in READ
    ],
)
def test_a_phrase_is_refused_in_english_and_read_in_the_language_that_is_named(language: str) -> None:
    phrase = READ[language]
    with pytest.raises(SettingsError, match="spell") as refused:
        refuse_unread([phrase], "en")
    named = re.search(r"--language ([a-z]+)", str(refused.value))
    assert named is not None
    for code in {named[1], language}:
        refuse_unread([phrase], code)
        (sounds,) = phonemes_of(accents_of(code)[0], [phrase])
        assert 2 <= len(sounds) <= 3 * len(phrase)
        assert SWITCH.search("".join(sounds)) is None, "no other language is asked for the sounds"


@pytest.mark.parametrize(
    ("phrase", "language"),
    [
        ("hey robot", "en"),
        ("żółw", "en"),
        ("über", "de"),
        ("ışık", "tr"),
        ("здраво", "sr"),
        ("zdravo", "sr"),
        ("tv", "en"),
    ],
)
def test_a_phrase_that_is_read_is_taken(phrase: str, language: str) -> None:
    refuse_unread([phrase], language)


@pytest.mark.parametrize(
    ("phrase", "language", "says"),
    [
        ("hey компьютер", "en", "--language ru"),
        ("computer", "ja", "--language en"),
        ("東京", "ja", "--language cmn"),
        ("ສະບາຍດີ", "en", "no language of espeak-ng reads"),
    ],
)
def test_what_is_mixed_or_of_no_language_is_refused(phrase: str, language: str, says: str) -> None:
    with pytest.raises(SettingsError, match=says):
        refuse_unread([phrase], language)


def test_no_near_words_are_made_of_it() -> None:
    with pytest.raises(SettingsError, match="--language el"):
        near_words(["γεια"], "en")


def test_every_language_of_a_script_is_one_of_espeaks() -> None:
    assert {accents_of(code)[0].split("-")[0] for codes in SCRIPTS.values() for code in codes} == {
        code for codes in SCRIPTS.values() for code in codes
    }
