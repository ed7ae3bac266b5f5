"""Takes of a phrase by flite and festival as folders, and of other words by the same voices.

Four voices of flite at three speeds and two pitches, and three of festival at three speeds: 33 speakers, each of whom
says the phrase once and some other words. The folders are what `auricle export wakeword` takes with `--voices` and
`--words`; with `--voice flite --voice festival` it has the same programs speak without folders.

    python bench/other_voices.py "hey robot" --out voices
    auricle export wakeword "hey robot" --voices voices/phrase --words voices/words --out hey-robot.tar.zst

With `--owner` one voice of flite is the owner of a device, who says the phrase fifty times, each time faster or slower,
higher or lower: ten takes are in `ten`, the others in `judge`, for `bench/own_wake_word.py --takes`.

    python bench/other_voices.py "hey robot" --owner rms --out owner
    auricle export wakeword "hey robot" --voices owner/ten --out hers.tar.zst
"""

from __future__ import annotations

import argparse
import random
import re
import sys
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path

import soundfile

from auricle.errors import AuricleError
from auricle.speech.audio import SAMPLE_RATE
from auricle_export.voices import festival, flite
from auricle_export.voices.interface import Sound

SPEEDS = (0.85, 1.0, 1.2)
"""Times the usual length."""
TAKES = {"ten": 10, "judge": 40}
"""Of an owner, by folder."""
SAID = 40
"""Other words that each speaker says."""
WORDS = """
compute, commuter, commander, consumer, composer, complete, competitor, community, compare, commuting,
conductor, contributor, come to her, can you hear, pewter, router, tutor, scooter, future, compass, travis,
service, nervous, jarring, carvers, jar of, harvest, job is, charles, marvelous, hey robert, hey rabbit, say
nothing, a robot, hey rowboat, hello there, good morning, what time is it, kitchen, weather, window, tomorrow,
seven, yellow, water, market, telephone, elephant, music, morning, table, garden, number, question, people,
another, together, remember, sunday, picture, doctor, yes, no, stop, go, left, right, on, off, up, down
"""
"""Some sound like phrases that people take, most do not."""


Speak = Callable[[str], Sound]
"""How a speaker says a text."""


def main() -> int:
    """Write the folders."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("phrase")
    parser.add_argument("--out", type=Path, required=True, help="folder for phrase/ and words/, or ten/ and judge/")
    parser.add_argument("--seed", type=int, default=1, help="of who says which other words")
    parser.add_argument(
        "--owner", choices=sorted(flite.VOICES), help="the voice that says the phrase fifty times [all, once]"
    )
    given = parser.parse_args()
    if not re.fullmatch(r"[a-z][a-z' ]*", given.phrase):
        parser.error(f'"{given.phrase}" is not a phrase in small letters')
    rng = random.Random(given.seed)
    each = owned(given.phrase, given.owner, rng) if given.owner else spoken(given.phrase, rng)
    try:
        for made, (name, text, speak) in enumerate(each, 1):
            path = given.out / name
            path.parent.mkdir(parents=True, exist_ok=True)
            soundfile.write(path, speak(text), SAMPLE_RATE)
            if made % 25 == 0:
                print(f"{made} takes so far", file=sys.stderr)
    except AuricleError as error:
        print(error, file=sys.stderr)
        return 1
    return 0


def owned(phrase: str, owner: str, rng: random.Random) -> Iterator[tuple[str, str, Speak]]:
    """The takes of one voice: their files, the phrase, and how it is said."""
    low, high = flite.VOICES[owner]
    for folder, takes in TAKES.items():
        for take in range(takes):
            speed, pitch = rng.uniform(SPEEDS[0], SPEEDS[-1]), rng.randint(low, high)
            yield (
                f"{folder}/{phrase}/{owner}_nohash_{take}.wav",
                phrase,
                partial(flite.say, voice=owner, stretch=round(speed, 3), pitch=pitch),
            )


def spoken(phrase: str, rng: random.Random) -> Iterator[tuple[str, str, Speak]]:
    """The takes of all voices: their files, the phrase and other words, and how each is said."""
    others = [word for word in (" ".join(part.split()) for part in WORDS.split(",")) if word != phrase]
    for speaker, speak in speakers():
        yield f"phrase/{phrase}/{speaker}_nohash_0.wav", phrase, speak
        for text in rng.sample(others, SAID):
            yield f"words/{text.replace(' ', '-')}/{speaker}_nohash_0.wav", text, speak


def speakers() -> Iterator[tuple[str, Speak]]:
    """Each speaker's name, and how a text is said."""
    for voice, pitches in flite.VOICES.items():
        for speed in SPEEDS:
            for pitch in pitches:
                yield (
                    f"{voice}{round(100 * speed)}x{pitch}",
                    partial(flite.say, voice=voice, stretch=speed, pitch=pitch),
                )
    for voice in festival.VOICES:
        first, *_, last = voice.split("_")
        for speed in SPEEDS:
            yield f"{first}{last}{round(100 * speed)}", partial(festival.say, voice=voice, stretch=speed)


if __name__ == "__main__":
    sys.exit(main())
