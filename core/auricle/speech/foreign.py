"""Everyday words and phrases of other languages, with the espeak-ng voice that says them: speech without a keyword.

Words that sound exactly like a shipped keyword ("no" in Spanish, "on" in Polish, "nein" in German) are left out.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from auricle.errors import SettingsError, nearest


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
