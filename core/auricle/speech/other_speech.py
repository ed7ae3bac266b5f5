"""Speech that holds no keyword, by espeak-ng: what the keywords are mistaken for, and other languages.

Words that sound exactly like a shipped keyword ("no" in Spanish, "on" in Polish, "nein" in German) are left out.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from auricle.errors import SettingsError, nearest
from auricle.packs.manifest import SPECIAL_LABELS
from auricle.speech.confusables import confusables, holds_any
from auricle.speech.espeak import speak
from auricle.speech.near_words import near_words
from auricle.speech.speech_set import Progress, to_int16
from auricle.speech.synthesis import PEAK, SPEECH_RMS
from auricle.speech.voices import ACCENTS, ENGLISH_CODE, Voice, accents_of, choose_voices, utterance


@dataclass(frozen=True, slots=True)
class ForeignSpeech:
    """What is said in one language."""

    voice: str
    """espeak-ng's name of the language."""

    texts: tuple[str, ...]
    """Words and phrases in the language's own script."""


_TEXTS = {
    ("german", "de"): "guten Morgen, auf Wiedersehen, danke schön, bitte, wie geht es dir, ich verstehe, vielleicht, "
    "morgen früh, das Wetter ist schön, wo ist der Bahnhof, ja gerne, genau, warum, ein bisschen, Entschuldigung",
    ("french", "fr"): "bonjour, au revoir, merci beaucoup, s'il vous plaît, comment ça va, je comprends, peut-être, "
    "demain matin, il fait beau, où est la gare, oui bien sûr, pourquoi, un peu, excusez-moi, d'accord",
    ("spanish", "es"): "buenos días, hasta luego, muchas gracias, por favor, cómo estás, entiendo, quizás, "
    "mañana por la mañana, hace buen tiempo, dónde está la estación, claro, por qué, un poco, perdón, vamos",
    ("italian", "it"): "buongiorno, arrivederci, grazie mille, per favore, come stai, capisco, forse, domani mattina, "
    "fa bel tempo, dov'è la stazione, certo, perché, un poco, scusi, andiamo",
    ("polish", "pl"): "dzień dobry, do widzenia, dziękuję bardzo, proszę, jak się masz, rozumiem, może, jutro rano, "
    "ładna pogoda, gdzie jest dworzec, oczywiście, dlaczego, trochę, przepraszam, chodźmy",
    ("dutch", "nl"): "goedemorgen, tot ziens, dank je wel, alsjeblieft, hoe gaat het, ik begrijp het, misschien, "
    "morgenochtend, mooi weer vandaag, waar is het station, natuurlijk, waarom, een beetje, sorry hoor, kom mee",
    ("turkish", "tr"): "günaydın, hoşça kal, teşekkür ederim, lütfen, nasılsın, anlıyorum, belki, yarın sabah, "
    "hava güzel, istasyon nerede, tabii ki, neden, biraz, affedersiniz, haydi gidelim",
    ("hindi", "hi"): "नमस्ते, फिर मिलेंगे, बहुत धन्यवाद, कृपया, आप कैसे हैं, मैं समझता हूँ, शायद, कल सुबह, मौसम अच्छा है, "
    "स्टेशन कहाँ है, ज़रूर, क्यों, थोड़ा सा, माफ़ कीजिए, चलो चलते हैं",
    (
        "mandarin",
        "cmn",
    ): "你好, 再见, 谢谢你, 请坐, 你怎么样, 我明白了, 也许, 明天早上, 天气很好, 车站在哪里, 当然可以, 为什么, 一点儿, "
    "对不起, 我们走吧",
    ("arabic", "ar"): "صباح الخير, مع السلامة, شكرا جزيلا, من فضلك, كيف حالك, أنا أفهم, ربما, غدا صباحا, الطقس جميل, "
    "أين المحطة, بالطبع, لماذا, قليلا, آسف, هيا بنا",
}

FOREIGN: Mapping[str, ForeignSpeech] = {
    language: ForeignSpeech(voice, tuple(texts.split(", "))) for (language, voice), texts in _TEXTS.items()
}
"""The languages, by their English names."""


def foreign_speech(languages: Sequence[str]) -> dict[str, ForeignSpeech]:
    """Choose languages by name.

    Raises
    ------
    SettingsError
        A language is not among those in `FOREIGN`.
    """
    for language in languages:
        if language not in FOREIGN:
            raise SettingsError(f'There is no text in the language "{language}": {nearest(language, FOREIGN)}')
    return {language: FOREIGN[language] for language in dict.fromkeys(languages)}


ENGLISH = "english"
"""What English is called here."""

_NAMES = {ENGLISH_CODE: ENGLISH, **{speech.voice: name for name, speech in FOREIGN.items()}}
_OWN = ""


@dataclass(frozen=True, slots=True, eq=False)
class OtherTake:
    """One text, said once."""

    audio: NDArray[np.int16]
    """(samples,) at 16 kHz, read-only: no noise, no silence around it, -23 dBFS RMS; of any length."""

    text: str
    """What is said."""

    language: str
    """`english`, a name in `FOREIGN`, or espeak-ng's own name of another language."""

    voice: str
    """Who says it: the name of the synthetic speaker."""


@dataclass(frozen=True, slots=True)
class _Job:
    """What one voice says in one language, and where each take goes."""

    voice: Voice
    language: str
    texts: tuple[str, ...]
    places: tuple[int, ...]


def synthesise_others(
    keywords: Sequence[str],
    voices: int = 32,
    takes: int = 2,
    seed: int = 0,
    *,
    languages: Sequence[str] = tuple(FOREIGN),
    alike: Mapping[str, tuple[str, ...]] | None = None,
    language: str = ENGLISH_CODE,
    progress: Progress | None = None,
) -> list[OtherTake]:
    """Let synthetic speakers say what the keywords are mistaken for, and everyday phrases of other languages.

    Every text is said `takes` times, by as many different voices while there are enough. Each voice speaks `language`
    and one other, with the same vocal tract. The same arguments give the same samples on one machine.

    Parameters
    ----------
    keywords
        Labels and wake words.
    voices
        How many speakers; the first n are those of `synthesise` with the same seed.
    takes
        How often each text is said.
    seed
        Decides who says what, and how.
    languages
        Names in `FOREIGN`; none for `language` only.
    alike
        By keyword, the texts that it is mistaken for, as `near_words` gives them. For the others `confusables` gives
        them where the language is English, and `near_words` else. Texts that hold a keyword are left out.
    language
        The keywords' own, as `auricle.speech.voices.choose_voices` takes it.
    progress
        Called with the takes made and the takes in all.

    Returns
    -------
    list[OtherTake]
        By text, those of the keywords' language first, then by take.

    Raises
    ------
    SettingsError
        A number is out of range or a language is not known.
    DataError
        espeak-ng is not there or fails on this machine.
    """
    for name, value, least in (("voices", voices, 1), ("takes", takes, 1), ("seed", seed, 0)):
        if value < least:
            raise SettingsError(f"{name} is {value} and must be at least {least}.")
    chosen = foreign_speech(languages)
    speakers = choose_voices(voices, seed, language)
    own = language_of(speakers[0])
    texts = _mistaken(keywords, alike or {}, language, seed)
    said = [(_OWN, text) for text in texts]
    said += [(name, text) for name, speech in chosen.items() for text in speech.texts]
    return _speak_all(_jobs(said, speakers, own, takes, seed), len(said) * takes, seed, progress)


def speak_texts(
    texts: Sequence[str], voices: Sequence[Voice], takes: int = 1, seed: int = 0, progress: Progress | None = None
) -> list[OtherTake]:
    """Let synthetic speakers say texts, each `takes` times by as many different voices while there are enough.

    Parameters
    ----------
    texts
        In the voices' own language.
    voices
        Speakers of one language, as `auricle.speech.voices.choose_voices` gives them.
    takes
        How often each text is said.
    seed
        Decides who says what, and how. The same arguments give the same samples on one machine.
    progress
        Called with the takes made and the takes in all.

    Returns
    -------
    list[OtherTake]
        By text, in the order given, then by take.

    Raises
    ------
    SettingsError
        There is no voice, or a number is out of range.
    DataError
        espeak-ng is not there, fails, or says nothing for a text.
    """
    for name, value, least in (("takes", takes, 1), ("seed", seed, 0)):
        if value < least:
            raise SettingsError(f"{name} is {value} and must be at least {least}.")
    if not voices:
        raise SettingsError("There is no voice to speak with: choose at least one.")
    said = [(_OWN, text) for text in texts]
    return _speak_all(_jobs(said, list(voices), language_of(voices[0]), takes, seed), len(said) * takes, seed, progress)


def language_of(voice: Voice) -> str:
    """Name a voice's language: `english`, a name in `FOREIGN`, or espeak-ng's own name."""
    root = voice.accent if voice.accent in _NAMES else voice.accent.split("-")[0]
    return _NAMES.get(root, root)


def _mistaken(keywords: Sequence[str], alike: Mapping[str, tuple[str, ...]], language: str, seed: int) -> list[str]:
    """What the keywords are mistaken for, each text once."""
    wanted = [word for word in dict.fromkeys(keywords) if word not in SPECIAL_LABELS]
    if all(word in alike for word in wanted):
        found: Mapping[str, tuple[str, ...]] = {}
    elif accents_of(language)[0] in ACCENTS:
        found = confusables(wanted)
    else:
        found = near_words(wanted, language, seed=seed)
    texts = dict.fromkeys(text for word in wanted for text in (alike[word] if word in alike else found[word]))
    return [text for text in texts if not holds_any(text, wanted)]


def _speak_all(jobs: Sequence[_Job], count: int, seed: int, progress: Progress | None) -> list[OtherTake]:
    """Do the jobs, as many at once as there are cores, and give their takes by place."""
    found: dict[int, OtherTake] = {}
    with ThreadPoolExecutor(os.cpu_count() or 1) as workers:
        try:
            for job, audio in zip(jobs, workers.map(_speak, jobs, _generators(seed, len(jobs))), strict=True):
                for place, text, samples in zip(job.places, job.texts, audio, strict=True):
                    found[place] = OtherTake(samples, text, job.language, job.voice.name)
                if progress:
                    progress(len(found), count)
        finally:
            workers.shutdown(cancel_futures=True)
    return [found[place] for place in range(len(found))]


def _jobs(said: Sequence[tuple[str, str]], speakers: list[Voice], own: str, takes: int, seed: int) -> list[_Job]:
    """Give every voice its texts: take k of a text goes to the k-th voice after one that is drawn.

    `said` names the language of a text: `_OWN` for that of the speakers, which is called `own`, or one of `FOREIGN`.
    """
    rng = np.random.default_rng([seed, 6])
    languages = list(dict.fromkeys(language for language, _ in said if language != _OWN))
    groups = {language: speakers[place :: len(languages)] or speakers for place, language in enumerate(languages)}
    groups[_OWN] = speakers
    work: dict[tuple[str, Voice], list[tuple[str, int]]] = {}
    for number, (language, text) in enumerate(said):
        group = groups[language]
        first = int(rng.integers(len(group)))
        for take in range(takes):
            voice = group[(first + take) % len(group)]
            work.setdefault((language, voice), []).append((text, number * takes + take))
    return [_job(language, voice, own, texts) for (language, voice), texts in work.items()]


def _job(language: str, voice: Voice, own: str, texts: list[tuple[str, int]]) -> _Job:
    speaker = voice if language == _OWN else replace(voice, accent=FOREIGN[language].voice)
    return _Job(
        speaker,
        own if language == _OWN else language,
        tuple(text for text, _ in texts),
        tuple(place for _, place in texts),
    )


def _generators(seed: int, count: int) -> list[np.random.Generator]:
    return [np.random.default_rng([seed, 7, place]) for place in range(count)]


def _speak(job: _Job, rng: np.random.Generator) -> list[NDArray[np.int16]]:
    utterances = [utterance(job.voice, text, rng) for text in job.texts]
    return [_level(samples) for samples in speak(job.voice.espeak_name, utterances)]


def _level(samples: NDArray[np.float32]) -> NDArray[np.int16]:
    """Bring a take to -23 dBFS RMS, or to less where its peaks would be cut."""
    rms = float(np.sqrt(np.mean(np.square(samples, dtype=np.float64))))
    gain = min(SPEECH_RMS / rms, PEAK / float(np.abs(samples).max()))
    audio = to_int16(samples * np.float32(gain))
    audio.setflags(write=False)
    return audio
