"""Words that a keyword is mistaken for: near-homophones, and words and short phrases that contain it.

Every text is in small English letters and can be spoken by `auricle.speech.synthesis`. None holds its keyword as a word
of its own, and none sounds exactly like it ("know" for "no"): nobody could hear the difference, so neither can a model.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from itertools import zip_longest

from auricle.packs.manifest import SPECIAL_LABELS
from auricle.speech.espeak import phonemes_of
from auricle.speech.spelling import small_letters

_VOICE = "en-us"
_VOWELS = frozenset("aeiouyæøœɐɑɒɔəɘɚɛɜɝɞɤɨɪɯɵɶʉʊʌʏᵻ")
_VOWEL_FOR_VOWEL = 0.5


def nearest_in_sound(keyword: str, candidates: Sequence[str], count: int) -> tuple[str, ...]:
    """Give the `count` candidates that sound most like the keyword, the nearest first.

    The order is that of the edit distance over the length of the longer text, then of the alphabet. A candidate with
    the keyword's own phonemes is left out.

    Raises
    ------
    DataError
        espeak-ng is not installed or fails.
    """
    own, *others = phonemes_of(_VOICE, [keyword, *candidates])
    ranked = sorted(
        (sound_distance(own, sounds) / max(len(own), len(sounds)), text)
        for text, sounds in zip(candidates, others, strict=True)
        if sounds and sounds != own
    )
    return tuple(text for _, text in ranked[:count])


def sound_distance(one: Sequence[str], other: Sequence[str]) -> float:
    """Edit distance (Levenshtein 1966) of two rows of phonemes; a vowel in another's place counts one half."""
    before = [float(place) for place in range(len(other) + 1)]
    for row, sound in enumerate(one, start=1):
        current = [float(row)]
        for column, against in enumerate(other, start=1):
            change = before[column - 1] + _replacement(sound, against)
            current.append(min(change, before[column] + 1, current[-1] + 1))
        before = current
    return before[-1]


def _replacement(one: str, other: str) -> float:
    if one == other:
        return 0.0
    return _VOWEL_FOR_VOWEL if one[0] in _VOWELS and other[0] in _VOWELS else 1.0


_ALIKE_TEXTS = {
    "yes": "yet, yell, yelp, guess, less, dress, chess, jess, yesterday, yesteryear, yeast, guess what",
    "no": "nose, note, nope, snow, known, normal, nobody, nowhere, notice, now, low, piano",
    "up": "cup, pup, upper, uptown, upstairs, update, setup, app, apple, upon, hop, ketchup",
    "down": "downtown, town, gown, dawn, drown, downstairs, download, touchdown, done, brown, found, noun",
    "left": "lift, lefty, leftover, lest, let, loft, theft, cleft, laughed, let it, lend, swift",
    "right": "bright, ride, rightly, writing, copyright, fright, rate, light, ripe, rice, riot, white",
    "on": "onto, online, upon, own, ongoing, gone, honest, bonfire, an, arm, con, song",
    "off": "offer, often, office, cough, offline, of, soft, coffee, trough, awful, scoff, oven",
    "stop": "step, shop, top, stopper, stopwatch, nonstop, unstoppable, stock, stump, stuff, laptop, start",
    "go": "goat, gold, ghost, gore, goal, google, cargo, ago, going, grow, though, got",
    "zero": "hero, zebra, narrow, sierra, cheerio, euro, arrow, steer, near a row, zeal, see a road, zip",
    "one": "once, wander, wonder, someone, anyone, want, run, wand, fun, swan, when, woman",
    "two": "tool, tooth, tune, tuba, chew, shoe, student, tomb, tattoo, tour, new, do",
    "three": "free, thread, thrill, threw, thirty, through, theme, agree, street, flea, throw, sea",
    "four": "fork, form, forty, fourteen, fort, forest, floor, before, folder, far, force, fall",
    "five": "fine, fire, fight, alive, drive, life, hive, file, fiver, wife, dive, fifth",
    "six": "sit, sick, sixty, sixteen, fix, mix, sacks, socks, sister, sticks, seeks, success",
    "seven": "heaven, eleven, seventy, seventeen, several, oven, sever, sudden, savage, given, essence, severe",
    "eight": "ape, aid, eighteen, eighty, weight, late, gate, great, age, plate, ache, date",
    "nine": "nice, night, ninety, nineteen, line, mine, wine, pine, nylon, knife, none, noun",
    "backward": "backyard, back door, awkward, backpack, background, back wall, packed, backhand, bucket, blackboard",
    "bed": "bad, bet, bread, bend, bedroom, bedding, bell, head, dead, beg, bid, embed",
    "bird": "burn, word, birthday, heard, third, burden, bored, beard, blackbird, bud, birch, nerd",
    "cat": "cap, cut, catch, category, cattle, hat, can, kit, bobcat, cart, cad, scatter",
    "dog": "dug, dock, log, fog, doghouse, doll, dogma, bulldog, dodge, dig, frog, dark",
    "follow": "hollow, fellow, swallow, following, follower, phone line, volume, fall over, yellow, solo, hello",
    "forward": "four words, straightforward, reward, forwarding, award, forest, for what, afford, toward, fourth world",
    "happy": "happen, nappy, happiness, unhappy, hobby, heavy, apple, hippie, handy, puppy, harpy, having",
    "house": "how, mouse, household, hour, blouse, warehouse, out, hound, hose, who else, horse, louse",
    "learn": "lean, burn, turn, learner, lawn, alone, long, lurk, earn, line, lantern, relearn",
    "marvin": "martin, marvel, carving, starving, margin, marlin, melvin, marvelous, moving, morphine, marble",
    "sheila": "shield, she will, tequila, ceiling, shelter, sheep, gorilla, seal, shield her, chinchilla, sheet",
    "tree": "tray, treat, true, free, treaty, trick, street, try, tea, country, trip, treason",
    "visual": "vision, visible, casual, usual, visualize, visit, audiovisual, virtual, visitor, mutual, vigil",
    "wow": "how, now, vow, wall, while, why, owl, wild, cow, powwow, allow, want",
    "computer": "commuter, compute, computing, compete, competitor, come to her, recruiter, tutor, compose, commute, "
    "comforter, pewter, supercomputer, computation, company, come get her",
    "jarvis": "jar, harvest, travis, java, service, jarring, mavis, davis, charge us, novice, job is, jasmine, "
    "garbage, starve us, jervis, jars",
}

ALIKE: Mapping[str, tuple[str, ...]] = {word: tuple(texts.split(", ")) for word, texts in _ALIKE_TEXTS.items()}
"""For every keyword that Auricle ships: what it is mistaken for."""

HOMOPHONES: Mapping[str, tuple[str, ...]] = {
    "no": ("know",),
    "right": ("write", "wright", "rite"),
    "one": ("won",),
    "two": ("to", "too"),
    "four": ("for", "fore"),
    "eight": ("ate",),
    "six": ("sicks",),
    "nine": ("nein",),
    "forward": ("foreword",),
    "bird": ("burred",),
}
"""Words that sound exactly like a keyword: neither it nor its opposite may be learnt from them."""

_COMMON_TEXT = """
able about above across action actor after again against air alex along also always amber angle animal answer anything
area around artist ask aunt author autumn baby balance ball banana band bank barn basket beach bear beautiful because
become begin behind believe better between bicycle blanket blue board boat body bone book border bottle bottom box boy
brother build business butter button camera candle captain card carpet carry castle center chair change charlie cheese
child church circle city clean clear climb clock close cloud coat cold color common copper corner cotton could cousin
cover cream cross crowd current dance danger daughter deep dinner doctor dollar door dream driver during early earth
east easy echo edge editor election electric eleven empty engine enough evening ever every example exercise eye face
family farmer father feather feel field final finger finish fish flower flute foot friend front fruit future game
garden garlic gentle giant ginger girl glass glory good grass green ground guitar hammer hand harbor hazel heart heavy
hidden history holiday honey hotel hunter husband idea image inside island item jacket jelly jewel jordan journey
juice jungle kettle king kitchen ladder lake lamp language large laser later laugh leader leather lemon lesson letter
level lion listen little local lucky machine magic major market master matter meadow meeting melody member memory
metal middle minute mirror mister model moment monday money monkey morning mother motor mountain music name nation
nature needle never number ocean okay olive open oracle orange order other outside oyster paper parent party people
pepper perfect person picture pillow planet please pocket poet point polar police popular potato power pretty prison
promise purple quarter question quick quiet rabbit radio rain ready reason record relax remember repair ribbon river
robot rocket sailor salad saturday school science second secret seldom shadow silver simple singer smile snake soldier
south spider spirit spring station stone story summer sunday sweater table teacher temple thank tiger timber today
together tomorrow travel turtle uncle under valley velvet very video village violet voice voter wagon walk water
weather wednesday west whisper window winter wisdom witness wolf worker world yellow young
"""

COMMON_WORDS = tuple(_COMMON_TEXT.split())
"""Frequent English words of many sounds, from which those alike to any other keyword are chosen."""

DEFAULT_COUNT = 12
"""Texts for a keyword that is not in `ALIKE`."""


def confusables(keywords: Sequence[str], *, count: int = DEFAULT_COUNT) -> dict[str, tuple[str, ...]]:
    """Give what each keyword is mistaken for, without texts that hold any of the keywords.

    A keyword in `ALIKE` has its hand-written list. For another one espeak-ng spells the sound of the keyword and of
    every word known here, and the `count` nearest by phonemes are taken. For a phrase of several words it is `count`
    texts, too: each of its words alone, the words in the opposite order, and the phrase with one word replaced by what
    that is mistaken for.

    Parameters
    ----------
    keywords
        Labels or wake words, in small letters; `_unknown_` and `_silence_` are passed over.

    Raises
    ------
    DataError
        A keyword is not in `ALIKE` and espeak-ng is not installed.
    """
    wanted = [word for word in dict.fromkeys(keywords) if word not in SPECIAL_LABELS]
    found: dict[str, tuple[str, ...]] = {}
    for keyword in wanted:
        alike = _alike_phrases if " " in keyword else _alike_words
        texts = tuple(text for text in alike(keyword, wanted, count) if not holds_any(text, wanted))
        found[keyword] = texts if keyword in ALIKE else texts[:count]
    return found


def _alike_words(word: str, keywords: Sequence[str], count: int) -> tuple[str, ...]:
    return ALIKE.get(word) or nearest_in_sound(word, _candidates(keywords), count)


def _alike_phrases(phrase: str, keywords: Sequence[str], count: int) -> tuple[str, ...]:
    """The phrase's words alone, in the opposite order, and then in turn with one of them replaced."""
    words = phrase.split()
    replaced = [
        [" ".join([*words[:place], other, *words[place + 1 :]]) for other in _alike_words(word, keywords, count)]
        for place, word in enumerate(words)
    ]
    in_turn = [text for row in zip_longest(*replaced) for text in row if text is not None]
    return tuple(dict.fromkeys([*words, " ".join(words[::-1]), *in_turn]))


def holds_any(text: str, keywords: Iterable[str]) -> bool:
    """Whether a keyword, or a word that sounds exactly like it, stands in the text as a word of its own.

    A keyword of several words is held where all of them follow each other.
    """
    padded = f" {small_letters(text)} "
    return any(
        f" {spelling} " in padded for keyword in keywords for spelling in (keyword, *HOMOPHONES.get(keyword, ()))
    )


def _candidates(keywords: Sequence[str]) -> list[str]:
    known = {*COMMON_WORDS, *ALIKE, *(text for texts in ALIKE.values() for text in texts)}
    return sorted(text for text in known if not holds_any(text, keywords))
